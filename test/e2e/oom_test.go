package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/monitor/machine"
	"github.com/memgauge/memgauge/internal/judge/forecast"
	"github.com/memgauge/memgauge/test/env"
)

// memoryCgroup makes a memory cgroup (v1) with a limit for the test, in which the kernel really kills.
func memoryCgroup(t *testing.T, limit int64) string {
	t.Helper()
	dir := filepath.Join("/sys/fs/cgroup/memory", fmt.Sprintf("memgauge-test-%d-%d", os.Getpid(), rand.Uint32()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		env.Missing(t, "cgroup", "make a memory cgroup (v1): "+err.Error())
	}
	t.Cleanup(func() {
		until(t, "the cgroup to be empty", func() bool { return os.Remove(dir) == nil })
	})
	if err := os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), []byte(strconv.FormatInt(limit, 10)),
		0o644); err != nil {
		env.Missing(t, "cgroup", "limit a memory cgroup: "+err.Error())
	}
	return dir
}

// inCgroup is a command line that moves itself into the cgroup and becomes the command.
func inCgroup(dir string, args ...string) []string {
	return append([]string{"sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, dir}, args...)
}

// oomRuns is how many processes are let run into their limit; each takes some 15 seconds.
func oomRuns() int { return env.Times(2, 50) }

// deadRun is a process that the kernel killed: what was read of its cgroup, and when it died.
type deadRun struct {
	readings []forecast.Reading
	limit    float64
	died     float64 // s since the first reading
}

// growToDeath runs one process into its limit and reads its cgroup ten times a second meanwhile.
func growToDeath(t *testing.T, w *world, r *rand.Rand) deadRun {
	t.Helper()
	const mib = 1 << 20
	limit := int64(200+r.IntN(200)) * mib
	dir := memoryCgroup(t, limit)
	pause := 0.03 + 0.05*r.Float64()
	life := 10 + 10*r.Float64() // s, roughly; the kernel needs some tenths for the kill itself
	keep := float64(limit/mib-70) / life * pause
	args := inCgroup(dir, "python3", script(t, "grow.py"), fmt.Sprint(keep), fmt.Sprint(5+25*r.Float64()),
		fmt.Sprint(pause), fmt.Sprint(r.IntN(1e6)))
	p := w.start(args[0], args[1:]...)
	until(t, "the process", func() bool { return strings.Contains(p.out.String(), "begins") })
	m, err := machine.New(machine.Options{PID: p.Process.Pid})
	if err != nil {
		t.Fatal(err)
	}
	watch, err := monitor.New(t.Context(), m, monitor.Options{Devices: []string{monitor.Host}})
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for alive := true; alive; {
		if _, err := watch.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-p.done:
			alive = false
		case <-tick.C:
		}
	}
	died := time.Now()
	if code := exitCode(p.ProcessState); code != 128+int(syscall.SIGKILL) {
		t.Fatalf("exit %d, want a kill: %s", code, p.err.String())
	}
	run := deadRun{limit: float64(limit)}
	first := watch.Started
	for _, s := range watch.Devices[0].History.Samples() {
		if s.Time.Before(died) && s.Total == limit {
			run.readings = append(run.readings, forecast.Reading{Time: s.Time.Sub(first).Seconds(),
				Floor: float64(s.Low), Peak: float64(s.High)})
		}
	}
	run.died = died.Sub(first).Seconds()
	return run
}

// The kernel's own OOM kills against what was predicted of them, from half of the life on.
func TestOOMForecastAgainstKills(t *testing.T) {
	env.Long(t, "lives that end at a limit, in real time")
	w := newWorld(t)
	r := rand.New(rand.NewPCG(20260101, 1))
	var errors []float64
	covered, asked, silent := 0, 0, 0
	for i := range oomRuns() {
		run := growToDeath(t, w, r)
		for _, share := range []float64{0.5, 0.6, 0.7, 0.8, 0.9} {
			n := slices.IndexFunc(run.readings, func(r forecast.Reading) bool { return r.Time > share*run.died })
			if n < 1 {
				t.Fatalf("run %d: %d readings of a life of %.1f s", i, len(run.readings), run.died)
			}
			f := forecast.Run(run.readings[:n], run.limit)
			left := run.died - run.readings[n-1].Time
			asked++
			if !f.Predicted {
				silent++
				t.Logf("run %d at %.0f %%: silent: %s %s", i, 100*share, f.Shape, f.Reason)
				continue
			}
			errors = append(errors, math.Abs(f.Seconds-left)/left)
			if f.SecondsLow <= left && left <= f.SecondsHigh {
				covered++
			}
			t.Logf("run %d at %2.0f %%: %.2f s left, predicted %.2f (%.2f to %.2f)", i, 100*share, left, f.Seconds,
				f.SecondsLow, f.SecondsHigh)
		}
	}
	slices.Sort(errors)
	if len(errors) == 0 {
		t.Fatal("nothing was predicted")
	}
	median, coverage := errors[len(errors)/2], float64(covered)/float64(len(errors))
	t.Logf("%d kills: median error %.1f %%, the 90 %% interval covered %.2f of %d predictions, %d times silent",
		oomRuns(), 100*median, coverage, len(errors), silent)
	if oomRuns() < 20 { // too few for figures: they must only make sense
		if median > 0.5 || silent > asked/2 { // on a machine under load the process itself changes its pace
			t.Errorf("median error %.1f %%, %d of %d times silent", 100*median, silent, asked)
		}
		return
	}
	if median > 0.10 || coverage < 0.8 || silent > asked/10 {
		t.Errorf("want a median error of at most 10 %%, a coverage of at least 0.8, an answer in 9 of 10")
	}
}

// The command line on a live session in a cgroup: it warns in time, in the documented form, and exits with 3.
func TestOOMWarnsBeforeTheKill(t *testing.T) {
	w := newWorld(t)
	dir := memoryCgroup(t, 300<<20)
	s := filepath.Join(w.home, "s")
	args := inCgroup(dir, "python3", script(t, "grow.py"), "1.2", "15", "0.06", "3")
	run := w.start("memgauge", append([]string{"run", "--session", s, "--"}, args...)...)
	until(t, "the process", func() bool { return strings.Contains(run.out.String(), "begins") })
	usual := w.start("memgauge", "oom", "--session", s, "--monitor") // every 2 s, as nobody has asked for more
	oom := w.do("memgauge", "oom", "--session", s, "--monitor", "--interval", "0.1", "--window", "3", "--output",
		"oom.json", "--plot", "oom.png")
	<-run.done
	if oom.code != 3 || !strings.Contains(oom.stdout, "[WARNING] OOM warning: host\n   risk level: ") ||
		!strings.Contains(oom.stdout, "predicted OOM: in ") {
		t.Errorf("exit %d\n%s%s", oom.code, oom.stdout, oom.stderr)
	}
	if code := usual.wait(t); code != 3 || !strings.Contains(usual.out.String(),
		"[WARNING] OOM warning: host\n   risk level: ") {
		t.Errorf("without flags: exit %d\n%s%s", code, usual.out, usual.err)
	}
	b, err := os.ReadFile(filepath.Join(w.home, "oom.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(b) {
		t.Error("the report is no JSON")
	}
	if !strings.Contains(string(b), `"limit_kind": "cgroup"`) ||
		!strings.Contains(string(b), `"worst_risk_level": "critical"`) {
		t.Errorf("the report: %s", b)
	}
	if st, err := os.Stat(filepath.Join(w.home, "oom.png")); err != nil || st.Size() < 5000 {
		t.Errorf("the picture: %v", err)
	}
	w.tellsTheKill(s)
	if r := w.do("memgauge", "oom", "--session", s); r.code != 3 || !strings.Contains(r.stdout, "AT RISK") ||
		!strings.Contains(r.stdout, "the session has ended: OOM kill") ||
		strings.Contains(r.stdout, "[WARNING]") || strings.Contains(r.stdout, "expected in") {
		t.Errorf("afterwards: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if keep := os.Getenv("MEMGAUGE_LOOK"); keep != "" {
		picture, _ := os.ReadFile(filepath.Join(w.home, "oom.png"))
		_ = os.WriteFile(keep, picture, 0o644)
	}
}

// --monitor goes on until Ctrl-C, unless --duration says how long.
func TestOOMMonitorKeepsToItsDuration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, args := range [][]string{{"--monitor", "--duration", "0.5"}, {"--duration", "0.5", "--monitor"}} {
		r := w.do("memgauge", append([]string{"oom", "--interval", "0.1"}, args...)...)
		if r.code != 0 && r.code != 3 || !strings.Contains(r.stdout, " readings over 0.") {
			t.Errorf("%v: exit %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
}

// tellsTheKill looks at the page about a session that the kernel ended.
func (w *world) tellsTheKill(session string) {
	w.t.Helper()
	url := w.report(session, "killed.html")
	b := w.browse(url, "en-US")
	b.shows(".sentence", "memory ran out")
	b.shows("#ran", "How memory ran out")
	b.shows(".facts dd", "300 MiB")
	b.shows(".scroll th", "who held most")
	b.until("the minute", "!!document.querySelector('[aria-label=\"The minute around it\"] canvas')")
	b.whole(url)
	p := w.postMortem(session)
	if p.Event != "oom_kill" || p.Limit != 300<<20 || len(p.Grew) == 0 || p.Grew[0].Bytes < 200<<20 ||
		p.Grew[0].Grown < 100<<20 {
		w.t.Errorf("%+v", p)
	}
	if list := w.mg("list", "-a"); !strings.Contains(list, "OOM kill") {
		w.t.Errorf("the list: %s", list)
	}
	frame := w.mg("top", "--session", session, "--once", "--width", "100", "--height", "30")
	if !strings.Contains(frame, "OOM kill") || !strings.Contains(frame, "memory of the job") ||
		!strings.Contains(frame, "of 300 MiB") {
		w.t.Errorf("top of a killed job:\n%s", frame)
	}
}

// told is what the report says of how memory ran out.
type told struct {
	Event     string
	Summary   string
	Device    string
	Limit     int64 `json:"limit_bytes"`
	Requested int64 `json:"requested_bytes"`
	Hole      int64 `json:"largest_hole_bytes"`
	Grew      []struct {
		PID   int
		Bytes int64
		Grown int64 `json:"grown_bytes"`
	}
}

func (w *world) postMortem(session string) told {
	w.t.Helper()
	var d struct {
		PostMortem *told `json:"post_mortem"`
	}
	if err := json.Unmarshal([]byte(w.mg("report", "--session", session, "--json")), &d); err != nil {
		w.t.Fatal(err)
	}
	if d.PostMortem == nil {
		w.t.Fatal("the report has no post-mortem")
	}
	return *d.PostMortem
}

// An allocation of PyTorch's that the host refuses, after a leak: the page draws the leak with its line, says what was
// asked for, and what hole there was for it.
func TestReportOfAFailedAllocation(t *testing.T) {
	env.Long(t, "a training to its end in a cgroup, and a browser")
	t.Parallel()
	w := newWorld(t)
	s := filepath.Join(w.home, "s")
	r := w.do("memgauge", "run", "--quiet", "--session", s, "--", env.Torch(t).Path, script(t, "train.py"), "400", "1",
		"0.02", "refused")
	if r.code != 1 || !strings.Contains(r.stderr, "DefaultCPUAllocator") {
		t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	p := w.postMortem(s)
	if p.Event != "oom" || p.Requested != 1<<44 || p.Hole <= 0 || p.Limit <= 0 || p.Device != "host" ||
		len(p.Grew) == 0 || p.Grew[0].Grown < 50<<20 {
		t.Errorf("%+v", p)
	}
	if list := w.mg("list", "-a"); !strings.Contains(list, "after an out-of-memory error") {
		t.Errorf("the list: %s", list)
	}
	url := w.report(s, "page.html")
	b := w.browse(url, "en-US")
	b.shows("section", "asked for")
	b.shows("section dd", "16.0 TiB")
	b.shows(".card.leak", "host heap")
	b.whole(url)
}
