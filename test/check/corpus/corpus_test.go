package corpus

import (
	"errors"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// TestPairs holds the promised recall.
func TestPairs(t *testing.T) {
	list, err := Pairs(Known)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 25 {
		t.Errorf("%d pairs, want 25 or more", len(list))
	}
	for _, p := range list {
		if !p.Found || !p.Quiet {
			t.Logf("missed: %s: before %v, want one of %v; after %v", p.Name, p.Before, p.Want, p.After)
		}
	}
	if r := Recall(list); r < MinRecall {
		t.Errorf("recall %.2f, want %.2f", r, MinRecall)
	}
}

// TestPackages holds the promise about false alarms, on the packages that are here.
func TestPackages(t *testing.T) {
	list, err := Packages(true)
	if errors.Is(err, ErrNoPackages) {
		env.Missing(t, "check", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range Open(list) {
		t.Errorf("nobody has judged %s: put it into review.txt (go run ./test/check -list)", line)
	}
	if w := WrongRate(list); w > MaxWrong {
		t.Errorf("%.2f wrong findings in 10,000 lines, at most %.2f", w, MaxWrong)
	}
}
