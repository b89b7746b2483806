package arch

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	agentDir      = "python/memgauge/"   // the Python package
	guestDir      = agentDir + "_agent/" // the part of it that runs in every observed process
	agentDoc      = "docs/agent.md"
	maxGuestLines = 350 // a module of the agent
)

// openToUsers are the guest's modules that what programs import may use.
var openToUsers = []string{"state", "torchhook", "recording", "gauges/memory", "gauges/heap", "observe/loop",
	"guard/hooks",
	// a notebook is told what holds its memory by the census's own walk, in its words and bytes
	"census/entering", "census/interactive", "census/introspect", "census/libraries", "census/sites", "census/tensors",
	"census/walk"}

// pyImports prints the imports of every source that it gets as JSON {path: text}, wherever they stand in it: path,
// dots, module, name. Python's own parser knows what is an import.
const pyImports = `
import ast, json, sys
found = []
for path, text in json.load(sys.stdin).items():
    for node in ast.walk(ast.parse(text, path)):
        if isinstance(node, ast.ImportFrom):
            found += [(path, node.level, node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(path, 0, alias.name, "") for alias in node.names]
json.dump([dict(zip(("file", "dots", "module", "name"), f)) for f in found], sys.stdout)
`

// pyImport is an import of the agent's.
type pyImport struct {
	File, Module, Name string
	Dots               int
}

// target is the path in the repository of the module that is imported, without ".py"; "" for Python's own.
func (i pyImport) target(isModule func(string) bool) string {
	base, inside := path.Dir(i.File), strings.ReplaceAll(i.Module, ".", "/")
	if i.Dots == 0 {
		if rest, ours := strings.CutPrefix(inside+"/", "memgauge/"); ours {
			base, inside = agentDir, strings.TrimSuffix(rest, "/")
		} else {
			return ""
		}
	}
	for range i.Dots - 1 {
		base = path.Dir(base)
	}
	whole := path.Join(base, inside, i.Name)
	if isModule(whole) {
		return whole
	}
	return path.Join(base, inside)
}

// guestRow is a row of the table in docs/agent.md.
var guestRow = regexp.MustCompile("(?m)^\\| `([a-z][a-z0-9/_]*)` \\|")

// guestOrder reads the order of the guest's modules from the document that people read.
func guestOrder(t *testing.T) []string {
	t.Helper()
	_, section, ok := strings.Cut(string(readFile(t, agentDoc)), "\n## Modules, in import order\n")
	if !ok {
		t.Fatalf(`%s has no section "Modules, in import order"`, agentDoc)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var order []string
	for _, row := range guestRow.FindAllStringSubmatch(section, -1) {
		order = append(order, row[1])
	}
	return order
}

// agentSources are the texts of the Python package's modules, by path in the repository.
func agentSources(t *testing.T) map[string]string {
	t.Helper()
	sources := map[string]string{}
	for _, rel := range repoFiles(t) {
		if strings.HasPrefix(rel, agentDir) && path.Ext(rel) == ".py" {
			sources[rel] = string(readFile(t, rel))
		}
	}
	return sources
}

func importsOf(t *testing.T, sources map[string]string) (imports []pyImport) {
	t.Helper()
	input, err := json.Marshal(sources)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "-c", pyImports)
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &imports)
	}
	if err != nil {
		t.Fatalf("python3 must parse every Python source: %v", withStderr(err))
	}
	return imports
}

// guestName is a module's name in the table: its path below _agent/, without ".py".
func guestName(file string) (name string, guest bool) {
	name, guest = strings.CutPrefix(strings.TrimSuffix(file, ".py"), guestDir)
	return name, guest
}

// TestAgentLayers holds that the agent's modules import downwards only, which leaves no room for a circle, that nothing
// which runs in every trainer needs what programs import, and that those need little of it.
func TestAgentLayers(t *testing.T) {
	sources, order := agentSources(t), guestOrder(t)
	for file := range sources {
		name, guest := guestName(file)
		if guest && path.Base(name) != "__init__" && !slices.Contains(order, name) {
			t.Errorf("%s has no row in %s: say what it is, below what it imports", file, agentDoc)
		}
	}
	for _, name := range order {
		if _, there := sources[guestDir+name+".py"]; !there {
			t.Errorf("%s has a row for %s, which is not a module", agentDoc, name)
		}
	}
	isModule := func(name string) bool { _, there := sources[name+".py"]; return there }
	for _, i := range importsOf(t, sources) {
		if target := i.target(isModule); target != "" {
			checkAgentImport(t, order, i.File, target)
		}
	}
}

func checkAgentImport(t *testing.T, order []string, file, target string) {
	t.Helper()
	from, fromGuest := guestName(file)
	to, toGuest := guestName(target)
	switch {
	case fromGuest && !toGuest:
		t.Errorf("%s imports %s: what runs in every trainer must not need what programs import", file, target)
	case fromGuest && slices.Index(order, to) >= slices.Index(order, from):
		t.Errorf("%s imports %s, which does not stand above it in %s", file, to, agentDoc)
	case !fromGuest && toGuest && !slices.Contains(openToUsers, to):
		t.Errorf("%s imports %s: what programs import may use only %s", file, to, strings.Join(openToUsers, ", "))
	}
}

// TestAgentAsksNobodyByName holds that imports are all there is: a module that finds another in sys.modules goes round
// the table. It makes that one's name of its own package's.
func TestAgentAsksNobodyByName(t *testing.T) {
	ofOurs := regexp.MustCompile(`__package__|\bROOT\b`)
	for file, text := range agentSources(t) {
		name, guest := guestName(file)
		if guest && !slices.Contains([]string{"state", "unload", "life"}, name) && ofOurs.MatchString(text) {
			t.Errorf("%s makes names of our modules: keep in state.py what others have to know", file)
		}
	}
}

// TestAgentSizes holds what a reader of the agent has to hold in mind at once.
func TestAgentSizes(t *testing.T) {
	for file, text := range agentSources(t) {
		if n := strings.Count(text, "\n"); strings.HasPrefix(file, guestDir) && n > maxGuestLines {
			t.Errorf("%s has %d lines, at most %d in a module of the agent: split it", file, n, maxGuestLines)
		}
	}
}
