package rootdir

import (
	"io/fs"
	"strings"
	"testing"
)

// TestElement: of any word comes one part of a path, and an honest name stays as it is.
func TestElement(t *testing.T) {
	for _, name := range []string{"resnet", "train.py", "node-7.example.org", "rank0", "my run", "école_2", "A:1@b+c"} {
		if got := Element(name); got != name {
			t.Errorf("%q became %q", name, got)
		}
	}
	for _, word := range []string{"", ".", "..", "/", "../..", "a/../b", `a\b`, "a\x00b", "\x1b[31m", "-rf", ".hidden",
		"\xff", "\u202eabc", " ", "\n", strings.Repeat("é", 500)} {
		got := Element(word)
		if !fs.ValidPath(got) || strings.ContainsAny(got, "/\\\x00\x1b\n\u202e") || len(got) > maxElement ||
			strings.ContainsAny(got[:1], ".- ") {
			t.Errorf("%q became %q", word, got)
		}
	}
}
