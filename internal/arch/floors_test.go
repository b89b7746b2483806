package arch

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	floorRow     = regexp.MustCompile(`(?m)^\| \*\*([a-z]+)\*\* \|`)
	floorHeading = regexp.MustCompile("^### `internal/([a-z]+)`")
)

// TestFloors: the folders of internal/ are the floors that docs/ARCHITECTURE.md lists, and each package stands in the
// table of its own. The order of the tables is that of the floors, so TestImportOrder holds which floor imports which.
func TestFloors(t *testing.T) {
	doc := string(readFile(t, "docs/ARCHITECTURE.md"))
	listed := []string{"arch"}
	for _, row := range floorRow.FindAllStringSubmatch(doc, -1) {
		listed = append(listed, row[1])
	}
	have, err := os.ReadDir(path.Join(root, "internal"))
	if err != nil {
		t.Fatal(err)
	}
	if len(have) != len(listed) {
		t.Errorf("internal/ has %d folders, docs/ARCHITECTURE.md lists %d floors", len(have), len(listed))
	}
	_, section, _ := strings.Cut(doc, "\n## Packages, in import order\n")
	section, _, _ = strings.Cut(section, "\n## ")
	parts := strings.Split(section, "\n### ")[1:]
	for i, part := range parts {
		name := floorHeading.FindStringSubmatch("### " + part)
		if name == nil {
			continue // the programs
		}
		if i >= len(listed) || name[1] != listed[i] {
			t.Errorf("table %d is that of %s: the floors are %v", i+1, name[1], listed)
		}
		for _, row := range layerRow.FindAllStringSubmatch(part, -1) {
			if inside, ok := strings.CutPrefix(row[1], "internal/"); ok && !within(inside, name[1]) {
				t.Errorf("%s stands in the table of %s", row[1], name[1])
			}
		}
	}
}
