package guard

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/base/units"
)

// Guide is the name of the policy that is built in.
const Guide = "guide"

//go:embed guide.yaml
var guideText []byte

// maxPolicy bounds a policy's file, in bytes: the largest that anybody has written by hand is 4 KiB, and the agent gets
// it through the environment, where one string has 128 KiB (execve(2), MAX_ARG_STRLEN).
const maxPolicy = 64 << 10

// Policy is a policy that was checked.
type Policy struct {
	Name  string
	Every time.Duration // the shortest pause between two looks
	Floor float64       // share of a memory's limit below which rules touch nothing of the program's
	Rules []Rule
	told  bool     // rules are in the file, if only as an empty list
	Clear []string // lists cleared after each evaluation
	Cap   []Cap
	// Checkpoint names the function that saves one, as MODULE:FUNCTION; "" where the program registers it
	Checkpoint string
	OnOOM      OnOOM
	Webhook    Webhook
	Settings   map[string]any // what the script may ask for: training, model, …
}

// Kind is what a rule goes by.
type Kind string

// The kinds of conditions.
const (
	Above  Kind = "above"  // a memory is above a size or a share of its limit
	Grown  Kind = "grown"  // it has grown by a size since the training's start
	Unused Kind = "unused" // a share of what a device's allocator holds is not in use
	Steps  Kind = "steps"  // every so many steps
	Ahead  Kind = "oom_within"
)

// Rule says what is to be done when.
type Rule struct {
	Name   string        `json:"name"`
	Kind   Kind          `json:"kind"`
	Memory string        `json:"memory,omitempty"` // process, limit, ram, device, device:N
	Bytes  int64         `json:"bytes,omitempty"`  // of Above and Grown
	Share  float64       `json:"share,omitempty"`  // of Above and Unused
	Steps  int64         `json:"steps,omitempty"`  // of Steps and Ahead
	Within float64       `json:"within,omitempty"` // of Ahead, in seconds, where it isn't in steps
	Again  time.Duration `json:"-"`                // until it acts again while its condition lasts
	Do     []Action      `json:"-"`
}

// Action is one thing to do.
type Action struct {
	Verb  string
	Lists []string // of clear
	Cap   Cap      // of cap
	Call  string   // of call, as MODULE:FUNCTION
}

// Cap bounds the length of a list.
type Cap struct {
	List   string `json:"list"`
	Length int64  `json:"length"`
}

// OnOOM is what `run` does when the training has run out of memory, or was stopped before it would have.
type OnOOM struct {
	Retry      bool
	MaxRetries int
}

// Webhook is who is told.
type Webhook struct {
	URL  string
	Form string // json, slack
}

// Load reads a policy: the built-in one by its name, else a file.
func Load(name string) (*Policy, error) {
	if name == Guide {
		return Parse(Guide, guideText)
	}
	file, err := rootdir.OpenNamed(name)
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxPolicy+1)) // a device has no end, and no size
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	return Parse(name, text)
}

