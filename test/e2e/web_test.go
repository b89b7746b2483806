package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/memgauge/memgauge/internal/faces/web"
	"github.com/memgauge/memgauge/test/env"
)

// browser is a tab of a real Chromium that looks at memgauge web. It notes what the page asks for and complains of.
type browser struct {
	t   *testing.T
	ctx context.Context
	mu  sync.Mutex
	// asked are addresses; wrong are exceptions, errors on the console and what the policy has blocked
	asked, wrong []string
}

// served starts memgauge web, and gives the address that it prints.
func (w *world) served(args ...string) string {
	w.t.Helper()
	env.Page(w.t, web.Bundled())
	b := w.start("memgauge", args...)
	until(w.t, "the address", func() bool { return strings.Contains(b.out.String(), "\n") || ended(b) })
	url := strings.TrimSpace(b.out.String())
	if !strings.HasPrefix(url, "http://127.") {
		w.t.Fatalf("%s\n%s", url, b.err)
	}
	return url
}

func (w *world) browse(url, lang string) *browser {
	w.t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.Flag("accept-lang", lang),
		chromedp.ExecPath(env.Chromium(w.t)), chromedp.UserDataDir(filepath.Join(w.home, "profile-"+lang)))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	w.t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	w.t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 4*time.Minute)
	w.t.Cleanup(cancel)
	b := &browser{t: w.t, ctx: ctx}
	if err := chromedp.Listen(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			b.asked = append(b.asked, e.Request.URL)
		case *network.EventResponseReceived:
			if e.Response.Status >= 400 {
				b.wrong = append(b.wrong, fmt.Sprintf("%d from %s", e.Response.Status, e.Response.URL))
			}
		}
	}); err != nil {
		w.t.Fatal(err)
	}
	go func() { // ends with the tab
		for m, err := range chromedp.Console(ctx) {
			if err != nil {
				return
			}
			if kind := string(m.Type); kind == "error" || kind == "exception" {
				b.mu.Lock()
				b.wrong = append(b.wrong, m.Text)
				b.mu.Unlock()
			}
		}
	}()
	b.do(chromedp.EmulateViewport(1280, 900), chromedp.Navigate(url))
	return b
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatalf("%v\n%s", err, b.text("body"))
	}
}

// run evaluates a script, and waits for its promise.
func run[T any](b *browser, script string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	return v
}

func (b *browser) text(selector string) string {
	b.t.Helper()
	text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](
		fmt.Sprintf("[...document.querySelectorAll(%q)].map((e) => e.innerText).join('\\n')", selector)))
	return text
}

// until waits until a script says true.
func (b *browser) until(what, script string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if run[bool](b, script) {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("waited in vain for %s\n%s", what, b.text("main"))
		}
	}
}

func (b *browser) shows(selector, want string) {
	b.t.Helper()
	b.until(fmt.Sprintf("%q in %s", want, selector), fmt.Sprintf(
		"[...document.querySelectorAll(%q)].some((e) => e.innerText.includes(%q))", selector, want))
}

func (b *browser) open(hash string) {
	b.t.Helper()
	run[string](b, fmt.Sprintf("location.hash = %q", hash))
}

func (b *browser) key(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// still waits until nothing is loading, and fails on what has failed.
func (b *browser) still() {
	b.t.Helper()
	b.until("the page to be still", "!document.querySelector('.busy') && !!document.querySelector('main h1, main h2')")
	if bad := b.text(".state.bad"); bad != "" {
		b.t.Errorf("the page says %s", bad)
	}
}

// accessible has axe-core judge the page, in both colour schemes.
func (b *browser) accessible(what string) {
	b.t.Helper()
	axe := env.Axe(b.t)
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		run[bool](b, "("+`() => { if (!window.axe) {`+axe+`} return true })()`)
		found := run[[]string](b, `axe.run(document, { resultTypes: ["violations"] }).then((r) =>
			r.violations.map((v) =>
			v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + " " +
			(n.any[0]?.message ?? "")).join("; ")))`)
		for _, v := range found {
			b.t.Errorf("%s, %s: axe: %s", what, scheme, v)
		}
	}
	b.scheme("light")
}

func (b *browser) scheme(name string) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}}); err != nil {
		b.t.Fatal(err)
	}
}

