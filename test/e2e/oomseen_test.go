package e2e

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// views opens each of a session's views, and fails on one that fails or is wider than the window.
func (b *browser) views(id string, list ...string) {
	b.t.Helper()
	for _, view := range list {
		b.open("#/s/" + id + "/" + view)
		b.until("the view "+view, fmt.Sprintf(
			"document.querySelector('.tabs [aria-current]')?.hash.endsWith(%q)", view))
		b.still()
		b.wide(view)
	}
}

// levels goes through the screens of top about a session that is over, down and up again.
func (s *screen) levels() {
	s.t.Helper()
	s.wait("■ end", "memory of the job", "1 process")
	for _, panel := range []string{"events", "findings", "who holds it"} {
		s.keys("Tab")
		s.wait(panel)
	}
	s.keys("Left")
	s.wait("❚❚")
	s.keys("End")
	s.wait("■ end")
	s.keys("Enter")
	s.wait("1 tensors", "main")
	s.keys("2")
	s.wait("no stacks: the session is over")
	s.keys("3")
	s.wait("no code can be run: the session is over")
	s.keys("Escape")
	s.wait("who holds it")
	s.keys("?")
	s.wait("freeze")
	s.keys("Escape")
	s.wait("who holds it")
	s.keys("q")
}

// A training that the kernel kills at its cgroup's limit, while a page and a terminal look on: both say that memory ran
// out, without a reload, and every view of them shows the session that is over.
func TestOOMKilledIsSeen(t *testing.T) {
	env.Long(t, "a life that ends at a limit, in real time, with a browser and a terminal")
	w := newWorld(t)
	env.Chromium(t)
	dir := memoryCgroup(t, 600<<20)
	train := w.start("memgauge", append([]string{"run", "--quiet", "--name", "killed", "--"}, inCgroup(dir,
		env.Torch(t).Path, script(t, "train.py"), "100000", "1", "0.03")...)...)
	until(t, "the training", func() bool { return w.do("memgauge", "killed", "query", "SELECT 1").code == 0 })
	url := w.served("killed", "web")
	b := w.browse(url, "en-US")
	b.until("the series", "document.querySelectorAll('.plot canvas').length >= 2")
	id := b.id()
	s := newScreen(t, w, 100, 30)
	top := filepath.Join(w.home, "bin", "memgauge") + " killed top"
	s.line(top)
	s.wait("killed", "memory of the job")
	until(t, "the kill", func() bool { return ended(train) })
	b.shows(".state.over", "OOM kill")
	b.shows(".sentence", "memory ran out")
	s.wait("■ end", "OOM")
	b.shows("#events ~ .scroll td, section[aria-labelledby=events] td", "oom")
	b.until("the treemap", "document.querySelectorAll('.cell').length > 2")
	b.views(id, "verdicts", "tensors", "stacks", "sql", "cost", "overview")
	b.accessible("an OOM-killed session")
	s.levels()
	s.left("one")
	b.clean(url)
	w.mg("killed", "report", "-o", "page.html")
	r := w.browse("file://"+filepath.Join(w.home, "page.html"), "zh-CN")
	r.shows("main", "内存如何耗尽")
	r.whole("the report")
}
