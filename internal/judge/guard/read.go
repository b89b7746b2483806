package guard

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/base/webhook"
)

// Defaults and bounds. A look costs some 100 µs; looks together take 0.5 % of the training's time at most.
const (
	defaultEvery   = 20 * time.Millisecond
	leastEvery     = time.Millisecond
	defaultAgain   = 30 * time.Second
	defaultFloor   = 0.8 // a healthy training seldom comes nearer to its limit
	defaultRetries = 3
	maxRules       = 64
	maxLists       = 64
	maxDepth       = 8      // of settings
	maxNodes       = 10_000 // of settings, aliases followed
	version        = 1
)

// MaxRetries bounds how often a run is started again: a batch of 65,536 is then down to one.
const MaxRetries = 16

// settings are the keys at the top whose values are the script's. They are what training configurations have.
var settings = []string{"training", "model", "data", "optimizer", "trainer"}

// trainingKeys are what training: may have: a misspelt one would be without effect, and nobody would know. What a
// script names otherwise stands below model, data, optimizer or trainer.
var trainingKeys = []string{"batch_size", "eval_batch_size", "micro_batch_size", "accumulate_grad_batches",
	"gradient_accumulation_steps", "num_workers", "pin_memory", "persistent_workers", "prefetch_factor", "precision",
	"dtype", "gradient_clip_val", "gradient_checkpointing", "compile", "max_epochs", "max_steps", "epochs", "steps",
	"warmup_steps", "check_val_every_n_epoch", "val_check_interval", "log_every_n_steps", "save_every_n_steps",
	"learning_rate", "lr", "weight_decay", "seed", "seq_len", "sequence_length", "max_length", "device", "devices",
	"strategy", "optimizer", "scheduler"}

var topKeys = append([]string{"version", "name", "every", "floor", "rules", "clear", "cap", "checkpoint", "on_oom",
	"webhook"}, settings...)

var verbs = []string{"warn", "log", "census", "collect", "empty_cache", "trim", "workers", "figures", "clear", "cap",
	"call", "checkpoint", "stop", "webhook"}

// reader collects what is wrong with a file.
type reader struct {
	file   string
	errors []error
	nodes  int // of settings, so far
}

func (r *reader) err() error { return errors.Join(r.errors...) }

// wrong tells a mistake by its line and key, as compilers do.
func (r *reader) wrong(n *yaml.Node, key, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if key != "" {
		text = key + ": " + text
	}
	r.errors = append(r.errors, fmt.Errorf("%s:%d: %s", r.file, max(n.Line, 1), text))
}

// each calls take for the pairs of a mapping. Keys that are not known, or come twice, are mistakes.
func (r *reader) each(n *yaml.Node, path string, known []string, take func(key string, value *yaml.Node)) {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		r.wrong(n, path, "not a mapping of %s", strings.Join(known, ", "))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], resolve(n.Content[i+1])
		switch {
		case seen[key.Value]:
			r.wrong(key, join(path, key.Value), "comes twice")
		case !slices.Contains(known, key.Value):
			r.wrong(key, join(path, key.Value), "no such key; there are %s", strings.Join(known, ", "))
		default:
			take(key.Value, value)
		}
		seen[key.Value] = true
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// resolve follows an alias: YAML refuses those that contain themselves.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func (r *reader) policy(p *Policy, n *yaml.Node) {
	r.each(n, "", topKeys, func(key string, v *yaml.Node) {
		if slices.Contains(settings, key) {
			r.setting(p, key, v)
			return
		}
		switch key {
		case "version":
			if v.Value != strconv.Itoa(version) {
				r.wrong(v, key, "%q: this memgauge reads version %d", v.Value, version)
			}
		case "name":
			p.Name = r.text(v, key)
		case "every":
			p.Every = r.duration(v, key, leastEvery)
		case "floor":
			if v.Value != "0" {
				p.Floor = r.share(v, key)
			} else {
				p.Floor = 0
			}
		case "rules":
			p.told = true
			for i, item := range r.list(v, key, maxRules) {
				p.Rules = append(p.Rules, r.rule(item, fmt.Sprintf("rules[%d]", i), i))
			}
		case "clear":
			p.Clear = r.names(v, key)
		case "cap":
			for i, item := range r.list(v, key, maxLists) {
				p.Cap = append(p.Cap, r.cap(item, fmt.Sprintf("cap[%d]", i)))
			}
		case "checkpoint":
			p.Checkpoint = r.function(v, key)
		case "on_oom":
			r.onOOM(p, v)
		case "webhook":
			r.webhook(p, v)
		}
	})
	if p.Needs("webhook") && p.Webhook.URL == "" {
		r.wrong(n, "webhook", "a rule calls it, and the policy names none")
	}
	if p.OnOOM.Retry && p.BatchSize() < 2 {
		r.wrong(n, "on_oom", "retry halves training.batch_size, which the policy doesn't have, or which is below 2")
	}
}

