package secret

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// sample is a line of testdata.
type sample struct {
	line, kind, text string
	secrets          []string
}

// samples reads a list; secrets.txt says how it is written.
func samples(t testing.TB, file string) (list []sample) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		kind, text, ok := strings.Cut(strings.ReplaceAll(line, "¦", ""), "\t")
		if !ok {
			t.Fatalf("%s: %q: no kind", file, line)
		}
		s := sample{line: line, kind: kind}
		for {
			before, rest, ok := strings.Cut(text, "‹")
			s.text += before
			if !ok {
				break
			}
			secret, after, _ := strings.Cut(rest, "›")
			s.text += secret
			s.secrets = append(s.secrets, strings.ReplaceAll(secret, "␣", " "))
			text = after
		}
		list = append(list, s)
	}
	return list
}

// redact does to a sample what is done to its like.
func (s sample) redact() string {
	switch s.kind {
	case "args":
		args := strings.Fields(s.text)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "␣", " ")
		}
		args = Args(args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], " ", "␣")
		}
		return strings.Join(args, " ")
	case "env":
		name, value, _ := strings.Cut(s.text, "=")
		return name + "=" + Env(name, value)
	}
	return Text(s.text)
}

func TestSecretsVanish(t *testing.T) {
	list := samples(t, "secrets.txt")
	if len(list) < 200 {
		t.Errorf("%d shapes, want 200", len(list))
	}
	for _, s := range list {
		got := s.redact()
		for _, secret := range s.secrets {
			if strings.Contains(strings.ReplaceAll(got, "␣", " "), secret) {
				t.Errorf("%s\n  shows %q: %s", s.line, secret, got)
			}
		}
		again := sample{kind: s.kind, text: got}.redact()
		if again != got {
			t.Errorf("%s\n  once  %s\n  twice %s", s.line, got, again)
		}
		if kept := strings.Fields(s.text)[0]; s.kind == "args" && !strings.HasPrefix(got, kept) {
			t.Errorf("%s\n  lost its program: %s", s.line, got)
		}
	}
}

func TestTheRestStays(t *testing.T) {
	list := samples(t, "harmless.txt")
	if len(list) < 200 {
		t.Errorf("%d texts, want 200", len(list))
	}
	for _, s := range list {
		if got := s.redact(); got != s.text {
			t.Errorf("%s\n  became %s", s.line, got)
		}
	}
}

// The glance that spares most texts the rules must not overlook what a rule would find.
func TestGlance(t *testing.T) {
	for _, s := range samples(t, "secrets.txt") {
		if s.kind == "text" && harmless(s.text) {
			t.Errorf("%s: held for harmless", s.line)
		}
	}
}

func TestPythonIsCurrent(t *testing.T) {
	have, err := os.ReadFile("../../../python/memgauge/_agent/record/_secrets.py")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, Python()) {
		t.Error("_secrets.py differs from rules.go: run make generate")
	}
}

// askPython has the agent's redactor hide the same texts.
func askPython(t *testing.T, kind string, in any) (out []string) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		env.Missing(t, "python3", err)
	}
	call := map[string]string{"text": "[redact.text(x) for x in given]",
		"args": "['\\x1d'.join(redact.args(x)) for x in given]"}[kind]
	given, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c",
		"import json, sys\nfrom memgauge._agent.record import redact\ngiven = json.load(sys.stdin)\njson.dump("+call+
			", sys.stdout)")
	cmd.Env = append(os.Environ(), "PYTHONPATH=../../../python", "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(given), os.Stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Both redactors, and what is cut out of their texts anywhere, come to the same.
func TestPythonDoesTheSame(t *testing.T) {
	var texts []string
	var args [][]string
	for _, file := range []string{"secrets.txt", "harmless.txt"} {
		for _, s := range samples(t, file) {
			texts = append(texts, s.text)
			for _, n := range []int{len(s.text) / 3, len(s.text) / 2, len(s.text) * 4 / 5} {
				texts = append(texts, strings.ToValidUTF8(s.text[:n], ""), strings.ToValidUTF8(s.text[n:], ""))
			}
			if s.kind == "args" {
				args = append(args, strings.Fields(s.text))
			}
		}
	}
	for i, got := range askPython(t, "text", texts) {
		if want := Text(texts[i]); got != want {
			t.Errorf("%q\n  Go     %s\n  Python %s", texts[i], want, got)
		}
	}
	for i, got := range askPython(t, "args", args) {
		if want := strings.Join(Args(args[i]), "\x1d"); got != want {
			t.Errorf("%q\n  Go     %s\n  Python %s", args[i], want, got)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, file := range []string{"secrets.txt", "harmless.txt"} {
		for _, s := range samples(f, file) {
			f.Add(s.text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		once := Text(text)
		if len(once) > len(text)+len(Hidden)*(1+len(text)) {
			t.Fatalf("%d bytes of %d", len(once), len(text))
		}
		Env("X_TOKEN", text)
		if args := strings.Split(text, " "); len(Args(args)) != len(args) {
			t.Fatalf("%q: another number of arguments: %q", args, Args(args))
		}
	})
}

// Hiding takes time in proportion to the text, whatever the text: the agent holds Python's lock meanwhile.
func TestPythonIsQuick(t *testing.T) {
	var texts []string
	for _, piece := range []string{"a", "mysql ", "mysql -p", `"`, "://", "token=", "-----BEGIN PRIVATE KEY-----",
		"wandb login -x ", "{'password': ", "u:p@", "\\", "=", "Ab1"} {
		texts = append(texts, strings.Repeat(piece, 1<<16/len(piece)))
	}
	for _, text := range texts {
		Text(text) // a test of seconds becomes one of hours where this is not linear
	}
	askPython(t, "text", texts)
}
