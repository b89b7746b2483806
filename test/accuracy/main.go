// Command accuracy measures how well memgauge tells leaks: on simulated series, thousands of runs of each family,
// beside rules in common use; and on a corpus of labelled training programs under real observation. It prints Markdown:
// docs/accuracy.md is made of it.
//
//	go run ./test/accuracy -sim 1000
//	go run ./test/accuracy -memgauge bin/memgauge -python python [-only c001,h002] [-parallel 2] [-sessions DIR]
//
// What the labels go by: test/accuracy/label.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"
)

func main() {
	sim := flag.Int("sim", 0, "simulate so many runs of each family")
	memgauge := flag.String("memgauge", "", "the program, to run the corpus under")
	python := flag.String("python", "python3", "interpreter with torch")
	dirs := flag.String("corpus", "test/accuracy/corpus,test/accuracy/corpus/hard,test/accuracy/corpus/wild,"+
		"test/accuracy/corpus/reports",
		"folders with a manifest.json and programs, comma-separated")
	only := flag.String("only", "", "names of programs, comma-separated")
	parallel := flag.Int("parallel", 1, "run so many programs at once: it disturbs timing, not memory")
	limit := flag.Duration("limit", 20*time.Minute, "the most that a program may take to run")
	sessions := flag.String("sessions", "",
		"keep the sessions in this folder; those that are there already are judged again, not run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *sim > 0 {
		simulated(os.Stdout, *sim)
	}
	if *memgauge == "" {
		return
	}
	for _, dir := range strings.Split(*dirs, ",") {
		c := corpus{memgauge: *memgauge, python: *python, dir: dir, sessions: *sessions, parallel: *parallel,
			limit: *limit}
		if *only != "" {
			c.only = strings.Split(*only, ",")
		}
		if err := c.measure(ctx, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "accuracy:", err)
			os.Exit(1)
		}
	}
}