// setting takes what is the script's as it is, but for what JSON can't say.
func (r *reader) setting(p *Policy, key string, v *yaml.Node) {
	if v.Kind != yaml.MappingNode {
		r.wrong(v, key, "not a mapping")
		return
	}
	if !r.plain(v, key, 0) {
		return
	}
	if key == "training" {
		r.each(v, key, trainingKeys, func(string, *yaml.Node) {})
	}
	var m map[string]any
	if err := v.Decode(&m); err != nil {
		r.wrong(v, key, "%v", yamlError(err))
		return
	}
	if p.Settings == nil {
		p.Settings = map[string]any{}
	}
	p.Settings[key] = m
}

// plain says whether a value has text keys only and no number that JSON lacks.
func (r *reader) plain(n *yaml.Node, path string, depth int) bool {
	n = resolve(n)
	if r.nodes++; depth > maxDepth || r.nodes > maxNodes {
		r.wrong(n, path, "more than %d levels or %d values", maxDepth, maxNodes)
		return false
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if key := resolve(n.Content[i]); key.Kind != yaml.ScalarNode || key.Tag != "!!str" {
				r.wrong(key, path, "a key that is not text")
				return false
			}
			if !r.plain(n.Content[i+1], join(path, n.Content[i].Value), depth+1) {
				return false
			}
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			if !r.plain(item, fmt.Sprintf("%s[%d]", path, i), depth+1) {
				return false
			}
		}
	case yaml.ScalarNode:
		if v := strings.ToLower(strings.TrimLeft(n.Value, "+-")); n.Tag == "!!float" && (v == ".inf" || v == ".nan") {
			r.wrong(n, path, "%s: not a finite number", n.Value)
			return false
		}
	}
	return true
}

var ruleKeys = []string{"name", "when", "do", "again"}

func (r *reader) rule(n *yaml.Node, path string, number int) Rule {
	rule := Rule{Name: fmt.Sprintf("rule %d", number+1), Again: defaultAgain}
	r.each(n, path, ruleKeys, func(key string, v *yaml.Node) {
		switch at := join(path, key); key {
		case "name":
			rule.Name = r.text(v, at)
		case "when":
			r.condition(&rule, v, at)
		case "do":
			for i, item := range r.list(v, at, maxLists) {
				rule.Do = append(rule.Do, r.action(item, fmt.Sprintf("%s[%d]", at, i)))
			}
		case "again":
			rule.Again = r.duration(v, at, 0)
		}
	})
	if rule.Kind == "" {
		r.wrong(n, path, "no condition: when needs above, grown, unused, every_steps or oom_within")
	}
	if len(rule.Do) == 0 {
		r.wrong(n, path, "nothing to do: do needs one of %s", strings.Join(verbs, ", "))
	}
	return rule
}

var whenKeys = []string{"memory", "above", "grown", "unused", "every_steps", "oom_within"}

func (r *reader) condition(rule *Rule, n *yaml.Node, path string) {
	kinds := 0
	r.each(n, path, whenKeys, func(key string, v *yaml.Node) {
		at := join(path, key)
		if key == "memory" {
			rule.Memory = r.memory(v, at)
			return
		}
		kinds++
		switch key {
		case "above":
			rule.Kind = Above
			if strings.HasSuffix(v.Value, "%") {
				rule.Share = r.share(v, at)
			} else {
				rule.Bytes = r.size(v, at)
			}
		case "grown":
			rule.Kind, rule.Bytes = Grown, r.size(v, at)
		case "unused":
			rule.Kind, rule.Share = Unused, r.share(v, at)
		case "every_steps":
			rule.Kind, rule.Steps = Steps, r.count(v, at, 1<<40)
		case "oom_within":
			rule.Kind = Ahead
			r.within(rule, v, at)
		}
	})
	r.fits(rule, kinds, n, path)
}

