// Command pack makes what a release consists of from binaries that are built already: a Python wheel and a tarball for
// one architecture, and the list of what the binary is made of (an SBOM). The same input gives the same bytes: entries
// are sorted, their time is $SOURCE_DATE_EPOCH, and nothing of this machine gets in.
//
//	go run ./scripts/pack -arch x86_64 -version 0.2.0 -bin bin/x86_64 -out dist wheel tarball sbom
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"
)

// release is what is packed.
type release struct {
	Version string
	Arch    string // as Python and uname say it: x86_64, aarch64
	Bin     string // the folder with memgauge and libmemgauge_alloc.so for that architecture
	Source  string // the checkout
	Out     string
	Time    time.Time // of everything inside
	Runtime string    // version of the C++ runtime that is linked in
}

// file is an entry of an archive.
type file struct {
	name string
	mode fs.FileMode
	data []byte
}

const (
	plain   fs.FileMode = 0o644
	program fs.FileMode = 0o755
)

var kinds = map[string]func(release) error{"wheel": release.wheel, "tarball": release.tarball, "sbom": release.sbom}

func main() {
	log.SetFlags(0)
	log.SetPrefix("pack: ")
	r := release{Source: "."}
	flag.StringVar(&r.Version, "version", "", "the version (scripts/version)")
	flag.StringVar(&r.Arch, "arch", "x86_64", "x86_64 or aarch64")
	flag.StringVar(&r.Bin, "bin", "", "folder of memgauge and libmemgauge_alloc.so")
	flag.StringVar(&r.Out, "out", "dist", "folder for the result")
	flag.StringVar(&r.Runtime, "runtime", "", "version of the C++ runtime that is linked in")
	flag.Parse()
	if err := run(r, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

func run(r release, what []string) error {
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: seconds since 1970 are needed: %w", err)
	}
	r.Time = time.Unix(epoch, 0).UTC()
	if r.Version == "" || r.Bin == "" {
		return errors.New("-version and -bin are needed")
	}
	if err := os.MkdirAll(r.Out, 0o755); err != nil {
		return err
	}
	for _, name := range what {
		make, ok := kinds[name]
		if !ok {
			return fmt.Errorf("%s: wheel, tarball or sbom", name)
		}
		if err := make(r); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// fromSource is a file of the checkout under another name.
func (r release) fromSource(from, name string) (file, error) {
	data, err := os.ReadFile(filepath.Join(r.Source, from))
	return file{name, plain, data}, err
}

// built is one of the binaries.
func (r release) built(from, name string, mode fs.FileMode) (file, error) {
	data, err := os.ReadFile(filepath.Join(r.Bin, from))
	return file{name, mode, data}, err
}

// collect joins files whose reading may have failed.
type collect struct {
	files []file
	err   error
}

func (c *collect) add(f file, err error) {
	c.files = append(c.files, f)
	c.err = errors.Join(c.err, err)
}

// text adds a file that is made here.
func (c *collect) text(name, text string) { c.add(file{name, plain, []byte(text)}, nil) }

// stem begins the names of files for one architecture that Python does not prescribe.
func (r release) stem() string { return path.Join(r.Out, "memgauge-"+r.Version+"-linux-"+r.Arch) }
