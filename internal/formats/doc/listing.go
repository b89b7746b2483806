package doc

import "github.com/memgauge/memgauge/internal/formats/model"

// Listing is rows that a command made itself, for render.Write.
type Listing struct {
	Head []model.Column // the columns
	Rows [][]any
	at   int
}

// Columns, Next, Values and Err make a Listing the rows that render.Write reads.
func (l *Listing) Columns() []model.Column { return l.Head }
func (l *Listing) Next() bool              { l.at++; return l.at <= len(l.Rows) }
func (l *Listing) Values() []any           { return l.Rows[l.at-1] }
func (l *Listing) Err() error              { return nil }

// Text and Number are columns of a listing; a number's text stands at the right.
func Text(name string) model.Column   { return model.Column{Name: name, Type: "VARCHAR"} }
func Number(name string) model.Column { return model.Column{Name: name, Type: "BIGINT"} }