// fits checks what a condition's parts demand of each other.
func (r *reader) fits(rule *Rule, kinds int, n *yaml.Node, path string) {
	device := strings.HasPrefix(rule.Memory, "device")
	switch {
	case kinds > 1:
		r.wrong(n, path, "several conditions: make a rule for each")
	case rule.Kind == Unused && !device:
		r.wrong(n, path, "unused is about what PyTorch's allocator holds of a device: memory: device")
	case (rule.Kind == Above || rule.Kind == Grown) && rule.Memory == "":
		r.wrong(n, path, "of which memory? process, limit, ram, device or device:N")
	case rule.Kind == Steps && rule.Memory != "":
		r.wrong(n, path, "every_steps goes by no memory")
	case rule.Kind == Above && rule.Share > 0 && rule.Memory == "process":
		r.wrong(n, path, "a process has no limit of its own: memory: limit, ram or device")
	}
}

func (r *reader) within(rule *Rule, v *yaml.Node, path string) {
	number, unit, _ := strings.Cut(strings.TrimSpace(v.Value), " ")
	if unit = strings.TrimSpace(unit); unit == "step" || unit == "steps" {
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil || n < 1 {
			r.wrong(v, path, "%q: not a number of steps of at least 1", v.Value)
		}
		rule.Steps = n
		return
	}
	rule.Within = r.duration(v, path, time.Millisecond).Seconds()
}

func (r *reader) memory(v *yaml.Node, path string) string {
	switch v.Value {
	case "process", "limit", "ram", "device":
		return v.Value
	}
	if n, ok := strings.CutPrefix(v.Value, "device:"); ok {
		if number, err := strconv.ParseUint(n, 10, 10); err == nil {
			return fmt.Sprintf("device:%d", number)
		}
	}
	r.wrong(v, path, "%q: not process, limit, ram, device or device:N", v.Value)
	return "process"
}

// action is a verb, or a mapping of a verb to what it is about.
func (r *reader) action(n *yaml.Node, path string) (a Action) {
	n = resolve(n)
	if n.Kind == yaml.ScalarNode {
		a.Verb = n.Value
		switch {
		case !slices.Contains(verbs, a.Verb):
			r.wrong(n, path, "%q: no such action; there are %s", a.Verb, strings.Join(verbs, ", "))
		case a.Verb == "clear" || a.Verb == "cap" || a.Verb == "call":
			r.wrong(n, path, "%s: of what? {clear: [LIST…]}, {cap: {list: LIST, length: N}}, {call: MODULE:FUNCTION}",
				a.Verb)
		}
		return a
	}
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 {
		r.wrong(n, path, "not one action")
		return a
	}
	r.each(n, path, []string{"clear", "cap", "call"}, func(key string, v *yaml.Node) {
		a.Verb = key
		switch at := join(path, key); key {
		case "clear":
			a.Lists = r.names(v, at)
		case "cap":
			a.Cap = r.cap(v, at)
		case "call":
			a.Call = r.function(v, at)
		}
	})
	return a
}

func (r *reader) cap(n *yaml.Node, path string) (c Cap) {
	r.each(n, path, []string{"list", "length"}, func(key string, v *yaml.Node) {
		switch at := join(path, key); key {
		case "list":
			c.List = r.listName(v, at)
		case "length":
			c.Length = r.count(v, at, 1<<40)
		}
	})
	if c.List == "" || c.Length == 0 {
		r.wrong(n, path, "needs list and length")
	}
	return c
}

