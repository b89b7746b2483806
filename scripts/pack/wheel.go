package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// glibc is the oldest that the binaries run with: the one of scripts/sysroot. `auditwheel show` confirms it.
const glibc = "2_31"

const (
	packageDir = "python/memgauge"
	plugin     = "integrations/pytest.py" // of the package: pytest finds it by an entry point
)

// entryPoints names the plugin as `-p` and pytest_plugins do: under another name pytest would load it twice, which it
// refuses.
//
//go:embed entry_points.txt
var entryPoints string

// wheel writes a wheel (packaging.python.org, "Binary distribution format"). The command goes where pip puts commands,
// as it is: started through Python it would take 20 ms longer. The library goes beside it: what is meant for PREFIX/lib
// `pip install --target` leaves out.
func (r release) wheel() error {
	info, data := "memgauge-"+r.Version+".dist-info/", "memgauge-"+r.Version+".data/"
	tag := "py3-none-manylinux_" + glibc + "_" + r.Arch
	var c collect
	c.add(r.built("memgauge", data+"scripts/memgauge", program))
	c.add(r.built("libmemgauge_alloc.so", data+"scripts/libmemgauge_alloc.so", program))
	c.python(r)
	c.text(info+"METADATA", r.metadata())
	c.text(info+"WHEEL", "Wheel-Version: 1.0\nGenerator: memgauge\nRoot-Is-Purelib: false\nTag: "+tag+"\n")
	if slices.ContainsFunc(c.files, func(f file) bool { return f.name == "memgauge/"+plugin }) {
		c.text(info+"entry_points.txt", entryPoints)
	}
	c.add(r.fromSource("LICENSE", info+"LICENSE"))
	c.add(r.fromSource("THIRD_PARTY_LICENSES", info+"THIRD_PARTY_LICENSES"))
	bom, err := r.bom()
	c.add(file{info + "sboms/memgauge.cdx.json", plain, bom}, err)
	if c.err != nil {
		return c.err
	}
	c.text(info+"RECORD", record(c.files, info+"RECORD"))
	archive, err := r.zip(c.files)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.Out, "memgauge-"+r.Version+"-"+tag+".whl"), archive, 0o644)
}

// python adds the modules of the Python package: those that git knows or that are new, no bytecode.
func (c *collect) python(r release) {
	root := filepath.Join(r.Source, packageDir)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".py" && d.Name() != "py.typed" {
			return err
		}
		inside, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(name) // #nosec G122 -- our own checkout, in which nobody else swaps links
		if inside == "_version.py" {
			data = fmt.Appendf(nil, "VERSION = %q\n", r.Version) // with the build
		}
		c.add(file{"memgauge/" + filepath.ToSlash(inside), plain, data}, err)
		return nil
	})
	if err != nil {
		c.err = fmt.Errorf("read the Python package: %w", err)
	}
}

// metadata describes the package to pip and to an index. Version 2.1 of the format is one that the pip of Debian 11
// knows.
func (r release) metadata() string {
	return `Metadata-Version: 2.1
Name: memgauge
Version: ` + r.Version + `
Summary: Records the memory of AI training jobs, finds what leaks and what runs out, and answers questions in SQL
Home-page: https://github.com/memgauge/memgauge
License: Apache-2.0
License-File: LICENSE
License-File: THIRD_PARTY_LICENSES
Keywords: memory,leak,oom,pytorch,training,profiler
Classifier: Environment :: Console
Classifier: Environment :: GPU
Classifier: Intended Audience :: Developers
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Go
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Software Development :: Debuggers
Requires-Python: >=3.8
Description-Content-Type: text/markdown

` + description
}

// description is what an index shows. The README has pictures and links that lead nowhere outside of the repository.
const description = `memgauge records the memory of AI training jobs and answers questions about it: what leaks, since
when, who holds it, and when it will run out. The records outlive the training. It needs no other package.

    memgauge run -- python train.py     # or, for a job that runs already: memgauge attach PID
    memgauge leak
    memgauge query "SELECT step, anon, rss FROM python.steps ORDER BY step"

Attaching to a running process works on x86-64; everything else on aarch64 too.
`

// record lists every file with its hash and size.
func record(files []file, self string) string {
	var b strings.Builder
	for _, f := range sorted(files) {
		sum := sha256.Sum256(f.data)
		fmt.Fprintf(&b, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.data))
	}
	fmt.Fprintf(&b, "%s,,\n", self)
	return b.String()
}

func sorted(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return strings.Compare(a.name, b.name) })
}

// zip packs the files, what describes the package last, as the format recommends.
func (r release) zip(files []file) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return &compressor{to: w}, nil
	})
	for _, last := range []bool{false, true} {
		for _, f := range sorted(files) {
			if strings.Contains(f.name, ".dist-info/") != last {
				continue
			}
			header := zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: r.Time}
			header.SetMode(f.mode)
			w, err := z.CreateHeader(&header)
			if err != nil {
				return nil, err
			}
			if _, err := w.Write(f.data); err != nil {
				return nil, err
			}
		}
	}
	err := z.Close()
	return b.Bytes(), err
}
