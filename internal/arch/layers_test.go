package arch

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// onlyImporter says which packages alone may import what (or anything below it): a heavy or a risky dependency has one
// door. Tests are held to it too, except for those under test/.
var onlyImporter = map[string]string{
	"github.com/duckdb":            "internal/record/store", // 70 MB of C++; all else builds and race-tests without it
	"database/sql":                 "internal/record/store",
	"github.com/spf13":             "internal/faces/cli",
	"golang.org/x/term":            "internal/base/term internal/faces/cli/ask", // width and edge; an edited line
	"github.com/prometheus/procfs": "internal/probe/proc",
	"charm.land":                   "internal/faces/tui", // the screen; what it draws is made safe there
	"github.com/charmbracelet":     "internal/faces/tui",
	"golang.org/x/image":           "internal/base/chart",
	"gonum.org/v1/gonum":           "internal/base/stats internal/judge/forecast",
	"github.com/google/pprof":      "internal/formats/flame",
	"github.com/klauspost":         "internal/formats/snapshot internal/fleet/frame internal/fleet/lake",
	"github.com/apache/thrift":     "internal/fleet/lake", // Parquet's footers
	"github.com/nats-io":           "internal/fleet/bus",  // what carries messages may be another one day
	"github.com/rivo/uniseg":       "internal/formats/render",
	"github.com/tree-sitter":       "internal/judge/check", // C, and a grammar: rules see our own tree
	"github.com/BurntSushi/toml":   "internal/judge/check",
	"github.com/minio":             "internal/fleet/lake",
	"go.yaml.in/yaml":              "internal/judge/guard",
	"github.com/NVIDIA/go-nvml":    "internal/probe/gpu/nvml",
	"github.com/ebitengine/purego": "alloc/cuda",

	"github.com/modelcontextprotocol": "internal/faces/cli/export",
	modulePath + "/internal/arch":     "",

	// They bring 5 MB of protocol buffers and gRPC for two small files of ours; tests read with them what we send.
	"github.com/prometheus/client_golang": "",
	"go.opentelemetry.io":                 "internal/faces/metrics/otlp",

	// They call methods by names that are text: the linker then keeps every method of every type, 11 MB of them.
	"text/template": "",
	"html/template": "",
}

// onlyUser is onlyImporter for packages of ours. Tests may look further.
var onlyUser = map[string]string{
	// the server: its clients have package ask
	"internal/door/collector": "internal/faces/observe",
	// the client: what answers needs none
	"internal/door/ask":   "internal/faces/observe internal/faces/cli internal/fleet/node internal/faces/source",
	"internal/door/owner": "internal/door/collector internal/door/ask", // they alone take a session's lock
	// they alone start processes of this binary
	"internal/record/keeper": "internal/door/collector internal/door/ask internal/faces/observe",
	"internal/door/cell": "internal/door/collector internal/door/ask internal/fleet/lake internal/faces/cli/ask " +
		"internal/faces/doctor",
	"internal/record/ingest":       "internal/door/owner",
	"internal/probe/attach/ptrace": "internal/probe/attach", // stops other people's processes
	"internal/probe/gpu/nvml":      "internal/probe/gpu/discover",
	"internal/probe/gpu/drm":       "internal/probe/gpu/discover",
	"alloc/cuda":                   "cmd/memgauge_alloc", // loads the driver of a device
}

// presenters show a session and see nothing of it but api.Session.
const presenters = "internal/faces/cli internal/faces/page internal/faces/web internal/faces/tui"

// behindTheDoor is what stands behind api.Session.
const behindTheDoor = "internal/record/session internal/record/store internal/probe/agent internal/probe/proc " +
	"internal/door/owner internal/door/service"

func TestPresentersSeeTheDoorOnly(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.isTest() || !within(f.dir, presenters) {
			continue
		}
		for _, spec := range f.ast.Imports {
			ours, _ := strings.CutPrefix(importPath(spec.Path.Value), modulePath+"/")
			if within(ours, behindTheDoor) {
				t.Errorf("%s imports %s: ask package api's Session, which package ask finds", f.path, ours)
			}
		}
	}
}

// layer is a row of the table in docs/ARCHITECTURE.md.
type layer struct {
	dir   string
	order int
}

var layerRow = regexp.MustCompile("(?m)^\\| `([a-z][a-z0-9/_]*)` \\|")

