package prompt

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestHistoryLasts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	h, err := OpenHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, typed := range []string{"leak", "leak", "", "SELECT 1, -- one\n  '--' AS x\nFROM y",
		">>> for x in y:\n    print(x)",
		">>> login(password='hunter2hunter2')", strings.Repeat("x", maxEntry+1)} {
		if err := h.Keep(typed); err != nil {
			t.Fatal(err)
		}
	}
	again, err := OpenHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := again.Len() - 1; i >= 0; i-- {
		got = append(got, again.At(i))
	}
	want := []string{"leak", "SELECT 1, '--' AS x FROM y", ">>> for x in y:", "    print(x)"}
	if len(got) != 5 || !slices.Equal(got[:4], want) {
		t.Errorf("%q", got)
	}
	if strings.Contains(got[4], "hunter2") {
		t.Errorf("a password is kept: %q", got[4])
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if e, at, ok := again.Search("FROM", 0); !ok || e != want[1] || at != 3 {
		t.Errorf("%q %d %v", e, at, ok)
	}
	if _, _, ok := again.Search("FROM", 4); ok {
		t.Error("found once more")
	}
}

func TestHistoryIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	line := strings.Repeat("y", 300)
	var b strings.Builder
	for range 5000 {
		b.WriteString(line + "\n")
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	h, err := OpenHistory(path)
	if err != nil || h.Len() != maxEntries {
		t.Errorf("%d entries, %v", h.Len(), err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() != int64(maxEntries*301) || info.Mode().Perm() != 0o600 {
		t.Errorf("%d bytes, %v, %v", info.Size(), info.Mode(), err)
	}
	if h, err := OpenHistory(t.TempDir()); err == nil || h.Keep("x") != nil || h.Len() != 1 {
		t.Errorf("a directory as history: %v", err)
	}
}

func words() Words {
	return Words{
		Commands: func() []string { return []string{"leak", "list", "where", "use"} },
		Flags:    func(c string) []string { return map[string][]string{"leak": {"--json", "--jobs"}}[c] },
		Tables: func() []Table {
			return []Table{{"python.steps", []string{"step", "rss"}}, {"python.tensors", []string{"holder"}}}
		},
		Sessions: func() []string { return []string{"resnet", "bert"} },
		Python:   func(d string) []string { return []string{"model", "model.layers", "losses"} },
	}
}

func TestComplete(t *testing.T) {
	for line, want := range map[string]string{
		"l":                                     "leak list",
		"sel":                                   "SELECT",
		"":                                      "DESCRIBE FROM SELECT SUMMARIZE WITH leak list use where",
		"leak --j":                              "--jobs --json",
		"leak x":                                "",
		"use b":                                 "bert",
		`\d py`:                                 "python.steps python.tensors",
		`\ch`:                                   `\chart`,
		"SELECT * FROM python.s":                "python.steps",
		"SELECT * FROM ":                        "python.steps python.tensors",
		"SELECT rs":                             "rss",
		"SELECT count(":                         "holder rss step",
		"SELECT max(ho":                         "holder",
		"SELECT s.st":                           "s.step",
		"SELECT st FROM python.tensors WHERE h": "HAVING holder",
		">>> mod":                               "model model.layers",
		">>> len(lo":                            "losses",
		">>> len(":                              "",
	} {
		if _, got := words().Complete(line); strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	if _, got := (Words{}).Complete("SELECT x FROM "); len(got) != 0 {
		t.Errorf("without words: %q", got)
	}
	if got := Common([]string{"python.steps", "python.step_devices"}); got != "python.step" {
		t.Errorf("%q", got)
	}
}

func TestWhole(t *testing.T) {
	for sql, want := range map[string]bool{
		"SELECT 1": true, "SELECT": false, "SELECT 1,": false, "SELECT (1": false, "SELECT 'a": false,
		"SELECT 'a('": true, "SELECT 1 -- (": true, "SELECT 1 /* (": false, "SELECT 1 /* x */": true,
		"SELECT * FROM": false, "SELECT * FROM t WHERE": false, "SELECT * FROM t GROUP BY": false,
		"SELECT * FROM t ORDER BY x": true, "FROM t;": true, "SELECT 'it''s'": true, "": false, "SELECT 1)": true,
	} {
		if got := Whole(sql); got != want {
			t.Errorf("%q: %v", sql, got)
		}
	}
}

func TestShortcut(t *testing.T) {
	for line, want := range map[string]string{`\d`: "tables", `\d python.steps`: "tables python.steps", `\q`: "exit",
		`\c  bert `: "use bert"} {
		if got, ok := Shortcut(line); !ok || got != want {
			t.Errorf("%q: %q %v", line, got, ok)
		}
	}
	if _, ok := Shortcut(`\nonsense`); ok {
		t.Error(`\nonsense is a shortcut`)
	}
}

func FuzzLines(f *testing.F) {
	f.Add("SELECT 'a FROM python.")
	f.Add(">>> mödel.")
	f.Fuzz(func(t *testing.T, line string) {
		start, list := words().Complete(line)
		if start < 0 || start > len(line) {
			t.Fatalf("start %d of %d", start, len(line))
		}
		_ = Common(list)
		_ = Whole(line)
		_, _ = Shortcut(line)
		_ = joined(line)
	})
}
