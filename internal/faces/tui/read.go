package tui

import (
	"context"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
)

// reader asks a session for what is new. One read is under way at a time.
type reader struct {
	s        api.Session
	since    map[string]int64 // µs: the newest of each kind of row
	begun    bool
	ticks    int
	judgment int64 // the newest that was read
}

// batch is what one read has found.
type batch struct {
	rows     []questions.Row
	bucket   int64 // µs
	tree     []questions.Lived
	findings []questions.Finding
	end      api.End
}

const (
	// buckets of what is read first: more than the columns of dots of any terminal.
	buckets = 2000
	// fresh is the bucket of what is new: a screen that changes once a second shows no more.
	fresh = 200_000 // µs
	// slowEvery is how many reads pass between those of what changes slowly: the tree and the verdicts.
	slowEvery = 5
)

// read asks for what is new, at first for everything, in buckets.
func (r *reader) read(ctx context.Context) (b batch, err error) {
	b.bucket = fresh
	if !r.begun {
		span, err := api.Ask(ctx, r.s, questions.Span)
		if err != nil {
			return b, err
		}
		b.bucket = max(1, (span[0].To-span[0].From)/buckets)
		r.since = map[string]int64{}
	}
	if b.rows, err = api.Ask(ctx, r.s, questions.Recent(r.since, r.begun, b.bucket)); err != nil {
		return b, err
	}
	for _, x := range b.rows {
		r.since[x.K] = max(r.since[x.K], x.T)
	}
	if r.ticks%slowEvery == 0 {
		if err := r.readSlow(ctx, &b); err != nil {
			return b, err
		}
	}
	r.ticks++
	r.begun = true
	b.end, err = r.s.End(ctx)
	return b, err
}

func (r *reader) readSlow(ctx context.Context, b *batch) (err error) {
	if b.tree, err = api.Ask(ctx, r.s, questions.Tree); err != nil {
		return err
	}
	b.findings, err = api.Ask(ctx, r.s, questions.Findings(r.judgment))
	for _, f := range b.findings {
		r.judgment = max(r.judgment, f.Number)
	}
	return err
}