// layers reads the order from the document that people read, so that the two can't differ.
func layers(t *testing.T) map[string]layer {
	t.Helper()
	doc := string(readFile(t, "docs/ARCHITECTURE.md"))
	_, section, ok := strings.Cut(doc, "\n## Packages, in import order\n")
	if !ok {
		t.Fatal(`docs/ARCHITECTURE.md has no section "Packages, in import order"`)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	table := map[string]layer{}
	for i, row := range layerRow.FindAllStringSubmatch(section, -1) {
		if _, twice := table[row[1]]; twice {
			t.Errorf("docs/ARCHITECTURE.md lists %s twice", row[1])
		}
		table[row[1]] = layer{row[1], i}
	}
	return table
}

// layerOf finds the row of a directory; a sub-package belongs to the row of its nearest parent.
func layerOf(table map[string]layer, dir string) (layer, bool) {
	for {
		if l, ok := table[dir]; ok {
			return l, true
		}
		i := strings.LastIndexByte(dir, '/')
		if i < 0 {
			return layer{}, false
		}
		dir = dir[:i]
	}
}

// layered reports whether a directory is a part of the program: not of its tests, its scripts or its examples.
func layered(dir string) bool { return within(dir, "internal cmd alloc") }

func TestImportOrder(t *testing.T) {
	table := layers(t)
	for _, f := range goFiles(t) {
		if !layered(f.dir) {
			continue
		}
		from, ok := layerOf(table, f.dir)
		if !ok {
			t.Errorf("%s: %s is not in the table of docs/ARCHITECTURE.md", f.path, f.dir)
			continue
		}
		if f.isTest() { // a test may look down from above; Go itself forbids cycles
			continue
		}
		for _, spec := range f.ast.Imports {
			imported, ours := strings.CutPrefix(importPath(spec.Path.Value), modulePath+"/")
			if !ours {
				continue
			}
			to, ok := layerOf(table, imported)
			if !ok || to.order > from.order {
				t.Errorf("%s: %s imports %s, which does not stand above it in docs/ARCHITECTURE.md",
					f.fset.Position(spec.Pos()), f.dir, imported)
			}
		}
	}
}

func importPath(quoted string) string {
	s, err := strconv.Unquote(quoted)
	if err != nil {
		panic(err) // the parser has accepted it
	}
	return s
}

func TestEveryLayerExists(t *testing.T) {
	have := map[string]bool{}
	for _, f := range goFiles(t) {
		have[f.dir] = true
	}
	for dir := range layers(t) {
		if !have[dir] {
			t.Errorf("docs/ARCHITECTURE.md lists %s, which has no Go file", dir)
		}
	}
}

func TestOneDoorForEachDependency(t *testing.T) {
	for _, f := range goFiles(t) {
		if !layered(f.dir) {
			continue
		}
		for _, spec := range f.ast.Imports {
			imported := importPath(spec.Path.Value)
			checkDoor(t, f, imported, onlyImporter)
			if ours, ok := strings.CutPrefix(imported, modulePath+"/"); ok && !f.isTest() {
				checkDoor(t, f, ours, onlyUser)
			}
		}
	}
}

// checkDoor fails an import of what only others may import. A package may always import its own parts.
func checkDoor(t *testing.T, f goFile, imported string, doors map[string]string) {
	t.Helper()
	for dep, allowed := range doors {
		if within(imported, dep) && !within(f.dir, allowed) && !within(f.dir, dep) {
			t.Errorf("%s imports %s; only %q may", f.path, imported, allowed)
		}
	}
}

// tickers are the packages that run in every tick of a collector: none of them starts a process.
const tickers = "internal/probe/proc internal/probe/gpu internal/probe/sampler internal/record/ingest"

func TestNoProcessIsStartedInATick(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.isTest() || !within(f.dir, tickers) {
			continue
		}
		for _, spec := range f.ast.Imports {
			if importPath(spec.Path.Value) == "os/exec" {
				t.Errorf("%s imports os/exec", f.path)
			}
		}
		if bytes.Contains(f.src, []byte("StartProcess")) || bytes.Contains(f.src, []byte("ForkExec")) {
			t.Errorf("%s starts a process", f.path)
		}
	}
}

func within(dir, allowed string) bool {
	for a := range strings.FieldsSeq(allowed) {
		if dir == a || strings.HasPrefix(dir, a+"/") {
			return true
		}
	}
	return false
}
