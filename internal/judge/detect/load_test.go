package detect

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// server is a process that answers requests, as its agent and censuses tell of it: a made one, second by second.
type server struct {
	pace   func(s float64) float64 // requests/s at a second
	size   func(s float64) float64 // tokens a request
	held   float64                 // bytes by a request that is being worked on, for each token
	kept   func(requests, s float64) float64
	holder string // what kept is in, if anything that a census sees
	bound  string // how a census tells of its bound
}

const flight = 2 // seconds that a request is worked on

// run is the server's process as of a second, read four times a second.
func (v server) run(seconds int) Process {
	r := rand.New(rand.NewPCG(7, 3))
	p := Process{PID: 7, Rank: -1, Work: "request"}
	requests, tokens, census := 0.0, 0.0, int64(0)
	for i := range 4 * seconds {
		s := float64(i) / 4
		pace := v.pace(s) * (1 + 0.05*r.NormFloat64())
		requests, tokens = requests+pace/4, tokens+v.size(s)*pace/4
		step := math.Floor(requests)
		if n := len(p.Heap.Steps); step == 0 || n > 0 && p.Heap.Steps[n-1] == step {
			continue
		}
		heap := 8e8 + v.held*v.size(s)*pace*flight + v.kept(requests, s) + 2e5*r.NormFloat64()
		add := func(to *Series, y float64) { to.Steps, to.Bytes = append(to.Steps, step), append(to.Bytes, y) }
		add(&p.Heap, heap)
		add(&p.Anon, heap+2e8)
		add(&p.Clock, s)
		add(&p.Tokens, tokens)
		if i%40 == 20 && v.holder != "" {
			census++
			p.Objects = append(p.Objects, model.ObjectGroup{Census: census, Step: int64(step), Evidence: "container",
				Type: "list", Count: 1, Length: int64(v.kept(requests, s) / 2048), Bytes: int64(v.kept(requests, s)),
				Holder: v.holder, Site: "/srv/app.py:31", Detail: "of builtins.bytes" + v.bound})
		}
	}
	n := len(p.Clock.Steps)
	p.Last = p.Clock.Steps[n-1]
	p.Pace = (p.Clock.Bytes[n-1] - p.Clock.Bytes[n*3/4]) / (p.Last - p.Clock.Steps[n*3/4])
	p.Fastest, p.Slowest = p.Pace, p.Pace
	return p
}

func judgeServer(p Process) Report {
	return Run(Input{Steps: p.Last, Work: p.Work, Processes: []Process{p},
		Host: Limit{Name: "cgroup 16 GiB", Bytes: 16 << 30, Used: 1 << 30}})
}

func steady(y float64) func(float64) float64 { return func(float64) float64 { return y } }

// TestServerLeaks: 2 KB a request are found by night and by day, within three minutes, under whatever load.
func TestServerLeaks(t *testing.T) {
	keeps := func(requests, _ float64) float64 { return 2048 * requests }
	day := func(s float64) float64 { return 40 - 30*math.Cos(2*math.Pi*s/240) }
	for name, c := range map[string]struct {
		server  server
		seconds int
	}{
		"by day":            {server{pace: steady(200), size: steady(1), held: 1e5}, 180},
		"by night":          {server{pace: steady(4), size: steady(1), held: 1e5}, 600},
		"a named holder":    {server{pace: steady(200), size: steady(1), held: 1e5, holder: "app.answers"}, 60},
		"night and day":     {server{pace: day, size: steady(300), held: 1e3}, 1200},
		"traffic doubles":   {server{pace: doubling, size: steady(1), held: 1e5}, 1200},
		"very fast":         {server{pace: steady(5000), size: steady(1), held: 1e3}, 180},
		"prompts get short": {server{pace: steady(200), size: shorter, held: 10}, 400},
	} {
		c.server.kept = keeps
		r := judgeServer(c.server.run(c.seconds))
		if r.Verdict != Leak {
			t.Errorf("%s: %s: %+v", name, r.Line(), r.Findings[0].Growth)
			continue
		}
		f := r.Findings[0]
		if f.Rate < 1700 || f.Rate > 2500 {
			t.Errorf("%s: %s, not 2 KiB a request", name, f.PerStep())
		}
		if c.server.holder != f.Holder || !strings.Contains(f.PerStep(), "/request") || f.Load == "" ||
			!strings.Contains(r.Line(), "since request") || !strings.Contains(f.Evidence[0], "requests/s of ") {
			t.Errorf("%s: %s; %q", name, r.Line(), f.Evidence)
		}
		if f.Holder != "" && strings.Contains(strings.Join(f.Advice, " "), "epoch") {
			t.Errorf("%s: a server is advised %q", name, f.Advice)
		}
		if d := f.Document(); d.Unit != "request" || d.Load == "" || Pace(Read(d)) != f.PerStep() {
			t.Errorf("%s: the document is by %q at %q: %s", name, d.Unit, d.Load, Pace(Read(d)))
		}
	}
}

