package replay

import (
	"fmt"
	"strings"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/internal/snapshot"
)

// NewSetting makes a setting of a policy and a configuration in PYTORCH_ALLOC_CONF's syntax, either of which may be "".
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

// Settings makes one of each policy with each configuration; of a policy alone where there is no configuration.
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

// RecordedConf is the configuration that a snapshot says it was taken with, as far as it matters to a replay; "" is
// PyTorch's default.
func RecordedConf(s *snapshot.Snapshot) string {
	var conf []string
	for _, set := range s.Settings {
		switch v := set.Value.(type) {
		case int64:
			if set.Name == "max_split_size" && v > 0 && v < 1<<40 {
				conf = append(conf, fmt.Sprintf("max_split_size_mb:%d", v>>20))
			}
		case float64:
			if set.Name == "garbage_collection_threshold" && v > 0 {
				conf = append(conf, fmt.Sprintf("garbage_collection_threshold:%g", v))
			}
		case bool:
			if set.Name == "expandable_segments" && v {
				conf = append(conf, "expandable_segments:True")
			}
		}
	}
	return strings.Join(conf, ",")
}
