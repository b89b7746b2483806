-- What the maps of each process are for, read now and then while a job grows: a finished session can say so no more.
CREATE TABLE store.process_classes (
  ts TIMESTAMP NOT NULL, pid INTEGER NOT NULL, start_ticks BIGINT NOT NULL, rank INTEGER, pss BIGINT, heap_in_use BIGINT,
  heap_free BIGINT, python_arenas BIGINT, anonymous BIGINT, stacks BIGINT, file BIGINT, shared BIGINT, pinned BIGINT);

CREATE VIEW process.classes AS SELECT
  ts, pid, rank, pss, heap_in_use, heap_free, python_arenas, anonymous, stacks, file, shared, pinned, start_ticks
  FROM store.process_classes;