// Parse reads the text of a policy; name is that of its file, for messages. All mistakes are told, joined.
func Parse(name string, text []byte) (*Policy, error) {
	if len(text) > maxPolicy {
		return nil, fmt.Errorf("%s: more than %s", name, units.Bytes(maxPolicy))
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, fmt.Errorf("%s: %w", name, yamlError(err))
	}
	r := &reader{file: name}
	p := &Policy{Every: defaultEvery, Floor: defaultFloor, OnOOM: OnOOM{MaxRetries: defaultRetries}}
	if len(root.Content) == 0 {
		r.wrong(&root, "", "an empty policy")
		return nil, r.err()
	}
	r.policy(p, root.Content[0])
	if len(p.Script()) > maxPolicy { // an alias stands for more than it takes
		r.wrong(&root, "", "more than %s of settings", units.Bytes(maxPolicy))
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return p.withDefaults()
}

func yamlError(err error) error {
	return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
}

// withDefaults gives a policy that has settings only, as the guide's safe_training.yaml, the guide's rules.
func (p *Policy) withDefaults() (*Policy, error) {
	if p.told || len(p.Clear)+len(p.Cap) > 0 {
		return p, nil
	}
	guide, err := Parse(Guide, guideText)
	if err != nil {
		return nil, err
	}
	p.Rules = guide.Rules
	return p, nil
}

// Agent is the policy as the agent reads it. It holds no webhook: an address may be a secret, and the trainer's
// environment is readable.
func (p *Policy) Agent(dryRun bool) string {
	type rule struct {
		Rule
		Again float64 `json:"again"`
		Do    [][]any `json:"do"`
	}
	out := struct {
		Name       string   `json:"name"`
		Every      float64  `json:"every"`
		Floor      float64  `json:"floor"`
		DryRun     bool     `json:"dry_run"`
		Rules      []rule   `json:"rules"`
		Clear      []string `json:"clear"`
		Cap        []Cap    `json:"cap"`
		Checkpoint string   `json:"checkpoint"`
	}{p.Name, p.Every.Seconds(), p.Floor, dryRun, []rule{}, append([]string{}, p.Clear...), append([]Cap{}, p.Cap...),
		p.Checkpoint}
	for _, r := range p.Rules {
		one := rule{Rule: r, Again: r.Again.Seconds()}
		for _, a := range r.Do {
			one.Do = append(one.Do, a.words())
		}
		out.Rules = append(out.Rules, one)
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err) // strings, numbers, and what a YAML file can hold with text keys
	}
	return string(text)
}

// Script is the policy's settings as the script gets them, as JSON; "" without any.
func (p *Policy) Script() string {
	if len(p.Settings) == 0 {
		return ""
	}
	text, err := json.Marshal(p.Settings)
	if err != nil {
		panic(err) // as in Agent
	}
	return string(text)
}

func (a Action) words() []any {
	switch a.Verb {
	case "clear":
		return []any{a.Verb, a.Lists}
	case "cap":
		return []any{a.Verb, a.Cap.List, a.Cap.Length}
	case "call":
		return []any{a.Verb, a.Call}
	}
	return []any{a.Verb}
}

// BatchSize is the setting that a retry halves; 0 where the policy has none.
func (p *Policy) BatchSize() int {
	training, _ := p.Settings["training"].(map[string]any)
	n, _ := training["batch_size"].(int)
	return n
}

// Smaller is the policy with half the batch, as the guide's: gradients of twice as many batches are added up, so that
// the effective batch stays. ok is false where it can't be halved.
func (p *Policy) Smaller() (smaller *Policy, ok bool) {
	batch := p.BatchSize()
	if batch < 2 {
		return nil, false
	}
	less := *p
	less.Settings = copyMap(p.Settings)
	training := copyMap(p.Settings["training"].(map[string]any))
	training["batch_size"] = batch / 2
	if n, ok := training["accumulate_grad_batches"].(int); ok && n > 0 {
		training["accumulate_grad_batches"] = n * 2
	}
	less.Settings["training"] = training
	return &less, true
}

func copyMap(from map[string]any) map[string]any {
	to := make(map[string]any, len(from))
	for k, v := range from {
		to[k] = v
	}
	return to
}

// SettingKeys lists the settings by their paths, such as training.batch_size, sorted.
func (p *Policy) SettingKeys() []string {
	var keys []string
	var walk func(prefix string, m map[string]any)
	walk = func(prefix string, m map[string]any) {
		for k, v := range m {
			if inner, ok := v.(map[string]any); ok && len(inner) > 0 {
				walk(prefix+k+".", inner)
			} else {
				keys = append(keys, prefix+k)
			}
		}
	}
	walk("", p.Settings)
	slices.Sort(keys)
	return keys
}

// Needs reports whether a rule or a bound of the policy has this action.
func (p *Policy) Needs(verb string) bool {
	for _, r := range p.Rules {
		if slices.ContainsFunc(r.Do, func(a Action) bool { return a.Verb == verb }) {
			return true
		}
	}
	return false
}

//go:embed policy.schema.json
var schema []byte

// Schema is the JSON schema of a policy, for editors and for checks before a run.
func Schema() []byte { return slices.Clone(schema) }
