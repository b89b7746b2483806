package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/memgauge/memgauge/scripts/web/npm"
)

// lint has TypeScript check the types of web/, and prettier its form. With write, prettier mends the form.
// Both need Node, which the build doesn't.
func lint(ctx context.Context, list []npm.Package, write bool) error {
	if err := npm.Fetch(ctx, list); err != nil {
		return err
	}
	mode := "--check"
	if write {
		mode = "--write"
	}
	form := node(ctx, "prettier/bin/prettier.cjs", mode, "--log-level", "warn", "--ignore-path", "web/.prettierignore",
		"web/*.ts", "web/*.tsx")
	if form != nil {
		form = fmt.Errorf("%w: go run ./scripts/web -format writes it as it should be", form)
	}
	return errors.Join(types(ctx), form)
}

// types runs the compiler. The packages lie outside of the checkout, where it doesn't look by itself.
func types(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "memgauge-types-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	web, err := filepath.Abs("web")
	if err != nil {
		return err
	}
	modules := npm.Modules()
	text, err := json.Marshal(map[string]any{
		"extends": filepath.Join(web, "tsconfig.json"),
		"include": []string{filepath.Join(web, "*.ts"), filepath.Join(web, "*.tsx")},
		"compilerOptions": map[string]any{"paths": map[string][]string{
			"d3-hierarchy": {filepath.Join(modules, "@types/d3-hierarchy")},
			"*":            {filepath.Join(modules, "*")},
		}},
	})
	if err != nil {
		return err
	}
	config := filepath.Join(dir, "tsconfig.json")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		return err
	}
	return node(ctx, "typescript/lib/tsc.js", "--noEmit", "-p", config)
}

// node runs a program of a package.
func node(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, "node", append([]string{filepath.Join(npm.Modules(), program)}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	return nil
}
