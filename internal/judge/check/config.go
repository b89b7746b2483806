package check

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/BurntSushi/toml"

	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/trust"
)

// Config is [tool.memgauge.check] of a pyproject.toml.
type Config struct {
	Select         []string            `toml:"select"`
	Ignore         []string            `toml:"ignore"`
	Exclude        []string            `toml:"exclude"`
	ForceExclude   bool                `toml:"force-exclude"` // of files that are named themselves, too
	PerFileIgnores map[string][]string `toml:"per-file-ignores"`
	Dir            string              `toml:"-"` // where the file lies: what patterns are relative to
	Foreign        []string            `toml:"-"` // files that were left out, since a stranger may have put them there
}

// maxConfig bounds a pyproject.toml, in bytes: ten times the largest that people write, and what a parser that follows
// nesting by recursion takes in without harm.
const maxConfig = 256 << 10

// deepKey and deepTable are names of fifty parts, and fifty tables each in the other: the parser keeps the whole name
// of each, which takes the square of the parts, in time and in memory.
var (
	deepKey   = pattern.Of(`(?:(?:"[^"\n]*"|'[^'\n]*'|[\w-]+)[ \t]*\.[ \t]*){50}`)
	deepTable = pattern.Of(`(?:=\s*\{[^}]*){50}`)
)

// ReadConfig finds the nearest pyproject.toml with a [tool.memgauge.check] at or above a directory. Without one the
// configuration is empty. In a directory like /tmp a stranger's says nothing: it could silence every finding.
func ReadConfig(dir string) (Config, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Config{}, err
	}
	var foreign []string
	for {
		path := filepath.Join(dir, "pyproject.toml")
		var data []byte
		if strangers(dir, path) {
			foreign, err = append(foreign, path), fs.ErrNotExist
		} else {
			data, err = readBounded(path, maxConfig)
		}
		if err == nil {
			c, there, err := ParseConfig(data)
			if err != nil {
				return c, remedy.Add(fmt.Errorf("%s: %w", path, err),
					"[tool.memgauge.check] takes select, ignore, exclude, force-exclude and per-file-ignores")
			}
			if there {
				c.Dir, c.Foreign = dir, foreign
				return c, nil
			}
		} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return Config{}, err
		}
		up := filepath.Dir(dir)
		if up == dir {
			return Config{Foreign: foreign}, nil
		}
		dir = up
	}
}

// strangers reports whether a file, or the link of its name, is another user's, in a directory where everybody may put
// one.
func strangers(dir, path string) bool {
	place, err := os.Lstat(dir)
	if err != nil || place.Mode()&0o002 == 0 {
		return false
	}
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return !ok || trust.Foreign(owner.Uid)
}

// ParseConfig reads a pyproject.toml; there says that it has a section for us. A key that nobody knows is an error.
func ParseConfig(data []byte) (c Config, there bool, err error) {
	var file struct {
		Tool struct {
			Memgauge struct {
				Check toml.Primitive `toml:"check"`
			} `toml:"memgauge"`
		} `toml:"tool"`
	}
	if deepKey().Match(data) || deepTable().Match(data) {
		return c, false, errors.New("a name of more than fifty parts")
	}
	meta, err := toml.Decode(string(data), &file)
	if err != nil {
		return c, false, err
	}
	if !meta.IsDefined("tool", "memgauge", "check") {
		return c, false, nil
	}
	if err := meta.PrimitiveDecode(file.Tool.Memgauge.Check, &c); err != nil {
		return c, true, err
	}
	for _, key := range meta.Undecoded() {
		if name, ours := strings.CutPrefix(key.String(), "tool.memgauge.check."); ours {
			return c, true, fmt.Errorf("[tool.memgauge.check] has no setting %q", name)
		}
	}
	for _, names := range c.PerFileIgnores {
		if err := (Selection{Ignore: names}).Check(); err != nil {
			return c, true, fmt.Errorf("per-file-ignores: %w", err)
		}
	}
	return c, true, Selection{Select: c.Select, Ignore: c.Ignore}.Check()
}

// excluded are directories without code of one's own.
var excluded = map[string]bool{".git": true, ".hg": true, ".venv": true, "venv": true, "node_modules": true,
	"__pycache__": true, "site-packages": true, ".tox": true, ".nox": true, ".ipynb_checkpoints": true, ".eggs": true}

// Files lists what is to be checked below the paths: *.py and *.ipynb, in order; a file that is named itself whatever
// its name is. unread are findings about directories that may not be read.
func (c Config) Files(paths []string) (files []string, unread []Finding, err error) {
	seen := map[string]bool{}
	for _, root := range paths {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil && path == root:
				return err
			case err != nil: // a directory that may not be read: others may
				unread = append(unread, unreadable(path, fmt.Sprintf("can't be checked: %v", err)))
				return nil
			case path == root && c.ForceExclude && c.excludes(path):
				return nil
			case d.IsDir():
				if path != root && (excluded[d.Name()] || c.excludes(path)) {
					return fs.SkipDir
				}
			case path == root, d.Type().IsRegular() && isCode(path) && !c.excludes(path):
				if !seen[path] {
					seen[path] = true
					files = append(files, path)
				}
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return files, unread, nil
}

func isCode(path string) bool {
	ext := filepath.Ext(path)
	return ext == ".py" || ext == ".ipynb"
}

// Excludes reports whether a pattern of exclude means a file.
func (c Config) Excludes(path string) bool { return c.excludes(path) }

func (c Config) excludes(path string) bool {
	for _, p := range c.Exclude {
		if c.fits(p, path) {
			return true
		}
	}
	return false
}

// For is what applies to one file: the selection less what per-file-ignores takes out.
func (c Config) For(path string, s Selection) Selection {
	out := Selection{s.Select, append([]string{}, s.Ignore...), s.Unsafe}
	for p, names := range c.PerFileIgnores {
		if c.fits(p, path) {
			out.Ignore = append(out.Ignore, names...)
		}
	}
	return out
}

// fits reports whether a pattern means a path: by its name, by its path below the configuration, or by a directory
// above.
func (c Config) fits(pattern, path string) bool {
	abs, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	rel := abs
	if c.Dir != "" {
		if r, err := filepath.Rel(c.Dir, abs); err == nil {
			rel = r
		}
	}
	pattern = strings.TrimSuffix(strings.TrimSuffix(filepath.Clean(pattern), "/**"), "/*")
	for at := filepath.ToSlash(rel); at != "." && at != "/" && at != ""; at = filepath.ToSlash(filepath.Dir(at)) {
		if ok, _ := filepath.Match(pattern, at); ok {
			return true
		}
		if ok, _ := filepath.Match(pattern, filepath.Base(at)); ok {
			return true
		}
	}
	return false
}
