// Package lake keeps the rows of a fleet as Parquet in a directory or in S3, and answers questions in SQL over them.
//
// Writer is the one process that writes: a row that Append took is there once, whatever is killed and however often it
// comes again. Rows of an hour, of all jobs, lie in one partition, TABLE/date=D/hour=H. Flushed rows lie in its tier
// r<g> and merged ones in c<g>, where g is the partition's generation: the number of its newest marker. What has
// another number is not there for any reader, so that one PUT of a marker exchanges many files for one (docs/lake.md).
//
// Open reads: views over the files, under the names of a session's tables. The package knows nothing of who carries
// rows, and DuckDB only through package store.
package lake
