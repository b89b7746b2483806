package anatomy

import (
	"bytes"
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// Notes are the texts that a program has attached to blocks after it made them (torch.cuda.memory._annotate_tensor), as
// numbers of texts.
type Notes struct {
	made map[int][]uint32    // by the row of the block's alloc
	old  map[uint64][]uint32 // by the address of a block from before the history
}

// NotesOf finds the block of each annotation of a device.
func (h *History) NotesOf(d *Device) Notes {
	n := Notes{map[int][]uint32{}, map[uint64][]uint32{}}
	if bytes.IndexByte(h.Action[d.From:d.To], snapshot.IsAnnotate) < 0 {
		return n
	}
	open := newAddresses()
	for i := d.From; i < d.To; i++ {
		switch h.Action[i] {
		case snapshot.IsAlloc:
			open.put(h.Addr[i], int32(i))
		case snapshot.IsFreeCompleted:
			open.take(h.Addr[i])
		case snapshot.IsAnnotate:
			if row, ok := open.get(h.Addr[i]); ok {
				n.made[int(row)] = append(n.made[int(row)], h.Metadata[i])
			} else {
				n.old[h.Addr[i]] = append(n.old[h.Addr[i]], h.Metadata[i])
			}
		}
	}
	return n
}

// Attached are the texts of a block: the one that its thread had set when it was made, and those of annotations. Alloc
// is the row of its alloc, or None, and addr its address.
func (h *History) Attached(n Notes, alloc int, addr uint64) (texts []string) {
	later := n.old[addr]
	if alloc != None {
		later = n.made[alloc]
		if text := h.Text(h.Metadata[alloc]); text != "" {
			texts = append(texts, text)
		}
	}
	for _, id := range later {
		texts = append(texts, h.Text(id))
	}
	return texts
}

// metadataStages are the stretches of events that carry one text: what a thread did between two calls of
// torch.cuda.memory._set_memory_metadata. Events of other threads end them.
func (h *History) metadataStages(d *Device) (stages []Stage) {
	last, text := snapshot.NoText, "" // of the event before
	for row := d.From; row < d.To; row++ {
		if h.Action[row] == snapshot.IsAnnotate {
			continue // its text is about a block
		}
		changes := h.Metadata[row] != last
		if changes {
			last = h.Metadata[row]
			text = h.Text(last)
		}
		if text == "" {
			continue
		}
		if changes {
			before := h.liveAfter(d, row-1)
			s := Stage{Name: text, Metadata: true, Ended: true, Peak: before,
				Start: Mark{Time: h.Time[row], Row: row - 1, Live: before, Reserved: d.ReservedAt(row - 1)}}
			if row == d.From {
				s.Start.Row = None
			}
			stages = append(stages, s)
		}
		s := &stages[len(stages)-1]
		s.Peak = max(s.Peak, h.Live[row])
		s.End = Mark{Time: h.Time[row], Row: row, Live: h.Live[row], Reserved: d.ReservedAt(row)}
	}
	return stages
}

// MetadataRules make a category of each text that threads had set when they allocated on a device, of which most was
// allocated first; at most so many. Numbers in texts are left out.
func (h *History) MetadataRules(d *Device, most int) []Rule {
	sums := map[uint32]int64{}
	for row := d.From; row < d.To; row++ {
		if h.Action[row] == snapshot.IsAlloc {
			sums[h.Metadata[row]] += h.Size[row]
		}
	}
	rules, bytes := map[string]Rule{}, map[string]int64{}
	for id, sum := range sums {
		text := h.Text(id)
		if text == "" {
			continue
		}
		name := digits().ReplaceAllString(text, "N")
		bytes[name] += sum
		parts := digits().Split(text, -1)
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		rules[name] = Rule{Name: name, Pattern: regexp.MustCompile("^" + strings.Join(parts, "[0-9]+") + "$"),
			metadata: true}
	}
	list := slices.SortedFunc(maps.Values(rules), func(a, b Rule) int {
		return cmp.Or(cmp.Compare(bytes[b.Name], bytes[a.Name]), cmp.Compare(a.Name, b.Name))
	})
	return list[:min(most, len(list))]
}
