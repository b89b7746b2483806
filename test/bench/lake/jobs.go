package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/fleet/lake"
	"github.com/memgauge/memgauge/internal/formats/table"
	"github.com/memgauge/memgauge/test/frames"
)

const (
	flushed  = 13  // tables that a node of eight ranks has rows of in a minute
	stepRows = 128 // of a job in a minute; of other tables 8
)

// minute is what so many jobs of a node each ship of some tables in a minute.
func minute(tables []*table.Table, jobs, number int, at time.Time) (all []frame.Batch) {
	for job := range jobs {
		for _, t := range tables {
			rows := 8
			if t.View == "python.steps" {
				rows = stepRows
			}
			h := frame.Header{Job: fmt.Sprint("job-", job), Node: fmt.Sprint("n", job), Rank: -1, Session: "s",
				Table: t.View, First: uint64(1 + number*rows), Count: rows}
			all = append(all, frame.Batch{Header: h, Rows: frames.Rows(frames.Fields(t.View), rows,
				func(f frame.Field, i int) any {
					switch {
					case f.Name == "job":
						return h.Job
					case f.Name == "node":
						return h.Node
					case f.Type == frame.Time:
						return at.Add(time.Duration(i) * time.Second / 4)
					case f.Name == "rank":
						return i % 8
					case f.Type == frame.Int64:
						return (job+number*rows+i)<<20 + i*i
					}
					return nil
				})})
		}
	}
	return all
}

// flushes prints what it takes to keep a minute of many jobs, to merge an hour of it, and to ask it about one job.
func flushes(ctx context.Context, dir string, jobs int) error {
	w, err := lake.New(ctx, lake.Options{Location: dir, Grace: 1, Linger: 1})
	if err != nil {
		return err
	}
	defer w.Close()
	const minutes = 3
	at := time.Now().UTC().Truncate(time.Hour).Add(-time.Hour)
	fmt.Printf("%d jobs:\n\n| what | time | processor time |\n|---|---|---|\n", jobs)
	for k := range minutes {
		batches := minute(table.All[:flushed], jobs, k, at.Add(time.Duration(k)*time.Minute))
		if err := clocked("a flush", func() error { return w.AppendAll(ctx, batches) }); err != nil {
			return err
		}
	}
	ask := func() error {
		for _, job := range []string{"job-0", "job-7"} {
			if err := asked(ctx, lake.Choice{Location: dir, Job: job}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := ask(); err != nil {
		return err
	}
	if err := clocked("all merged", func() error { _, err := w.Maintain(ctx); return err }); err != nil {
		return err
	}
	if err := ask(); err != nil {
		return err
	}
	files := 0
	err = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if filepath.Ext(path) == ".parquet" {
			files++
		}
		return err
	})
	fmt.Printf("\n%d files, replaced ones included\n", files)
	return err
}

// asked prints what one question takes: finding the files in this process, and all of it with the cell's.
func asked(ctx context.Context, c lake.Choice) error {
	c.SQL = "SELECT rank, max(allocated) FROM python.steps GROUP BY rank"
	var t *lake.Tables
	err := clocked("found the files of "+c.Job, func() (err error) { t, err = lake.Open(ctx, c); return err })
	if err != nil {
		return err
	}
	defer t.Close()
	return clocked("asked", func() error {
		err := t.Query(ctx, api.QueryRequest{SQL: c.SQL, Format: "csv"}, io.Discard)
		return errors.Join(err, t.Close())
	})
}

// clocked prints what something takes, that of processes that have ended meanwhile included.
func clocked(what string, do func() error) error {
	used := func() time.Duration {
		var u syscall.Rusage
		if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u) != nil {
			return 0
		}
		return processor() + time.Duration(u.Utime.Nano()+u.Stime.Nano())
	}
	began, before := time.Now(), used()
	err := do()
	fmt.Printf("| %s | %d ms | %d ms |\n", what, time.Since(began).Milliseconds(), (used() - before).Milliseconds())
	return err
}

// listings prints what a question about one of the jobs of a month takes, and how much of that before it reads a row.
func listings(ctx context.Context, dir string, jobs int) error {
	w, err := lake.New(ctx, lake.Options{Location: dir, Grace: 1, Linger: 1})
	if err != nil {
		return err
	}
	first := time.Now().UTC().Truncate(time.Hour).Add(-30 * 24 * time.Hour)
	steps := []*table.Table{table.Find("python.steps")}
	for hour := range 30 * 24 {
		batches := minute(steps, jobs, hour, first.Add(time.Duration(hour)*time.Hour))
		if err := w.AppendAll(ctx, batches); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	fmt.Printf("%d jobs and 720 hours, of each a file:\n\n| what | time | processor time |\n|---|---|---|\n", jobs)
	for range 5 {
		for _, c := range []lake.Choice{{Job: "job-7", Since: time.Now().Add(-2 * time.Hour)}, {Job: "job-7"}} {
			c.Location = dir
			if err := asked(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}
