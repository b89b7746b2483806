package picture

import (
	"encoding/json"
	"strings"
)

// ParseHeap reads what an agent's gauges.memory.report() returns; nil where the agent does not know. The repr of a dict
// of numbers is JSON but for quotes and None.
func ParseHeap(text string) *Heap {
	text = strings.NewReplacer("'", `"`, "None", "null").Replace(text)
	var r struct {
		InUse  *int64 `json:"in_use"`
		Held   *int64 `json:"held"`
		Mapped *int64 `json:"mapped"`
		Arenas *int64 `json:"arenas"`
	}
	if json.Unmarshal([]byte(text), &r) != nil || r.InUse == nil || r.Held == nil || r.Mapped == nil {
		return nil
	}
	return &Heap{InUse: *r.InUse, Held: *r.Held, Mapped: *r.Mapped, Arenas: r.Arenas}
}