// clean fails on what the page complained of, and on requests that would have left the machine.
func (b *browser) clean(url string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.wrong {
		b.t.Errorf("the console says %s", w)
	}
	origin, _, _ := strings.Cut(url, "/#")
	for _, a := range b.asked {
		if !strings.HasPrefix(a, origin+"/") && !strings.HasPrefix(a, "data:") && !strings.HasPrefix(a, "blob:") {
			b.t.Errorf("the page asked for %s", a)
		}
	}
}

// id is the id of the session that the page shows.
func (b *browser) id() string {
	b.t.Helper()
	found := regexp.MustCompile(`#/s/([^/?]+)`).FindStringSubmatch(run[string](b, "location.hash"))
	if found == nil {
		b.t.Fatal("no session is open")
	}
	return found[1]
}

// Every view of a finished session, with a name that would be markup, by mouse and by keyboard.
func TestWebFinished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	env.Chromium(t)
	const name, markup = "a<img>&c", "<img src=x onerror=alert(1)>"
	train := w.start("memgauge", "run", "--quiet", "--name", name, "--", env.Torch(t).Path,
		script(t, "train.py"), "260", "0.5", "0.01", markup)
	select { // a verdict needs some 200 steps, which take minutes where many share the machine
	case <-train.done:
	case <-time.After(2 * patience):
		t.Fatalf("the training does not end\n%s", train.out)
	}
	url := w.served("web")
	b := w.browse(url, "en-US")
	b.shows(".sessions strong", name)
	b.shows(".sessions .cmd", markup)
	b.shows(".sessions .chip", "leak")
	b.listed()
	b.accessible("the list")
	b.do(chromedp.Click(".sessions a"))
	b.shows("h1", name)
	b.shows(".sentence", "all_losses")
	b.shows(".state.over", "exit 0")
	id := b.id()
	b.until("the series", "document.querySelectorAll('.plot canvas').length >= 2")
	b.until("the treemap", "document.querySelectorAll('.cell').length > 3")
	for _, view := range []string{"overview", "verdicts", "tensors", "native", "stacks", "sql", "cost"} {
		b.open("#/s/" + id + "/" + view)
		b.until("the view", fmt.Sprintf("document.querySelector('.tabs [aria-current]')?.hash.endsWith(%q)", view))
		b.still()
		b.accessible(view)
		if wide := run[int](b, "document.documentElement.scrollWidth - innerWidth"); wide > 0 {
			t.Errorf("%s is %d pixels wider than the window", view, wide)
		}
	}
	b.shows(".inall", "of a budget of 1.0 %")
	b.shows(".inall", "outside the trainer")
	b.printed("#/s/" + id + "/overview")
	b.open("#/s/" + id + "/verdicts")
	b.shows(".card.leak", "all_losses")
	b.until("the evidence", "!!document.querySelector('.evidence canvas')")
	if run[bool](b, "!!document.querySelector('main img')") {
		t.Error("a name has become markup")
	}
	b.clean(url)
}

// listed: a row says how fast a leak grows and who holds it, and draws what was held; the search finds it by these; and
// the list is no wider than a phone.
func (b *browser) listed() {
	b.t.Helper()
	b.shows(".sessions dd strong", "/ step")
	b.shows(".sessions .holder", "all_losses")
	b.until("what was held", "!!document.querySelector('.sessions svg.spark path')")
	search := func(text string) {
		run[string](b, fmt.Sprintf(`(() => { const i = document.querySelector("input[type=search]"); i.value = %q;
			i.dispatchEvent(new Event("input", { bubbles: true })); return "" })()`, text))
	}
	search("healthy")
	b.shows("main .state", "No session matches")
	search("leak all_losses")
	b.until("the session again", "document.querySelectorAll('.sessions li').length === 1")
	search("")
	b.do(chromedp.EmulateViewport(360, 740))
	b.wide("the list on a phone")
	b.do(chromedp.EmulateViewport(1280, 900))
}

