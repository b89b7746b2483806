package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/test/env"
)

// markup is what a file may choose for names, and what must stay text.
const markup = "<img src=x onerror=alert(1)>"

// hostile writes a snapshot whose names, files and annotations are markup.
func (w *world) hostile() string {
	frames := []snapshot.Frame{{File: markup + ".py", Line: 7, Name: markup},
		{File: "/a/b.py", Line: 1, Name: "<b>main"}}
	s := &snapshot.Snapshot{Traces: [][]snapshot.Event{{}}, Segments: []snapshot.Segment{{Address: 1 << 21,
		Size: 2 << 20, Kind: markup, Blocks: []snapshot.Block{{Address: 1 << 21, Size: 1 << 20, Requested: 1 << 20,
			State: snapshot.Allocated, Frames: frames}, {Address: 3 << 20, Size: 1 << 20, State: snapshot.Inactive}}}}}
	for i := range 100 {
		e := snapshot.Event{Action: snapshot.Alloc, Addr: uint64(1<<30 + i<<20), Size: 1 << 20,
			Time: int64(1e15) + int64(i), Frames: frames}
		s.Traces[0] = append(s.Traces[0], e)
	}
	path := filepath.Join(w.home, "<b>hostile.pickle")
	f, err := os.Create(path)
	if err == nil {
		err = snapshot.WritePickle(f, s)
		f.Close()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return path
}

// drop lets go of a file over the page.
func (b *browser) drop(name string, content []byte) {
	b.t.Helper()
	run[bool](b, fmt.Sprintf(`(() => { const d = new DataTransfer();
		const b = Uint8Array.from(atob(%q), (c) => c.charCodeAt(0));
		d.items.add(new File([b], %q));
		window.dispatchEvent(new DragEvent("drop", { dataTransfer: d, bubbles: true, cancelable: true }));
		return true })()`, base64.StdEncoding.EncodeToString(content), name))
}

// dropLarge lets go of a file that is larger than any page takes: it is refused before it is read.
func (b *browser) dropLarge() {
	b.t.Helper()
	run[bool](b, `(() => { const e = new Event("drop", { cancelable: true });
		e.dataTransfer = { types: ["Files"], files: [{ name: "large.pickle", size: 17 * 2 ** 30 }] };
		return !window.dispatchEvent(e) })()`)
	b.shows(".state.bad", "at most 16.0 GiB")
	b.shows(".state.bad", "memgauge web --snapshot FILE")
	b.accessible("a file that is too large")
}

const boxesDrawn = "document.querySelector('.boxes')?.dataset.drawn > 0"

// A history that a GPU has recorded, by keyboard and by mouse, with and without WebGL2; its flame graph, segments and
// comparison; one full of markup; and files dropped onto the page: one that is cut, and one that is none.
func TestWebSnapshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	env.Chromium(t)
	recorded := filepath.Join(env.Checkout(), "testdata", "snapshots", "h100-expandable.pickle.gz")
	url := w.served("web", "--snapshot", recorded, "--snapshot", w.hostile())
	b := w.browse(url, "en-US")
	b.shows("h1", "h100-expandable")
	b.until("the boxes", boxesDrawn)
	painter := run[string](b, "document.querySelector('.boxes').dataset.painter")
	t.Logf("drawn with %s", painter)
	run[string](b, "document.querySelector('.over').focus(), ''")
	b.key("p")
	b.shows("#moment", "19,746")
	b.until("blocks in a table", "document.querySelectorAll('main table tbody tr').length > 20")
	b.key("+")
	b.until("the zoom in the address", "/[?&]from=\\d+/.test(location.hash) && /[?&]e=19746/.test(location.hash)")
	run[string](b, "document.querySelector('main table button.link').click(), ''")
	b.shows(".stackframes", "history.py")
	b.accessible("the timeline")
	b.wide("the timeline")
	run[bool](b, `(() => { const c = document.querySelector(".over"), r = c.getBoundingClientRect();
		for (const kind of ["pointermove", "pointerdown", "pointerup"]) c.dispatchEvent(new PointerEvent(kind,
			{ clientX: r.left + r.width / 2, clientY: r.bottom - 40, pointerId: 1 })); return true })()`)
	b.shows(".pointed", "parameters")
	for view, want := range map[string]string{"flame": "history.py", "segments": "holes",
		"diff?against=2": "device 0", "flame?against=2": "before:"} {
		b.open("#/f/1/" + view)
		b.shows("main", want)
		b.still()
		b.accessible(view)
		b.wide(view)
	}
	b.flames()
	b.open("#/f/2/time?e=99")
	b.shows("h1", "<b>hostile.pickle")
	b.shows("main td", markup)
	b.open("#/f/2/flame")
	b.shows(".frame", "<b>main")
	if run[bool](b, "!!document.querySelector('main img, main b > b')") {
		t.Error("a name has become markup")
	}
	b.open("#/f/1/time")
	b.until("the boxes again", "document.querySelector('.boxes')?.dataset.painter === 'webgl2' && "+boxesDrawn)
	one := b.picture(".under")
	b.open("#/f/1/time?renderer=2d")
	b.until("the boxes without WebGL2", "document.querySelector('.boxes')?.dataset.painter === '2d' && "+boxesDrawn)
	alike(t, one, b.picture(".under"))
	b.clean(url)

	whole, err := os.ReadFile(filepath.Join(env.Checkout(), "testdata", "snapshots", "mosaic.pickle"))
	if err != nil {
		t.Fatal(err)
	}
	b.open("#/")
	b.shows("#shots", "snapshots")
	b.drop("cut.pickle", whole[:len(whole)*2/3])
	b.shows("h1", "cut.pickle")
	b.shows(".state.warn", "ends before its time")
	b.open("#/")
	b.shows("#shots", "snapshots")
	b.drop("notes.txt", []byte(strings.Repeat("no snapshot\n", 1000)))
	b.shows(".state.bad", "no PyTorch memory snapshot")
	b.accessible("a file that is none")
	b.dropLarge()
	b.open("#/f/u77")
	b.shows(".state.bad", "no such snapshot")
}

