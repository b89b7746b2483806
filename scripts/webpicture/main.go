// Command webpicture takes a picture of a page that memgauge web serves, with a headless Chromium.
//
//	go run ./scripts/webpicture [-width 1400] [-height 1000] [-dark] [-print] [-lang zh-CN] -o FILE.png URL
//		[#/s/ID/VIEW]
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("webpicture: ")
	width := flag.Int64("width", 1400, "of the window, in pixels")
	height := flag.Int64("height", 1000, "of the window, in pixels; 0: the whole page")
	dark := flag.Bool("dark", false, "as with a dark desktop")
	paper := flag.Bool("print", false, "as it is printed")
	lang := flag.String("lang", "en-US", "language of the browser")
	out := flag.String("o", "web.png", "write to `FILE`")
	flag.Parse()
	if err := take(view{*width, *height, *dark, *paper, *lang}, *out, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

// drawn is how long the page may take until its charts stand still.
const drawn = 3 * time.Second

// view is how the page is looked at.
type view struct {
	width, height int64
	dark, paper   bool
	lang          string
}

func take(v view, out string, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("which page?")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.Flag("lang", v.lang),
		chromedp.Flag("accept-lang", v.lang))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, time.Minute)
	defer cancel()
	media := emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}}
	if v.dark {
		media.Features[0].Value = "dark"
	}
	if v.paper {
		media.Media = "print"
	}
	err := chromedp.Do(ctx, chromedp.EmulateViewport(v.width, max(v.height, 900)),
		chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media)
			return err
		}),
		chromedp.Navigate(args[0]), chromedp.WaitVisible("main h1"))
	if err == nil && len(args) > 1 {
		_, err = chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf("location.hash = %q", args[1])))
	}
	if err == nil {
		err = chromedp.Do(ctx, chromedp.Sleep(drawn))
	}
	if err != nil {
		return err
	}
	shoot := chromedp.CaptureScreenshot()
	if v.height == 0 {
		shoot = chromedp.FullScreenshot(100)
	}
	picture, err := chromedp.Run(ctx, shoot)
	if err != nil {
		return err
	}
	return os.WriteFile(out, picture, 0o644)
}
