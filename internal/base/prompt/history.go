// Package prompt owns what a prompt for SQL, commands and Python knows of its lines: a history that lasts, what Tab can
// make of the beginning of a line, and whether a statement is whole. It reads no terminal and asks no session.
package prompt

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/base/secret"
)

const (
	// maxEntries that a history keeps: what somebody typed in some months.
	maxEntries = 2000
	// maxFile is the size from which the file is written anew with the newest entries.
	maxFile = 512 << 10
	// maxRead bounds the file, in bytes: several prompts may have appended since one wrote it anew.
	maxRead = 64 << 20
	// maxEntry is the longest that is kept: a statement that was pasted by the page is no line to recall.
	maxEntry = 16 << 10
)

// History is the lines that were typed, the newest last. Its file is the user's alone. Secrets are hidden before
// anything is kept. Several prompts may append to one file; each sees its own and what was there when it began.
type History struct {
	path    string // "": kept in memory only
	entries []string
}

// OpenHistory reads a history. Without a file it is empty; one that can't be read comes with an error and keeps what is
// typed in memory.
func OpenHistory(path string) (*History, error) {
	h := &History{path: path}
	text, err := rootdir.ReadFile(path, maxRead)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return h, nil
	case err != nil:
		h.path = ""
		return h, fmt.Errorf("read the history: %w", err)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if line != "" {
			h.entries = append(h.entries, line)
		}
	}
	h.bound()
	if len(text) > maxFile {
		return h, h.rewrite()
	}
	return h, nil
}

func (h *History) bound() {
	if n := len(h.entries) - maxEntries; n > 0 {
		h.entries = append([]string(nil), h.entries[n:]...)
	}
}

// rewrite replaces the file by the entries that are kept.
func (h *History) rewrite() error {
	if err := rootdir.ReplaceText(h.path, []byte(strings.Join(h.entries, "\n")+"\n")); err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	return nil
}

// Keep adds what was typed. Lines of a statement become one, those of a Python block stay apart: neither can otherwise
// be recalled on one line. What was typed just before is not kept twice.
func (h *History) Keep(typed string) error {
	if !strings.HasPrefix(typed, ">>>") {
		typed = joined(typed)
	}
	for line := range strings.SplitSeq(typed, "\n") {
		if err := h.keepLine(line); err != nil {
			return err
		}
	}
	return nil
}

func (h *History) keepLine(line string) error {
	line = strings.TrimRight(secret.Text(line), " \t\r")
	if n := len(h.entries); line == "" || len(line) > maxEntry || n > 0 && h.entries[n-1] == line {
		return nil
	}
	h.entries = append(h.entries, line)
	h.bound()
	if h.path == "" {
		return nil
	}
	f, err := rootdir.AppendFile(h.path)
	if err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	_, err = f.WriteString(line + "\n")
	if err = errors.Join(err, f.Chmod(0o600), f.Close()); err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	return nil
}

// joined makes one line of a statement's: blanks for line ends, and no comments that would hide the rest.
func joined(sql string) string {
	if !strings.Contains(sql, "\n") {
		return sql
	}
	var parts []string
	for line := range strings.SplitSeq(sql, "\n") {
		if i := commentAt(line); i >= 0 {
			line = line[:i]
		}
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, " ")
}

// commentAt finds a -- outside of quotes; -1 for none.
func commentAt(line string) int {
	quote := byte(0)
	for i := range len(line) {
		switch c := line[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case strings.HasPrefix(line[i:], "--"):
			return i
		}
	}
	return -1
}

// Len, At and Add are the History of golang.org/x/term, the newest entry first. Add keeps nothing: a line may be the
// part of a statement, which Keep gets whole.
func (h *History) Len() int { return len(h.entries) }

// At is the entry at an age.
func (h *History) At(i int) string { return h.entries[len(h.entries)-1-i] }

// Add keeps nothing.
func (h *History) Add(string) {}

// Search finds the newest entry that is older than `before` entries and contains a text; ok is false for none.
func (h *History) Search(part string, before int) (entry string, at int, ok bool) {
	for i := before; i < h.Len(); i++ {
		if e := h.At(i); strings.Contains(e, part) && e != part {
			return e, i, true
		}
	}
	return "", 0, false
}
