package check

import (
	"slices"
	"strings"
	"testing"
)

func found(t *testing.T, src string) (list []string) {
	t.Helper()
	fs, err := File("example.py", []byte(src), Selection{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fs {
		list = append(list, f.Rule.ID)
	}
	return list
}

// TestExamples holds each rule's page to its word: what it calls wrong is found, what it calls right is left alone by
// every rule.
func TestExamples(t *testing.T) {
	for _, r := range Rules() {
		t.Run(r.ID, func(t *testing.T) {
			if want := "# " + r.ID + " " + r.Name + "\n"; !strings.HasPrefix(r.Page(), want) {
				t.Errorf("the page does not begin %q", want)
			}
			wrong, right := r.Examples()
			if r.ID != Unreadable && (len(wrong) == 0 || len(right) == 0) {
				t.Fatalf("%d wrong and %d right examples", len(wrong), len(right))
			}
			for _, src := range wrong {
				if ids := found(t, src); !slices.Contains(ids, r.ID) {
					t.Errorf("not found, only %v, in\n%s", ids, src)
				}
			}
			for _, src := range right {
				if ids := found(t, src); len(ids) > 0 {
					t.Errorf("%v in the right example\n%s", ids, src)
				}
			}
		})
	}
}

// TestFixes mends every wrong example that can be mended, and finds it mended.
func TestFixes(t *testing.T) {
	for _, r := range Rules() {
		if !strings.Contains(r.Page(), "\n`--fix`") {
			continue
		}
		for _, src := range first(r.Examples()) {
			after, _, n, err := Mend("example.py", []byte(src), Selection{})
			if err != nil || n == 0 {
				t.Errorf("%s: %v: nothing is mended in\n%s", r.ID, err, src)
			}
			if ids := found(t, string(after)); slices.Contains(ids, r.ID) {
				t.Errorf("%s: still found after the fix in\n%s", r.ID, after)
			}
		}
	}
}

func first(a, _ []string) []string { return a }
