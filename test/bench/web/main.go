// Command web measures the page of memgauge web in a headless Chromium, over a session of ten million rows that covers
// a day: how soon it is there, how fast it zooms, how smoothly it pans, what a slow line does to it, and whether it
// grows while it is left open. It prints a table. Build the page first: make build.
//
//	go run ./test/bench/web [-rows 10000000] [-hours 24] [-brief] [-profile]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/faces/web"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/record/store"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench/web: ")
	rows := flag.Int64("rows", 10_000_000, "rows of process.memory")
	hours := flag.Int64("hours", 24, "that the rows cover, and that the page is left open")
	brief := flag.Bool("brief", false, "don't leave the page open: that takes minutes")
	flag.BoolVar(&wantProfile, "profile", false, "say where the page's time went while it panned")
	flag.Parse()
	if err := run(*rows, *hours, *brief); err != nil {
		log.Fatal(err)
	}
}

func run(rows, hours int64, brief bool) error {
	if !web.Bundled() {
		return errors.New("this was built without the page: make build makes it")
	}
	dir, err := os.MkdirTemp("", "memgauge-bench-web-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db, err := store.Open(ctx, store.Options{Path: filepath.Join(dir, "s.duckdb"), TempDir: dir})
	if err != nil {
		return err
	}
	defer db.Close()
	began := time.Now()
	if err := write(ctx, db, rows, hours); err != nil {
		return err
	}
	log.Printf("%d rows over %d h written in %.0f s; %d cores, load %s", rows, hours, time.Since(began).Seconds(),
		runtime.NumCPU(), load())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	day := &stored{Service: &service.Service{Open: service.Opened(db)}}
	s, err := web.New(web.Options{Sessions: one{day}, First: "day",
		Token: "measured", Listener: l, Version: "bench"})
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.Run(ctx) })
	g.Go(func() error {
		defer stop()
		return measure(ctx, s.URL(), hours, brief)
	})
	return g.Wait()
}

func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	var minute string
	_, _ = fmt.Sscan(string(text), &minute)
	return minute
}

const (
	processes = 4
	first     = int64(1_700_000_000_000_000) // µs since the epoch
	known     = 60                           // seconds that the page sees at first; news tell of the rest
	chunk     = 200_000
)

// write stores readings of some processes that grow, with noise. The session's own span is its first minute: the news
// say how far it has come.
func write(ctx context.Context, db *store.DB, rows, hours int64) error {
	b := &model.Batch{}
	for pid := range int32(processes) {
		b.Samples.Tree = append(b.Samples.Tree, model.TreeProcess{PID: 7 + pid, Rank: pid, Role: "trainer",
			Comm: "python", Command: "python train.py", FirstSeen: first, LastSeen: first})
	}
	for i := range int64(known) {
		b.Samples.Hosts = append(b.Samples.Hosts, model.HostMemory{Time: first + i*1e6, Total: 64 << 30,
			Available: 30 << 30, Anon: 20 << 30})
		b.Steps = append(b.Steps, model.Step{Time: first + i*1e6, PID: 7, Step: i + 1, Steps: 1, Device: -1,
			Anon: 4 << 30, HeapInUse: 2 << 30, HeapHeld: 3 << 30})
	}
	gap := hours * 3600 * 1e6 * processes / rows
	for i := range rows / processes {
		noise := (i*7919 + i*i*31) % 1_000_003
		for pid := range int32(processes) {
			b.Samples.Memory = append(b.Samples.Memory, model.ProcessMemory{Time: first + i*gap, PID: 7 + pid,
				Rank: pid, RSS: 6<<30 + noise*4096 + i*256, Anon: 4<<30 + noise*4096 + i*256, File: 1 << 30,
				Shmem: 1 << 30, HeapInUse: 2<<30 + noise, HeapHeld: 3<<30 + noise})
		}
		if len(b.Samples.Memory) < chunk {
			continue
		}
		if err := db.Append(ctx, b); err != nil {
			return err
		}
		b.Reset()
	}
	return db.Append(ctx, b)
}

// stored is the session: the rows are real, what else it has is made up.
type stored struct{ *service.Service }

func (*stored) About(context.Context) (api.About, error) {
	return api.About{ID: "day", Name: "a day", Command: []string{"python", "train.py"}, Live: true,
		Started: time.UnixMicro(first)}, nil
}

func (*stored) End(context.Context) (api.End, error) { return api.End{Live: true}, nil }

func (*stored) Summary(context.Context) (api.Summary, error) { return api.Summary{}, nil }

func (*stored) Leak(context.Context, api.LeakRequest) (r detect.Report, err error) {
	r.Verdict = detect.Healthy
	return r, nil
}

func (*stored) OOM(context.Context, api.OOMRequest) (*monitor.Report, error) {
	return nil, errors.New("nothing is told")
}

func (*stored) Where(context.Context) (api.Where, error) { return api.Where{}, nil }

// one is the only session.
type one struct{ s *stored }

func (o one) List(context.Context) ([]api.Listed, []error, error) {
	return []api.Listed{{ID: "day", Name: "a day", State: "running", Rows: -1}}, nil, nil
}

func (o one) Open(context.Context, string) (api.Session, error) { return o.s, nil }