func doubling(s float64) float64 {
	if s > 300 {
		return 40
	}
	return 20
}

func shorter(s float64) float64 { return 300 - s/4 }

func longer(s float64) float64 { return 100 + 300*min(1, max(0, s-120)) }

// TestHealthyServers: what fills to a bound, and what follows the load, is no leak at any minute of ten, nor in the
// first seconds of a fast one.
func TestHealthyServers(t *testing.T) {
	nothing := func(float64, float64) float64 { return 0 }
	ramp := func(from, to float64) func(float64) float64 {
		return func(s float64) float64 { return from + (to-from)*s/600 }
	}
	fills := func(rate, most float64) func(float64, float64) float64 {
		return func(requests, _ float64) float64 { return min(rate*requests, most) }
	}
	for name, v := range map[string]server{
		"a cache that fills": {pace: steady(200), size: steady(1), held: 1e5, kept: fills(2048, 5e6)},
		"a large one, with a bound": {pace: steady(20), size: steady(1), held: 1e5, kept: fills(2048, 1e7),
			holder: "app.cache", bound: "; 8192 at most"},
		"bounded labels": {pace: steady(1000), size: steady(1), held: 1e4, kept: fills(4096, 3e6),
			holder: "metrics.labels"},
		"traffic doubles":            {pace: doubling, size: steady(1), held: 1e6, kept: nothing},
		"traffic doubles, at length": {pace: ramp(20, 40), size: steady(1), held: 1e6, kept: nothing},
		"traffic grows by a half":    {pace: ramp(20, 30), size: steady(1), held: 1e6, kept: nothing},
		"longer prompts":             {pace: steady(20), size: longer, held: 1e4, kept: nothing},
		"ever longer prompts":        {pace: steady(20), size: ramp(100, 400), held: 1e4, kept: nothing},
		"a burst at the start":       {pace: steady(3000), size: steady(1), held: 1e3, kept: fills(1024, 4e7)},
	} {
		for _, seconds := range []int{1, 2, 5, 10, 20, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600} {
			if r := judgeServer(v.run(seconds)); r.Verdict == Leak {
				t.Errorf("%s: after %d s %s: %+v", name, seconds, r.Line(), r.Findings[0].Growth)
			}
		}
	}
}

// TestNamesTheLoad: where no two moments are of equal load, the verdict names both, and what is missing.
func TestNamesTheLoad(t *testing.T) {
	v := server{pace: func(s float64) float64 { return 20 + s/30 }, size: steady(310), held: 3e4,
		kept: func(requests, _ float64) float64 { return 2048 * requests }}
	r := judgeServer(v.run(600))
	if f := r.Findings[0]; r.Verdict != Undecided || f.Why != OtherLoad ||
		!strings.Contains(r.Line(), "from 23 requests/s of 310 tokens to 38 requests/s of 310 tokens") ||
		!strings.Contains(r.Line(), "more requests") {
		t.Errorf("%s: %+v", r.Line(), f.Growth)
	}
}

// TestTrainingsCountSteps: what a step is changes nothing for a training, however fast it is.
func TestTrainingsCountSteps(t *testing.T) {
	p := Process{PID: 7, Rank: -1, Pace: 1e-3, Last: 1200, Heap: growing(1200, 1e5), Anon: growing(1200, 0)}
	want := judgeServer(p)
	p.Work = "train"
	got := judgeServer(p)
	if f := got.Findings[0]; got.Line() != want.Line() || !strings.HasSuffix(f.PerStep(), "/step") || f.Load != "" {
		t.Errorf("%q, not %q", got.Line(), want.Line())
	}
}
