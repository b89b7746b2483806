package monitor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// choose selects devices by the names that users give them: host, cpu, 0, cuda:0, gpu0.
func choose(there []Device, wanted []string) ([]Device, error) {
	if len(wanted) == 0 {
		return there, nil
	}
	var chosen []Device
	for _, name := range wanted {
		id := canonical(name)
		i := slices.IndexFunc(there, func(d Device) bool { return d.ID == id })
		if i < 0 {
			return nil, remedy.Add(fmt.Errorf("no device %s", name), "there are: "+list(there))
		}
		if !slices.Contains(chosen, there[i]) {
			chosen = append(chosen, there[i])
		}
	}
	return chosen, nil
}

// Check returns which of the requested devices don't exist.
func Check(there []Device, wanted []string) error {
	_, err := choose(there, wanted)
	return err
}

func canonical(name string) string {
	id := strings.ToLower(strings.TrimSpace(name))
	if id == "cpu" {
		return Host
	}
	for _, prefix := range []string{"cuda:", "cuda", "gpu:", "gpu"} {
		if rest, ok := strings.CutPrefix(id, prefix); ok && rest != "" {
			return rest
		}
	}
	return id
}

func list(devices []Device) string {
	names := make([]string, len(devices))
	for i, d := range devices {
		names[i] = d.ID
	}
	return strings.Join(names, ", ")
}
