package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	duck "github.com/duckdb/duckdb-go-bindings"
)

// BadFile is a Parquet file that is not what it should be, and why.
type BadFile struct {
	Path string
	Why  string
}

// ErrBadFile marks an error that is a file's own: it is no Parquet, or has other columns. Others may pass.
var ErrBadFile = errors.New("not a file of this table")

// Claim is what a file says of itself: that it has so many rows, all different by their key, and that each finds one
// partner in a join. Or, with By, how many rows it has of each group.
type Claim struct {
	Rows      int64
	Key, Join string // in SQL

	By, Counts string // in SQL: columns, and a SELECT of their values with the number of rows
}

// checkClaim gives an ErrBadFile if a claim is not true. No claim is.
func (c *conn) checkClaim(path string, k *Claim) error {
	if k == nil {
		return nil
	}
	if k.By != "" {
		has := "SELECT " + k.By + ", count(*) FROM " + plainFile(path) + " GROUP BY ALL"
		n, err := c.one("SELECT count(*) FROM ((" + has + " EXCEPT " + k.Counts + ") UNION ALL (" + k.Counts +
			" EXCEPT " + has + "))")
		if err == nil && n[0] != int64(0) {
			return fmt.Errorf("%w: %s: it has not the rows that are told of it", ErrBadFile, path)
		}
		return badFile(path, err)
	}
	for what, sql := range map[string]string{
		"rows":                       "FROM " + plainFile(path),
		"of the rows that it claims": "FROM " + plainFile(path) + " " + k.Join,
		"different rows":             "FROM (SELECT DISTINCT " + k.Key + " FROM " + plainFile(path) + ")",
	} {
		n, err := c.one("SELECT count(*) " + sql)
		if err != nil {
			return badFile(path, err)
		}
		if n[0] != k.Rows {
			return fmt.Errorf("%w: %s: it has %v %s, and says that it holds %d", ErrBadFile, path, n[0], what, k.Rows)
		}
	}
	return nil
}

// CheckParquet reads a whole file, and gives an ErrBadFile if it can't be read, has one of the columns with another
// type, or in another case, or is not what it claims. Columns that it lacks or has besides are no error.
func CheckParquet(ctx context.Context, path string, columns []FileColumn, claim *Claim, tempDir string) error {
	return withFiles(ctx, tempDir, func(c *conn) error {
		err := c.checkColumns(path, columns)
		if err == nil {
			err = c.readColumns(path, "COLUMNS(*)")
		}
		if err == nil {
			err = c.checkClaim(path, claim)
		}
		return err
	})
}

// BadColumns names those columns of a file, among the given ones, whose values can't be read where the others can.
func BadColumns(ctx context.Context, path string, columns []FileColumn, tempDir string) (bad []string, err error) {
	err = withFiles(ctx, tempDir, func(c *conn) error {
		var names []string
		err := c.all("DESCRIBE SELECT * FROM "+plainFile(path), func(v []any) {
			names = append(names, fmt.Sprint(v[0]))
		})
		for _, one := range columns {
			if err != nil || !slices.Contains(names, one.Name) {
				continue
			}
			if err = c.readColumns(path, one.Name); errors.Is(err, ErrBadFile) {
				bad, err = append(bad, one.Name), nil
			}
		}
		return err
	})
	return bad, err
}

func (c *conn) readColumns(path, columns string) error {
	return badFile(path, c.exec("SELECT count(hash("+columns+")) FROM "+plainFile(path)))
}

// withFiles has files looked at in a database of its own.
func withFiles(ctx context.Context, tempDir string, do func(c *conn) error) error {
	own, err := newScratch(tempDir)
	if err != nil {
		return err
	}
	defer own.remove()
	e := &engine{}
	o := Options{TempDir: own.path, outside: true}
	if err := e.open(o.withDefaults()); err != nil {
		return err
	}
	defer duck.Close(&e.db)
	return withOne(ctx, e, do)
}

func plainFile(path string) string {
	return "read_parquet(" + quote(path) + ", hive_partitioning = false)"
}

// badFile tells a file's own errors from those of memory, time and a statement that was ended.
func badFile(path string, err error) error {
	var native *Error
	if err == nil || !errors.As(err, &native) || native.fatal || native.Msg == "interrupted" ||
		native.Kind == ErrMemory || strings.HasPrefix(native.Msg, "Cannot open file") {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrBadFile, path, err)
}

// checkColumns compares a file's columns with those that it should have. Whole numbers may be narrower.
func (c *conn) checkColumns(path string, columns []FileColumn) error {
	var odd string
	seen := map[string]bool{}
	err := c.all("DESCRIBE SELECT * FROM "+plainFile(path), func(v []any) {
		name, kind := fmt.Sprint(v[0]), fmt.Sprint(v[1])
		lower := strings.ToLower(name)
		i := slices.IndexFunc(columns, func(x FileColumn) bool { return strings.ToLower(x.Name) == lower })
		if i < 0 {
			return
		}
		fits := kind == columns[i].Type || kind == "INTEGER" && columns[i].Type == "BIGINT"
		if columns[i].inPath(path) || columns[i].Name != name || seen[lower] || !fits {
			odd = fmt.Sprintf("its column %.100q is %.100s", name, kind)
		}
		seen[lower] = true
	})
	if err != nil {
		return badFile(path, err)
	}
	if odd != "" {
		return fmt.Errorf("%w: %s: %s", ErrBadFile, path, odd)
	}
	if len(seen) == 0 {
		return fmt.Errorf("%w: %s: it has none of the columns", ErrBadFile, path)
	}
	return nil
}

// makeSound makes the views, and makes them once more without odd files if one can't be made or has other types than
// its columns say: of thousands of files, which are ours mostly, each would take a millisecond to look at.
func makeSound(c *conn, views []FileView) error {
	err := makeViews(c, views)
	if err == nil {
		var as bool
		if as, err = asDescribed(c, views); as && err == nil {
			return nil
		}
	}
	odd := 0
	for i := range views {
		v := &views[i]
		v.Files = slices.DeleteFunc(slices.Clone(v.Files), func(path string) bool {
			bad := c.checkColumns(path, v.Columns)
			if errors.Is(bad, ErrMemory) { // of its footer alone
				bad = fmt.Errorf("%w: %s: %w", ErrBadFile, path, bad)
			}
			odd := errors.Is(bad, ErrBadFile)
			if odd {
				v.Odd = append(v.Odd, BadFile{path, bad.Error()})
			}
			return odd
		})
		odd += len(v.Odd)
	}
	if odd == 0 && err != nil {
		return err
	}
	return makeViews(c, views)
}

// asDescribed reports whether the views' columns have their types.
func asDescribed(c *conn, views []FileView) (bool, error) {
	want := map[[3]string]string{}
	for _, v := range views {
		for _, x := range v.Columns {
			want[[3]string{v.Schema, v.Name, x.Name}] = x.Type
		}
	}
	all := true
	err := c.all("SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns() "+
		"WHERE database_name = 'memory'", func(v []any) {
		kind, ours := want[[3]string{fmt.Sprint(v[0]), fmt.Sprint(v[1]), fmt.Sprint(v[2])}]
		all = all && (!ours || kind == fmt.Sprint(v[3]))
	})
	return all, err
}
