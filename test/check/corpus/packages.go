package corpus

import (
	"archive/zip"
	"bufio"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/memgauge/memgauge/internal/judge/check"
)

// pinned are the packages that count, by the name and version under which PyPI has them.
var pinned = []string{"accelerate==1.15.0", "diffusers==0.42.1", "fastai==2.8.12", "lightning==2.6.6", "peft==0.21.2",
	"pytorch-ignite==0.5.5", "sentence-transformers==6.2.0", "timm==1.0.31",
	"torchmetrics==1.9.0", "torchvision==0.29.2",
	"transformers==5.23.0", "trl==1.16.0", "ultralytics==8.4.190"}

// Package is what was found in one.
type Package struct {
	Name     string
	Lines    int
	Seconds  float64 // of CPU time
	Findings []Reviewed
}

// Reviewed is a finding with what a reader said of it: "right", "wrong", or "" for not yet.
type Reviewed struct {
	check.Finding
	Verdict, Reason string
}

//go:embed review.txt
var review []byte

// reviews are the judgements by "package path RULE: text of the line". Lines move between versions, texts stay.
func reviews() (map[string][2]string, error) {
	known := map[string][2]string{}
	for n, line := range strings.Split(string(review), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		parts := strings.SplitN(line, " | ", 4)
		if len(parts) != 4 || parts[0] != "right" && parts[0] != "wrong" {
			return nil, fmt.Errorf("review.txt:%d: want VERDICT | PLACE RULE | LINE | REASON", n+1)
		}
		known[parts[1]+" | "+parts[2]] = [2]string{parts[0], parts[3]}
	}
	return known, nil
}

// Dir is where packages lie.
func Dir() (string, error) {
	cache := os.Getenv("MEMGAUGE_TEST_CACHE")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(home, ".cache", "memgauge-test")
	}
	return filepath.Join(cache, "check"), nil
}

// ErrNoPackages says that none is here.
var ErrNoPackages = errors.New("no package is here: scripts/testenv --only check downloads them")

// Fetch downloads what is not here.
func Fetch() error {
	dir, err := Dir()
	if err != nil {
		return err
	}
	for _, pin := range pinned {
		tree := filepath.Join(dir, strings.ReplaceAll(pin, "==", "-"))
		if _, err := os.Stat(tree); err == nil {
			continue
		}
		if err := download(dir, pin, tree); err != nil {
			return err
		}
	}
	return nil
}

// Packages checks every pinned package; with cached only those that are here.
func Packages(cached bool) (list []Package, err error) {
	if !cached {
		if err := Fetch(); err != nil {
			return nil, err
		}
	}
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	known, err := reviews()
	if err != nil {
		return nil, err
	}
	for _, pin := range pinned {
		tree := filepath.Join(dir, strings.ReplaceAll(pin, "==", "-"))
		if _, err := os.Stat(tree); err != nil {
			continue
		}
		p, err := measure(pin, tree, known)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	if len(list) == 0 {
		return nil, ErrNoPackages
	}
	return list, nil
}

// download has pip fetch a wheel, and unpacks its sources. Nothing of it is run.
func download(dir, pin, tree string) error {
	part := tree + ".part"
	if err := errors.Join(os.RemoveAll(part), os.MkdirAll(part, 0o755)); err != nil {
		return err
	}
	defer os.RemoveAll(part)
	fmt.Fprintln(os.Stderr, "downloading", pin)
	cmd := exec.Command("python3", "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
		"--only-binary=:all:",
		"--python-version", "3.11", "--platform", "manylinux2014_x86_64", "--platform", "manylinux_2_28_x86_64",
		"--platform", "any", "-d", part, pin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pip download %s: %w\n%s", pin, err, bytes.TrimSpace(out))
	}
	wheels, err := filepath.Glob(filepath.Join(part, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return fmt.Errorf("pip download %s left %d wheels", pin, len(wheels))
	}
	if err := unpack(wheels[0], filepath.Join(part, "src")); err != nil {
		return err
	}
	return os.Rename(filepath.Join(part, "src"), tree)
}

// maxUnpacked is how much a wheel may hold of Python: the largest has 90 MB.
const maxUnpacked = 512 << 20

func unpack(wheel, to string) error {
	z, err := zip.OpenReader(wheel)
	if err != nil {
		return err
	}
	defer z.Close()
	left := int64(maxUnpacked)
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, ".py") || !filepath.IsLocal(f.Name) {
			continue
		}
		path := filepath.Join(to, f.Name) // #nosec G305 -- it is local
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		r, err := f.Open()
		if err != nil {
			return err
		}
		data, err := io.ReadAll(io.LimitReader(r, left+1))
		r.Close()
		if left -= int64(len(data)); err == nil && left < 0 {
			err = fmt.Errorf("%s holds more than %d bytes", wheel, maxUnpacked)
		}
		if err == nil {
			err = os.WriteFile(path, data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// measure checks one tree.
func measure(name, tree string, known map[string][2]string) (Package, error) {
	p := Package{Name: name}
	files, _, err := check.Config{}.Files([]string{tree})
	if err != nil {
		return p, err
	}
	began := cpuTime()
	found, lines := make([][]check.Finding, len(files)), make([]int, len(files))
	var wait sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for i := range next {
				var data []byte
				found[i], data = check.Read(files[i], check.Selection{})
				lines[i] = bytes.Count(data, []byte("\n"))
			}
		})
	}
	for i := range files {
		next <- i
	}
	close(next)
	wait.Wait()
	p.Seconds = (cpuTime() - began).Seconds()
	for i := range files {
		p.Lines += lines[i]
		for _, f := range found[i] {
			rel, err := filepath.Rel(tree, f.Path)
			if err != nil {
				return p, err
			}
			f.Path = filepath.ToSlash(rel)
			said := known[place(f)]
			p.Findings = append(p.Findings, Reviewed{f, said[0], said[1]})
		}
	}
	return p, nil
}

// cpuTime is what this process has used on all cores.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// place is what the review knows a finding by.
func place(f check.Finding) string {
	return f.Path + " " + f.Rule.ID + " | " + strings.Join(strings.Fields(f.Source), " ")
}

// List writes every finding for a reviewer, as lines of review.txt.
func List(w io.Writer, packages []Package) {
	b := bufio.NewWriter(w)
	defer b.Flush()
	for _, p := range packages {
		fmt.Fprintf(b, "# %s\n", p.Name)
		for _, f := range p.Findings {
			verdict := f.Verdict
			if verdict == "" {
				verdict = "OPEN"
			}
			fmt.Fprintf(b, "%s | %s | line %d: %s %s\n", verdict, place(f.Finding), f.Line, f.Message, f.Reason)
		}
	}
}

// Count counts findings by what the review says.
func (p Package) Count(verdict string) (n int) {
	for _, f := range p.Findings {
		if f.Verdict == verdict {
			n++
		}
	}
	return n
}

// Open lists findings that nobody has judged, by package.
func Open(packages []Package) (list []string) {
	for _, p := range packages {
		for _, f := range p.Findings {
			if f.Verdict == "" {
				list = append(list, p.Name+": "+place(f.Finding))
			}
		}
	}
	slices.Sort(list)
	return list
}
