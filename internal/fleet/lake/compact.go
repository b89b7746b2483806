package lake

import "encoding/binary"

// compact is a struct that is written in Thrift's compact form.
type compact struct {
	text []byte
	last []int16 // numbers of the fields before, of the structs around this one; the innermost at the end
	id   int16   // of the field before
}

// Kinds of fields in the compact form.
const (
	kindTrue   = 1
	kindFalse  = 2
	kindInt32  = 5
	kindInt64  = 6
	kindBytes  = 8
	kindList   = 9
	kindStruct = 12
)

// field begins one: its distance from the one before, of 15 at most, and its kind. Fields come in order.
func (c *compact) field(id int16, kind byte) {
	c.text = append(c.text, byte(id-c.id)<<4|kind)
	c.id = id
}

func (c *compact) int32(id int16, v int64) {
	c.field(id, kindInt32)
	c.number(v)
}

func (c *compact) int64(id int16, v int64) {
	c.field(id, kindInt64)
	c.number(v)
}

func (c *compact) bool(id int16, v bool) {
	kind := byte(kindFalse)
	if v {
		kind = kindTrue
	}
	c.field(id, kind)
}

func (c *compact) string(id int16, v string) {
	c.field(id, kindBytes)
	c.bytes(v)
}

// list begins a list; its members follow.
func (c *compact) list(id int16, kind byte, n int) {
	c.field(id, kindList)
	if n < 15 {
		c.text = append(c.text, byte(n)<<4|kind)
		return
	}
	c.text = binary.AppendUvarint(append(c.text, 15<<4|kind), uint64(n))
}

// begin begins a struct in a field.
func (c *compact) begin(id int16) {
	c.field(id, kindStruct)
	c.element()
}

// element begins a struct in a list.
func (c *compact) element() { c.last, c.id = append(c.last, c.id), 0 }

// end ends a struct.
func (c *compact) end() {
	c.text = append(c.text, 0)
	if n := len(c.last) - 1; n >= 0 {
		c.last, c.id = c.last[:n], c.last[n]
	}
}

// number is a whole one as a list's member.
func (c *compact) number(v int64) { c.text = binary.AppendVarint(c.text, v) }

// bytes is a text as a list's member.
func (c *compact) bytes(v string) {
	c.text = append(binary.AppendUvarint(c.text, uint64(len(v))), v...)
}
