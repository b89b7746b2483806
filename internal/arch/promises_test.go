package arch

import (
	"regexp"
	"strings"
	"testing"
)

// A promise in docs/security.md is a row of a table whose third column names the tests that hold it.
const promises = "docs/security.md"

var (
	promiseHead = regexp.MustCompile(`^\|.*\| how it is kept \| test \|$`)
	testName    = regexp.MustCompile(`\b((?:Test|Fuzz)[A-Z]\w+|test_\w+\.py)\b`)
)

// TestPromisesAreHeld wants each promise to name at least one test, and each named test to exist.
func TestPromisesAreHeld(t *testing.T) {
	have := map[string]bool{}
	for _, f := range goFiles(t) {
		if !f.isTest() {
			continue
		}
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(f.src, -1) {
			have[string(m[1])] = true
		}
	}
	for _, rel := range repoFiles(t) {
		if base := rel[strings.LastIndexByte(rel, '/')+1:]; strings.HasPrefix(base, "test_") {
			have[base] = true
		}
	}
	text := string(readFile(t, promises))
	for _, name := range testName.FindAllString(text, -1) {
		if !have[name] {
			t.Errorf("%s: there is no test %s", promises, name)
		}
	}
	inside, rows := false, 0
	for i, line := range strings.Split(text, "\n") {
		switch {
		case promiseHead.MatchString(line):
			inside = true
		case !strings.HasPrefix(line, "|"):
			inside = false
		case inside && !strings.HasPrefix(line, "|---"):
			rows++
			cells := strings.Split(strings.Trim(line, "|"), " | ")
			if len(cells) != 3 || !testName.MatchString(cells[2]) {
				t.Errorf("%s:%d: a promise without a test: %.80s", promises, i+1, line)
			}
		}
	}
	if rows < 10 {
		t.Errorf("%s: %d promises found, want a table of them", promises, rows)
	}
}