func (r *reader) onOOM(p *Policy, n *yaml.Node) {
	r.each(n, "on_oom", []string{"retry", "max_retries"}, func(key string, v *yaml.Node) {
		switch at := "on_oom." + key; key {
		case "retry":
			if err := v.Decode(&p.OnOOM.Retry); err != nil || v.Tag != "!!bool" {
				r.wrong(v, at, "%q: not true or false", v.Value)
			}
		case "max_retries":
			p.OnOOM.MaxRetries = int(r.count(v, at, MaxRetries))
		}
	})
}

func (r *reader) webhook(p *Policy, n *yaml.Node) {
	p.Webhook.Form = "json"
	r.each(n, "webhook", []string{"url", "form"}, func(key string, v *yaml.Node) {
		switch at := "webhook." + key; key {
		case "url":
			if p.Webhook.URL = v.Value; !webhook.IsAddress(v.Value) {
				r.wrong(v, at, "not a http:// or https:// address")
			}
		case "form":
			if p.Webhook.Form = v.Value; !webhook.IsForm(v.Value) {
				r.wrong(v, at, "%q: not json or slack", v.Value)
			}
		}
	})
	if p.Webhook.URL == "" {
		r.wrong(n, "webhook", "needs url")
	}
}

func (r *reader) list(n *yaml.Node, path string, most int) []*yaml.Node {
	n = resolve(n)
	if n.Kind != yaml.SequenceNode {
		r.wrong(n, path, "not a list")
		return nil
	}
	if len(n.Content) > most {
		r.wrong(n, path, "%d entries; at most %d", len(n.Content), most)
		return nil
	}
	return n.Content
}

func (r *reader) names(n *yaml.Node, path string) (names []string) {
	if n = resolve(n); n.Kind == yaml.ScalarNode {
		return []string{r.listName(n, path)}
	}
	for i, item := range r.list(n, path, maxLists) {
		names = append(names, r.listName(resolve(item), fmt.Sprintf("%s[%d]", path, i)))
	}
	if len(names) == 0 {
		r.wrong(n, path, "names no list")
	}
	return names
}

var (
	listName     = pattern.Of(`^(\*|[A-Za-z_]\w*)(\.[A-Za-z_]\w*)+$`)
	functionName = pattern.Of(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$`)
)

func (r *reader) listName(v *yaml.Node, path string) string {
	if v.Kind != yaml.ScalarNode || !listName().MatchString(v.Value) {
		r.wrong(v, path, "%q: not a list such as *.validation_step_outputs or __main__.history", v.Value)
	}
	return v.Value
}

func (r *reader) function(v *yaml.Node, path string) string {
	if v.Kind != yaml.ScalarNode || !functionName().MatchString(v.Value) {
		r.wrong(v, path, "%q: not MODULE:FUNCTION, such as __main__:save", v.Value)
	}
	return v.Value
}

func (r *reader) text(v *yaml.Node, path string) string {
	if v.Kind != yaml.ScalarNode || v.Value == "" || len(v.Value) > 100 {
		r.wrong(v, path, "not a text of 1 to 100 bytes")
	}
	return v.Value
}

func (r *reader) size(v *yaml.Node, path string) int64 {
	size, err := units.ParseBytes(v.Value)
	if err != nil || size <= 0 {
		r.wrong(v, path, "%q: not a size such as 500MiB", v.Value)
	}
	return int64(size)
}

func (r *reader) share(v *yaml.Node, path string) float64 {
	share, err := units.ParseFraction(v.Value)
	if err != nil || share <= 0 || share >= 1 {
		r.wrong(v, path, "%q: not a share between 0 and 100%%", v.Value)
	}
	return float64(share)
}

func (r *reader) duration(v *yaml.Node, path string, least time.Duration) time.Duration {
	d, err := units.ParseDuration(v.Value)
	if err != nil || time.Duration(d) < least {
		r.wrong(v, path, "%q: not a duration such as 30s, of at least %s", v.Value, units.Duration(least))
	}
	return time.Duration(d)
}

func (r *reader) count(v *yaml.Node, path string, most int64) int64 {
	n, err := strconv.ParseInt(v.Value, 10, 64)
	if err != nil || n < 1 || n > most {
		r.wrong(v, path, "%q: not a whole number from 1 to %d", v.Value, most)
		return 1
	}
	return n
}
