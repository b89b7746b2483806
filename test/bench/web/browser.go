package main

import (
	"context"
	"fmt"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// tell prints a line of the table.
func tell(what, figure, wanted string) { fmt.Printf("| %s | %s | %s |\n", what, figure, wanted) }

func measure(ctx context.Context, url string, hours int64, brief bool) error {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox,
		chromedp.Flag("enable-precise-memory-info", true))
	ctx, cancel := chromedp.NewExecAllocator(ctx, options...)
	defer cancel()
	fmt.Println("| | measured | wanted |\n|---|---|---|")
	parts := []func(context.Context, string) error{fast, slow, phone}
	if !brief {
		parts = append(parts, func(ctx context.Context, url string) error { return leftOpen(ctx, url, hours) })
	}
	for _, part := range parts {
		tab, end := chromedp.NewContext(ctx)
		limited, stop := context.WithTimeout(tab, patience)
		err := part(limited, url)
		stop()
		end()
		if err != nil {
			return err
		}
	}
	return nil
}

const patience = 15 * time.Minute

// told stands in for the server's news: how far the session is says who measures.
const told = `window.EventSource = class extends EventTarget {
	constructor() { super(); window.news = this; }
	close() {}
};
window.say = (to) => window.news?.dispatchEvent(new MessageEvent("news",
	{ data: JSON.stringify({ to, step: Math.round((to - ` + `1700000000000000) / 1e6), live: true }) }));`

// open shows the session in a window, and waits for its first data.
func open(ctx context.Context, url string, width, height int64) error {
	_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: told})
	if err != nil {
		return err
	}
	return chromedp.Do(ctx, chromedp.EmulateViewport(width, height), chromedp.Navigate(url),
		chromedp.WaitVisible(".plot canvas"))
}

// run evaluates a script, and waits for its promise.
func js[T any](ctx context.Context, script string) (T, error) {
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		return v, fmt.Errorf("%.60s: %w", script, err)
	}
	return v, nil
}

// painted and drawn are ms after the navigation's begin; the data are there when the first series has come.
const (
	painted = `performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? -1`
	drawn   = `Math.max(...performance.getEntriesByType("resource").filter((e) => e.name.includes("/series?"))
		.slice(0, 1).map((e) => e.responseEnd))`
	whole = 24 * 3600
)

func fast(ctx context.Context, url string) error {
	if err := open(ctx, url, 1400, 900); err != nil {
		return err
	}
	ms, err := js[float64](ctx, painted)
	if err != nil {
		return err
	}
	tell("first paint", fmt.Sprintf("%.0f ms", ms), "≤ 500 ms")
	if ms, err = js[float64](ctx, drawn); err != nil {
		return err
	}
	tell("first data", fmt.Sprintf("%.0f ms", ms), "")
	if err := all(ctx); err != nil {
		return err
	}
	return moves(ctx)
}

// all lets the page know of the whole day, and waits until it has drawn that.
func all(ctx context.Context) error {
	_, err := js[bool](ctx, fmt.Sprintf(`new Promise((done) => { say(%d); setTimeout(() => done(true), 4000); })`,
		first+whole*1_000_000))
	return err
}

// moves zooms in five times and times each until its data are drawn, and pans for some seconds.
func moves(ctx context.Context) error {
	times, err := js[[]float64](ctx, `(async () => {
		const tracks = document.querySelector(".tracks"), out = [];
		const frame = () => new Promise(requestAnimationFrame);
		for (let i = 0; i < 5; i++) {
			performance.clearResourceTimings();
			const begin = performance.now();
			tracks.dispatchEvent(new KeyboardEvent("keydown", { key: "+", bubbles: true }));
			const came = () => performance.getEntriesByType("resource").filter((e) => e.name.includes("/series?"));
			let quiet = 0, n = 0;
			while (performance.now() - begin < 5000 && quiet < 20) {
				await frame();
				if (came().length === n && n > 0) quiet++; else { quiet = 0; n = came().length; }
			}
			out.push(Math.max(...came().map((e) => e.responseEnd)) - begin);
			await new Promise((done) => setTimeout(done, 300));
		}
		return out.sort((a, b) => a - b);
	})()`)
	if err != nil {
		return err
	}
	tell("a zoom, until the finer data of all panels are there: median, worst of 5", fmt.Sprintf("%.0f ms, %.0f ms",
		times[len(times)/2], times[len(times)-1]), "≤ 200 ms")
	for _, way := range []struct{ what, move string }{
		{"panning by key, 15 % of the view each frame", `tracks.dispatchEvent(new KeyboardEvent("keydown",
			{ key: right ? "ArrowRight" : "ArrowLeft", bubbles: true }))`},
		{"panning by wheel, 2 % of the view each frame", `tracks.querySelector(".u-over").dispatchEvent(new WheelEvent(
			"wheel", { deltaX: right ? 25 : -25, bubbles: true, cancelable: true }))`},
	} {
		rate, err := profiled(ctx, way.what, func() ([]float64, error) {
			return js[[]float64](ctx, fmt.Sprintf(pan, way.move))
		})
		if err != nil {
			return err
		}
		tell(way.what, fmt.Sprintf("%.0f frames/s, 95 %% of them within %.0f ms (standing still: %.0f)", rate[0],
			rate[1], rate[2]), "60 frames/s")
	}
	return nil
}

