package anatomy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/flame"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// Device is the device of a number, or the only one that has events if the number is below 0.
func (h *History) Device(number int) (*Device, error) {
	with := h.Told()
	var numbers []int
	for _, d := range with {
		numbers = append(numbers, d.Number)
	}
	chosen, err := ChooseDevice(numbers, number)
	if err != nil {
		return nil, err
	}
	return with[slices.Index(numbers, chosen)], nil
}

// ErrNoDevice means that there is no device with events, nor, in a History, one with segments.
var ErrNoDevice = errors.New("no device has a history or segments")

// ChooseDevice is the number of those that have a history, or the only one of them if the number is below 0.
func ChooseDevice(with []int, number int) (int, error) {
	switch {
	case len(with) == 0:
		return 0, ErrNoDevice
	case slices.Contains(with, number):
		return number, nil
	case number >= 0:
		return 0, fmt.Errorf("device %d has no history; those that have one: %s", number, listed(with))
	case len(with) > 1:
		return 0, fmt.Errorf("devices %s have a history: say which", listed(with))
	}
	return with[0], nil
}

// maxListed is how many devices an error names: those of one machine, of late.
const maxListed = 16

func listed(devices []int) string {
	names := make([]string, 0, maxListed)
	for _, d := range devices[:min(len(devices), maxListed)] {
		names = append(names, strconv.Itoa(d))
	}
	text := strings.Join(names, ", ")
	if more := len(devices) - maxListed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// NoSuchEvent says that a device has not the event of a number.
func NoSuchEvent(row, device, first, last int64) error {
	return fmt.Errorf("event %d: device %d has %d to %d", row, device, first, last)
}

// NoSuchMoment says that a text names no moment.
func NoSuchMoment(text string) error {
	return fmt.Errorf("%q is neither peak, end, the number of an event, nor a time such as 4.3s", text)
}

// CheckMoment says why a text can be no moment of any history.
func CheckMoment(text string) error {
	if d, err := units.ParseDuration(text); text == "peak" || text == "end" || err == nil && d >= 0 {
		return nil
	}
	return errors.New("want peak, end, the number of an event, or a time after the first such as 90s")
}

// TimeOf is the moment, in µs since the epoch, that a time after a device's first event is. The history lasts from
// began to ended; 0 says that the file has no times.
func TimeOf(text string, device, began, ended int64) (int64, error) {
	after, err := units.ParseDuration(text)
	if err != nil {
		return 0, NoSuchMoment(text)
	}
	if ended == 0 {
		return 0, fmt.Errorf("%q: the file has no times; give the number of an event", text)
	}
	us := int64(after) / 1000
	if us > ended-began {
		return 0, fmt.Errorf("%q: the history of device %d ends %s after its first event", text, device,
			units.Duration(time.Duration(ended-began)*time.Microsecond))
	}
	return began + us, nil
}

// Moment finds the row that a text names: "peak", "end", the number of an event, or a time after the device's first
// event ("4.3s").
func (h *History) Moment(d *Device, text string) (row int, err error) {
	switch text {
	case "peak":
		return d.Peak, nil
	case "end":
		return d.EndRow(), nil
	}
	if d.From == d.To {
		return 0, fmt.Errorf("device %d has no events: it can only be told of its end", d.Number)
	}
	if row, err := strconv.Atoi(text); err == nil {
		if row < d.From || row >= d.To {
			return 0, NoSuchEvent(int64(row), int64(d.Number), int64(d.From), int64(d.To-1))
		}
		return row, nil
	}
	limit, err := TimeOf(text, int64(d.Number), h.Time[d.From], h.Time[d.To-1])
	if err != nil {
		return 0, err
	}
	row = d.From + sort.Search(d.To-d.From, func(i int) bool { return h.Time[d.From+i] > limit }) - 1
	return max(row, d.From), nil
}

// Flame adds what is live after a row to a graph, the stacks that hold most first. before says that it is A of a
// comparison.
func (h *History) Flame(g *flame.Graph, d *Device, row int, before bool) {
	type held struct {
		bytes  int64
		blocks int
	}
	of := map[uint32]held{}
	h.alive(d, row, func(_, _ int, bytes int64, stack uint32) {
		x := of[stack]
		of[stack] = held{x.bytes + bytes, x.blocks + 1}
	})
	stacks := slices.SortedFunc(maps.Keys(of), func(a, b uint32) int {
		return cmp.Or(cmp.Compare(of[b].bytes, of[a].bytes), cmp.Compare(a, b))
	})
	for _, stack := range stacks {
		g.AddBlocks(Told(h.framesOf(stack)), of[stack].bytes, of[stack].blocks, before)
	}
}

// framesOf are the frames of a stack, innermost first.
func (h *History) framesOf(stack uint32) (out []snapshot.Frame) {
	for _, f := range h.StackFrames(stack) {
		out = append(out, h.Frame(f))
	}
	return out
}
