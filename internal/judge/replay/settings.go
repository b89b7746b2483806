package replay

import (
	"fmt"
	"strings"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// NewSetting makes a setting from a policy and a configuration in PYTORCH_ALLOC_CONF's syntax, either of which may be
// "".
func NewSetting(policy, conf string) (Setting, error) {
	o := alloc.Options{Policy: alloc.Policy(policy)}
	if err := o.Set(conf); err != nil {
		return Setting{}, err
	}
	name := string(o.Policy)
	if conf != "" {
		name += " " + strings.ReplaceAll(conf, " ", "")
	}
	return Setting{Name: name, Options: o}, nil
}

// Settings makes one for each policy with each configuration, or for each policy alone if there is no configuration.
func Settings(policies, confs []string) (out []Setting, err error) {
	if len(confs) == 0 {
		confs = []string{""}
	}
	for _, policy := range policies {
		for _, conf := range confs {
			s, err := NewSetting(policy, conf)
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// RecordedConf is the configuration that was in force when a snapshot was taken, in PYTORCH_ALLOC_CONF's syntax; "" is
// PyTorch's default. A setting's own entry counts first; settings without one come from the text of the variable that
// the program was started with. Keys that are unknown here are left out: UnknownConf.
func RecordedConf(settings []snapshot.Setting) string {
	known, _ := recordedConf(settings)
	return known
}

// UnknownConf returns recorded settings that a replay can't honour, since this version does not know them.
func UnknownConf(settings []snapshot.Setting) []string {
	_, unknown := recordedConf(settings)
	return unknown
}

// Recorded is the setting that a snapshot was taken with.
func Recorded(settings []snapshot.Setting) (Setting, error) {
	out, err := NewSetting("torch", RecordedConf(settings))
	out.Recorded = true
	return out, err
}

func recordedConf(settings []snapshot.Setting) (known string, unknown []string) {
	var conf []string
	stated := map[string]bool{}
	text := ""
	for _, set := range settings {
		if set.Name == "PYTORCH_CUDA_ALLOC_CONF" || set.Name == "PYTORCH_ALLOC_CONF" {
			if given, ok := set.Value.(string); ok && given != "" {
				text = given
			}
			continue
		}
		name, value, own := stateOf(set)
		if !own {
			continue
		}
		stated[name] = true
		if value != "" {
			conf = append(conf, name+":"+value)
		}
	}
	for _, item := range alloc.SplitConf(text) {
		name, _, _ := strings.Cut(strings.ReplaceAll(item, "=", ":"), ":")
		if name = strings.TrimSpace(name); stated[name] {
			continue
		}
		item = strings.ReplaceAll(item, " ", "")
		if _, err := NewSetting("torch", item); err != nil && !needsOthers[name] {
			unknown = append(unknown, item)
			continue
		}
		conf = append(conf, item)
	}
	return strings.Join(conf, ","), unknown
}

// needsOthers are settings whose bounds depend on others, so that they can't be checked alone.
var needsOthers = map[string]bool{"max_split_size_mb": true, "max_non_split_rounding_mb": true}

// stateOf turns an entry of a snapshot's allocator_settings into a setting; value "" is the default. own: the entry is
// complete by itself. (torch/csrc/cuda/Module.cpp, _cuda_memorySnapshot.)
func stateOf(set snapshot.Setting) (name, value string, own bool) {
	switch v := set.Value.(type) {
	case int64:
		switch {
		case set.Name == "max_split_size":
			if v > 0 && v < 1<<40 {
				value = fmt.Sprint(v >> 20)
			}
			return "max_split_size_mb", value, true
		case set.Name == "large_segment_size" || set.Name == "max_non_split_rounding_size":
			if v > 0 && v < 1<<40 && v != largeSegment {
				value = fmt.Sprint(v >> 20)
			}
			return map[string]string{"large_segment_size": "large_segment_size_mb",
				"max_non_split_rounding_size": "max_non_split_rounding_mb"}[set.Name], value, true
		case set.Name == "pinned_num_register_threads" && v != 1:
			return set.Name, fmt.Sprint(v), true
		}
	case float64:
		if set.Name == "garbage_collection_threshold" {
			if v > 0 {
				value = fmt.Sprintf("%g", v)
			}
			return set.Name, value, true
		}
	case bool:
		switch set.Name {
		case "expandable_segments", "release_lock_on_cudamalloc", "pinned_use_cuda_host_register",
			"graph_capture_record_stream_reuse", "throw_on_cudamalloc_oom", "pinned_use_background_threads":
			if v {
				value = "True"
			}
			return set.Name, value, true
		}
	case []snapshot.Setting:
		if set.Name == "roundup_power2_divisions" {
			return set.Name, divisions(v), true
		}
	}
	return "", "", false
}

// divisions is a dict of MiB and divisions as a setting; "" is none.
func divisions(of []snapshot.Setting) string {
	var parts []string
	rounds := false
	for _, d := range of {
		n, ok := d.Value.(int64)
		if !ok {
			continue
		}
		rounds = rounds || n > 1
		parts = append(parts, fmt.Sprintf("%s:%d", d.Name, n))
	}
	if !rounds {
		return ""
	}
	return "[" + strings.Join(parts, ",") + "]"
}
