-- The tables of a memory snapshot: docs/snapshot.md. The types site, note, pool, action and category are made from the file's own
-- values before this runs.
CREATE SCHEMA store;
CREATE TABLE store.about (name VARCHAR NOT NULL, value VARCHAR NOT NULL);
CREATE TABLE store.frames (frame UINTEGER NOT NULL, func VARCHAR NOT NULL, file VARCHAR NOT NULL, lineno INTEGER NOT NULL, own BOOLEAN NOT NULL);
CREATE TABLE store.stack_frames (stack_id UINTEGER NOT NULL, depth INTEGER NOT NULL, frame UINTEGER NOT NULL);
CREATE TABLE main.events (
	seq INTEGER NOT NULL, ts TIMESTAMP, device USMALLINT NOT NULL, stream UBIGINT NOT NULL, action action NOT NULL, addr UBIGINT,
	size BIGINT NOT NULL, stack_id UINTEGER NOT NULL, category category, iteration INTEGER, live_after BIGINT NOT NULL,
	reserved_after BIGINT NOT NULL, device_free BIGINT, pool pool, compile_context note, user_metadata note);
CREATE TABLE main.blocks (
	device USMALLINT NOT NULL, addr UBIGINT NOT NULL, size BIGINT NOT NULL, requested BIGINT NOT NULL, alloc_seq INTEGER, free_seq INTEGER,
	alloc_ts TIMESTAMP, free_ts TIMESTAMP, lifetime_us BIGINT, stream UBIGINT NOT NULL, pool pool, stack_id UINTEGER NOT NULL, site site,
	category category, iteration INTEGER);
CREATE TABLE main.segments (
	segment_id INTEGER NOT NULL, device USMALLINT NOT NULL, address UBIGINT NOT NULL, size BIGINT NOT NULL, allocated BIGINT NOT NULL,
	active BIGINT NOT NULL, requested BIGINT NOT NULL, stream UBIGINT NOT NULL, kind VARCHAR NOT NULL, pool pool, expandable BOOLEAN NOT NULL,
	stack_id UINTEGER NOT NULL, site site);
CREATE TABLE main.segment_blocks (
	segment_id INTEGER NOT NULL, device USMALLINT NOT NULL, address UBIGINT NOT NULL, size BIGINT NOT NULL, requested BIGINT,
	state VARCHAR NOT NULL, stack_id UINTEGER NOT NULL, site site);
CREATE TABLE main.stacks (stack_id UINTEGER NOT NULL, depth INTEGER NOT NULL, site site, path VARCHAR);
CREATE TABLE main.annotations (ts TIMESTAMP, device INTEGER NOT NULL, stage VARCHAR NOT NULL, name VARCHAR NOT NULL);
CREATE TABLE main.iterations (
	device USMALLINT NOT NULL, iteration INTEGER NOT NULL, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, first_ts TIMESTAMP,
	last_ts TIMESTAMP, floor BIGINT NOT NULL, peak BIGINT NOT NULL, live_after BIGINT NOT NULL);
CREATE TABLE main.settings (name VARCHAR NOT NULL, value VARCHAR);
CREATE VIEW main.frames AS
	SELECT stack_id, depth, func, file, lineno, own FROM store.stack_frames JOIN store.frames USING (frame);
CREATE MACRO main.live_at(moment) AS TABLE
	SELECT * FROM main.blocks
	WHERE device = (SELECT device FROM main.events WHERE seq = moment)
	  AND (alloc_seq IS NULL OR alloc_seq <= moment) AND (free_seq IS NULL OR free_seq > moment);
