package snapshot

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
)

// This file reads pickles of protocols 2 to 5 that hold plain data: dicts, lists, tuples, strings, numbers, booleans, None.
// Whatever makes Python call something (GLOBAL, REDUCE, BUILD, …) is refused by name: it is how a pickle runs code. Values are
// 16 bytes without pointers, so that a snapshot of millions of events neither scatters nor keeps the garbage collector busy.
// https://github.com/python/cpython/blob/3.13/Lib/pickletools.py describes the opcodes.

type kind uint8

const (
	kNone kind = iota
	kBool
	kInt   // int64 in bits
	kUint  // a positive integer beyond int64, in bits
	kFloat // IEEE bits
	kText  // index in texts
	kList  // index in seqs; tuples too
	kDict  // index in seqs: key, value, key, value …
	kMark
	kBytes // contents are of no interest
)

type value struct {
	bits uint64
	kind kind
}

// seq is the content of a list, tuple or dict and where in the file it begins.
type seq struct {
	items []value
	at    int64
}

type unpickler struct {
	data  []byte
	at    int64 // of the opcode that is being read
	next  int64
	stack []value
	memo  []value
	far   map[uint32]value // memo entries that are not numbered one after the other
	seqs  []seq
	texts []string
	index map[string]uint64 // of texts: the same few words come a million times
}

// maxIndexed is how long a string may be to be shared with equal ones. Keys and actions are short.
const maxIndexed = 64

// unpickle reads one pickle. Work and memory are bounded by the input: an opcode makes at most one value.
func unpickle(data []byte) (*unpickler, value, error) {
	u := &unpickler{data: data, far: map[uint32]value{}, index: map[string]uint64{}}
	for {
		done, err := u.step()
		if err != nil {
			return nil, value{}, err
		}
		if done {
			break
		}
	}
	if len(u.stack) != 1 {
		return nil, value{}, atByte(u.at, "pickle ends with %d values on its stack, want 1", len(u.stack))
	}
	return u, u.stack[0], nil
}

// take gives the next n bytes.
func (u *unpickler) take(n uint64) ([]byte, error) {
	if n > uint64(len(u.data))-uint64(u.next) {
		return nil, atByte(int64(len(u.data)), "pickle is cut short: %d more bytes expected", n-(uint64(len(u.data))-uint64(u.next)))
	}
	b := u.data[u.next : u.next+int64(n)]
	u.next += int64(n)
	return b, nil
}

// number reads an unsigned little-endian number of n bytes.
func (u *unpickler) number(n uint64) (uint64, error) {
	b, err := u.take(n)
	if err != nil {
		return 0, err
	}
	var x [8]byte
	copy(x[:], b)
	return binary.LittleEndian.Uint64(x[:]), nil
}

func (u *unpickler) push(v value) { u.stack = append(u.stack, v) }

// pop takes the n topmost values, lowest first. They must lie above the last mark.
func (u *unpickler) pop(n int) ([]value, error) {
	from := len(u.stack) - n
	if from < 0 || slices.ContainsFunc(u.stack[from:], isMark) {
		return nil, atByte(u.at, "pickle takes %d values from a stack that has fewer", n)
	}
	top := u.stack[from:]
	u.stack = u.stack[:from]
	return top, nil
}

func isMark(v value) bool { return v.kind == kMark }

// popMark takes what lies above the last mark, and the mark.
func (u *unpickler) popMark() ([]value, error) {
	for i := len(u.stack) - 1; i >= 0; i-- {
		if u.stack[i].kind == kMark {
			top := u.stack[i+1:]
			u.stack = u.stack[:i]
			return top, nil
		}
	}
	return nil, atByte(u.at, "pickle refers to a mark that it has not set")
}

func (u *unpickler) newSeq(k kind, items []value) value {
	u.seqs = append(u.seqs, seq{slices.Clone(items), u.at})
	return value{uint64(len(u.seqs) - 1), k}
}

