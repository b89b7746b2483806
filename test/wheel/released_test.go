package wheel

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// trainer takes steps until it is told that it is done, or for a minute.
const trainer = `
import time, memgauge
done, kept = False, []
for step in range(6000):
    if step < 100:
        kept.append(bytearray(1 << 16))
    memgauge.step()
    if step == 100:
        print("ready", flush=True)
    if done:
        break
    time.sleep(0.01)
`

// TestReleased runs the program as it is released: with the oldest C library and its C++ runtime, without what nothing
// refers to, and with packed sources. What it says is held by the tests of the program that make build makes; that a
// question reaches its end, and no function is missing that only some of them call, is held here.
func TestReleased(t *testing.T) {
	env.Sysroot(t)
	python, dir := env.CPythons(t)[0], t.TempDir()
	cmd := exec.CommandContext(t.Context(), filepath.Join(env.Checkout(), "scripts", "release"),
		"--out", filepath.Join(dir, "dist"), "--binaries", "x86_64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := filepath.Join(env.Checkout(), "bin", "x86_64", "memgauge")
	if info, err := os.Stat(program); err != nil || info.Size() > mostBinary {
		t.Errorf("%v, %v: more than %d bytes", info.Size(), err, mostBinary)
	}
	at := &place{python: python, dir: dir, env: append(os.Environ(), "MEMGAUGE_HOME="+dir+"/home", "HOME="+dir,
		"PATH="+filepath.Dir(program)+":/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONDONTWRITEBYTECODE=1")}
	at.record(t)
	at.asked(t)
}

// record makes a session, first, and asks it while it is live.
func (p *place) record(t *testing.T) {
	t.Helper()
	run := p.command(t, "memgauge", "run", "--quiet", "--native", "--name", "first", "--",
		p.python.Path, "-c", trainer)
	var stderr bytes.Buffer
	run.Stderr = &stderr
	out, err := run.StdoutPipe()
	if err == nil {
		err = run.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		_ = run.Wait()
		t.Fatalf("the trainer printed %q, %v\n%s", line, err, &stderr)
	}
	for _, c := range [][2]string{
		{"memgauge first query -f csv 'SELECT count(*) > 0 AS seen FROM python.steps'", "seen\ntrue\n"},
		{"memgauge first eval 'len(kept)' 2>/dev/null", "100\n"},
		{"memgauge first eval 'done = True' 2>/dev/null", ""},
	} {
		if got := p.must(t, "sh", "-c", c[0]); got != c[1] {
			t.Errorf("$ %s\n%swant\n%s", c[0], got, c[1])
		}
	}
	if err := run.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
}

// asked asks the recorded session what calls regular expressions, time zones, aggregates and the Parquet writer of
// DuckDB; and check, which has a parser in C.
func (p *place) asked(t *testing.T) {
	t.Helper()
	const keeps = `import torch
losses = []
for x in data:
    loss = model(x).sum()
    loss.backward()
    losses.append(loss)
`
	if err := os.WriteFile(filepath.Join(p.dir, "keeps.py"), []byte(keeps), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ line, part string }{
		{`memgauge first query -f csv "SELECT regexp_extract(name, 'en[c-e]') AS name FROM memgauge.events
			WHERE regexp_matches(name, 'en[c-e]') AND ts::TIMESTAMPTZ < now()"`, "name\nend\n"},
		{`memgauge first query -f csv "SELECT mode(kind) AS kind, quantile_cont(rss, 0.5) > 0 AS used FROM python.steps
			WHERE kind ILIKE 'T%'"`, "kind,used\ntrain,true\n"},
		{"memgauge first leak --json", `"verdict": "`},
		{"memgauge first export --parquet tables --perfetto run.json.gz --pprof holders.pb.gz 2>&1", "wrote tables\n"},
		{"ls tables", "python.steps.parquet\n"},
		{"memgauge check keeps.py || test $? = 3", "MG103"},
		{"memgauge first native", "called"},
	} {
		if got := p.must(t, "sh", "-c", c.line); !strings.Contains(got, c.part) {
			t.Errorf("$ %s\n%shas no\n%s", c.line, got, c.part)
		}
	}
}
