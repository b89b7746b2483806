package observe

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
)

// options are those of a run that nothing is wrong with.
func options(t *testing.T, command ...string) RunOptions {
	t.Helper()
	return RunOptions{Command: command, Interval: time.Second, Settings: Settings{Budget: "1%", Trace: "auto",
		MaxDisk: "2GiB", Version: "test", Note: func(note string) { t.Errorf("note: %s", note) }}}
}

// TestWrongOptions: each is told by its flag, in the command's name.
func TestWrongOptions(t *testing.T) {
	for _, c := range []struct {
		spoil func(*RunOptions)
		want  string
	}{
		{func(o *RunOptions) { o.Budget = "much" }, `run: --budget "much": not a share between 0 and 100%`},
		{func(o *RunOptions) { o.Budget = "0" }, `run: --budget "0": not a share between 0 and 100%`},
		{func(o *RunOptions) { o.Budget = "101%" }, `run: --budget "101%": not a share between 0 and 100%`},
		{func(o *RunOptions) { o.Trace = "some" }, `run: --trace "some": not auto, all or off`},
		{func(o *RunOptions) { o.MaxDisk = "63MiB" }, `run: --max-disk "63MiB": not a size of at least 64 MiB`},
		{func(o *RunOptions) { o.MaxDisk = "64MiB"; o.RecordMemory = true },
			"run: --record-memory takes a quarter of --max-disk: it must be 86.3 MiB or more"},
		{func(o *RunOptions) { o.Interval = 99 * time.Millisecond }, "run: --interval 99ms: not between 100ms and 1m"},
		{func(o *RunOptions) { o.Interval = 61 * time.Second }, "run: --interval 1m1s: not between 100ms and 1m"},
	} {
		o := options(t, "true")
		c.spoil(&o)
		_, err := o.check()
		var wrong *OptionError
		if !errors.As(err, &wrong) || err.Error() != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}

// TestPlan: the bounds themselves are allowed, and a recording has its share of the disk.
func TestPlan(t *testing.T) {
	o := options(t, "true")
	o.Budget, o.Trace, o.MaxDisk, o.Interval = "100%", "all", "64MiB", minInterval
	p, err := o.check()
	if err != nil || p.agent.Budget != 1 || p.agent.Trace != "all" || p.maxDisk != minDisk || p.agent.Record != "" {
		t.Errorf("%+v, %v", p, err)
	}
	o.MaxDisk, o.Interval, o.RecordMemory = "800MiB", maxInterval, true
	p, err = o.check()
	if err != nil || p.maxDisk != 600*units.MiB || p.agent.Record != "100000 python 104857600" {
		t.Errorf("%+v, %v", p, err)
	}
	if p.agent.Binary == "" || !filepath.IsAbs(p.path) {
		t.Errorf("this program %q, the command's %q", p.agent.Binary, p.path)
	}
}

// TestNotStarted: what is missing is told from what may not be run; a script is named with what runs it.
func TestNotStarted(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "train.py")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		program string
		missing bool
		hint    string
	}{
		{"no-such-program-anywhere", true, ""},
		{filepath.Join(dir, "gone"), true, ""},
		{plain, false, "memgauge run -- python " + plain},
		{dir, false, ""},
	} {
		_, err := Start(options(t, c.program))
		var failed *StartError
		if !errors.As(err, &failed) || failed.Missing != c.missing ||
			!strings.HasPrefix(err.Error(), "run "+c.program+": ") || !strings.HasSuffix(remedy.Of(err), c.hint) {
			t.Errorf("%s: %v; hint %q", c.program, err, remedy.Of(err))
		}
	}
}

func TestTimeout(t *testing.T) {
	if d, err := checkTimeout("attach", "1m30s"); err != nil || d != 90*time.Second {
		t.Errorf("%v, %v", d, err)
	}
	for _, text := range []string{"", "soon", "0s", "-1s"} {
		_, err := checkTimeout("detach", text)
		var wrong *OptionError
		if !errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), "detach: --timeout ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
