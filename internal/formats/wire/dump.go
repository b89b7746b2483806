package wire

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

const dumpChunk = 256 // slots read at once: 16 KiB, a small ring whole

// Dump writes a ring as text: header, description, names, then its records, oldest first. The spec tables define the
// output. Of a damaged ring it writes the readable part, and the error says where that ends.
func Dump(w io.Writer, r io.ReaderAt, size int64) error {
	out := bufio.NewWriter(w)
	err := dump(out, r, size)
	if ferr := out.Flush(); err == nil {
		err = ferr
	}
	return err
}

func dump(w *bufio.Writer, r io.ReaderAt, size int64) error {
	var b [headerFields]byte
	if n, err := r.ReadAt(b[:], 0); n < len(b) {
		return fmt.Errorf("read ring header: %w", err)
	}
	fmt.Fprintf(w, "ring %d.%d, %d bytes\n", le.Uint16(b[OffMajor:]), le.Uint16(b[OffMinor:]), size)
	dumpFields(w, b[:], 0, HeaderSpec, nil, false)
	g, err := OpenRing(r, size)
	if err != nil {
		return err
	}
	for _, k := range slices.Sorted(maps.Keys(g.Info)) {
		fmt.Fprintf(w, "info %s=%s\n", k, infoEscape.Replace(g.Info[k]))
	}
	nerr := g.ReadNames()
	for i, n := range g.Names() {
		fmt.Fprintf(w, "name %d %q\n", i+1, n)
	}
	if err := dumpRecords(w, g); err != nil {
		return err
	}
	return nerr
}

func dumpRecords(w *bufio.Writer, g *Ring) error {
	var buf [dumpChunk * SlotSize]byte
	for next := uint64(1); ; {
		c, err := g.Read(buf[:], next)
		if err != nil {
			return err
		}
		if c.Overwritten > 0 {
			fmt.Fprintf(w, "%d to %d overwritten\n", c.First-c.Overwritten, c.First-1)
		}
		if c.Len() == 0 && c.Overwritten == 0 {
			return nil
		}
		for i := range c.Len() {
			dumpSlot(w, g, c.Slot(i), c.First+uint64(i))
		}
		next = c.Next()
	}
}

func dumpSlot(w *bufio.Writer, g *Ring, s *[SlotSize]byte, n uint64) {
	if SlotKind(s) == KindNone {
		fmt.Fprintf(w, "%d damaged, at byte %d\n", n, g.SlotOffset(n))
		return
	}
	i := slices.IndexFunc(Spec, func(k Kind) bool { return k.Code == SlotKind(s) })
	if i < 0 {
		fmt.Fprintf(w, "%d %d unknown kind %d\n", n, le.Uint64(s[8:]), SlotKind(s))
		return
	}
	fmt.Fprintf(w, "%d %d %s", n, le.Uint64(s[8:]), Spec[i].Name)
	dumpFields(w, s[:], PrefixSize, Spec[i].Fields, g, Spec[i].Since >= roomSince)
	w.WriteByte('\n')
}

// dumpFields writes fields as name=value: one a line for the header (no ring), else on one line with names resolved.
// taken leaves out what was not taken, in kinds with room for more: a ring's text must not change with later fields.
func dumpFields(w *bufio.Writer, b []byte, off int, fields []Field, g *Ring, taken bool) {
	for _, f := range fields {
		value := fieldText(b[off:], f)
		switch {
		case taken && value == "-":
		case g == nil:
			fmt.Fprintf(w, "%s=%s\n", f.Name, value)
		case f.Name == "name":
			fmt.Fprintf(w, " name=%q", g.Name(le.Uint32(b[off:])))
		default:
			fmt.Fprintf(w, " %s=%s", f.Name, value)
		}
		off += f.Type.Size()
	}
}

func fieldText(b []byte, f Field) string {
	switch {
	case f.Name == "magic" || f.Type == Bytes40:
		return fmt.Sprintf("%q", strings.TrimRight(string(b[:f.Type.Size()]), "\x00"))
	case f.Name == "stage" && int(b[0]) < len(Stages):
		return fmt.Sprintf("%q", Stages[b[0]])
	case f.Type == U64 && le.Uint64(b) == NotTaken:
		return "-"
	}
	switch f.Type {
	case U8:
		return fmt.Sprint(b[0])
	case I8:
		return fmt.Sprint(int8(b[0]))
	case U16:
		return fmt.Sprint(le.Uint16(b))
	case U32:
		return fmt.Sprint(le.Uint32(b))
	case I32:
		return fmt.Sprint(int32(le.Uint32(b)))
	case I64:
		return fmt.Sprint(int64(le.Uint64(b)))
	}
	return fmt.Sprint(le.Uint64(b))
}
