package trino

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/formats/model"
)

// Rows is an answer, read as the server sends it; package render writes it.
type Rows struct {
	ctx     context.Context
	client  *Client
	page    page
	columns []model.Column
	at      int
	row     []any
	err     error
}

// reading are the words that a statement may begin with. EXPLAIN ANALYZE runs what it explains.
var (
	reading = pattern.Of(`(?is)^[\s(]*(SELECT|WITH|SHOW|DESCRIBE|DESC|VALUES|TABLE|EXPLAIN)\b`)
	running = pattern.Of(`(?is)^\s*EXPLAIN\s+ANALYZE\s+(VERBOSE\s+)?(.*)`)
	comment = pattern.Of(`(?s)^(\s+|--[^\n]*(\n|$)|/\*.*?\*/)+`)
)

// reads says whether a statement only reads. Trino has no word in front of SELECT that writes: INSERT, CREATE, MERGE,
// CALL, EXECUTE and their like begin with themselves.
func reads(sql string) bool {
	sql = comment().ReplaceAllString(sql, "")
	if m := running().FindStringSubmatch(sql); m != nil {
		return reads(m[2])
	}
	return reading().MatchString(sql)
}

// Query runs one reading statement.
func (c *Client) Query(ctx context.Context, sql string) (*Rows, error) {
	sql = strings.TrimRight(sql, "; \t\r\n")
	if !reads(sql) {
		return nil, remedy.Add(fmt.Errorf("query: the statement is not one that reads"),
			"SELECT, WITH, SHOW, DESCRIBE, EXPLAIN and VALUES are run")
	}
	return c.rows(ctx, sql)
}

func (c *Client) rows(ctx context.Context, sql string) (*Rows, error) {
	r := &Rows{ctx: ctx, client: c}
	r.page, r.err = c.begin(ctx, sql)
	for r.err == nil && r.page.Columns == nil && r.page.NextURI != "" { // the columns come with some later page
		r.page, r.err = c.next(ctx, r.page.NextURI, http.MethodGet)
	}
	if r.err != nil {
		r.Close()
		return nil, r.err
	}
	for _, column := range r.page.Columns {
		r.columns = append(r.columns, model.Column{Name: column.Name, Type: typeOf(column.Type)})
	}
	return r, nil
}

// Columns are the names and DuckDB's words for the types.
func (r *Rows) Columns() []model.Column { return r.columns }

// Values are the row's.
func (r *Rows) Values() []any { return r.row }

// Err is what ended the rows early, or nil.
func (r *Rows) Err() error { return r.err }

// Next goes to the next row.
func (r *Rows) Next() bool {
	for r.err == nil {
		if r.at < len(r.page.Data) {
			r.row = make([]any, len(r.columns))
			for i, v := range r.page.Data[r.at] {
				if i < len(r.row) {
					r.row[i] = value(v, r.columns[i].Type)
				}
			}
			r.at++
			return true
		}
		if r.page.NextURI == "" {
			return false
		}
		r.page, r.err = r.client.next(r.ctx, r.page.NextURI, http.MethodGet)
		r.at = 0
	}
	return false
}

// leave is how long the end of a question that was broken off may take.
const leave = 2 * time.Second

// Close ends the question on the server where it goes on.
func (r *Rows) Close() error {
	if r.page.NextURI == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), leave)
	defer cancel()
	_, err := r.client.next(ctx, r.page.NextURI, http.MethodDelete)
	r.page.NextURI = ""
	return err
}

// typeOf is DuckDB's word for a type of Trino's.
func typeOf(t string) string {
	name, _, _ := strings.Cut(t, "(")
	switch name {
	case "varchar", "char", "json":
		return "VARCHAR"
	case "double":
		return "DOUBLE"
	case "real":
		return "FLOAT"
	case "boolean", "bigint", "integer", "smallint", "tinyint", "date":
		return strings.ToUpper(name)
	case "timestamp":
		if strings.Contains(t, "time zone") {
			return "TIMESTAMP WITH TIME ZONE"
		}
		return "TIMESTAMP"
	}
	return strings.ToUpper(t)
}

// value is a value of the protocol's JSON as package model has it. What we have no type for stays the server's text.
func value(v any, typ string) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil && typ != "DOUBLE" && typ != "FLOAT" {
			return n
		}
		f, _ := v.Float64() // the server's own text of a number
		return f
	case string:
		switch typ {
		case "DOUBLE", "FLOAT":
			return special(v)
		case "TIMESTAMP", "DATE":
			for _, form := range []string{"2006-01-02 15:04:05", time.DateOnly} { // parsing takes fractions by itself
				if t, err := time.ParseInLocation(form, v, time.UTC); err == nil {
					return t
				}
			}
		}
		return v
	case nil, bool:
		return v
	case []any:
		list := make(model.List, len(v))
		for i, x := range v {
			list[i] = value(x, "")
		}
		return list
	}
	return fmt.Sprint(v)
}

// special are numbers that JSON has no word for: NaN and Infinity.
func special(text string) any {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return f
}
