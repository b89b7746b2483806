// Command licenses writes THIRD_PARTY_LICENSES: the licence texts of every module that is linked into memgauge, of the
// npm packages in the page that it embeds, and of Go itself. With -check it only compares, and fails if the file is not
// current.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/scripts/web/npm"
)

const file = "THIRD_PARTY_LICENSES"

func main() {
	log.SetFlags(0)
	log.SetPrefix("licenses: ")
	check := flag.Bool("check", false, "compare "+file+" instead of writing it")
	flag.Parse()
	if err := run(*check); err != nil {
		log.Fatal(err)
	}
}

func run(check bool) error {
	modules, err := linked()
	if err != nil {
		return err
	}
	pages, err := bundled()
	if err != nil {
		return err
	}
	modules = append(modules, pages...)
	text, err := render(modules)
	if err != nil {
		return err
	}
	if !check {
		return os.WriteFile(file, text, 0o644)
	}
	have, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !bytes.Equal(have, text) {
		return errors.New(file + " is not current: run make licenses")
	}
	return nil
}

type module struct {
	Path, Version, Dir string
	Main               bool
}

// linked asks go which modules the program is built from. Not from go.mod: that also lists what only tests use.
func linked() ([]module, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=Module", "./cmd/memgauge", "./cmd/memgauge_alloc")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	byPath := map[string]module{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ Module *module }
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if p.Module != nil && !p.Module.Main {
			byPath[p.Module.Path] = *p.Module
		}
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	byPath["Go"] = module{Path: "Go, its standard library and runtime", Dir: strings.TrimSpace(string(goroot))}
	modules := make([]module, 0, len(byPath))
	for _, m := range byPath {
		m.Path = platform.ReplaceAllString(m.Path, "$1/PLATFORM")
		modules = append(modules, m)
	}
	slices.SortFunc(modules, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	return modules, nil
}

// bundled are the npm packages of the page that is embedded.
func bundled() (modules []module, err error) {
	list, err := npm.Locked(".")
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, npm.Package.TestOnly)
	for _, p := range list {
		modules = append(modules, module{Path: "npm: " + p.Name, Version: p.Version, Dir: p.Dir()})
	}
	return modules, npm.Fetch(context.Background(), list)
}

// platform matches the modules that hold DuckDB compiled, one for each platform; the file must not depend on where it
// was written.
var platform = regexp.MustCompile(`^(github\.com/duckdb/duckdb-go-bindings/lib)/[a-z]+-[a-z0-9]+$`)

// compiled is DuckDB's own code together with what it brings along; the module has the licence of the former only.
const compiled = "github.com/duckdb/duckdb-go-bindings/lib/PLATFORM"

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([._-].*)?$`)

func render(modules []module) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("memgauge is linked with the following; their licences require that these texts come with it.\nWritten by make licenses.\n")
	for _, m := range modules {
		fmt.Fprintf(&b, "\n%s\n%s\n", strings.Repeat("=", 100), strings.TrimSpace(m.Path+" "+m.Version))
		found, err := writeTexts(&b, m)
		if err != nil {
			return nil, err
		}
		if m.Path == compiled {
			text, err := os.ReadFile(filepath.Join("scripts", "licenses", "duckdb-"+m.Version+".txt"))
			if err != nil {
				return nil, fmt.Errorf("what is compiled into DuckDB (collect the licence files of its source tree): %w", err)
			}
			fmt.Fprintf(&b, "\n%s\n", bytes.TrimSpace(text))
		}
		if !found {
			return nil, fmt.Errorf("%s %s has no licence file in %s", m.Path, m.Version, m.Dir)
		}
	}
	return b.Bytes(), nil
}

// writeTexts writes a module's licence files and says whether there were any.
func writeTexts(b *bytes.Buffer, m module) (bool, error) {
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return false, fmt.Errorf("%s is not in the module cache (go mod download): %w", m.Path, err)
	}
	found := false
	for _, e := range entries {
		if e.IsDir() || !licenceFile.MatchString(e.Name()) || filepath.Ext(e.Name()) == ".go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.Dir, e.Name()))
		if err != nil {
			return false, err
		}
		found = true
		fmt.Fprintf(b, "\n--- %s\n\n%s\n", e.Name(), bytes.TrimSpace(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))))
	}
	return found, nil
}
