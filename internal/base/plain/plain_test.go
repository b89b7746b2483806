package plain

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"plain, ünïcode 漢字 🎉":                           "plain, ünïcode 漢字 🎉",
		"two\nlines\tand a tab\r\n":                     "two\nlines\tand a tab\r\n",
		"\x1b]0;owned\x07":                              `\x1b]0;owned\x07`,
		"\x1b[2J\x1b[1;1Hmemgauge: no leak":             `\x1b[2J\x1b[1;1Hmemgauge: no leak`,
		"leak\rnone":                                    `leak\rnone`,
		"back\b\b\x7f":                                  `back\x08\x08\x7f`,
		"\u009b31m and \u202eright to left\u2066\ufeff": `\x9b31m and \u202eright to left\u2066\ufeff`,
		"\xffno UTF-8\xc3":                              `\xffno UTF-8\xc3`,
		"a real \uFFFD stays":                           "a real \uFFFD stays",
	} {
		if got := Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
		if got := Line(in); strings.ContainsAny(got, "\n\t\r\x1b") {
			t.Errorf("Line(%q) = %q", in, got)
		}
	}
}

// check writes in pieces of every size what was written at once.
func check(t *testing.T, in string) {
	t.Helper()
	want := text(in)
	for size := 1; size <= 7; size++ {
		var out bytes.Buffer
		w := NewWriter(&out)
		for rest := in; rest != ""; {
			n := min(size, len(rest))
			if k, err := w.Write([]byte(rest[:n])); k != n || err != nil {
				t.Fatal(k, err)
			}
			rest = rest[n:]
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Fatalf("%q in pieces of %d: %q, want %q", in, size, out.String(), want)
		}
	}
	left := strings.ReplaceAll(strings.ReplaceAll(want, Faint, ""), Unfaint, "")
	if strings.ContainsFunc(strings.ReplaceAll(left, "\r\n", "\n"), func(r rune) bool {
		return Steers(r) && r != '\n' &&
			r != '\t'
	}) || !utf8.ValidString(want) {
		t.Fatalf("%q still steers: %q", in, want)
	}
	if again := text(want); again != want {
		t.Fatalf("%q twice: %q", want, again)
	}
}

func TestWriter(t *testing.T) {
	for _, in := range []string{"", "漢字\x1b[2mNULL\x1b[22m\r\n", "\x1b[2", "\x1b[2J\x1b[22\r", "\xe6\xbc", "\r",
		"\r\r\n", "\u202e\x1b", "\x1b\x1b[2m"} {
		check(t, in)
	}
}

func FuzzText(f *testing.F) {
	for _, in := range []string{"plain", "\x1b]0;x\x07", "\xe6\xbc\x1b[2mNULL\x1b[22m\r\n", "\u202e\u009b"} {
		f.Add(in)
	}
	f.Fuzz(check)
}

// Names in prose are one line each; the format's own lines stay, and so does what is no text.
func TestFprintf(t *testing.T) {
	type named string
	var b strings.Builder
	_, err := Fprintf(&b, "%s:\n  %v %5d %v %v\n", "x\n  growth      healthy", named("d\r\nhealthy"), 7,
		errors.New("a\tb\x1b"), nil)
	want := "x\\n  growth      healthy:\n  d\\r\\nhealthy     7 a\\tb\\x1b <nil>\n"
	if b.String() != want || err != nil {
		t.Errorf("%q, %v", b.String(), err)
	}
}
