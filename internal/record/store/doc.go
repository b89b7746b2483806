// Package store owns a session's database, a DuckDB file: its schema and migrations, appending, queries in SQL, and
// retention. It is the only package that knows DuckDB.
//
// A batch goes in whole or not at all, together with the ring positions that it was made from (see [DB.Append]); that
// is what makes a record count exactly once. Queries run in read-only transactions of a locked-down DuckDB: they can
// neither change the database nor touch any file (see [DB.Query]).
//
// Locks: [DB] has two. writing is taken before state, never the other way round.
package store
