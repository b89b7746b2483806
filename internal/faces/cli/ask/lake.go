package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/fleet/lake"
	"github.com/memgauge/memgauge/internal/fleet/trino"
	"github.com/memgauge/memgauge/internal/formats/render"
)

// LakeOptions say which part of a lake is asked, and by which engine.
type LakeOptions struct {
	engine string
	trino  string
	job    string
	since  string
}

// AddFlags adds those of a query.
func (o *LakeOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.engine, "engine", "auto", "of a lake: `ENGINE` duckdb (this machine), trino, or auto by size")
	f.StringVar(&o.trino, "trino", os.Getenv("MEMGAUGE_TRINO"),
		"of a lake: `URL` of the Trino server (MEMGAUGE_TRINO, else "+trino.DefaultServer+")")
	f.Lookup("trino").DefValue = ""
	o.AddScope(f)
}

// AddScope adds those that say which part of a lake.
func (o *LakeOptions) AddScope(f *pflag.FlagSet) {
	f.StringVar(&o.job, "job", "", "of a lake: only the job `NAME`")
	f.StringVar(&o.since, "since", "", "of a lake: only since `TIME`: a duration such as 2h, or 2026-11-20T15:00:00Z")
}

// Given says that one of the flags was given, which only a lake takes.
func (o *LakeOptions) Given(f *pflag.FlagSet) string {
	for _, name := range []string{"engine", "trino", "job", "since"} {
		if x := f.Lookup(name); x != nil && x.Changed {
			return name
		}
	}
	return ""
}

// noLake refuses flags of lakes for what is none.
func noLake(flag, command string) error {
	return app.Usage(remedy.Add(fmt.Errorf("%s: --%s is about a lake", command, flag),
		"a lake stands before the command: memgauge lake=/data/lake "+command))
}

// Choice is the part of the lake that the options mean.
func (o *LakeOptions) Choice(where, sql string, now time.Time) (lake.Choice, error) {
	c := lake.Choice{Location: where, Job: o.job, SQL: sql}
	if o.since == "" {
		return c, nil
	}
	if d, err := units.ParseDuration(o.since); err == nil {
		c.Since = now.Add(-time.Duration(d))
		return c, nil
	}
	for _, form := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(form, o.since, time.UTC); err == nil {
			c.Since = t
			return c, nil
		}
	}
	return c, app.Usage(remedy.Add(fmt.Errorf("--since %q is not a time", o.since),
		"such as 2h, 2026-11-20, or 2026-11-20T15:00:00Z (UTC)"))
}

// Far is the part of a hub's lake that the options mean, and the Trino server if that is to answer; nil: the hub does.
func (o *LakeOptions) Far(sql string, now time.Time) (c lake.Choice, server querier, err error) {
	if c, err = o.Choice("", sql, now); err != nil {
		return c, nil, err
	}
	switch o.engine {
	case "auto", "duckdb":
		return c, nil, nil
	case "trino":
		server, err = o.trinoEngine(c)
		return c, server, err
	}
	return c, nil, o.unknown()
}

func (o *LakeOptions) unknown() error {
	return app.Usage(remedy.Add(fmt.Errorf("query: unknown engine %q", o.engine),
		"engines are auto, duckdb and trino"))
}

// from is who answers a statement about a lake.
func (o *LakeOptions) from(ctx context.Context, where, sql string) (querier, error) {
	c, err := o.Choice(where, sql, time.Now())
	if err != nil {
		return nil, err
	}
	switch o.engine {
	case "duckdb":
		return lake.Of(c), nil
	case "auto":
		if o.trino == "" {
			return lake.Of(c), nil
		}
		t, err := lake.Open(ctx, c)
		if err == nil && t.Bytes <= lake.MaxDownload {
			return t, nil
		}
		if err != nil && !errors.Is(err, lake.ErrTooMuch) {
			return nil, err
		}
		if err == nil {
			t.Close()
		}
		return o.trinoEngine(c)
	case "trino":
		return o.trinoEngine(c)
	}
	return nil, o.unknown()
}

// trinoQuerier lets a Trino server answer.
type trinoQuerier struct{ client *trino.Client }

// trinoEngine refuses what only files on this machine can be narrowed by: the server's tables are whole.
func (o *LakeOptions) trinoEngine(c lake.Choice) (querier, error) {
	if c.Job != "" || !c.Since.IsZero() {
		return nil, app.Usage(remedy.Add(
			errors.New("query: Trino's tables are whole, --job and --since do not narrow them"),
			"say it in the statement: WHERE job = '…' AND date >= '2026-11-20'"))
	}
	server := o.trino
	if server == "" {
		server = trino.DefaultServer
	}
	client, err := trino.New(server)
	if err != nil {
		return nil, app.Usage(err)
	}
	return trinoQuerier{client}, nil
}

// Close does nothing.
func (trinoQuerier) Close() error { return nil }

// Query runs a statement on the server and writes its result.
func (t trinoQuerier) Query(ctx context.Context, q api.QueryRequest, w io.Writer) error {
	format, err := render.ParseFormat(q.Format)
	if err == nil && format == render.Parquet {
		err = app.Usage(remedy.Add(errors.New("query: Trino writes no Parquet for us"), "use csv, or --engine duckdb"))
	}
	if err != nil {
		return err
	}
	rows, err := t.client.Query(ctx, q.SQL)
	if err != nil {
		return err
	}
	defer rows.Close()
	return render.Write(w, rows, format, render.Options{Width: q.Width, Plain: q.Plain})
}
