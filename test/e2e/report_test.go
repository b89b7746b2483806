package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/memgauge/memgauge/internal/faces/web"
	"github.com/memgauge/memgauge/test/env"
)

// hostile is what a trainer may choose, and no page may take for markup.
const hostile = `</script><img src=x onerror=alert(1)>`

// report writes the page about a session, and gives its address.
func (w *world) report(session, file string) string {
	w.t.Helper()
	env.Page(w.t, web.Bundled())
	w.mg("report", "--session", session, "-o", file)
	return "file://" + filepath.Join(w.home, file)
}

// whole looks at a page from top to bottom: all views are there, nothing failed, nothing was asked of anybody.
func (b *browser) whole(url string) {
	b.t.Helper()
	b.until("the series", "document.querySelectorAll('.plot canvas').length >= 2")
	b.until("the treemap", "document.querySelectorAll('.cell').length > 2")
	b.until("no loading", "!document.querySelector('.busy')")
	if run[bool](b, "!!document.querySelector('main img, main script')") {
		b.t.Error("a name has become markup")
	}
	for _, wide := range []int64{360, 1280} {
		b.do(chromedp.EmulateViewport(wide, 900))
		b.until(fmt.Sprintf("a page no wider than a window of %d", wide),
			"document.documentElement.scrollWidth <= innerWidth")
		b.until("curves that fit their panels", "[...document.querySelectorAll('.uplot')].every("+
			"(e) => e.offsetWidth <= e.parentElement.clientWidth)")
		b.accessible(url)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.wrong {
		b.t.Errorf("the console says %s", w)
	}
	for _, a := range b.asked {
		if !strings.HasPrefix(a, "file://") && !strings.HasPrefix(a, "data:") || strings.Contains(a, "/api/") {
			b.t.Errorf("the page asked for %s", a)
		}
	}
}

// The page about a real training, live and finished, whose names would be markup: one file that Chromium opens from the
// disk, with every view and no request.
func TestReportPage(t *testing.T) {
	env.Long(t, "a training and three pages in a browser; TestReportWithSnapshot shows one")
	t.Parallel()
	w := newWorld(t)
	env.Chromium(t)
	s := filepath.Join(w.home, "s")
	text, err := os.ReadFile(script(t, "train.py"))
	if err != nil {
		t.Fatal(err)
	}
	leaks := strings.NewReplacer("all_losses = []", fmt.Sprintf("held = {%q: []}", hostile),
		"all_losses.append", fmt.Sprintf("held[%q].append", hostile), "len(all_losses)", "step").Replace(string(text))
	file := w.file("hostile.py", leaks+"\nimport os\nwhile not os.path.exists('stop'):\n    time.sleep(0.02)\n")
	train := w.start("memgauge", "run", "--session", s, "--name", "a<b>&c", "--", env.Torch(t).Path, file, "260", "0.5",
		"0.01", hostile)
	until(t, "the verdict", func() bool {
		return strings.Contains(w.do("memgauge", "leak", "--session", s).stdout, "held by") || ended(train)
	})
	live := w.report(s, "live.html")
	w.file("stop", "")
	until(t, "the end", func() bool { return ended(train) })
	finished := w.report(s, "page.html")

	b := w.browse(live, "en-US")
	b.shows(".state.over", "was running when this page was written")
	b.whole(live)
	b.do(chromedp.Navigate(finished))
	b.shows("h1", "a<b>&c")
	b.shows(".meta code", hostile)
	b.shows(".state.over", "exit 0")
	b.shows(".card.leak", hostile)
	b.shows(".card.leak .line.hit", hostile)
	b.shows("#v-tensors td", hostile)
	b.whole(finished)
	run[string](b, "document.querySelector('.tracks').focus(), ''")
	b.key("+")
	b.until("a zoom in the address", "/from=\\d+&to=\\d+/.test(location.hash)")
	b.key("[[[")
	b.key("\r")
	b.shows("#where small", "at ")
	b.do(chromedp.Click(".tabs a:last-child"))
	b.shows("#v-cost h2", "What was lost")

	page, err := os.ReadFile(filepath.Join(w.home, "page.html"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(page, []byte("</script")); n != 2 || bytes.Contains(page, []byte("<img")) {
		t.Errorf("%d elements end, and a name may stand as markup", n)
	}
	w.reportsJSON(s)
}

// reportsJSON: the document for programs is as it was before there was a page.
func (w *world) reportsJSON(session string) {
	w.t.Helper()
	var d struct {
		SchemaVersion int `json:"schema_version"`
		Session       struct {
			State string
			Steps int
		}
		Where     map[string]any
		Processes []any
		Overhead  []any
		Events    []struct{ Name, Text string }
	}
	if err := json.Unmarshal([]byte(w.mg("report", "--session", session, "--json")), &d); err != nil {
		w.t.Fatal(err)
	}
	if d.SchemaVersion != 1 || d.Session.State != "exit 0" || d.Session.Steps != 260 || len(d.Where) == 0 ||
		len(d.Processes) == 0 || len(d.Overhead) == 0 {
		w.t.Errorf("%+v", d)
	}
}

// What our own commands ask of the trainer is no event of the user's job; what the user has it do is.
func TestOwnQuestionsAreNoEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.start("memgauge", "run", "--quiet", "--name", "job", "--", "python3", "-c", holding)
	until(t, "the program", func() bool { return strings.Contains(b.out.String(), "ready") })
	until(t, "its ring", func() bool { return w.do("memgauge", "job", "eval", "len(kept) > 0").code == 0 })
	for _, args := range [][]string{{"where"}, {"backtrace"}, {"tensors"}, {"fragment", "--duration", "0.1"}, {"leak"},
		{"oom"}, {"report", "-o", "x.html"}, {"top", "--once"}} {
		if r := w.do("memgauge", append([]string{"job"}, args...)...); r.code == 2 {
			t.Errorf("%s: %s", args, r.stderr)
		}
	}
	said := w.mg("job", "query", "-f", "csv", "SELECT DISTINCT text FROM memgauge.events WHERE name LIKE 'eval%'")
	if lines := strings.Split(strings.TrimSpace(said), "\n"); len(lines) != 2 || lines[1] != "len(kept) > 0" {
		t.Errorf("evals among the events:\n%s", said)
	}
}

// A session that keeps a memory snapshot has its flame graph on the page.
func TestReportWithSnapshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	env.Chromium(t)
	train := w.start("memgauge", "run", "--quiet", "--record-memory", "--", env.Torch(t).Path,
		script(t, "fakesnapshot.py"), filepath.Join(env.Checkout(), "testdata", "snapshots", "mosaic.pickle"))
	until(t, "the trainer", func() bool { return strings.Contains(train.out.String(), "ready") })
	_ = syscall.Kill(train.Process.Pid, syscall.SIGTERM)
	train.wait(t)
	dirs, _ := filepath.Glob(filepath.Join(w.home, "state", "sessions", "*"))
	if len(dirs) != 1 {
		t.Fatalf("sessions: %v", dirs)
	}
	b := w.browse(w.report(dirs[0], "page.html"), "zh-CN")
	b.shows("#flame", "火焰图")
	b.until("frames", "document.querySelectorAll('.frame').length > 10")
	run[string](b, "document.querySelector('.flame').focus(), ''")
	b.do(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown))
	here := b.text(".flameat code")
	b.key("\r")
	b.until("the zoom",
		"document.querySelector('.frame.now').offsetWidth > document.querySelector('.flame').offsetWidth * 0.95")
	if now := b.text(".flameat code"); now != here || now == "all" {
		t.Errorf("zoomed into %q, at %q", now, here)
	}
	b.accessible("a flame graph")
}

// A page is about one session, found once: a second look could find another one by then. What a census cost is no share
// of the moment that it took.
func TestReportFindsItsSessionOnce(t *testing.T) {
	t.Parallel()
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
