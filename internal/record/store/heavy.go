package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/table"
)

// A few bytes on a disk may be texts of gigabytes: one text of a megabyte to which thousands of rows refer. A statement
// that copies them runs out of memory, and DuckDB does not say whose texts they are.

const (
	// heavyTime bounds the search for them: lengths are read without the texts, some GB/s.
	heavyTime = 5 * time.Second
	// heavyShare is which part of DuckDB's memory makes texts worth naming.
	heavyShare = 4
)

// heavy is a table or a file with the bytes of its texts.
type heavy struct {
	what          string
	file          bool
	bytes, length int64 // of all of them, and of the longest
}

// Blame adds to an error about memory which table of the statement, or which file of a lake, has the most text. Other
// errors stay as they are, and so does one of a statement that is not over tables with long texts.
func (db *DB) Blame(ctx context.Context, sql string, err error) error {
	if !errors.Is(err, ErrMemory) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, heavyTime)
	defer cancel()
	worst := heavy{bytes: db.o.withDefaults().MemoryLimit / heavyShare}
	for _, from := range db.texts(sql) {
		take := func(v []any) {
			one := heavy{fmt.Sprint(v[0]), from.file, number(v[1]), number(v[2])}
			if one.bytes >= worst.bytes {
				worst = one
			}
		}
		_ = db.read(ctx, func(c *conn) error { // without an answer nothing is named
			err := c.all(from.sql, take)
			if errors.Is(err, ErrMemory) && from.stored != "" {
				err = c.all(from.stored, take)
			}
			return err
		})
	}
	if worst.what == "" {
		return err
	}
	hint := "leave its long texts out: a WHERE on length(COLUMN), or fewer columns"
	if worst.file {
		hint = "leave it out with a WHERE on job, date and hour; if it is none of the lake's, `memgauge lake merge` " +
			"sets it aside"
	}
	return remedy.Add(fmt.Errorf("%w; the texts of %s take up to %s, the longest %s", err, worst.what,
		units.Bytes(worst.bytes), units.Bytes(worst.length)), hint)
}

func number(v any) int64 {
	n, _ := v.(int64)
	return n
}

// measure is a statement that says how much text there is: a name, all bytes, the longest. Where that takes too much
// memory itself, stored says it of what the table's segments have written down of their texts: of each segment as many
// as are read at a time (STANDARD_VECTOR_SIZE), and the length of the longest.
type measure struct {
	sql, stored string
	file        bool
}

// texts are the measures of what a statement mentions.
func (db *DB) texts(sql string) (list []measure) {
	sql = strings.ToLower(sql)
	for _, v := range db.files {
		texts := slices.DeleteFunc(slices.Clone(v.Columns), func(c FileColumn) bool {
			return c.Key || c.Type != "VARCHAR"
		})
		if !strings.Contains(sql, v.Name) || len(v.Files) == 0 || len(texts) == 0 {
			continue
		}
		var names, files []string
		for _, c := range texts {
			names = append(names, c.Name)
		}
		for _, f := range v.Files {
			files = append(files, quote(f))
		}
		list = append(list, measure{"SELECT " + fileColumn + ", " + lengths(names) + " FROM (" + none(texts) +
			" UNION ALL BY NAME SELECT * FROM read_parquet([" + strings.Join(files, ", ") +
			"], union_by_name = true, hive_partitioning = false, filename = '" + fileColumn + "')) GROUP BY 1 " +
			"ORDER BY 2 DESC LIMIT 1", "", true})
	}
	for _, t := range table.All {
		_, bare, ok := strings.Cut(t.View, ".")
		if db.files != nil || !ok || !strings.Contains(sql, bare) {
			continue
		}
		var names []string
		for _, c := range t.Columns {
			if c.Name != "" && c.Type == "VARCHAR" {
				names = append(names, c.Name)
			}
		}
		if len(names) > 0 {
			list = append(list, measure{"SELECT " + quote(t.View) + ", " + lengths(names) + " FROM " + t.View,
				"SELECT " + quote(t.View) + ", sum(least(count, 2048) * len)::BIGINT, max(len) FROM (SELECT count, " +
					"regexp_extract(stats, 'Max String Length: (\\d+)', 1)::BIGINT AS len FROM pragma_storage_info(" +
					quote("store."+t.Store) + ") WHERE segment_type = 'VARCHAR')", false})
		}
	}
	return list
}

// fileColumn is the column with a file's path beside those that a file may have.
const fileColumn = "memgauge_file_of_row"

// lengths are the bytes of all texts in some columns, and of the longest, in SQL.
func lengths(columns []string) string {
	var sums, longest []string
	for _, c := range columns {
		sums = append(sums, "coalesce(sum(strlen("+c+")), 0)")
		longest = append(longest, "max(strlen("+c+"))")
	}
	return "(" + strings.Join(sums, " + ") + ")::BIGINT, greatest(" + strings.Join(longest, ", ") + ")::BIGINT"
}
