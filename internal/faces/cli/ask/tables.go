package ask

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/internal/fleet/lake"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/render"
)

// TablesOptions are the flags of tables, here and in snapshot tables, and the names of the tables to describe.
type TablesOptions struct {
	all     bool
	columns bool
	json    bool
	Names   []string
}

// cataloguer is any source that can list its tables.
type cataloguer interface {
	Tables(ctx context.Context, all bool) ([]model.Table, error)
}

func (a *commands) tablesCommand() *cobra.Command {
	var o TablesOptions
	c := &cobra.Command{
		Use:   "tables [TABLE…]",
		Short: "List the tables that can be asked, or describe their columns",
		Long: "Lists the session's tables: schema and name, rows, columns, what they hold. With TABLE, such as python.torch_trace or\n" +
			"torch_trace, every column of it with its type, meaning and unit.",
		Example: "  memgauge tables\n" +
			"  memgauge tables python.torch_trace steps\n" +
			"  memgauge tables -a --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Names = args
			return a.tables(cmd.Context(), o)
		},
	}
	o.AddFlags(c)
	return c
}

// AddFlags adds the flags to a command.
func (o *TablesOptions) AddFlags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVarP(&o.all, "all", "a", false, "also memgauge's own bookkeeping")
	f.BoolVarP(&o.columns, "columns", "c", false, "describe every column")
	f.BoolVar(&o.json, "json", false, "as JSON (docs/cli-json.md)")
}

// JSON reports whether the answer is JSON.
func (o *TablesOptions) JSON() bool { return o.json }

func (a *commands) tables(ctx context.Context, o TablesOptions) error {
	q := app.Question[[]model.Table]{Role: source.Query, JSON: o.json,
		Ask: func(ctx context.Context, t ask.Target) ([]model.Table, error) {
			s, err := t.Connect(ctx)
			if err != nil {
				return nil, fmt.Errorf("tables: %w", err)
			}
			defer s.Close()
			return o.find(ctx, s)
		},
		Text: func(w io.Writer, list []model.Table) error {
			return o.write(w, list, term.TerminalWidth(a.Stdout))
		},
		Document: tablesDocument}
	if where := a.Lake(); where != "" {
		return o.ofLake(ctx, a.App, q, lake.Of(lake.Choice{Location: where}))
	}
	if a.Many() {
		if kept, err := a.hubLake(ctx); err != nil || kept != nil {
			if err != nil {
				return err
			}
			defer kept.told(nil)
			return o.ofLake(ctx, a.App, q, kept.fleet.Lake(kept.of))
		}
	}
	if _, err := a.Members(ctx); err != nil {
		return fmt.Errorf("tables: %w", err)
	}
	return app.Put(ctx, a.App, q)
}

func (o TablesOptions) ofLake(ctx context.Context, a *app.App, q app.Question[[]model.Table], from api.Tabled) error {
	defer from.Close()
	list, err := o.find(ctx, from)
	if err != nil {
		return err
	}
	return q.Print(a, list)
}

// find lists the tables, or those of o.Names.
func (o TablesOptions) find(ctx context.Context, from cataloguer) ([]model.Table, error) {
	tables, err := from.Tables(ctx, o.all)
	if err == nil && len(o.Names) > 0 {
		tables, err = pickTables(ctx, from, tables, o.Names)
	}
	if err != nil {
		return nil, fmt.Errorf("tables: %w", err)
	}
	return tables, nil
}

// write writes the list of tables, or describes them. width is the terminal's, in columns; 0 for a pipe.
func (o TablesOptions) write(w io.Writer, tables []model.Table, width int) error {
	if o.columns || len(o.Names) > 0 {
		return describeTables(w, tables, width)
	}
	return listTables(w, tables, width)
}

// RunTables writes what tables is asked about to w.
func RunTables(ctx context.Context, from cataloguer, o TablesOptions, width int, w io.Writer) error {
	tables, err := o.find(ctx, from)
	if err != nil {
		return err
	}
	if o.json {
		return doc.WriteJSON(w, tablesDocument(tables))
	}
	return o.write(w, tables, width)
}

