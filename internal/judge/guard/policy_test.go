package guard

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v3"
)

const whole = `version: 1
name: ours
every: 50ms
rules:
  - name: growth
    when: {memory: process, grown: 500MiB}
    do: [warn, {call: "__main__:told"}]
    again: 1m
  - when: {memory: device:1, unused: 30%}
    do: [empty_cache]
  - when: {memory: limit, above: 85%}
    do: [{clear: "*.outputs"}, {cap: {list: __main__.history, length: 100}}, webhook]
  - when: {every_steps: 50}
    do: [collect]
  - when: {oom_within: 3 steps}
    do: [stop]
clear: ["*.validation_step_outputs"]
cap:
  - {list: pkg.module.kept, length: 10}
checkpoint: __main__:save
on_oom: {retry: true, max_retries: 2}
webhook: {url: "https://example.org/hook", form: slack}
training: {batch_size: 4, accumulate_grad_batches: 4}
`

// wrong are mistakes, each with what is said of it.
var wrong = []struct{ text, want string }{
	{"", "policy:1: an empty policy"},
	{"version: 2\n", `policy:1: version: "2": this memgauge reads version 1`},
	{"rules: 3\n", "policy:1: rules: not a list"},
	{"rules:\n  - when: {memory: gpu, above: 3GiB}\n    do: [warn]\n", `policy:2: rules[0].when.memory: "gpu"`},
	{"rules:\n  - when: {memory: process, grown: much}\n    do: [warn]\n", `rules[0].when.grown: "much": not a size`},
	{"rules:\n  - when: {memory: process, above: 80%}\n    do: [warn]\n", "a process has no limit of its own"},
	{"rules:\n  - when: {above: 3GiB, grown: 3GiB, memory: ram}\n    do: [warn]\n", "several conditions"},
	{"rules:\n  - when: {memory: ram}\n    do: [warn]\n", "no condition"},
	{"rules:\n  - when: {every_steps: 0}\n    do: [warn]\n", `"0": not a whole number from 1`},
	{"rules:\n  - when: {every_steps: 5}\n    do: []\n", "nothing to do"},
	{"rules:\n  - when: {every_steps: 5}\n    do: [wran]\n", `policy:3: rules[0].do[0]: "wran": no such action`},
	{"rules:\n  - when: {every_steps: 5}\n    do: [clear]\n", "clear: of what?"},
	{"rules:\n  - when: {every_steps: 5}\n    do: [webhook]\n", "the policy names none"},
	{"clear: [outputs]\n", `policy:1: clear[0]: "outputs": not a list such as`},
	{"cap: [{list: a.b}]\n", "needs list and length"},
	{"on_oom: {retry: true}\n", "retry halves training.batch_size"},
	{"webhook: {url: ftp://x}\n", "not a http:// or https:// address"},
	{"webhok: {}\n", "policy:1: webhok: no such key"},
	{"name: a\nname: b\n", "policy:2: name: comes twice"},
	{"training: {lr: .inf}\n", "not a finite number"},
	{"training: {batchsize: 4}\n", "policy:1: training.batchsize: no such key"},
	{"floor: 2\n", "floor: "},
	{"training: {1: 2}\n", "a key that is not text"},
	{"name: [\n", "policy: line"},
}

func TestWrong(t *testing.T) {
	for _, c := range wrong {
		p, err := Parse("policy", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, %v; want %q", c.text, p, err, c.want)
		}
	}
}

func TestWhole(t *testing.T) {
	p, err := Parse("policy", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	var told struct {
		Name  string
		Every float64
		Rules []struct {
			Kind  Kind
			Again float64
			Do    [][]any
		}
		Clear []string
	}
	text := p.Agent(true)
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		t.Fatal(err)
	}
	if told.Name != "ours" || told.Every != 0.05 || len(told.Rules) != 5 || told.Rules[0].Again != 60 ||
		told.Rules[2].Do[1][0] != "cap" || told.Rules[4].Kind != Ahead || len(told.Clear) != 1 {
		t.Errorf("the agent gets %s", text)
	}
	if strings.Contains(text, "example.org") {
		t.Error("the webhook's address goes into the trainer's environment")
	}
	less, ok := p.Smaller()
	if !ok || less.Script() != `{"training":{"accumulate_grad_batches":8,"batch_size":2}}` || p.BatchSize() != 4 {
		t.Errorf("half the batch: %s, and it was %d", less.Script(), p.BatchSize())
	}
}

