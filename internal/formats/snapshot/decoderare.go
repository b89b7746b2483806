package snapshot

import (
	"encoding/binary"
	"math"
)

// rare runs the opcodes that common leaves; p stands behind the opcode. It returns nothing: what is wrong is in err.
func (d *decoder) rare(op byte) {
	b := d.in.d[d.p:]
	switch op {
	case 'K': // BININT1
		d.pushAfter(mk(tInt, uint64(b[0])), 1)
	case 'M': // BININT2
		d.pushAfter(mk(tInt, uint64(binary.LittleEndian.Uint16(b))), 2)
	case 'J': // BININT
		d.pushAfter(mk(tInt, uint64(int64(int32(binary.LittleEndian.Uint32(b))))), 4)
	case 'G': // BINFLOAT, the only big-endian number
		d.pushAfter(d.big(tFloat, binary.BigEndian.Uint64(b)), 8)
	case 0x8a: // LONG1
		d.long(b, 1, uint64(b[0]))
	case 0x8b: // LONG4
		d.long(b, 4, uint64(binary.LittleEndian.Uint32(b)))
	case 'N':
		d.push(mk(tNone, 0))
	case 0x88, 0x89: // NEWTRUE, NEWFALSE
		d.push(mk(tBool, uint64(0x89-op)))
	case 0x8c, 'X', 0x8d, 'C', 'B', 0x8e, 0x96:
		d.text(op, b)
	case 'q', 'r': // BINPUT, LONG_BINPUT
		width := int(operandWidth(op))
		i := uint64(b[0])
		if op == 'r' {
			i = uint64(binary.LittleEndian.Uint32(b))
		}
		d.p += width
		d.remember(i)
	case ')', 0x85, 0x86, 0x87, 't': // EMPTY_TUPLE, TUPLE1 to 3, TUPLE
		d.tuple(op)
	case 'l', 'd': // LIST, DICT of what is above the mark: as if the container had stood below it
		d.fromMark(op)
	case '0', '1', '2': // POP, POP_MARK, DUP
		d.juggle(op)
	case 0x95: // FRAME: its length says nothing new
		d.p += 8
	case 0x80: // PROTO, once more
		d.p++
	default:
		d.refuse(op)
	}
}

func (d *decoder) pushAfter(v val, width int) {
	d.push(v)
	d.p += width
}

// maxBigs bounds integers of more than 60 bits and floats; addresses have fewer bits.
const maxBigs = 64 << 20

func (d *decoder) big(tag uint64, bits uint64) val {
	if len(d.bigs) >= maxBigs {
		d.fail("more than %d large integers and floats", maxBigs)
		return 0
	}
	d.bigs = append(d.bigs, bits)
	if len(d.bigs)&0xffff == 0 {
		d.spend()
	}
	return mk(tag, uint64(len(d.bigs)-1))
}

// long reads two's complement, little-endian, as short as it can be. PyTorch writes addresses above 2^63 either way:
// negative (pytorch#115234), or with a ninth byte of 0.
func (d *decoder) long(b []byte, width int, n uint64) {
	if n > 9 || n == 9 && b[width+8] != 0 {
		d.fail("integer of %d bytes; an address or a size has at most 64 bits", n)
		return
	}
	var x [8]byte
	if n > 0 && n < 9 && b[width+int(n)-1]&0x80 != 0 {
		x = [8]byte{255, 255, 255, 255, 255, 255, 255, 255}
	}
	copy(x[:], b[width:width+int(n)])
	d.push(d.integer(int64(binary.LittleEndian.Uint64(x[:]))))
	d.p += width + int(n)
}

func (d *decoder) integer(i int64) val {
	if i >= -1<<59 && i < 1<<59 {
		return mk(tInt, uint64(i))
	}
	return d.big(tBig, uint64(i))
}

func (d *decoder) text(op byte, b []byte) {
	width := operandWidth(op)
	n := lengthOf(b, width)
	if room := uint64(len(d.in.d) - d.p); !d.in.final && n <= maxText && width+n > room {
		d.at = d.in.more(d.at)
		d.p = d.at + 1
		b = d.in.d[d.p:]
	}
	if left := uint64(max(0, d.in.end-d.p)); d.in.final && n > left && n <= maxText {
		d.p = d.in.end + 1 // cut short
		d.push(mk(tNone, 0))
		return
	}
	if n > maxText {
		d.fail("text of %d bytes; at most %d are read", n, maxText)
		return
	}
	d.p += int(width + n)
	if op == 'C' || op == 'B' || op == 0x8e || op == 0x96 { // bytes: their content is of no interest
		d.Bytearrays = d.Bytearrays || op == 0x96
		d.push(mk(tNone, 0))
		return
	}
	d.push(mk(tText, uint64(d.textID(b[width:width+n]))))
}

