// Command webpicture takes a picture of a page that memgauge web serves, with a headless Chromium.
//
//	go run ./scripts/webpicture [-width 1400] [-height 1000] [-dark] [-lang zh-CN] -o FILE.png URL [#/s/ID/VIEW]
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("webpicture: ")
	width := flag.Int64("width", 1400, "of the window, in pixels")
	height := flag.Int64("height", 1000, "of the window, in pixels; 0: the whole page")
	dark := flag.Bool("dark", false, "as with a dark desktop")
	lang := flag.String("lang", "en-US", "language of the browser")
	out := flag.String("o", "web.png", "write to `FILE`")
	flag.Parse()
	if err := take(*width, *height, *dark, *lang, *out, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

// drawn is how long the page may take until its charts stand still.
const drawn = 3 * time.Second

func take(width, height int64, dark bool, lang, out string, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("which page?")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.Flag("lang", lang),
		chromedp.Flag("accept-lang", lang))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, time.Minute)
	defer cancel()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	window := max(height, 900)
	var picture []byte
	steps := []chromedp.Action{
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		emulation.SetDeviceMetricsOverride(width, window, 1, width < 600),
		chromedp.Navigate(args[0]), chromedp.WaitVisible("main h1")}
	if len(args) > 1 {
		steps = append(steps, chromedp.Evaluate("location.hash = "+fmt.Sprintf("%q", args[1]), nil))
	}
	steps = append(steps, chromedp.Sleep(drawn), chromedp.ActionFunc(func(ctx context.Context) (err error) {
		picture, err = page.CaptureScreenshot().WithCaptureBeyondViewport(height == 0).Do(ctx)
		return err
	}))
	if height == 0 {
		steps[len(steps)-1] = chromedp.FullScreenshot(&picture, 100)
	}
	if err := chromedp.Run(ctx, steps...); err != nil {
		return err
	}
	return os.WriteFile(out, picture, 0o644)
}
