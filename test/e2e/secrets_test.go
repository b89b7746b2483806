package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a job is told in confidence: on its command line, in its environment, by an eval, by a query. None may reach a
// disk.
var confidences = map[string]string{
	"a flag":           "hunter2-of-a-flag",
	"a flag's value":   "Q7f3kQ9vLmZ2xN8p",
	"a URL":            "tr4in3r-of-a-url",
	"a user":           "s3same-of-a-user",
	"a child":          "l3tmein-of-a-child",
	"a variable":       "wJalrXUtnFEMI-of-a-variable",
	"a header":         "q8w7e6r5t4y3-of-a-header",
	"JSON":             "m0ngo-of-json",
	"an eval":          "sw0rdfish-of-an-eval",
	"an error":         "d0ckerpw-of-an-error",
	"a query":          "ld4ppw-of-a-query",
	"a failed query":   "ch4rtpw-of-a-query",
	"what ran dry":     "kub3pw-of-an-oom",
	"the last seconds": "gu3st-of-the-end",
}

const confidential = `
import os, subprocess, sys, time
child = subprocess.Popen(["sh", "-c", "read x; exit 0", "--password", %q], stdin=subprocess.PIPE)
print("pid", os.getpid(), flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
child.kill()
`

func TestNoSecretReachesTheDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, stop := filepath.Join(w.home, "state", "s"), filepath.Join(w.home, "stop")
	job := filepath.Join(w.home, "job.py")
	source := strings.ReplaceAll(confidential, "%q", `"`+confidences["a child"]+`"`)
	if err := os.WriteFile(job, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	w.env = append(w.env, "AWS_SECRET_ACCESS_KEY="+confidences["a variable"],
		"AUTHORIZATION=Bearer "+confidences["a header"],
		`JOB_CONFIG={"db": {"password": "`+confidences["JSON"]+`"}}`)
	run := w.start("memgauge", "run", "--session", s, "--", "python3", job, stop, "--password", confidences["a flag"],
		"--api-key="+confidences["a flag's value"], "--db", "postgres://joe:"+confidences["a URL"]+"@db/runs", "-u",
		"joe:"+confidences["a user"])
	until(t, "its ring", func() bool { return w.do("memgauge", "--session", s, "eval", "1").code == 0 })
	ask := func(args ...string) {
		w.do("memgauge", append(args[:1:1], append([]string{"--session", s}, args[1:]...)...)...)
	}
	ask("eval", "password = '"+confidences["an eval"]+"'")
	ask("eval", "raise ValueError('refused: token="+confidences["an error"]+"')")
	ask("eval", "raise MemoryError('while reading postgres://joe:"+confidences["what ran dry"]+"@db/runs')")
	ask("query", "SELECT * FROM python.steps WHERE 'password = ''"+confidences["a query"]+"''' = 'x'")
	ask("query", "SELECT nothing FROM nowhere WHERE password = '"+confidences["a failed query"]+"'")
	until(t, "the job's rows", func() bool {
		return w.number(s, "SELECT count(*) FROM process.tree") >= 2 &&
			w.number(s, "SELECT count(*) FROM process.envs") > 0
	})
	noSecrets(t, filepath.Join(w.home, "state"), "of a live session")
	ask("eval", "secret = '"+confidences["the last seconds"]+"'")
	if err := os.WriteFile(stop, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := run.wait(t); code != 0 {
		t.Fatalf("exit %d\n%s", code, run.err)
	}
	until(t, "the end", func() bool { return len(collectors(s)) == 0 })
	noSecretRows(t, w, s)
	noSecrets(t, filepath.Join(w.home, "state"), "of a finished session")
	page := filepath.Join(w.home, "page.html")
	w.mg("report", "--session", s, "-o", page)
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	said := string(html) + carried(t, html)
	said += w.mg("list", "-a") + w.mg("list", "-a", "--json") + w.mg("report", "--session", s, "--json")
	for where, secret := range confidences {
		if strings.Contains(said, secret) {
			t.Errorf("reports show the secret of %s", where)
		}
	}
	if !strings.Contains(said, "--password &lt;redacted&gt;") &&
		!strings.Contains(said, "--password \\u003credacted\\u003e") &&
		!strings.Contains(said, "--password <redacted>") {
		t.Error("reports don't show that something is hidden")
	}
}

// carried is the data that a report has inside.
func carried(t *testing.T, html []byte) string {
	t.Helper()
	_, rest, _ := bytes.Cut(html, []byte(`id="data">`))
	packed, _, found := bytes.Cut(rest, []byte("</script>"))
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(packed)))
	if !found || err != nil {
		t.Fatalf("the page carries no data: %v", err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// noSecrets looks into every file: rings, database and its log, session.json, collector.log, temporary ones.
func noSecrets(t *testing.T, dir, when string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // removed meanwhile, or a socket
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		files++
		for where, secret := range confidences {
			if strings.Contains(string(b), secret) {
				t.Errorf("%s %s has the secret of %s", path, when, where)
			}
		}
		return nil
	})
	if err != nil || files < 4 {
		t.Errorf("%d files looked at: %v", files, err)
	}
}

// noSecretRows reads every table: in the file DuckDB may have compressed its texts.
func noSecretRows(t *testing.T, w *world, s string) {
	t.Helper()
	tables := w.rows(s,
		"SELECT table_schema AS s, table_name AS n FROM information_schema.tables WHERE table_schema NOT IN ('main', 'information_schema')")
	if len(tables) < 10 {
		t.Fatalf("%d tables", len(tables))
	}
	for _, r := range tables {
		name := `"` + r["s"].(string) + `"."` + r["n"].(string) + `"`
		text := w.mg("query", "--session", s, "-f", "csv", "SELECT * FROM "+name)
		for where, secret := range confidences {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows the secret of %s", name, where)
			}
		}
	}
}
