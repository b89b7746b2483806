package observe

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/record/session"
)

// What the test leaks: enough to be told from noise at once, and little enough for any machine.
const (
	testEach  = 256 << 10 // bytes a step
	testSteps = 500       // 125 MiB, in some 5 s
)

//go:embed selftest.py
var leakingScript []byte

// testPolicy clears what the script keeps; that a list which is filled at every step is left alone is what keeps
// healthy trainings safe, so this one caps it.
const testPolicy = `floor: 0
rules:
  - {name: growth, when: {memory: process, grown: 32MiB}, do: [warn, {cap: {list: __main__.kept, length: 10}}, trim]}
`

// Tested is one thing that the test has shown, or has not.
type Tested struct {
	Name  string
	OK    bool
	Found string
}

// Test leaks on purpose, twice, with sessions of its own that it removes: whether the leak is seen and by which list it
// is held, and whether a guard that is told to bound the list keeps memory low. python is an interpreter, with or
// without torch.
func Test(ctx context.Context, python, version string) (all []Tested, err error) {
	temp, err := rootdir.Temp("", "memgauge-test-")
	if err != nil {
		return nil, fmt.Errorf("guard test: %w", err)
	}
	defer func() { _ = temp.Discard() }()
	dir := temp.Path()
	script, policy := filepath.Join(dir, "leaks.py"), filepath.Join(dir, "policy.yaml")
	err = errors.Join(temp.MakeText("leaks.py", leakingScript), temp.MakeText("policy.yaml", []byte(testPolicy)))
	if err != nil {
		return nil, fmt.Errorf("guard test: %w", err)
	}
	o := RunOptions{Settings: Settings{Budget: "1%", Trace: "auto", MaxDisk: "256MiB", Version: version,
		Note: func(string) {}}, Interval: time.Second,
		Command: []string{python, script, strconv.Itoa(testEach), strconv.Itoa(testSteps)}}
	o.Dir = filepath.Join(dir, "leaking")
	leaking, end, err := testRun(ctx, o)
	if err != nil {
		return nil, err
	}
	seen, err := leakSeen(ctx, leaking)
	if err != nil {
		return nil, err
	}
	all = append(all, Tested{"steps are counted", end.Summary.Steps == testSteps,
		fmt.Sprintf("%s of %d", units.Count(end.Summary.Steps), testSteps)}, seen)
	o.Dir, o.Guard.Policy = filepath.Join(dir, "guarded"), policy
	_, guarded, err := testRun(ctx, o)
	if err != nil {
		return nil, err
	}
	return append(all, Tested{"the guard acts", guarded.Guard.Helped > 0,
		fmt.Sprintf("%d of %d actions helped", guarded.Guard.Helped, guarded.Guard.Actions)},
		Tested{"and memory stays low", guarded.Peak < end.Peak-testEach*testSteps/4,
			fmt.Sprintf("peak %s instead of %s", guarded.Peak, end.Peak)}), nil
}

func testRun(ctx context.Context, o RunOptions) (*session.Session, Ended, error) {
	r, err := Start(o)
	if err != nil {
		return nil, Ended{}, fmt.Errorf("guard test: %w", err)
	}
	defer r.Close()
	end := r.Wait(ctx)
	if end.Code != 0 {
		return nil, end, fmt.Errorf("guard test: the leaking script ended with %s", end.How)
	}
	return r.session, end, nil
}

func leakSeen(ctx context.Context, s *session.Session) (Tested, error) {
	door := ask.Open(s)
	defer door.Close()
	report, err := door.Leak(ctx, api.LeakRequest{})
	if err != nil {
		return Tested{}, fmt.Errorf("guard test: %w", err)
	}
	t := Tested{Name: "the leak is seen", Found: "verdict: " + string(report.Verdict)}
	for _, f := range report.Findings {
		if f.Verdict == detect.Leak && strings.Contains(f.Holder, "kept") {
			t.OK, t.Found = true, fmt.Sprintf("%+.2f MiB a step, held by %s", f.Rate/float64(units.MiB), f.Holder)
		}
	}
	return t, nil
}
