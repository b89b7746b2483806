-- What a census of a process saw: docs/census.md.
CREATE TABLE store.tensors (
  ts TIMESTAMP NOT NULL, pid INTEGER NOT NULL, rank INTEGER, census_id BIGINT NOT NULL, step BIGINT,
  shape VARCHAR NOT NULL, dtype VARCHAR NOT NULL, device VARCHAR NOT NULL, role VARCHAR NOT NULL, count BIGINT NOT NULL,
  bytes BIGINT NOT NULL, fresh BIGINT, oldest_step BIGINT, site VARCHAR NOT NULL, holder VARCHAR NOT NULL,
  estimated BOOLEAN NOT NULL);

CREATE TABLE store.objects (
  ts TIMESTAMP NOT NULL, pid INTEGER NOT NULL, rank INTEGER, census_id BIGINT NOT NULL, step BIGINT,
  evidence VARCHAR NOT NULL, type VARCHAR NOT NULL, count BIGINT NOT NULL, delta BIGINT, length BIGINT, bytes BIGINT,
  holder VARCHAR NOT NULL, site VARCHAR NOT NULL, detail VARCHAR NOT NULL, estimated BOOLEAN NOT NULL);

CREATE VIEW python.tensors AS SELECT
  ts, pid, rank, census_id, step, shape, dtype, device, role, count, bytes, fresh, oldest_step,
  nullif(site, '') AS site, nullif(holder, '') AS holder, estimated
  FROM store.tensors;

CREATE VIEW python.objects AS SELECT
  ts, pid, rank, census_id, step, evidence, type, count, delta, length, bytes,
  nullif(holder, '') AS holder, nullif(site, '') AS site, detail, estimated
  FROM store.objects;