// pickTables finds tables by name, in the order of the names. It finds an internal table only if no other has the name.
func pickTables(ctx context.Context, from cataloguer, tables []model.Table, names []string) ([]model.Table, error) {
	var out []model.Table
	for _, name := range names {
		found := named(tables, name)
		if found == nil {
			all, err := from.Tables(ctx, true)
			if err != nil {
				return nil, err
			}
			found = named(all, name)
		}
		if found == nil {
			return nil, remedy.Add(fmt.Errorf("no table %q", name), "memgauge tables -a lists them")
		}
		out = append(out, found...)
	}
	return out, nil
}

// named finds tables by name, with or without the schema. Case doesn't matter, as in SQL.
func named(tables []model.Table, name string) (out []model.Table) {
	for _, t := range tables {
		bare, _, _ := strings.Cut(t.Name, "(") // a table function is shown with its argument
		if strings.EqualFold(name, bare) || strings.EqualFold(name, t.Schema+"."+bare) {
			out = append(out, t)
		}
	}
	return out
}

// wholeTables says how to see columns that a narrow terminal left out.
func listTables(w io.Writer, tables []model.Table, width int) error {
	l := &doc.Listing{Head: []model.Column{doc.Text("table"), doc.Number("rows"), doc.Number("columns"),
		doc.Text("description")}}
	for _, t := range tables {
		l.Rows = append(l.Rows, []any{tableName(t), countText(t.Rows), units.Count(int64(len(t.Columns))), t.Doc})
	}
	return render.Write(w, l, render.Table, render.Options{Width: width, NoRows: true, Spare: []string{"columns"},
		Whole: doc.WholeTables})
}

// tableName is how a statement names a table; those of a snapshot need no schema.
func tableName(t model.Table) string {
	if t.Schema == "main" {
		return t.Name
	}
	return t.Schema + "." + t.Name
}

// countText formats a number of rows; it is blank if unknown.
func countText(n int64) string {
	if n < 0 {
		return ""
	}
	return units.Count(n)
}

func describeTables(w io.Writer, tables []model.Table, width int) error {
	for i, t := range tables {
		gap := "\n"
		if i == 0 {
			gap = ""
		}
		if _, err := fmt.Fprintf(w, "%s%s: %s\n", gap, tableName(t), t.Doc); err != nil {
			return err
		}
		l := &doc.Listing{Head: []model.Column{doc.Text("column"), doc.Text("type"), doc.Text("description")}}
		for _, c := range t.Columns {
			l.Rows = append(l.Rows, []any{c.Name, c.Type, c.Doc})
		}
		if err := render.Write(w, l, render.Table, render.Options{Width: width, NoRows: true, Spare: []string{"type"},
			Whole: doc.WholeTables}); err != nil {
			return err
		}
	}
	return nil
}

// tableJSON is a table in the JSON of tables (docs/cli-json.md).
type tableJSON struct {
	Schema      string       `json:"schema"`
	Name        string       `json:"name"`
	Rows        *int64       `json:"rows"`
	Description string       `json:"description"`
	Columns     []columnJSON `json:"columns"`
}

type columnJSON struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Description string `json:"description"`
}

func tablesDocument(tables []model.Table) any {
	out := make([]tableJSON, 0, len(tables))
	for _, t := range tables {
		columns := make([]columnJSON, 0, len(t.Columns))
		for _, c := range t.Columns {
			columns = append(columns, columnJSON{Name: c.Name, Type: c.Type, Description: c.Doc})
		}
		out = append(out, tableJSON{t.Schema, t.Name, doc.KnownCount(t.Rows), t.Doc, columns})
	}
	return struct {
		SchemaVersion int         `json:"schema_version"`
		Tables        []tableJSON `json:"tables"`
	}{doc.JSONVersion, out}
}
