package monitor

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/judge/fragment"
)

// ReadBlocks reads what an agent's gauges.heap.asked() prints, for one device: the state of its allocator, or in
// missing why there is none.
func ReadBlocks(text, device string) (s fragment.State, missing string, err error) {
	var told struct {
		MallocInfo *string `json:"malloc_info"`
		Segments   [][]any `json:"segments"`
		Spent      string  `json:"spent"` // the budget allows no more of them now
	}
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		return s, "", fmt.Errorf("read the allocators' answer: %w", err)
	}
	if told.Spent != "" {
		return s, told.Spent, nil
	}
	if device == Host {
		if told.MallocInfo == nil {
			return s, "its C library has no malloc_info", nil
		}
		s, err = fragment.OfMallocInfo(*told.MallocInfo)
		return s, "", err
	}
	number, err := strconv.Atoi(device)
	if err != nil {
		return s, "", fmt.Errorf("device %s: not a GPU's number", device)
	}
	segments, err := segmentsOf(told.Segments)
	if err != nil {
		return s, "", err
	}
	if s = fragment.OfSegments(segments, number); s.Pieces == 0 {
		return s, "PyTorch's allocator holds nothing of the device", nil
	}
	return s, "", nil
}

// segmentsOf reads [device, size, [[size, state], …]].
func segmentsOf(told [][]any) ([]snapshot.Segment, error) {
	malformed := fmt.Errorf("read the allocators' answer: a segment is malformed")
	list := make([]snapshot.Segment, 0, len(told))
	for _, t := range told {
		if len(t) != 3 {
			return nil, malformed
		}
		device, ok1 := t[0].(float64)
		size, ok2 := t[1].(float64)
		blocks, ok3 := t[2].([]any)
		if !ok1 || !ok2 || !ok3 {
			return nil, malformed
		}
		seg := snapshot.Segment{Device: int(device), Size: int64(size)}
		for _, b := range blocks {
			pair, _ := b.([]any)
			if len(pair) != 2 {
				return nil, malformed
			}
			size, ok1 := pair[0].(float64)
			state, ok2 := pair[1].(string)
			if !ok1 || !ok2 {
				return nil, malformed
			}
			seg.Blocks = append(seg.Blocks, snapshot.Block{Size: int64(size), State: snapshot.BlockState(state)})
		}
		list = append(list, seg)
	}
	return list, nil
}
