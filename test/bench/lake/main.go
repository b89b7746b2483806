// Command lake prints how long the questions of a fleet take over a lake: 8,000 ranks and 2,000 steps, in the layout
// that the lake's writer makes, one of whose ranks leaks.
//
//	go run ./test/bench/lake [-ranks 8000] [-steps 2000] [-trino http://127.0.0.1:8480]
//	go run ./test/bench/lake -jobs 2000
//	go run ./test/bench/lake -month 70
//
// With -jobs it prints what it takes to keep what so many jobs ship in a minute, and to ask it about one of them; with
// -month what it takes to find one's files among those of a month. With -trino it also asks a server that
// deploy/trino/trino started over the directory that -dir names.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/cell"
	"github.com/memgauge/memgauge/internal/fleet/lake"
	"github.com/memgauge/memgauge/internal/fleet/trino"
	"github.com/memgauge/memgauge/internal/record/store"
)

// question is one with its bounds: the goal in DuckDB, and in Trino with one worker.
type question struct {
	name, sql    string
	duck, server time.Duration
}

// Questions over the fleet; the same text for both engines.
var questions = []question{
	{"leak slope by rank", `SELECT rank, regr_slope(allocated, step) AS bytes_per_step FROM python.steps
		WHERE job = 'llama' AND step >= 1500 GROUP BY rank ORDER BY 2 DESC LIMIT 5`,
		150 * time.Millisecond, time.Second},
	{"odd rank", `WITH r AS (SELECT rank, avg(allocated) AS a FROM python.steps
			WHERE job = 'llama' AND step >= 1900 GROUP BY rank),
		z AS (SELECT avg(a) AS m, stddev_samp(a) AS s FROM r)
		SELECT rank, (a - m) / s AS z FROM r, z ORDER BY 2 DESC LIMIT 5`, 60 * time.Millisecond, time.Second},
	{"last minute of a node", `SELECT rank, max(allocated) FROM python.steps WHERE job = 'llama' AND node = 'node-0042'
		AND date = '2026-01-01' AND hour = '07' AND ts >= TIMESTAMP '2026-01-01 07:59:00' GROUP BY rank`,
		60 * time.Millisecond, 0},
}

