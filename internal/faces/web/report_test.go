package web_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/test/env"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/faces/page"
	"github.com/memgauge/memgauge/internal/faces/web"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/record/store"
)

// stored is a session whose rows are in a database; what else it has is made up.
type stored struct{ *service.Service }

func (stored) About(context.Context) (api.About, error) { return api.About{ID: "s", Name: "s"}, nil }

func (stored) End(context.Context) (api.End, error) { return api.End{}, nil }

func (stored) Summary(context.Context) (api.Summary, error) { return api.Summary{}, nil }

func (stored) Where(context.Context) (api.Where, error) {
	return api.Where{}, errors.New("nobody was there")
}

func (stored) Leak(context.Context, api.LeakRequest) (r detect.Report, err error) { return r, nil }

func (stored) OOM(context.Context, api.OOMRequest) (*monitor.Report, error) {
	return nil, errors.New("nobody was there")
}

// A session of 100,000 steps, with the noise of real readings, makes a page of at most 2 MB.
func TestReportIsSmall(t *testing.T) {
	env.Page(t, web.Bundled())
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "s.duckdb")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.Append(t.Context(), manySteps()); err != nil {
		t.Fatal(err)
	}
	s := stored{&service.Service{Open: service.Opened(db)}}
	d := &page.Document{Session: page.Session{Name: "</title><script>", Command: []string{"</noscript><img src=x>"}}}
	var out bytes.Buffer
	if err := web.WriteReport(t.Context(), &out, s, d); err != nil {
		t.Fatal(err)
	}
	if n := out.Len(); n > 2_000_000 {
		t.Errorf("the page has %d bytes", n)
	}
	t.Logf("%d bytes", out.Len())
	if bytes.Contains(out.Bytes(), []byte("<img")) || bytes.Count(out.Bytes(), []byte("<script")) != 2 {
		t.Error("a name stands as markup")
	}
}

func manySteps() *model.Batch {
	const first = 1_700_000_000_000_000
	b := &model.Batch{}
	for pid := range int32(8) {
		b.Samples.Tree = append(b.Samples.Tree, model.TreeProcess{PID: 7 + pid, Rank: -1, Role: "trainer",
			Comm: "python", FirstSeen: first, LastSeen: first + 25_000_000_000})
	}
	for i := range int64(100_000) {
		at := first + i*250_000
		noise := (i*7919 + i*i*31) % 1_000_003
		b.Steps = append(b.Steps, model.Step{Time: at, PID: 7, Rank: -1, World: 1, Step: i + 1, Steps: 1,
			Anon: 4<<30 + noise*4096, HeapInUse: 2<<30 + noise*16, HeapHeld: 3<<30 + noise, Device: -1})
		if i%4 != 0 {
			continue
		}
		b.Samples.Hosts = append(b.Samples.Hosts, model.HostMemory{Time: at, Total: 64 << 30,
			Available: 32<<30 - noise*4096, Anon: 20<<30 + noise*4096, Shmem: noise})
		for pid := range int32(8) {
			x := noise * int64(pid+1)
			b.Samples.Memory = append(b.Samples.Memory, model.ProcessMemory{Time: at, PID: 7 + pid, Rank: -1,
				RSS: 6<<30 + x*4096, Anon: 4<<30 + x*4096, File: 1<<30 + x, Shmem: x * 3, HeapInUse: 2<<30 + x*16,
				HeapHeld: 3<<30 + x*32})
		}
	}
	return b
}