// TestNoRules: an empty list of rules means none; a file without the key gets the guide's.
func TestNoRules(t *testing.T) {
	for text, want := range map[string]bool{"rules: []\n": false, "training: {batch_size: 4}\n": true,
		"rules: []\nfloor: 0\n": false} {
		p, err := Parse("policy", []byte(text))
		if err != nil || (len(p.Rules) > 0) != want {
			t.Errorf("%q: %v, %v", text, p, err)
		} else if zero := strings.Contains(text, "floor"); (p.Floor == 0) != zero {
			t.Errorf("%q: floor %g", text, p.Floor)
		}
	}
}

// TestSafeTraining: the guide's own files are policies as they stand, with the guide's rules.
func TestSafeTraining(t *testing.T) {
	files, err := filepath.Glob("../../../testdata/seeds/memory-leak-fix-guide*")
	if err != nil || len(files) == 0 {
		t.Fatal("the guide is missing", err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of YAML in the guide", len(blocks))
	}
	p, err := Parse("safe_training.yaml", []byte(blocks[0][1]+blocks[1][1]))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"model.d_model", "model.num_heads", "model.num_layers", "model.token_type",
		"training.accumulate_grad_batches", "training.batch_size", "training.check_val_every_n_epoch",
		"training.gradient_clip_val", "training.max_epochs", "training.num_workers", "training.precision"}
	if keys := p.SettingKeys(); !slices.Equal(keys, want) || p.BatchSize() != 4 || !p.Needs("stop") {
		t.Errorf("keys %v, batch size %d", keys, p.BatchSize())
	}
}

// TestSchema holds the published schema to what the reader takes and refuses.
func TestSchema(t *testing.T) {
	var s jsonschema.Schema
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	valid := func(text string) error {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			return err
		}
		return resolved.Validate(v)
	}
	for name, text := range map[string]string{"whole": whole, "guide": string(guideText)} {
		if err := valid(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"webhok: {}\n", "version: 2\n", "rules: 3\n", "clear: [outputs]\n",
		"rules:\n  - when: {every_steps: 5}\n    do: [wran]\n", "cap: [{list: a.b}]\n"} {
		if valid(text) == nil {
			t.Errorf("the schema takes %q", text)
		}
	}
	keys := make([]string, 0, len(s.Properties))
	for key := range s.Properties {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	known := slices.Sorted(slices.Values(topKeys))
	if !slices.Equal(keys, known) {
		t.Errorf("the schema has the keys %v, the reader %v", keys, known)
	}
	for _, verb := range verbs {
		if !strings.Contains(string(schema), `"`+verb+`"`) {
			t.Errorf("the schema lacks the action %s", verb)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add(string(guideText))
	for _, c := range wrong {
		f.Add(c.text)
	}
	f.Add("training: &a {b: &c [1, 2], d: [*c, *c]}\nmodel: *a\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse("policy", []byte(text))
		if (p == nil) == (err == nil) {
			t.Fatal("a result iff there is no error")
		}
		if p != nil && !json.Valid([]byte(p.Agent(false))) {
			t.Fatal("no JSON for the agent")
		}
	})
}

// TestHostilePolicy holds what a file may make us do: aliases that stand for more than there is memory, mappings in
// mappings without an end, a device that has none.
func TestHostilePolicy(t *testing.T) {
	laughs := "training:\n  a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
	for i := 1; i < 40; i++ {
		ten := strings.Repeat(fmt.Sprintf(", *a%d", i-1), 10)
		laughs += fmt.Sprintf("  a%d: &a%d [%s]\n", i, i, ten[2:])
	}
	for name, text := range map[string]string{"laughs": laughs, "deep": "training: " + strings.Repeat("[", maxPolicy/2),
		"keys": "training: " + strings.Repeat("{a: ", maxPolicy/5), "itself": "training: &a [*a]\n"} {
		if _, err := Parse(name, []byte(text)); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	if _, err := Load("/dev/zero"); err == nil {
		t.Error("/dev/zero was read")
	}
}

// Nobody waits for who would write a named pipe.
func TestPipeIsNoPolicy(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(fifo); err == nil {
		t.Error("a pipe was read")
	}
}
