// Command check measures memgauge check: how many known leaks it finds in pairs of code before and after a real fix,
// and how often it is wrong about well-kept packages at pinned versions, by a review that lies beside it. It prints the
// tables of docs/check.md.
//
//	go run ./test/check                    both tables; packages are downloaded if they aren't here
//	go run ./test/check -cached            only packages that are here
//	go run ./test/check -fetch             downloads only
//	go run ./test/check -list              every finding in the packages, for a reviewer
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/memgauge/memgauge/test/check/corpus"
)

func main() {
	cached := flag.Bool("cached", false, "download nothing: packages that are not here are left out")
	fetch := flag.Bool("fetch", false, "download what is not here, and check nothing")
	list := flag.Bool("list", false, "list every finding in the packages with its review")
	flag.Parse()
	work := func() error { return run(*cached, *list) }
	if *fetch {
		work = corpus.Fetch
	}
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

func run(cached, list bool) error {
	pairs, err := corpus.Pairs(corpus.Known)
	if err != nil {
		return err
	}
	heldOut, err := corpus.Pairs(corpus.HeldOut)
	if err != nil {
		return err
	}
	labelled, err := corpus.LabelledPrograms(".")
	if err != nil {
		return err
	}
	packages, err := corpus.Packages(cached)
	if err != nil {
		return err
	}
	if list {
		corpus.List(os.Stdout, packages)
		return nil
	}
	corpus.Print(os.Stdout, pairs, heldOut, labelled, packages)
	if corpus.Recall(pairs) < corpus.MinRecall || corpus.WrongRate(packages) > corpus.MaxWrong {
		return errors.New("below what is promised")
	}
	return nil
}