// step does one opcode; done at STOP.
func (u *unpickler) step() (done bool, err error) {
	u.at = u.next
	b, err := u.take(1)
	if err != nil {
		return false, err
	}
	switch op := b[0]; op {
	case '.': // STOP
		return true, nil
	case 0x80: // PROTO
		return false, u.proto()
	case 0x95: // FRAME: its length says nothing new
		_, err = u.take(8)
	case '(': // MARK
		u.push(value{kind: kMark})
	case '0', '1': // POP, POP_MARK
		return false, u.drop(op)
	case 'N', 0x88, 0x89, 'K', 'M', 'J', 'G', 0x8a, 0x8b:
		return false, u.scalar(op)
	case 0x8c, 'X', 0x8d, 'C', 'B', 0x8e, 0x96:
		return false, u.text(op)
	case ']', ')', '}', 'a', 'e', 's', 'u', 't', 'l', 'd', 0x85, 0x86, 0x87:
		return false, u.container(op)
	case 'q', 'r', 'h', 'j', 0x94, '2':
		return false, u.memory(op)
	default:
		return false, u.refuse(op)
	}
	return false, err
}

func (u *unpickler) proto() error {
	version, err := u.number(1)
	if err == nil && (version < 2 || version > 5) {
		err = atByte(u.at, "pickle has protocol %d; 2 to 5 are read", version)
	}
	return err
}

func (u *unpickler) drop(op byte) (err error) {
	if op == '1' {
		_, err = u.popMark()
	} else {
		_, err = u.pop(1)
	}
	return err
}

func (u *unpickler) scalar(op byte) error {
	switch op {
	case 'N':
		u.push(value{kind: kNone})
	case 0x88, 0x89:
		u.push(value{uint64(0x89 - op), kBool})
	case 'K', 'M', 'J': // BININT1, 2, 4
		n, err := u.number(operandWidth(op))
		if err != nil {
			return err
		}
		if op == 'J' {
			n = uint64(int64(int32(n)))
		}
		u.push(value{n, kInt})
	case 'G': // BINFLOAT, the only big-endian number
		b, err := u.take(8)
		if err != nil {
			return err
		}
		u.push(value{binary.BigEndian.Uint64(b), kFloat})
	default:
		return u.long(op)
	}
	return nil
}

// long reads LONG1 and LONG4: two's complement, little-endian, as short as it can be.
func (u *unpickler) long(op byte) error {
	width := uint64(1)
	if op == 0x8b {
		width = 4
	}
	n, err := u.number(width)
	if err != nil {
		return err
	}
	b, err := u.take(n)
	if err != nil {
		return err
	}
	v, ok := longValue(b)
	if !ok {
		return atByte(u.at, "integer of %d bytes; an address or a size has at most 64 bits", n)
	}
	u.push(v)
	return nil
}