// lengthOf is a number of so many bytes.
func lengthOf(b []byte, width uint64) uint64 {
	switch width {
	case 1:
		return uint64(b[0])
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

// textID numbers a text.
func (d *decoder) textID(b []byte) uint32 {
	id, fresh := d.texts.id(b)
	if fresh && id&0xfff == 0 {
		d.spend()
	}
	if id >= memoContent {
		d.fail("more than %d texts", memoContent)
	}
	return id
}

// tuple makes of up to three integers a number, and of others a list.
func (d *decoder) tuple(op byte) {
	n := 0
	switch op {
	case 't':
		if len(d.marks) == 0 {
			d.fail("pickle refers to a mark that it has not set")
			return
		}
		n = d.sp - d.floor()
		d.marks = d.marks[:len(d.marks)-1]
	case ')':
	default:
		n = int(op) - 0x84
	}
	if d.sp-n < d.floor() {
		d.fail("pickle takes %d values from a stack that has fewer", n)
		return
	}
	if v, ok := d.tupleOfInts(d.stk[d.sp-n : d.sp]); ok {
		d.sp -= n
		d.push(v)
		return
	}
	d.listBelow(d.sp-n, tList)
	d.marks = append(d.marks, d.sp-n)
	d.extend('e')
}

// tupleOfInts numbers a tuple of at most three integers.
func (d *decoder) tupleOfInts(items []val) (val, bool) {
	t := [3]int64{noItem, noItem, noItem}
	for i, v := range items {
		if v.tag() != tInt || i >= len(t) {
			return 0, false
		}
		t[i] = v.signed()
	}
	id, ok := d.tupleOf[t]
	if !ok {
		id = uint64(len(d.tuples))
		d.tuples = append(d.tuples, t)
		d.tupleOf[t] = id
		if id&0xfff == 0 {
			d.spend()
		}
	}
	return mk(tTuple, id), true
}

// noItem stands where a tuple has no item.
const noItem = math.MinInt64

// fromMark makes a list or dict of what is above the mark.
func (d *decoder) fromMark(op byte) {
	if len(d.marks) == 0 {
		d.fail("pickle refers to a mark that it has not set")
		return
	}
	m := d.floor()
	d.marks[len(d.marks)-1] = m + 1
	if op == 'd' {
		d.listBelow(m, tDict)
		d.extend('u')
	} else {
		d.listBelow(m, tList)
		d.extend('e')
	}
}

// listBelow puts an empty container below the values from m on, as if it had stood there. There is room: see common.
func (d *decoder) listBelow(m int, tag uint64) {
	copy(d.stk[m+1:d.sp+1], d.stk[m:d.sp])
	clear(d.slot[m : d.sp+1])
	d.stk[m] = mk(tag, 0)
	d.sp++
}

func (d *decoder) juggle(op byte) {
	switch {
	case op == '1' && len(d.marks) > 0:
		d.sp = d.floor()
		d.marks = d.marks[:len(d.marks)-1]
	case op == '1':
		d.fail("pickle refers to a mark that it has not set")
	case d.sp <= d.floor():
		d.fail("pickle takes a value from a stack that has none")
	case op == '0':
		d.sp--
	default:
		d.push(d.stk[d.sp-1])
	}
}

func (d *decoder) refuse(op byte) {
	if name, ok := refused[op]; ok {
		d.fail("pickle wants to run code (%s), which a memory snapshot has no need of; refused", name)
		return
	}
	d.fail("unknown pickle opcode 0x%02x", op)
}

// operandWidth is how many bytes an opcode's number, or the length of its string, takes.
func operandWidth(op byte) uint64 {
	switch op {
	case 'K', 'q', 'h', 0x8c, 'C':
		return 1
	case 'M':
		return 2
	case 'J', 'r', 'j', 'X', 'B':
		return 4
	}
	return 8 // BINUNICODE8, BINBYTES8, BYTEARRAY8
}

// refused names opcodes that call, import or build objects, or belong to older protocols.
var refused = map[byte]string{
	'c': "GLOBAL", 0x93: "STACK_GLOBAL", 'R': "REDUCE", 'b': "BUILD", 'i': "INST", 'o': "OBJ", 0x81: "NEWOBJ",
	0x92: "NEWOBJ_EX",
	'P':  "PERSID", 'Q': "BINPERSID", 0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4",
}
