package analyse

import (
	"reflect"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// cut gives the part of a batch between two steps of cudaRun and holders, with readings of the host each second step.
func cut(run, census *model.Batch, from, to int) *model.Batch {
	b := &model.Batch{}
	in := func(us int64) bool { return us > stepTime(from) && us <= stepTime(to) }
	for _, s := range run.Steps {
		if in(s.Time) {
			b.Steps = append(b.Steps, s)
		}
	}
	for _, d := range run.Devices {
		if in(d.Time) {
			b.Devices = append(b.Devices, d)
		}
	}
	for _, o := range census.Objects {
		if in(o.Time) {
			b.Objects = append(b.Objects, o)
		}
	}
	for i := from + 1; i <= to; i++ {
		if now, used := stepTime(i)+10, gib+64*kib*int64(i); i%2 == 0 {
			s := &b.Samples
			s.Memory = append(s.Memory, model.ProcessMemory{Time: now, PID: 7, Rank: -1, RSS: used, Anon: used,
				File: mib})
			s.Hosts = append(s.Hosts, model.HostMemory{Time: now, Total: 64 * gib, Available: 60*gib - used})
			s.Cgroups = append(s.Cgroups, model.CgroupMemory{Time: now, Path: "/job", Current: used, Limit: 8 * gib},
				model.CgroupMemory{Time: now, Path: "/all", Current: used, Limit: 32 * gib})
		}
	}
	return b
}

// TestAgain: a session that is judged again and again while it grows has the verdict, with every figure, that one has
// who judges it for the first time; and what does not change is not read again.
func TestAgain(t *testing.T) {
	run, census := cudaRun(900, 64*kib, 0), holders("train.py", "lib/site-packages/big.py", 40, 30)
	late := &model.Batch{Objects: []model.ObjectGroup{{Time: stepTime(41), PID: 7, Rank: -1, Census: 2, Step: 41,
		Evidence: "container", Type: "dict", Count: 1, Length: 9, Bytes: kib, Holder: "late", Site: "late.py:3"}}}
	other := cudaRun(980, 0, 0)
	for i := range other.Steps {
		other.Steps[i].PID = 8
	}
	db, sources := stored(t), &Sources{}
	leaks := 0
	parts := []*model.Batch{cut(run, census, 0, 300), cut(run, census, 300, 301), {}, cut(run, census, 301, 700), late,
		cut(run, census, 700, 880), {Steps: other.Steps}, cut(run, census, 880, 900)}
	for i, part := range parts {
		if err := db.Append(t.Context(), part); err != nil {
			t.Fatal(err)
		}
		again, err := Load(t.Context(), db, Options{Sources: sources})
		first, ferr := Load(t.Context(), db, Options{Sources: &Sources{}})
		if err != nil || ferr != nil {
			t.Fatal(err, ferr)
		}
		if !reflect.DeepEqual(again.Host, first.Host) {
			t.Errorf("part %d: the host is %+v, not %+v", i, again.Host, first.Host)
		}
		a, b := detect.Run(again), detect.Run(first)
		if !reflect.DeepEqual(a, b) {
			t.Errorf("part %d: judged again it is\n%+v\nand at first\n%+v", i, a, b)
		}
		if a.Verdict == detect.Leak {
			leaks++
		}
		if i == 3 && sources.censuses.read != 35*30 {
			t.Errorf("%d rows of censuses were read", sources.censuses.read)
		}
	}
	for name, c := range map[string]struct{ read, rows int }{
		"steps":   {sources.steps.read, 900 + 980},
		"devices": {sources.devices.read, 2 * 900},
		"hosts":   {sources.hosts.read, 450},
		"cgroups": {sources.cgroups.read, 900},
		"samples": {sources.samples.read, 450},
	} {
		if c.read != c.rows {
			t.Errorf("%s: %d rows were read, of %d", name, c.read, c.rows)
		}
	}
	if leaks < 3 {
		t.Errorf("%d of the judgements are of a leak", leaks)
	}
}

// TestAgainWithoutRows: what retention took away is no part of the next verdict, though it was of the one before.
func TestAgainWithoutRows(t *testing.T) {
	run, census := cudaRun(900, 64*kib, 0), holders("train.py", "lib/site-packages/big.py", 9, 9)
	whole, part := stored(t, cut(run, census, 0, 900)), stored(t, cut(run, census, 300, 900))
	sources := &Sources{}
	if _, err := Load(t.Context(), whole, Options{Sources: sources}); err != nil {
		t.Fatal(err)
	}
	again, err := Load(t.Context(), part, Options{Sources: sources})
	first, ferr := Load(t.Context(), part, Options{})
	if err != nil || ferr != nil {
		t.Fatal(err, ferr)
	}
	if !reflect.DeepEqual(again.Host, first.Host) {
		t.Error("the host differs")
	}
	if a, b := detect.Run(again), detect.Run(first); !reflect.DeepEqual(a, b) {
		t.Errorf("judged again it is\n%+v\nand at first\n%+v", a, b)
	}
}
