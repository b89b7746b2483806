package attach

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

// target is a Python process that a test has started.
type target struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// start runs a program of testdata and waits for its first line, "ready".
func start(t testing.TB, py env.Python, args ...string) *target {
	t.Helper()
	cmd := py.Command(t, args...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=ignore")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &target{cmd, in, bufio.NewScanner(out)}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	if got := p.line(t); got != "ready" {
		t.Fatalf("%s says %q", py.Path, got)
	}
	return p
}

// line is the next line that the target prints.
func (p *target) line(t testing.TB) string {
	t.Helper()
	if !p.out.Scan() {
		t.Fatalf("the target has ended: %v", p.out.Err())
	}
	return p.out.Text()
}

func inject(t testing.TB, p *target, source string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := Inject(ctx, p.Process.Pid, source, Options{Timeout: time.Minute})
	if err != nil {
		t.Fatalf("inject: %v (%+v)", err, r)
	}
	return r
}

// TestInject attaches to every Python while its main thread does different things.
func TestInject(t *testing.T) {
	for _, py := range append(env.CPythons(t), env.ChrootCPythons(t)...) {
		t.Run(py.Name(), func(t *testing.T) {
			for _, doing := range []string{"compute", "sleep", "join", "event", "queue", "read", "extension",
				"threads"} {
				t.Run(doing, func(t *testing.T) {
					p := start(t, py, "testdata/doing.py", doing)
					r := inject(t, p, "import sys\nresult = 'version %d.%d' % sys.version_info[:2]")
					if want := "version " + strings.Join(strings.SplitN(r.Python, ".", 3)[:2], "."); r.Value != want {
						t.Errorf("%+v, want the value %q", r, want)
					}
					t.Logf("%+v", r)
				})
			}
		})
	}
}
