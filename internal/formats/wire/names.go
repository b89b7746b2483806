package wire

import "fmt"

// maxNames bounds the names of an area that was overwritten with zeros, each of which would be an empty name.
const maxNames = 1 << 18 // a model has thousands of modules; the agent's area of 1 MiB holds 131,072 names of 4 bytes

// UnknownName stands for number 0: the writer had no room for the name.
const UnknownName = "?"

// Names lists the ring's names; number n is at index n-1.
func (g *Ring) Names() []string { return g.names }

// Name is the name with this number.
func (g *Ring) Name(n uint32) string {
	if n == 0 || uint64(n) > uint64(len(g.names)) {
		return UnknownName
	}
	return g.names[n-1]
}

// ReadNames reads the names that were added up to the last Poll. Records that were published by then use no later ones:
// Poll reads head and names_head in this order from one page, and the writer stores a name before the record.
func (g *Ring) ReadNames() error {
	if g.NamesHead == g.nameEnd {
		return nil
	}
	if g.NamesHead < g.nameEnd || g.NamesHead > g.NamesSize {
		return fmt.Errorf("%w: byte %d: %d bytes of names after %d, room is for %d", ErrCorrupt, OffNamesHead,
			g.NamesHead, g.nameEnd, g.NamesSize)
	}
	for g.nameEnd < g.NamesHead {
		var buf [namesChunk]byte
		b := buf[:min(namesChunk, g.NamesHead-g.nameEnd)]
		if err := g.readAt(b, g.NamesOffset+g.nameEnd); err != nil {
			return err
		}
		used, err := g.parseNames(b)
		g.nameEnd += used
		if err != nil {
			return err
		}
		if used == 0 {
			return fmt.Errorf("%w: name at byte %d is cut: names end at byte %d", ErrCorrupt, g.NamesOffset+g.nameEnd,
				g.NamesOffset+g.NamesHead)
		}
	}
	return nil
}

const namesChunk = 16 << 10 // holds 15 names of the greatest length; on the stack

// parseNames takes whole names from the front of b.
func (g *Ring) parseNames(b []byte) (used int64, err error) {
	for int64(len(b))-used >= 4 {
		n := int64(le.Uint32(b[used:]))
		if n > MaxName {
			return used, fmt.Errorf("%w: name at byte %d: length %d exceeds %d", ErrCorrupt,
				g.NamesOffset+g.nameEnd+used, n, MaxName)
		}
		if len(g.names) >= maxNames {
			return used, fmt.Errorf("%w: name at byte %d: more than %d names", ErrCorrupt, g.NamesOffset+g.nameEnd+used,
				maxNames)
		}
		size := 4 + (n+3)&^3
		if used+size > int64(len(b)) {
			break
		}
		g.names = append(g.names, valid(b[used+4:][:n]))
		used += size
	}
	return used, nil
}
