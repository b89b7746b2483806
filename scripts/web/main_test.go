package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/scripts/web/npm"
	"github.com/memgauge/memgauge/test/env"
)

// TestDepth: a checkout that lies deeper gives the same files, names included.
func TestDepth(t *testing.T) {
	if _, err := os.Stat(npm.Modules()); err != nil {
		env.Missing(t, "web", err)
	}
	at, err := filepath.Abs("../../web")
	if err != nil {
		t.Fatal(err)
	}
	sources := os.DirFS(at)
	made := func(dir string) map[string][]byte {
		if err := os.CopyFS(filepath.Join(dir, "web"), sources); err != nil {
			t.Fatal(err)
		}
		t.Chdir(dir)
		modules, err := linkModules()
		if err != nil {
			t.Fatal(err)
		}
		files, err := bundle(modules)
		if err != nil {
			t.Fatal(err)
		}
		byName := map[string][]byte{}
		for _, f := range files {
			byName[filepath.Base(f.Path)] = f.Contents
		}
		return byName
	}
	one, other := made(t.TempDir()), made(filepath.Join(t.TempDir(), "a", "b"))
	if len(one) < 4 || len(one) != len(other) {
		t.Errorf("%d and %d files", len(one), len(other))
	}
	for name, text := range one {
		if !bytes.Equal(text, other[name]) {
			t.Errorf("%s differs", name)
		}
	}
}
