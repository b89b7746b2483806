-- What python.backtrace shows: replaced whenever it is asked, emptied when the session ends.
CREATE TABLE store.backtrace (
  ts TIMESTAMP NOT NULL, pid INTEGER NOT NULL, rank INTEGER, tid INTEGER, thread VARCHAR, depth INTEGER NOT NULL,
  func VARCHAR NOT NULL, file VARCHAR, lineno INTEGER, frame_type VARCHAR NOT NULL);

CREATE VIEW python.backtrace AS SELECT ts, pid, rank, tid, thread, depth, func, file, lineno, frame_type
  FROM store.backtrace;
