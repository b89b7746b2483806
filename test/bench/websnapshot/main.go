// Command websnapshot measures memgauge web with a large memory snapshot in a headless Chromium: how long until the
// page can be used, frames a second while it is panned, and what the browser's processes take.
//
//	python3 test/bench/snapshots.py --megabytes 1300 /tmp/big.pickle
//	go run ./test/bench/websnapshot -file /tmp/big.pickle
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/chromedp/chromedp"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("websnapshot: ")
	memgauge := flag.String("memgauge", "bin/memgauge", "the binary")
	chromium := flag.String("chromium", os.Getenv("MEMGAUGE_CHROMIUM"), "the browser; empty: the one in PATH")
	file := flag.String("file", "", "the snapshot")
	renderer := flag.String("renderer", "", "2d: without WebGL2")
	flag.Parse()
	if *file == "" {
		log.Fatal("-file is missing: python3 test/bench/snapshots.py --megabytes 1300 FILE makes one")
	}
	if err := run(*memgauge, *chromium, *file, *renderer); err != nil {
		log.Fatal(err)
	}
}

func run(memgauge, chromium, file, renderer string) error {
	dir, err := os.MkdirTemp("", "web-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	tab, end, err := browser(ctx, chromium, dir)
	if err != nil {
		return err
	}
	defer end()
	empty, err := memory(tab)
	if err != nil {
		return err
	}
	began := time.Now()
	url, server, stop, err := serve(ctx, memgauge, file, dir)
	if err != nil {
		return err
	}
	defer stop()
	if renderer != "" {
		url += "/time?renderer=" + renderer
	}
	if err := chromedp.Do(tab, chromedp.Navigate(url)); err != nil {
		return err
	}
	// usable: everything in view is drawn, and the page answers
	if err := until(tab, `document.querySelector(".boxes")?.dataset.drawn > 0`); err != nil {
		return err
	}
	usable := time.Since(began)
	painter, err := chromedp.Run(tab, chromedp.Evaluate[string](`document.querySelector(".boxes").dataset.painter`))
	if err != nil {
		return err
	}
	fmt.Printf("| %.0f MB, %s, load %s | |\n|---|---|\n", float64(info.Size())/1e6, painter, load())
	fmt.Printf("| from starting memgauge web until the boxes are drawn | %.1f s |\n", usable.Seconds())
	fmt.Printf("| of it processor time of memgauge web | %.1f s |\n", processor(server).Seconds())
	for _, zoom := range []int{0, 2, 5, 9} {
		text, err := pan(tab, zoom)
		if err != nil {
			return err
		}
		fmt.Println(text)
	}
	full, err := memory(tab)
	if err != nil {
		return err
	}
	fmt.Printf("| the browser's processes, beyond those of an empty tab | %.0f MB (%.0f less %.0f) |\n", full-empty,
		full, empty)
	fmt.Printf("| memgauge web | %.0f MB |\n", proportional(server))
	return nil
}

func load() string {
	b, _ := os.ReadFile("/proc/loadavg")
	word, _, _ := strings.Cut(string(b), " ")
	return word
}

func browser(ctx context.Context, path, dir string) (tab context.Context, end func(), err error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox,
		chromedp.UserDataDir(filepath.Join(dir, "profile")))
	if path != "" {
		options = append(options, chromedp.ExecPath(path))
	}
	alloc, cancel := chromedp.NewExecAllocator(ctx, options...)
	tab, close := chromedp.NewContext(alloc)
	end = func() { close(); cancel() }
	return tab, end, chromedp.Do(tab, chromedp.EmulateViewport(1280, 900), chromedp.Navigate("about:blank"))
}

func serve(ctx context.Context, memgauge, file, home string) (url string, pid int, stop func(), err error) {
	cmd := exec.CommandContext(ctx, memgauge, "web", "--snapshot", file)
	cmd.Env = append(os.Environ(), "MEMGAUGE_HOME="+filepath.Join(home, "home"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", 0, nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", 0, nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", 0, nil, err
	}
	return strings.TrimSpace(line), cmd.Process.Pid, func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
	}, nil
}

func until(tab context.Context, script string) error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ok, err := chromedp.Run(tab, chromedp.Evaluate[bool]("!!("+script+")"))
		if err != nil || ok {
			return err
		}
	}
	return fmt.Errorf("waited in vain for %s", script)
}

// panSeconds is how long a drag back and forth takes.
const panSeconds = 4

// pan zooms in and drags the picture, a step with each frame that the browser draws.
func pan(tab context.Context, zoom int) (string, error) {
	script := fmt.Sprintf(`(async () => {
		const c = document.querySelector(".boxes .over"), r = c.getBoundingClientRect();
		const key = (k) => c.dispatchEvent(new KeyboardEvent("keydown", { key: k, bubbles: true }));
		const frame = () => new Promise((done) => requestAnimationFrame(done));
		key("0"); await frame();
		for (let i = 0; i < %d; i++) { key("+"); await frame(); }
		await new Promise((done) => setTimeout(done, 700));
		const at = (kind, x) => c.dispatchEvent(new PointerEvent(kind, { clientX: x, clientY: r.top + r.height / 2,
			pointerId: 1, bubbles: true }));
		c.setPointerCapture = () => {};
		const middle = r.left + r.width / 2, begin = performance.now();
		let frames = 0, last = begin, worst = 0;
		at("pointerdown", middle);
		for (let now = begin; now - begin < %d; ) {
			at("pointermove", middle + 400 * Math.sin((now - begin) / 400));
			now = await frame();
			worst = Math.max(worst, now - last);
			last = now;
			frames++;
		}
		at("pointerup", middle);
		return [frames / (performance.now() - begin) * 1000, worst];
	})()`, zoom, panSeconds*1000)
	pid := chromedp.FromContext(tab).Browser.Process().Pid
	before := sum(pid, func(pid int) float64 { return processor(pid).Seconds() })
	v, err := chromedp.Run(tab, chromedp.Evaluate[[]float64](script, chromedp.EvalAwaitPromise))
	if err != nil {
		return "", err
	}
	used := sum(pid, func(pid int) float64 { return processor(pid).Seconds() }) - before
	return fmt.Sprintf("| panning, zoomed in %d times | %.0f frames/s, the longest %.0f ms; %.0f ms of processor time "+
		"a frame |", 1<<zoom, v[0], v[1], used*1000/(v[0]*panSeconds)), nil
}

// processor is what a process has used.
func processor(pid int) time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	words := strings.Fields(rest)
	if len(words) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(words[11], 10, 64)
	system, _ := strconv.ParseInt(words[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100
}

// memory is what the browser's processes take together, in MB: each its share of pages that others have too.
func memory(tab context.Context) (float64, error) {
	b := chromedp.FromContext(tab).Browser
	if b == nil || b.Process() == nil {
		return 0, errors.New("there is no browser")
	}
	return sum(b.Process().Pid, proportional), nil
}

// sum adds up a figure of a process and its descendants.
func sum(pid int, of func(pid int) float64) float64 {
	total := of(pid)
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range tasks {
		text, _ := os.ReadFile(path)
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				total += sum(child, of)
			}
		}
	}
	return total
}

// proportional is a process's Pss, in MB.
func proportional(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range bytes.Lines(text) {
		if words := strings.Fields(string(line)); len(words) > 1 && words[0] == "Pss:" {
			kb, _ := strconv.ParseFloat(words[1], 64)
			return kb * 1024 / 1e6
		}
	}
	return 0
}