// pan moves the view at each frame for six seconds, 40 moves to the right and 40 back.
const pan = `(async () => {
	const tracks = document.querySelector(".tracks"), gaps = [], frame = () => new Promise(requestAnimationFrame);
	const begun = performance.now();
	let still = 0;
	for (; performance.now() - begun < 2000; still++) await frame();
	let right = true, frames = 0, last = performance.now();
	const from = last;
	while (performance.now() - from < 6000) {
		await frame();
		const now = performance.now();
		gaps.push(now - last);
		last = now;
		if (++frames %% 40 === 0) right = !right;
		%s;
	}
	gaps.sort((a, b) => a - b);
	return [frames / 6, gaps[Math.floor(gaps.length * 0.95)], still / 2];
})()`

// slow is the line of a hotel: 200 ms, 1 Mbit/s, and nothing in the cache.
func slow(ctx context.Context, url string) error {
	line := network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: []*network.Conditions{
		{Latency: 200, DownloadThroughput: 125000, UploadThroughput: 125000}}}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		return err
	}
	if _, err := chromedp.Call(ctx, network.SetCacheDisabled,
		network.SetCacheDisabledParams{CacheDisabled: true}); err != nil {
		return err
	}
	if _, err := chromedp.Call(ctx, network.EmulateNetworkConditionsByRule, line); err != nil {
		return err
	}
	if err := open(ctx, url, 1400, 900); err != nil {
		return err
	}
	for _, x := range []struct{ what, script string }{{"first paint", painted}, {"first data", drawn}} {
		ms, err := js[float64](ctx, x.script)
		if err != nil {
			return err
		}
		tell("200 ms, 1 Mbit/s, empty cache: "+x.what, fmt.Sprintf("%.1f s", ms/1000), "usable")
	}
	return nil
}

func phone(ctx context.Context, url string) error {
	if err := open(ctx, url, 360, 740); err != nil {
		return err
	}
	over, err := js[int](ctx, `document.documentElement.scrollWidth - innerWidth`)
	if err != nil {
		return err
	}
	tell("360 pixels wide: beyond the window", fmt.Sprintf("%d pixels", over), "0")
	return nil
}

// leftOpen plays a day of news, one for each second, and weighs the page's heap before and after.
func leftOpen(ctx context.Context, url string, hours int64) error {
	if err := open(ctx, url, 1400, 900); err != nil {
		return err
	}
	// An hour first: what a page caches for itself is there then.
	if err := play(ctx, known, 3600); err != nil {
		return err
	}
	before, err := heap(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := play(ctx, 3600, hours*3600); err != nil {
		return err
	}
	after, err := heap(ctx)
	if err != nil {
		return err
	}
	tell(fmt.Sprintf("left open, %d news played in %.0f s: heap after an hour, after %d h", hours*3600-3600,
		time.Since(began).Seconds(), hours), fmt.Sprintf("%.1f MB, %.1f MB", before/1e6, after/1e6), "does not grow")
	return nil
}

// play says how far the session is, second by second. The page draws once a minute of that, and each ten minutes it has
// the time to ask for what is new.
func play(ctx context.Context, from, to int64) error {
	for at := from; at < to; at += 600 {
		_, err := js[bool](ctx, fmt.Sprintf(`(async () => {
			for (let s = %d; s <= %d; s++) {
				say(%d + s * 1e6);
				if (s %% 60 === 0) await new Promise((r) => setTimeout(r));
			}
			await new Promise((r) => setTimeout(r, 120));
			return true;
		})()`, at+1, min(at+600, to), first))
		if err != nil {
			return err
		}
	}
	return nil
}

// heap is what the page's objects take once the garbage is gone.
func heap(ctx context.Context) (float64, error) {
	for range 2 {
		if _, err := chromedp.Call(ctx, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			return 0, err
		}
	}
	return js[float64](ctx, `performance.memory.usedJSHeapSize`)
}
