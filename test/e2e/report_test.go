package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// outside finds what a page would load from elsewhere. Names of XML's own, such as SVG's, are not loaded.
var outside = regexp.MustCompile(`(?i)<(script|link|img|iframe)\b|@import|\b(src|href)\s*=\s*["']?(https?:)?//|url\(`)

// The page about a real training, live and finished: complete, self-contained, and read by a real browser.
func TestReportPage(t *testing.T) {
	w := newWorld(t)
	s := filepath.Join(w.home, "s")
	run := w.start("memgauge", "run", "--session", s, "--name", "a<b>&c", "--", env.Torch(t).Path,
		script(t, "train.py"), "120", "2", "0.03")
	until(t, "the training", func() bool { return strings.Contains(run.out.String(), "warm") })
	if live := w.do("memgauge", "report", "--session", s, "--json"); live.code != 0 ||
		!strings.Contains(live.stdout, `"state": "running"`) {
		t.Errorf("live: exit %d\n%.500s%s", live.code, live.stdout, live.stderr)
	}
	until(t, "the end", func() bool { return ended(run) })
	w.mg("report", "--session", s, "-o", "page.html")
	page, err := os.ReadFile(filepath.Join(w.home, "page.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"exit 0", "train.py 120 2 0.03", "Where the bytes are", "Over time",
		"held at the end of each step", "Processes", "What observing cost", "No record was lost", "<svg"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if found := outside.FindString(string(page)); found != "" {
		t.Errorf("the page is not self-contained: %q", found)
	}
	var d struct {
		SchemaVersion int `json:"schema_version"`
		Session       struct {
			State string
			Steps int
		}
		Where     map[string]any
		Processes []any
		Overhead  []any
	}
	if err := json.Unmarshal([]byte(w.mg("report", "--session", s, "--json")), &d); err != nil {
		t.Fatal(err)
	}
	if d.SchemaVersion != 1 || d.Session.State != "exit 0" || d.Session.Steps != 120 || len(d.Where) == 0 ||
		len(d.Processes) == 0 || len(d.Overhead) == 0 {
		t.Errorf("%+v", d)
	}
	opens(t, w, "page.html")
}

// A page is about one session, found once: a second look could find another one by then. What a census cost is no share
// of the moment that it took.
func TestReportFindsItsSessionOnce(t *testing.T) {
	w := newWorld(t)
	run := w.start("memgauge", "run", "--quiet", "--name", "one", "--", "python3", "-c", `
import os, time
kept = [[i] for i in range(400000)]
print("begins", flush=True)
while not os.path.exists("stop"):
    time.sleep(0.01)
`)
	until(t, "the program", func() bool { return strings.Contains(run.out.String(), "begins") })
	until(t, "a census", func() bool { return w.do("memgauge", "one", "tensors").code == 0 })
	w.mg("one", "tensors")
	w.file("stop", "")
	if code := run.wait(t); code != 0 {
		t.Fatalf("exit %d\n%s", code, run.err)
	}
	r := w.do("memgauge", "report", "--json")
	if n := strings.Count(r.stderr, "the newest finished one is one"); r.code != 0 || n != 1 {
		t.Errorf("exit %d, the session was found %d times\n%s", r.code, n, r.stderr)
	}
	var d struct {
		Overhead []struct {
			Part  string
			Share *float64
		}
	}
	if err := json.Unmarshal([]byte(r.stdout), &d); err != nil {
		t.Fatal(err)
	}
	counted := false
	for _, x := range d.Overhead {
		counted = counted || x.Part == "census"
		if x.Part == "census" && x.Share != nil {
			t.Errorf("censuses took %.1f %% of a run that is too short for a share", 100**x.Share)
		}
	}
	if !counted {
		t.Errorf("no census in %+v", d.Overhead)
	}
}

// opens lets Chromium lay the page out and give back what it made of it.
func opens(t *testing.T, w *world, name string) {
	t.Helper()
	browser := ""
	for _, b := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(b); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		env.Missing(t, "chromium", "no Chromium on PATH to open the page in")
	}
	r := w.do(browser, "--headless", "--no-sandbox", "--disable-gpu",
		"--user-data-dir="+filepath.Join(w.home, "profile"), "--dump-dom", "file://"+filepath.Join(w.home, name))
	if r.code != 0 || strings.Count(r.stdout, "<h2>") < 4 || !strings.Contains(r.stdout, "</svg>") ||
		!strings.Contains(r.stdout, "<footer>memgauge") {
		t.Errorf("Chromium: exit %d, %d bytes of page\n%.2000s", r.code, len(r.stdout), r.stderr)
	}
}
