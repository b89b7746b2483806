// Command webpicture takes pictures of a page that memgauge web serves, with a headless Chromium.
//
//	go run ./scripts/webpicture [-width 1400] [-height 1000] [-dark] [-print] [-lang zh-CN] -o FILE.png URL
//		[#/s/ID/VIEW]
//	go run ./scripts/webpicture -all DIR NAME URL [VIEW=#/s/ID/VIEW …]
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
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
	all := flag.String("all", "", "each view in all sizes, light, dark and printed, as NAME-VIEW-….png in `DIR`")
	flag.Parse()
	ctx, cancel := browser(*lang)
	defer cancel()
	var err error
	switch args := flag.Args(); {
	case len(args) == 0 || *all != "" && len(args) < 2:
		err = fmt.Errorf("which page?")
	case *all != "":
		err = gallery(ctx, *all, args[0], args[1], args[2:])
	default:
		err = one(ctx, look{*width, *height, *dark, *paper}, *out, args)
	}
	if err != nil {
		log.Fatal(err)
	}
}

const (
	drawn    = 3 * time.Second        // until the charts of a page stand still
	redrawn  = 700 * time.Millisecond // until they do in a window of another size
	patience = 90 * time.Second       // of a view: a judgement of a long session takes some
)

// look is how the page is looked at.
type look struct {
	width, height int64 // height 0: the whole page
	dark, paper   bool
}

// looks are those of a gallery: a phone, a tablet, a laptop, a large screen, each light and dark, and paper.
func looks() []look {
	var list []look
	for _, width := range []int64{360, 820, 1280, 1920} {
		list = append(list, look{width: width}, look{width: width, dark: true})
	}
	return append(list, look{width: 800, paper: true, dark: true})
}

func (l look) String() string {
	if l.paper {
		return "print"
	}
	return fmt.Sprint(l.width, map[bool]string{true: "-dark", false: "-light"}[l.dark])
}

func browser(lang string) (context.Context, context.CancelFunc) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.Flag("lang", lang),
		chromedp.Flag("accept-lang", lang))
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(ctx)
	return ctx, func() { cancel(); stop() }
}

// set gives the tab a window and a desktop.
func set(ctx context.Context, l look) error {
	media := emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}}
	if l.dark {
		media.Features[0].Value = "dark"
	}
	if l.paper {
		media.Media = "print"
	}
	height := l.height
	if height == 0 {
		height = 900
	}
	return chromedp.Do(ctx, chromedp.EmulateViewport(l.width, height),
		chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media)
			return err
		}))
}

func shoot(ctx context.Context, l look, out string) error {
	how := chromedp.CaptureScreenshot()
	if l.height == 0 {
		how = chromedp.FullScreenshot(100)
	}
	picture, err := chromedp.Run(ctx, how)
	if err != nil {
		return err
	}
	return os.WriteFile(out, picture, 0o644)
}

func one(ctx context.Context, l look, out string, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := set(ctx, l)
	if err == nil {
		err = chromedp.Do(ctx, chromedp.Navigate(args[0]), chromedp.WaitVisible("main h1"))
	}
	if err == nil && len(args) > 1 {
		err = hash(ctx, args[1])
	}
	if err == nil {
		err = chromedp.Do(ctx, chromedp.Sleep(drawn))
	}
	if err != nil {
		return err
	}
	return shoot(ctx, l, out)
}

func hash(ctx context.Context, to string) error {
	_, err := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf("location.hash = %q", to)))
	return err
}

// gallery takes every view of a page, or the page itself without any, in all looks.
func gallery(ctx context.Context, dir, name, url string, views []string) error {
	err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(url),
		chromedp.WaitVisible("main h1"))
	if err != nil {
		return err
	}
	if len(views) == 0 {
		views = []string{"page="}
	}
	for _, view := range views {
		word, to, _ := strings.Cut(view, "=")
		if err := album(ctx, dir, name+"-"+word, to); err != nil {
			return fmt.Errorf("%s %s: %w", name, word, err)
		}
	}
	return nil
}

// album takes one view in all looks, and says where it is wider than the window.
func album(ctx context.Context, dir, name, to string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := set(ctx, look{width: 1280}); err != nil {
		return err
	}
	if to != "" {
		if err := hash(ctx, to); err != nil {
			return err
		}
	}
	for busy := true; busy; {
		err := chromedp.Do(ctx, chromedp.Sleep(redrawn))
		if err == nil {
			busy, err = chromedp.Run(ctx, chromedp.Evaluate[bool]("!!document.querySelector('.busy')"))
		}
		if err != nil {
			return err
		}
	}
	if err := chromedp.Do(ctx, chromedp.Sleep(drawn)); err != nil {
		return err
	}
	for _, l := range looks() {
		if err := set(ctx, l); err != nil {
			return err
		}
		if err := chromedp.Do(ctx, chromedp.Sleep(redrawn)); err != nil {
			return err
		}
		wide, err := chromedp.Run(ctx, chromedp.Evaluate[int]("document.documentElement.scrollWidth - innerWidth"))
		if err != nil {
			return err
		}
		if err := shoot(ctx, l, filepath.Join(dir, fmt.Sprintf("%s-%s.png", name, l))); err != nil {
			return err
		}
		if wide > 0 {
			log.Printf("%s-%s is %d px wider than the window", name, l, wide)
		}
	}
	return nil
}