func longValue(b []byte) (value, bool) {
	if len(b) == 9 && b[8] == 0 {
		return value{binary.LittleEndian.Uint64(b), kUint}, true
	}
	if len(b) > 8 {
		return value{}, false
	}
	var x [8]byte
	if len(b) > 0 && b[len(b)-1]&0x80 != 0 {
		x = [8]byte{255, 255, 255, 255, 255, 255, 255, 255}
	}
	copy(x[:], b)
	return value{binary.LittleEndian.Uint64(x[:]), kInt}, true
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

func (u *unpickler) text(op byte) error {
	n, err := u.number(operandWidth(op))
	if err != nil {
		return err
	}
	b, err := u.take(n)
	if err != nil {
		return err
	}
	if op == 'C' || op == 'B' || op == 0x8e || op == 0x96 {
		u.push(value{kind: kBytes})
		return nil
	}
	u.push(value{u.intern(b), kText})
	return nil
}

func (u *unpickler) intern(b []byte) uint64 {
	if i, ok := u.index[string(b)]; ok {
		return i
	}
	s := strings.ToValidUTF8(string(b), "\uFFFD") // Python allows lone surrogates; file names may have them
	u.texts = append(u.texts, s)
	i := uint64(len(u.texts) - 1)
	if len(b) <= maxIndexed {
		u.index[string(b)] = i
	}
	return i
}

func (u *unpickler) container(op byte) error {
	switch op {
	case ']', ')': // EMPTY_LIST, EMPTY_TUPLE
		u.push(u.newSeq(kList, nil))
		return nil
	case '}':
		u.push(u.newSeq(kDict, nil))
		return nil
	case 0x85, 0x86, 0x87: // TUPLE1 to 3
		items, err := u.pop(int(op - 0x84))
		if err == nil {
			u.push(u.newSeq(kList, items))
		}
		return err
	case 't', 'l', 'd': // TUPLE, LIST, DICT of what is above the mark
		items, err := u.popMark()
		if err != nil {
			return err
		}
		k := kList
		if op == 'd' {
			k = kDict
		}
		if k == kDict && len(items)%2 != 0 {
			return atByte(u.at, "dict with a key that has no value")
		}
		u.push(u.newSeq(k, items))
		return nil
	}
	return u.extend(op)
}

// extend adds to the list or dict below: APPEND, APPENDS, SETITEM, SETITEMS.
func (u *unpickler) extend(op byte) (err error) {
	var items []value
	switch op {
	case 'a':
		items, err = u.pop(1)
	case 's':
		items, err = u.pop(2)
	default:
		items, err = u.popMark()
	}
	if err != nil {
		return err
	}
	want := kList
	if op == 's' || op == 'u' {
		want = kDict
	}
	if len(u.stack) == 0 || u.stack[len(u.stack)-1].kind != want {
		return atByte(u.at, "pickle adds to something that is not a %s", map[kind]string{kList: "list", kDict: "dict"}[want])
	}
	if want == kDict && len(items)%2 != 0 {
		return atByte(u.at, "dict with a key that has no value")
	}
	s := &u.seqs[u.stack[len(u.stack)-1].bits]
	s.items = append(s.items, items...)
	return nil
}

// memory does PUT, GET, MEMOIZE and DUP.
func (u *unpickler) memory(op byte) error {
	if op == 'h' || op == 'j' {
		return u.recall(op)
	}
	if len(u.stack) == 0 || isMark(u.stack[len(u.stack)-1]) {
		return atByte(u.at, "pickle remembers a value that it does not have")
	}
	top := u.stack[len(u.stack)-1]
	switch op {
	case '2':
		u.push(top)
	case 0x94: // MEMOIZE
		u.remember(uint32(len(u.memo)+len(u.far)), top)
	default:
		i, err := u.number(operandWidth(op))
		if err != nil {
			return err
		}
		u.remember(uint32(i), top)
	}
	return nil
}

func (u *unpickler) remember(i uint32, v value) {
	switch {
	case int(i) < len(u.memo):
		u.memo[i] = v
	case int(i) == len(u.memo):
		u.memo = append(u.memo, v)
	default: // writers count up from 0 or 1; anything else must not make us allocate up to its number
		u.far[i] = v
	}
}

func (u *unpickler) recall(op byte) error {
	i, err := u.number(operandWidth(op))
	if err != nil {
		return err
	}
	if v, ok := u.far[uint32(i)]; ok {
		u.push(v)
		return nil
	}
	if i >= uint64(len(u.memo)) {
		return atByte(u.at, "pickle recalls value %d, which it has not stored", i)
	}
	u.push(u.memo[i])
	return nil
}

// refused names opcodes that call, import or build objects, or belong to older protocols.
var refused = map[byte]string{
	'c': "GLOBAL", 0x93: "STACK_GLOBAL", 'R': "REDUCE", 'b': "BUILD", 'i': "INST", 'o': "OBJ", 0x81: "NEWOBJ", 0x92: "NEWOBJ_EX",
	'P': "PERSID", 'Q': "BINPERSID", 0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4",
}

func (u *unpickler) refuse(op byte) error {
	if name, ok := refused[op]; ok {
		return atByte(u.at, "pickle wants to run code (%s), which a memory snapshot has no need of; refused", name)
	}
	return atByte(u.at, "unknown pickle opcode 0x%02x", op)
}

// The rest reads values.

func (u *unpickler) str(v value) (string, bool) {
	if v.kind != kText {
		return "", false
	}
	return u.texts[v.bits], true
}

func (v value) integer() (int64, bool) {
	switch v.kind {
	case kInt, kBool:
		return int64(v.bits), true
	case kFloat: // a size that went through a division
		if f := math.Float64frombits(v.bits); f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f), true
		}
	}
	return 0, false
}

// address is an integer as the CPU sees it: PyTorch writes addresses above 2^63 either way.
func (v value) address() (uint64, bool) {
	if v.kind == kUint {
		return v.bits, true
	}
	n, ok := v.integer()
	return uint64(n), ok
}