// printed: a dark desktop's page is black on white on paper, with the heads of tables and the names of classes.
func (b *browser) printed(hash string) {
	b.t.Helper()
	b.open(hash)
	b.until("the series", "document.querySelectorAll('.plot canvas').length >= 2")
	b.still()
	media := func(kind, scheme string) {
		_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: kind,
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	media("print", "dark")
	b.until("white paper", `(() => { const of = (e) => getComputedStyle(e);
		return of(document.body).backgroundColor === "rgb(255, 255, 255)" &&
			of(document.querySelector(".chip")).backgroundColor === "rgb(255, 235, 233)" &&
			!matchMedia("screen and (prefers-color-scheme: dark)").matches })()`)
	for _, shown := range []string{".legend button", "th button.sort"} {
		b.until(shown+" on paper", fmt.Sprintf("document.querySelector(%q)?.offsetHeight > 0", shown))
	}
	b.until("no buttons on paper", "!document.querySelector('.controls')?.offsetHeight")
	media("", "light")
}

func TestWebKeyboardAndLinks(t *testing.T) {
	env.Long(t, "a browser through all views; TestWebFinished does so by mouse")
	t.Parallel()
	w := newWorld(t)
	if r := w.do("memgauge", "run", "--quiet", "--", env.Torch(t).Path, script(t, "train.py"), "100", "0",
		"0.02"); r.code != 0 {
		t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	url := w.served("web")
	b := w.browse(url, "en-US")
	b.shows("h1", "Sessions")
	b.until("a session", "!!document.querySelector('.sessions a')")
	run[string](b, "document.querySelector('.sessions a').focus(), ''")
	b.key("\r")
	b.until("the series", "document.querySelectorAll('.plot canvas').length >= 2")
	run[string](b, "document.querySelector('.tracks').focus(), ''")
	b.key("+")
	b.until("a zoom in the address", "/from=\\d+&to=\\d+/.test(location.hash)")
	link := run[string](b, "location.href")
	b.keptView()
	b.key("0")
	b.until("all of it", "!/from=/.test(location.hash)")
	b.key("[[[")
	b.key("\r")
	b.until("the mark in the address", "/[?&]t=\\d+/.test(location.hash)")
	b.shows("#where small", "at ")
	b.byMouse()
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(link)) // a colleague opens it
	b.until("the same view", "document.querySelectorAll('.plot canvas').length >= 2 && /from=/.test(location.hash)")
	b.clean(url)
}

// byMouse goes along a timeline: what is pointed at is told, a drag and the wheel zoom, the wheel moves with Shift, and
// a click pins the moment.
func (b *browser) byMouse() {
	b.t.Helper()
	mouse := func(script string) {
		b.t.Helper()
		run[bool](b, `(() => { const over = document.querySelector(".tracks .u-over"), r = over.getBoundingClientRect();
			const at = (kind, share, more) => over.dispatchEvent(new (kind === "wheel" ? WheelEvent : MouseEvent)(kind,
				{ clientX: r.left + share * r.width, clientY: r.top + 20, bubbles: true, cancelable: true, ...more }));
			`+script+`; return true })()`)
	}
	span := func() (from, to float64) {
		b.t.Helper()
		text := run[string](b, `(/from=(\d+)&to=(\d+)/.exec(location.hash) ?? [0, 0, 0]).slice(1).join(" ")`)
		_, err := fmt.Sscanf(text, "%g %g", &from, &to)
		if err != nil {
			b.t.Fatal(err)
		}
		return from, to
	}
	moment := b.text("#where small")
	mouse(`at("mousemove", 0.2)`)
	b.until("the moment under the pointer", fmt.Sprintf("document.querySelector('#where small').innerText !== %q",
		moment))
	mouse(`at("mousedown", 0.3); at("mousemove", 0.7, { buttons: 1, movementX: 9 }); at("mouseup", 0.7)`)
	b.until("the brush's zoom", "/from=\\d+&to=\\d+/.test(location.hash)")
	from, to := span()
	if !run[bool](b, `document.querySelector(".tracks .u-over").dispatchEvent(new WheelEvent("wheel",
		{ deltaY: -100, bubbles: true, cancelable: true }))`) {
		b.t.Error("over a chart the wheel does not scroll the page")
	}
	mouse(`at("wheel", 0.5, { deltaY: -100, ctrlKey: true })`)
	b.until("the wheel's zoom", fmt.Sprintf("!location.hash.includes('from=%.0f')", from))
	if a, z := span(); z-a >= to-from {
		b.t.Errorf("the wheel zoomed from %g to %g", to-from, z-a)
	}
	from, to = span()
	mouse(`at("wheel", 0.5, { deltaY: -100, shiftKey: true })`)
	b.until("the wheel's move", fmt.Sprintf("!location.hash.includes('from=%.0f')", from))
	if a, z := span(); z-a < 0.999*(to-from) || z-a > 1.001*(to-from) || a >= from {
		b.t.Errorf("the wheel moved %g to %g, now %g to %g", from, to, a, z)
	}
	before := run[string](b, "/[?&]t=(\\d+)/.exec(location.hash)?.[1] ?? ''")
	mouse(`at("mousedown", 0.5); at("mouseup", 0.5); at("click", 0.5)`)
	b.until("the pinned moment", fmt.Sprintf("(/[?&]t=(\\d+)/.exec(location.hash)?.[1] ?? '') !== %q", before))
	mouse(`at("dblclick", 0.5)`)
	b.until("all of it after a double click", "!/from=/.test(location.hash)")
	b.until("a chart after a double click", `[...document.querySelectorAll(".tracks canvas")].every((c) =>
		c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((v) => v > 0))`)
}

// keptView goes from each view to each other by its tab, and by an address that is pasted: a zoom is there again.
func (b *browser) keptView() {
	b.t.Helper()
	names := strings.Fields(run[string](b, `[...document.querySelectorAll(".tabs a")].map((a) =>
		a.hash.split("/")[3].split("?")[0]).join(" ")`))
	if len(names) < 5 {
		b.t.Fatalf("the views are %q", names)
	}
	kept := run[string](b, `/from=\d+&to=\d+/.exec(location.hash)[0]`)
	at := func(view string) string {
		return fmt.Sprintf("document.querySelector('.tabs [aria-current]')?.hash.includes('/%s') &&"+
			" location.hash.includes('/%s?') && location.hash.includes(%q)", view, view, kept)
	}
	for _, from := range names {
		for _, to := range names {
			for _, view := range []string{from, to} {
				run[bool](b, fmt.Sprintf(`document.querySelector('.tabs a[href*="/%s"]').click(), true`, view))
				b.until(from+" to "+to, at(view))
			}
		}
	}
	run[bool](b, `document.querySelector('.tabs a[href*="/overview"]').click(), true`)
	b.until("the overview", at("overview"))
	moved := run[string](b, `location.hash.replace(/from=(\d+)/, (_, n) => "from=" + (Number(n) + 1000))`)
	b.open(moved)
	b.until("the series", "document.querySelectorAll('.plot canvas').length >= 2")
	run[string](b, "document.querySelector('.tracks').focus(), ''")
	b.key("+")
	b.until("a zoom of the pasted view", fmt.Sprintf(`(() => { const n = (h) => Number(/from=(\d+)/.exec(h)[1]);
		return n(location.hash) > n(%q) })()`, moved))
}

// A live session: steps come without a reload, a census and stacks are taken, code runs only where it is allowed, and
// the page says when it ends.
func TestWebLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	train := w.start("memgauge", "run", "--quiet", "--name", "alive", "--", env.Torch(t).Path, script(t, "train.py"),
		"100000", "0.1", "0.05")
	until(t, "the training", func() bool { return strings.Contains(train.out.String(), "warm") })
	url := w.served("alive", "web", "--allow-eval")
	b := w.browse(url, "en-US")
	b.shows(".chip.live", "live")
	step := `Number(/step ([\d,]+)/.exec(document.querySelector(".sentence")?.innerText)?.[1].replace(/,/g, "") ?? 0)`
	b.until("a step", step+" > 0")
	before := run[int](b, step)
	b.until("more steps", fmt.Sprintf("%s > %d", step, before+20))
	id := b.id()
	b.accessible("a live session")
	b.views(id, "verdicts", "sql", "cost")
	b.open("#/s/" + id + "/tensors")
	b.until("the button", "!!document.querySelector('.bar button')")
	b.do(chromedp.Click("main .bar button"))
	b.shows("main td", "all_losses")
	b.sorts()
	b.still()
	b.open("#/s/" + id + "/stacks")
	b.shows(".thread", "train.py")
	b.open("#/s/" + id + "/eval")
	b.until("the code", "!!document.querySelector('textarea.code')")
	b.do(chromedp.SendKeys("textarea.code", "print(len(all_losses) > 0, 6 * 7)"), chromedp.Click("button.primary"))
	b.shows("pre", "True 42")
	b.accessible("eval")
	b.open("#/s/" + id + "/overview")
	b.until("the series", "document.querySelectorAll('.plot canvas').length >= 2")
	said := w.mg("alive", "query", "-f", "csv", "SELECT pid FROM memgauge.processes")
	trainer, err := strconv.Atoi(strings.Fields(said)[1])
	if err == nil {
		err = syscall.Kill(trainer, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatalf("kill the trainer: %v", err)
	}
	b.shows(".state.over", "SIGKILL")
	b.until("the end of live", "!document.querySelector('h1 .chip.live')")
	b.still()
	b.clean(url)
}

// sorts clicks on the head of the bytes of the first table: largest first, smallest first, in no order of the reader's.
// A live session's next census may come meanwhile, with rows of its own.
func (b *browser) sorts() {
	b.t.Helper()
	const rows = "[...document.querySelectorAll('main table')][0].tBodies[0].rows"
	const names = "[..." + rows + "].map(r => r.cells[0].innerText).join('|')"
	const order = "(document.querySelector('main th[aria-sort]')?.getAttribute('aria-sort') ?? 'none')"
	head := func() { b.do(chromedp.Click("main table th:nth-child(2) button.sort")) }
	head()
	b.until("the largest first", order+" === 'descending'")
	largest := run[string](b, names)
	head()
	b.until("the smallest first", order+" === 'ascending'")
	if smallest := run[string](b, names); smallest == largest {
		b.t.Errorf("sorted in both directions: %s", smallest)
	}
	head()
	b.until("as it was", order+" === 'none'")
}

// In Chinese, on a phone, over a slow line.
func TestWebChineseOnAPhone(t *testing.T) {
	env.Long(t, "a browser through all views; TestWebFinished does so on a desktop")
	t.Parallel()
	w := newWorld(t)
	if r := w.do("memgauge", "run", "--quiet", "--", env.Torch(t).Path, script(t, "train.py"), "60", "0",
		"0.02"); r.code != 0 {
		t.Fatalf("exit %d\n%s", r.code, r.stderr)
	}
	url := w.served("web")
	b := w.browse(url, "zh-CN")
	slow := network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: []*network.Conditions{
		{Latency: 200, DownloadThroughput: 125000, UploadThroughput: 125000}}}
	if _, err := chromedp.Call(b.ctx, network.EmulateNetworkConditionsByRule, slow); err != nil {
		t.Logf("the line is not slowed down: %v", err)
	}
	b.do(chromedp.EmulateViewport(360, 740), chromedp.Navigate(url))
	b.shows("h1", "会话")
	if lang := run[string](b, "document.documentElement.lang"); lang != "zh-CN" {
		t.Errorf("the page's language is %s", lang)
	}
	b.do(chromedp.Click(".sessions a"))
	b.until("the series", "document.querySelectorAll('.plot canvas').length >= 2")
	id := b.id()
	for _, view := range []string{"overview", "verdicts", "tensors", "sql", "cost"} {
		b.open("#/s/" + id + "/" + view)
		b.still()
		b.accessible(view + " in Chinese")
		if wide := run[int](b, "document.documentElement.scrollWidth - innerWidth"); wide > 0 {
			t.Errorf("%s is %d pixels wider than a phone", view, wide)
		}
	}
	b.clean(url)
}

// Another address than loopback needs a token of the user's own and a certificate; and mistakes are told as such.
func TestWebRefusesToBeReachable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.file("token", "short")
	for name, args := range map[string][]string{
		"every address": {"--addr", "0.0.0.0:0"}, "a name": {"--addr", "example.org:80"},
		"a short token": {"--token-file", token}, "a certificate without key": {"--tls-cert", token},
	} {
		if r := w.do("memgauge", append([]string{"web"}, args...)...); r.code != 2 || r.stdout != "" {
			t.Errorf("%s: exit %d\n%s%s", name, r.code, r.stdout, r.stderr)
		}
	}
	if r := w.do("memgauge", "nobody", "web"); r.code != 1 {
		t.Errorf("no such session: exit %d\n%s", r.code, r.stderr)
	}
}