func main() {
	if os.Args[0] == "memgauge" { // a cell
		fmt.Fprintln(os.Stderr, cell.Serve(context.Background(), lake.Inside))
		os.Exit(1)
	}
	dir := flag.String("dir", "", "directory of the lake, made where it is not there (default a temporary one)")
	ranks := flag.Int("ranks", 8000, "ranks, eight a node")
	steps := flag.Int("steps", 2000, "steps, over eight hours")
	server := flag.String("trino", "", "URL of a Trino server over -dir")
	jobs := flag.Int("jobs", 0, "jobs that ship for some minutes; 0: the fleet's questions")
	month := flag.Int("month", 0, "jobs of a month of hours; 0: likewise")
	runs := flag.Int("runs", 7, "times that each question is asked; the best and the median are printed")
	flag.Parse()
	err := bench(*dir, func(ctx context.Context, dir string) error {
		switch {
		case *jobs > 0:
			return flushes(ctx, dir, *jobs)
		case *month > 0:
			return listings(ctx, dir, *month)
		}
		return questionsOf(ctx, dir, *ranks, *steps, *server, *runs)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func bench(dir string, do func(ctx context.Context, dir string) error) error {
	if dir == "" {
		made, err := os.MkdirTemp("", "memgauge-lake-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(made)
		dir = made
	}
	return do(context.Background(), dir)
}

// questionsOf prints how long the fleet's questions take.
func questionsOf(ctx context.Context, dir string, ranks, steps int, server string, runs int) error {
	if err := fill(ctx, dir, ranks, steps); err != nil {
		return err
	}
	if list, err := lake.StatusOf(ctx, dir); err == nil && len(list) > 0 {
		fmt.Printf("%d ranks × %d steps: %d files, %.1f bytes a row\n\n", ranks, steps, list[0].Files,
			float64(list[0].Bytes)/float64(ranks)/float64(steps))
	}
	fmt.Println("| question | engine | best | median | least processor time | goal |\n|---|---|---|---|---|---|")
	if err := askDuck(ctx, dir, runs); err != nil {
		return err
	}
	if server != "" {
		return askTrino(ctx, dir, server, runs)
	}
	return nil
}

// fill makes the lake's merged files as the writer does: hours, sorted by job, rank and step, row groups of a million.
func fill(ctx context.Context, dir string, ranks, steps int) error {
	for hour := range 8 {
		at := filepath.Join(dir, fmt.Sprintf("steps/date=2026-01-01/hour=%02d", hour))
		if _, err := os.Stat(at + "/_gen-1.json"); err == nil {
			continue
		}
		if err := os.MkdirAll(at+"/tier=c1", 0o700); err != nil {
			return err
		}
		from, to := hour*steps/8, (hour+1)*steps/8
		sql := fmt.Sprintf(`SELECT 'llama' AS job, 'node-' || printf('%%04d', rank // 8) AS node, rank::INTEGER AS rank,
			TIMESTAMP '2026-01-01' + to_microseconds((step * 8 * 3600e6 / %[1]d)::BIGINT
				+ (hash(rank) %% 50000)::BIGINT) AS ts,
			(1000 + rank)::INTEGER AS pid, %[4]d::INTEGER AS world_size, step::BIGINT AS step, 1::INTEGER AS steps,
			14.4 + (hash(rank, step) %% 1000) / 1e4 AS duration, false AS sampled, false AS inference,
			'cuda:' || rank %% 8 AS device, (30e9 + (hash(rank, step, 1) %% 200000) * 512
				+ CASE WHEN rank = 4711 AND step > 800 THEN (step - 800) * 2e6 ELSE 0 END)::BIGINT AS allocated,
			(38e9 + (hash(rank, step, 2) %% 2000000) * 512)::BIGINT AS max_allocated,
			(60e9 + (hash(rank) %% 512) * 2097152)::BIGINT AS reserved,
			(60e9 + (hash(rank) %% 512) * 2097152)::BIGINT AS max_reserved,
			(4e9 + (hash(rank, step // 10) %% 100000) * 4096)::BIGINT AS rss, 's1' AS _session
			FROM range(%[4]d) r(rank), range(%[2]d, %[3]d) s(step) ORDER BY rank, step`, steps, from, to, ranks)
		if err := store.WriteParquet(ctx, sql, at+"/tier=c1/all.parquet", 1_000_000, dir); err != nil {
			return err
		}
		if err := os.WriteFile(at+"/_gen-1.json", []byte(`{"generation":1}`), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func askDuck(ctx context.Context, dir string, runs int) error {
	t, err := lake.Open(ctx, lake.Choice{Location: dir})
	if err != nil {
		return err
	}
	defer t.Close()
	for _, q := range questions {
		if err := measure(q, "DuckDB", q.duck, runs, func() error {
			return t.Query(ctx, api.QueryRequest{SQL: q.sql, Format: "csv"}, io.Discard)
		}); err != nil {
			return err
		}
	}
	return measure(question{name: "leak: all ranks compared"}, "DuckDB", 0, 3, func() error {
		r, err := t.Compare(ctx, "llama")
		if err == nil && (len(r.Findings) != 1 || r.Findings[0].Rank != 4711) {
			err = fmt.Errorf("found %+v, not rank 4711", r.Findings)
		}
		return err
	})
}

func askTrino(ctx context.Context, dir, server string, runs int) error {
	client, err := trino.New(server)
	if err != nil {
		return err
	}
	if _, err := client.Sync(ctx, trino.Sync{Lake: dir, Seen: "local:///"}); err != nil {
		return err
	}
	for _, q := range questions {
		if err := measure(q, "Trino", q.server, runs, func() error {
			rows, err := client.Query(ctx, q.sql)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
			}
			return rows.Err()
		}); err != nil {
			return err
		}
	}
	return nil
}

func measure(q question, engine string, goal time.Duration, runs int, ask func() error) error {
	var took, worked []time.Duration
	for range runs {
		began, before := time.Now(), processor()
		if err := ask(); err != nil {
			return fmt.Errorf("%s, %s: %w", q.name, engine, err)
		}
		took, worked = append(took, time.Since(began)), append(worked, processor()-before)
	}
	wanted := "–"
	if goal > 0 {
		wanted = "≤ " + goal.String()
	}
	slices.Sort(took)
	slices.Sort(worked)
	own := fmt.Sprint(worked[0].Milliseconds(), " ms")
	if engine != "DuckDB" { // another process works
		own = "–"
	}
	fmt.Printf("| %s | %s | %d ms | %d ms | %s | %s |\n", q.name, engine, took[0].Milliseconds(),
		took[len(took)/2].Milliseconds(), own, wanted)
	return nil
}

// processor is the time of this process on all cores: what others do on the machine is not in it.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
