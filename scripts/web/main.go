// Command web makes the page that memgauge web serves: it fetches the packages of web/packages.lock, bundles web/ with
// esbuild, and writes the files, compressed, into internal/faces/web/bundle, where they are embedded. With -fetch NAME
// it only fetches that package, and prints where it lies. With -lint it only checks the types and the form of web/,
// with -format it writes the form.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/memgauge/memgauge/scripts/web/npm"
)

const (
	out = "internal/faces/web/bundle"
	// firstPage bounds what a browser must have before it shows something: usable on a line of 1 Mbit/s.
	firstPage = 400 << 10
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("web: ")
	fetch := flag.String("fetch", "", "only fetch this package, and print its directory")
	check := flag.Bool("lint", false, "only check the types and the form of web/")
	format := flag.Bool("format", false, "write the form of web/, and check its types")
	flag.Parse()
	if err := run(*fetch, *check || *format, *format); err != nil {
		log.Fatal(err)
	}
}

func run(fetch string, check, format bool) error {
	list, err := npm.Locked(".")
	if err != nil {
		return err
	}
	if check {
		return lint(context.Background(), list, format)
	}
	if fetch != "" {
		i := slices.IndexFunc(list, func(p npm.Package) bool { return p.Name == fetch })
		if i < 0 {
			return fmt.Errorf("%s does not list %s", npm.Lock, fetch)
		}
		fmt.Println(list[i].Dir())
		return npm.Fetch(context.Background(), list[i:i+1])
	}
	list = slices.DeleteFunc(list, npm.Package.TestOnly)
	if err := npm.Fetch(context.Background(), list); err != nil {
		return err
	}
	modules, err := linkModules()
	if err != nil {
		return err
	}
	files, err := bundle(modules)
	if err != nil {
		return err
	}
	return save(files)
}

// linkModules gives the packages a place below the checkout, and returns it. esbuild names a part by a hash over its
// files' paths relative to the working directory: from the cache itself, a checkout that lies one folder deeper would
// give other bytes.
func linkModules() (string, error) {
	const link = "bin/node_modules"
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return "", err
	}
	if at, err := os.Readlink(link); err == nil && at == npm.Modules() {
		return filepath.Abs(link)
	}
	if err := os.RemoveAll(link); err != nil {
		return "", err
	}
	if err := os.Symlink(npm.Modules(), link); err != nil && !errors.Is(err, os.ErrExist) { // another build's
		return "", err
	}
	return filepath.Abs(link)
}

// bundle has esbuild make the page's script, its style, and the parts that are loaded when they are needed; and the
// scripts of a report and of a snapshot's timeline, which are one file each.
func bundle(modules string) ([]api.OutputFile, error) {
	served, err := build(modules, api.BuildOptions{EntryPoints: []string{"web/app.tsx", "web/style.css"},
		Splitting: true, Format: api.FormatESModule, ChunkNames: "part-[hash]"})
	if err != nil {
		return nil, err
	}
	// The editor asks a server: no report has it.
	alone, err := build(modules, api.BuildOptions{EntryPoints: []string{"web/report.tsx", "web/timeline.tsx"},
		Format: api.FormatIIFE, External: []string{"./editor"}})
	return append(served, alone...), err
}

func build(modules string, o api.BuildOptions) ([]api.OutputFile, error) {
	o.Outdir, o.Bundle, o.Target, o.NodePaths = out, true, api.ES2022, []string{modules}
	o.MinifyWhitespace, o.MinifyIdentifiers, o.MinifySyntax, o.LegalComments = true, true, true, api.LegalCommentsNone
	o.JSX, o.JSXImportSource, o.Charset = api.JSXAutomatic, "preact", api.CharsetUTF8
	o.PreserveSymlinks = true
	o.Define, o.LogLevel = map[string]string{"process.env.NODE_ENV": `"production"`}, api.LogLevelWarning
	result := api.Build(o)
	if len(result.Errors) > 0 {
		return nil, errors.New("esbuild found errors, above")
	}
	return result.OutputFiles, nil
}

// save replaces what was made before. A file of the same content stays as it is, so that Go need not link again.
func save(files []api.OutputFile) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	keep, first := map[string]bool{".gitignore": true}, 0
	for _, f := range append(files, page()) {
		name := filepath.Base(f.Path) + ".gz"
		keep[name] = true
		zipped, err := compress(f.Contents)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(name, "part-") && name != "report.js.gz" && name != "timeline.js.gz" {
			first += len(zipped)
		}
		if have, err := os.ReadFile(filepath.Join(out, name)); err == nil && bytes.Equal(have, zipped) {
			continue
		}
		if err := os.WriteFile(filepath.Join(out, name), zipped, 0o644); err != nil {
			return err
		}
	}
	if first > firstPage {
		return fmt.Errorf("the first page has %d bytes, at most %d", first, firstPage)
	}
	return tidy(keep)
}

func tidy(keep map[string]bool) error {
	have, err := os.ReadDir(out)
	if err != nil {
		return err
	}
	for _, f := range have {
		if !keep[f.Name()] {
			if err := os.Remove(filepath.Join(out, f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func page() api.OutputFile {
	text, err := os.ReadFile("web/index.html")
	if err != nil {
		log.Fatal(err)
	}
	return api.OutputFile{Path: "index.html", Contents: text}
}

// compress writes no time into the file: the same content makes the same bytes.
func compress(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
