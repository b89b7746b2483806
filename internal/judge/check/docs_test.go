package check

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDocsListRules holds the table of docs/check.md to the rules that there are.
func TestDocsListRules(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/check.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, r := range Rules() {
		fix := ""
		if strings.Contains(r.Page(), "\n`--fix`") {
			fix = " ✔"
		}
		row := fmt.Sprintf("\n| %s | `%s` | %s |%s | ", r.ID, r.Name, r.Severity, fix)
		if !strings.Contains(string(doc), row) {
			t.Errorf("docs/check.md has no row %q", row)
		}
		rows++
	}
	if have := strings.Count(string(doc), "\n| MG"); have != rows {
		t.Errorf("docs/check.md has %d rows of rules, want %d", have, rows)
	}
}
