package cli

import "github.com/memgauge/memgauge/internal/model"

// listing is rows that a command made itself, for report.Write.
type listing struct {
	columns []model.Column
	rows    [][]any
	at      int
}

func (l *listing) Columns() []model.Column { return l.columns }
func (l *listing) Next() bool              { l.at++; return l.at <= len(l.rows) }
func (l *listing) Values() []any           { return l.rows[l.at-1] }
func (l *listing) Err() error              { return nil }

// text and number are columns of a listing; a number's text stands at the right.
func text(name string) model.Column   { return model.Column{Name: name, Type: "VARCHAR"} }
func number(name string) model.Column { return model.Column{Name: name, Type: "BIGINT"} }