// flames searches a flame graph, and goes through it by keyboard.
func (b *browser) flames() {
	b.t.Helper()
	b.open("#/f/1/flame")
	b.until("frames", "document.querySelectorAll('.frame').length > 10")
	b.do(chromedp.SendKeys("input[type=search]", "HISTORY.py"))
	b.shows("[role=status]", "frames match")
	b.until("frames that are found", `document.querySelectorAll(".frame.found").length > 0`)
	run[string](b, "document.querySelector('.flame').focus(), ''")
	b.do(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
	b.until("the zoom",
		"document.querySelector('.frame.now').offsetWidth > document.querySelector('.flame').offsetWidth * 0.95")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.shows(".flameat code", "all")
}

// picture is what stands on the screen where an element is, once it stays the same.
func (b *browser) picture(selector string) image.Image {
	b.t.Helper()
	var raw []byte
	until(b.t, "a picture that stays", func() bool {
		next, err := chromedp.Run(b.ctx, chromedp.Screenshot(selector))
		if err != nil {
			b.t.Fatal(err)
		}
		same := bytes.Equal(raw, next)
		raw = next
		return same
	})
	p, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// alike fails where two drawings of the same boxes are not. Borders differ: without WebGL2 they are gaps.
func alike(t *testing.T, a, b image.Image) {
	t.Helper()
	if a.Bounds() != b.Bounds() {
		t.Fatalf("pictures of %v and %v", a.Bounds(), b.Bounds())
	}
	other, colors := 0, map[color.Color]int{}
	for y := range a.Bounds().Dy() {
		for x := range a.Bounds().Dx() {
			p, q := a.At(x, y), b.At(x, y)
			colors[p]++
			r0, g0, b0, _ := p.RGBA()
			r1, g1, b1, _ := q.RGBA()
			if max(max(r0, r1)-min(r0, r1), max(g0, g1)-min(g0, g1), max(b0, b1)-min(b0, b1)) > 0x3000 {
				other++
			}
		}
	}
	all := a.Bounds().Dx() * a.Bounds().Dy()
	t.Logf("%d of %d pixels differ; %d colours", other, all, len(colors))
	if other > all/6 || len(colors) < 4 {
		t.Errorf("drawn in %d colours, and %d of %d pixels are other without WebGL2", len(colors), other, all)
	}
}

// wide fails on a view that is wider than the window.
func (b *browser) wide(view string) {
	b.t.Helper()
	if wide := run[int](b, "document.documentElement.scrollWidth - innerWidth"); wide > 0 {
		b.t.Errorf("%s is %d pixels wider than the window", view, wide)
	}
}

// On a phone, in Chinese; and the snapshot that a session keeps, by the link from its page.
func TestWebSnapshotOnAPhone(t *testing.T) {
	env.Long(t, "a browser through all views; TestWebSnapshot does so on a desktop")
	t.Parallel()
	w := newWorld(t)
	env.Chromium(t)
	recorded := filepath.Join(env.Checkout(), "testdata", "snapshots", "h100-segments.pickle.gz")
	train := w.start("memgauge", "run", "--quiet", "--name", "kept", "--", env.Torch(t).Path, script(t,
		"fakesnapshot.py"), recorded)
	until(t, "the program", func() bool { return strings.Contains(train.out.String(), "ready") })
	w.mg("kept", "snapshot", "take")
	url := w.served("kept", "web")
	b := w.browse(url, "zh-CN")
	b.do(chromedp.EmulateViewport(360, 740), chromedp.Navigate(url))
	b.shows(".head .meta a", "内存快照")
	run[string](b, "document.querySelector('.head .meta a').click(), ''")
	b.until("the boxes", boxesDrawn)
	for _, view := range []string{"time?e=9000", "flame", "segments", "diff"} {
		b.open("#/f/s-" + run[string](b, "/f.s-([^/]+)/.exec(location.hash)[1]") + "/" + view)
		b.still()
		b.accessible(view + " in Chinese")
		b.wide(view)
	}
	b.clean(url)
}

// A file that can't be one is refused before the page is there.
func TestWebSnapshotThatIsNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := w.file("passwd", "root:x:0:0:root:/root:/bin/sh\n")
	for _, path := range []string{w.home, filepath.Join(w.home, "nothing.pickle"), text} {
		if r := w.do("memgauge", "web", "--snapshot", path); r.code == 0 || r.stdout != "" ||
			!strings.Contains(r.stderr, path) {
			t.Errorf("%s: exit %d\n%s%s", path, r.code, r.stdout, r.stderr)
		}
	}
}

// The ranks of a job on two machines, beside each other; a click opens the session of one.
func TestWebRanks(t *testing.T) {
	env.Long(t, "two nodes, a hub and a browser; TestWebOddRankAmongThousands has the page of a job")
	t.Parallel()
	python := env.Torch(t).Path
	env.Chromium(t)
	boss, addr := newWorld(t), "127.0.0.1:"+env.FreePort(t)
	boss.start("memgauge", "hub", "--listen", addr)
	token := filepath.Join(boss.home, "state", "hub", "join.token")
	until(t, "the hub's token", func() bool { return exists(token) })
	for i, name := range []string{"n1", "n2"} {
		w := newWorld(t)
		w.start("memgauge", "node", "--join", "nats://"+addr, "--token-file", token, "--name", name, "--job", "llama")
		w.env = append(w.env, fmt.Sprint("RANK=", i), "WORLD_SIZE=2")
		train := w.start("memgauge", "run", "--quiet", "--name", name+"<b>", "--", python, script(t, "train.py"),
			"100000", fmt.Sprint(0.1*float64(i)), "0.05")
		until(t, "the training", func() bool { return strings.Contains(train.out.String(), "warm") })
	}
	until(t, "both nodes", func() bool {
		r := boss.do("memgauge", "hub", "list")
		return strings.Contains(r.stdout, "n1") && strings.Contains(r.stdout, "n2")
	})
	url := boss.served("hub", "job=llama", "web")
	b := boss.browse(url, "en-US")
	b.shows("h1", "Job llama")
	b.until("the map", "!!document.querySelector('.heat canvas')")
	b.shows("main p", "2 ranks")
	b.accessible("the ranks")
	b.wide("the ranks")
	run[string](b, "document.querySelector('.heat canvas').focus(), ''")
	run[bool](b, `(() => { const c = document.querySelector(".heat canvas"), r = c.getBoundingClientRect();
		c.dispatchEvent(new PointerEvent("pointermove",
			{ clientX: r.right - 5, clientY: r.bottom - 5, bubbles: true })); return true })()`)
	b.shows(".pointed", "Rank 1 on n2")
	run[bool](b, `(() => { const c = document.querySelector(".heat canvas"), r = c.getBoundingClientRect();
		c.dispatchEvent(new MouseEvent("click", { clientX: r.right - 5, clientY: r.bottom - 5, bubbles: true }));
		return true })()`)
	b.shows("main h1", "n2<b>")
	b.until("its series", "document.querySelectorAll('.plot canvas').length >= 1")
	b.open("#/all")
	b.shows(".sessions strong", "n1<b>")
	b.clean(url)
}
