package wire

// Format version of the ring. A reader understands every minor version of its own major one: a newer minor version may
// add record kinds (skipped and counted) and header info lines (ignored), nothing else.
const (
	Major = 1
	Minor = 2
)

// Magic opens every ring file; the line end shows a file that was transferred as text.
const Magic = "MGRING\r\n"

const (
	HeaderSize = 4096 // one page: it is written once and must never share a page with records
	SlotSize   = 64   // one cache line: a record is torn by at most one concurrent writer
	CheckMix   = 0x9E3779B1
	NotTaken   = 1<<64 - 1 // the value of a 64-bit gauge that was not read; NULL in the database
	MaxName    = 1024      // bytes of an interned name; longer ones keep both ends (see ring.md)
	MaxText    = 2000      // bytes of free text with an event: 50 slots, a fifth of the smallest ring
	TextChunk  = 40        // bytes of text in one Text record
	InfoOffset = 512       // process description: u32 length, then UTF-8 lines "key TAB value"
)

// EventCodes say what an event tells, for programs: its text is for people. A code is a place in this list, which only
// grows; an event without one has 0.
var EventCodes = []string{"", EventStopped, EventLeftOut, EventHelped, EventVain, EventWarned, EventWebhook,
	EventFailed, EventHolder, EventSaving, EventEvaluation, EventCompilation, EventFirstStep}

// The codes of the guard's events.
const (
	EventStopped = "stopped"  // the training, after its checkpoint was saved
	EventLeftOut = "left out" // an action, from now on: it did not help
	EventHelped  = "helped"   // an action freed memory
	EventVain    = "vain"     // it did not
	EventWarned  = "warned"
	EventWebhook = "webhook" // a rule sends it to the policy's address
	EventFailed  = "failed"  // a rescue: the checkpoint, or what was to be saved in its place
	EventHolder  = "holder"  // the text is the name of what was cleared, each name once
)

// The codes of the events peak, phase and "phase over": what the training was at.
const (
	EventSaving      = "saving"
	EventEvaluation  = "evaluation"
	EventCompilation = "compilation"
	EventFirstStep   = "first step"
)

// WorkKinds say what a step was, by the number in its record. The list only grows. The first is a step of a training,
// or a stretch of forwards where the record's flag says so.
var WorkKinds = []string{"train", "infer", "engine", "request", "cell"}

// WorkKind is the name of a number in WorkKinds; the first one's of rings that have none, "" of one that a later
// version knows.
func WorkKind(kind uint64) string {
	switch {
	case kind == NotTaken:
		return WorkKinds[0]
	case kind < uint64(len(WorkKinds)):
		return WorkKinds[kind]
	}
	return ""
}

// EventCode is the text of an event's code; "" of none, and of one that a later version knows.
func EventCode(code uint8) string {
	if int(code) < len(EventCodes) {
		return EventCodes[code]
	}
	return ""
}

// Type is how a field is stored; all are little-endian.
type Type uint8

// The field types of the format.
const (
	U8 Type = iota
	I8
	U16
	U32
	I32
	U64
	I64
	Bytes40
)

// Size is the number of bytes the type takes.
func (t Type) Size() int { return [...]int{1, 1, 2, 4, 4, 8, 8, TextChunk}[t] }

// Field is one value in the header or in a record.
type Field struct {
	Name string
	Type Type
	Doc  string // with the unit
}

// Kind is one kind of record. Its fields follow the common prefix (seq u64, ts u64, kind u8) without gaps; the last
// four bytes of the slot are the check.
type Kind struct {
	Code   uint8
	Name   string // Go and Python derive their names from it
	Since  int    // minor version that brought it
	Doc    string
	Fields []Field
}

// roomSince is the minor version from which new kinds leave the rest of their slots all ones. A field may be added
// there later without a new version: rings of before have it as not taken, and readers of before don't look.
const roomSince = 2

// Room is how many bytes behind the fields are all ones.
func (k Kind) Room() int {
	if k.Since < roomSince {
		return 0
	}
	return CheckOffset - k.Size()
}

// Size is the number of bytes up to the end of the fields.
func (k Kind) Size() int {
	size := PrefixSize
	for _, f := range k.Fields {
		size += f.Type.Size()
	}
	return size
}

// PrefixSize is the length of what every record begins with: seq, ts, kind.
const PrefixSize = 17

// CheckOffset is where the check lies in a slot: uint32(seq*CheckMix) ^ uint32(ts).
const CheckOffset = SlotSize - 4

// Stages are the values of a Trace record's stage.
var Stages = []string{"pre forward", "post forward", "pre step", "post step", "pre backward", "post backward"}

// States are the values of the header's state.
var States = []string{"creating", "live", "closed", "detached"}

// Flag bits, by kind of record.
const (
	FlagRoot      = 1 // trace: the module is a root (nothing above it is observed)
	FlagOptimizer = 2 // trace: the row is of an optimizer
	FlagSampled   = 1 // step_end: module hooks were in
	FlagInference = 2 // step_end: a stretch of forwards without an optimizer
	FlagEstimated = 1 // tensors, objects: counted in a sample and scaled up
	FlagCompared  = 2 // tensors, objects: there was a census before, so fresh or delta is known
)

// HeaderSpec is the first page of a ring. Only head, names_head, state, names_dropped, rank and world_size change after
// creation.
var HeaderSpec = []Field{
	{"magic", U64, "MGRING CR LF"},
	{"major", U16, "format version; a reader refuses a newer one by name"},
	{"minor", U16, "format version"},
	{"header_size", U32, "bytes"},
	{"ring_id", U64, "random, never 0; the database's cursor goes by it"},
	{"slot_size", U32, "bytes"},
	{"slot_count", U32, "a power of two"},
	{"slots_offset", U64, "bytes from the start of the file"},
	{"names_offset", U64, "bytes from the start of the file"},
	{"names_size", U64, "bytes"},
	{"head", U64,
		"records published since creation = seq of the newest one; the first has seq 1 and lies in slot 1 mod slot_count"},
	{"names_head", U64, "bytes of the names area in use"},
	{"state", U64, "0 creating, 1 live, 2 closed by its process, 3 detached"},
	{"names_dropped", U64, "names that found no room; records then carry name 0"},
	{"pid", U32, "as the writing process sees itself"},
	{"rank", I32, "-1 while unknown"},
	{"world_size", I32, "-1 while unknown"},
	{"generation", U32, "0 for the process's first ring, then 1, 2 …"},
	{"start_ticks", U64,
		"start of the process, clock ticks since boot (field 22 of /proc/PID/stat): with pid it names a process"},
	{"clock_wall", U64, "ns since the epoch, read together with clock_mono"},
	{"clock_mono", U64, "ns of CLOCK_MONOTONIC; a record's time is clock_wall + (ts - clock_mono)"},
}

// Spec is every kind of record.
var Spec = []Kind{
	{1, "trace", 0, "a stage of a module or an optimizer, on a sampled step", []Field{
		{"stage", U8, "index into the stages"},
		{"flags", U8, "1 root module, 2 optimizer"},
		{"device", I8, "-1 host, else the CUDA device"},
		{"name", U32, "interned module name"},
		{"step", U32, "the step that is going on, from 1"},
		{"allocated", U64, "bytes; host: resident - shared"},
		{"max_allocated", U64, "bytes, highest in the step so far; host: not taken unless ru_maxrss rose in this step"},
		{"cached", U64, "bytes; host: resident"},
		{"max_cached", U64, "bytes; host: not taken unless ru_maxrss rose in this step"},
	}},
	{2, "step", 0, "the end of one step, or of several short ones; written up to 1.1, host and step_end since", []Field{
		{"flags", U8, "1 sampled, 2 inference"},
		{"steps", U16, "how many steps the record stands for"},
		{"step", U32, "number of the last of them, from 1"},
		{"agent_ns", U32, "ns that observing took in them, by the agent's own clock"},
		{"duration", U64, "ns from the end of the step before the first of them; not taken for the very first"},
		{"rss", U64, "bytes resident at the end"},
		{"anon", U64, "bytes resident - shared at the end"},
		{"max_rss", U64, "bytes, ru_maxrss where it rose in the step, else not taken"},
	}},
	{3, "heap", 0, "the allocator behind malloc and Python's own, at the end of a step; precedes its step record",
		[]Field{
			{"flags", U8, "0"},
			{"gc_count", U16, "collections of the oldest generation since the step record before, at most 65535"},
			{"step", U32, "number of the step"},
			{"gc_young", U32, "collections of all generations since the process started"},
			{"heap_in_use", U64, "bytes: mallinfo2 uordblks + hblkhd"},
			{"heap_held", U64, "bytes: mallinfo2 arena + hblkhd, what malloc holds from the kernel"},
			{"py_blocks", U64, "blocks: sys.getallocatedblocks()"},
			{"cost_ns", U64, "what the reading took"},
		}},
	{4, "device", 0, "a device's allocator at the end of a step; precedes its step record", []Field{
		{"flags", U8, "0"},
		{"reserved0", U8, "0"},
		{"device", I8, "CUDA device"},
		{"step", U32, "number of the step"},
		{"pad", U32, "0"},
		{"allocated", U64, "bytes"},
		{"max_allocated", U64, "bytes, as PyTorch says it (since the user's last reset)"},
		{"reserved", U64, "bytes"},
		{"max_reserved", U64, "bytes"},
	}},
	{5, "event", 0, "something that happened once; its text is in the Text records just before it", []Field{
		{"code", U8, "what its text tells people, a place in EventCodes; 0 none"},
		{"text_len", U16, "bytes of text"},
		{"name", U32, "interned: start, torch, fork, eval, rank, budget, exit, error, …"},
		{"text_slots", U32, "how many Text records with the preceding seqs belong to it"},
		{"a", I64, "by event"},
		{"b", I64, "by event"},
		{"c", I64, "by event"},
		{"d", I64, "by event"},
	}},
	{6, "text", 0, "a piece of an event's text", []Field{
		{"length", U8, "bytes used of data"},
		{"index", U16, "0 for the first piece"},
		{"data", Bytes40, "UTF-8, may be cut within a character"},
	}},
	{7, "overhead", 0, "what observing cost since the last such record of this part", []Field{
		{"flags", U8, "1 measured by comparing sampled with plain steps, not by the agent's own clock"},
		{"reserved0", U16, "0"},
		{"name", U32, "interned: step hook, module hooks, heap, device, control, governor, …"},
		{"steps", U32, "steps in the time covered"},
		{"ns", U64, "ns of cost"},
		{"count", U64, "how often"},
		{"covered", U64, "ns of wall time covered"},
		{"gap", U64, "one step in so many is sampled now; not taken where it has no meaning"},
	}},
	{8, "tensors", 1,
		"a group of live tensors in a census; shape, dtype, device, role, site and holder are in the Text records just before it, separated by tabs", []Field{
			{"flags", U8, "1 estimated, 2 compared"},
			{"text_len", U16, "bytes of text"},
			{"text_slots", U16, "how many Text records with the preceding seqs belong to it"},
			{"pad", U16, "0"},
			{"census", U32, "number of the census in its process, from 1"},
			{"step", U32, "the last step that had ended, 0 before the first"},
			{"count", U32, "tensors"},
			{"oldest_step", U32, "last step at the census that saw the first of them; 0 not known"},
			{"fresh", U32, "of them were not there at the census before"},
			{"bytes", U64, "of their storages, each counted once"},
		}},
	{9, "objects", 1,
		"what holds memory in Python, in a census; evidence, type, holder, site and detail are in the Text records just before it, separated by tabs", []Field{
			{"flags", U8, "1 estimated, 2 compared"},
			{"text_len", U16, "bytes of text"},
			{"text_slots", U16, "how many Text records with the preceding seqs belong to it"},
			{"reserved0", U16, "0"},
			{"census", U32, "number of the census in its process, from 1"},
			{"step", U32, "the last step that had ended, 0 before the first"},
			{"count", U32, "objects"},
			{"delta", I32, "count, or length where there is one, less that of the census before"},
			{"length", U64, "items of the container, nodes of the graph, frames of the traceback; else not taken"},
			{"bytes", U64, "that it keeps alive, as far as known; else not taken"},
		}},
	{10, "step_end", 2, "the end of one step, or of several short ones", []Field{
		{"flags", U8, "1 sampled, 2 inference"},
		{"steps", U16, "how many steps the record stands for"},
		{"step", U32, "number of the last of them, from 1"},
		{"agent_ns", U32, "ns that observing took in them, by the agent's own clock"},
		{"duration", U64, "ns from the end of the step before the first of them; not taken for the very first"},
		{"work", U64, "what a step is, a place in WorkKinds; not taken in older rings"},
		{"tokens", U64, "tokens that were worked on in them, as far as told; else not taken"},
	}},
	{11, "host", 2, "the process's memory as the kernel has it, at the end of a step; precedes its step_end record",
		[]Field{
			{"flags", U8, "0"},
			{"reserved0", U16, "0"},
			{"step", U32, "number of the step"},
			{"rss", U64, "bytes resident"},
			{"anon", U64, "bytes resident - shared"},
			{"max_rss", U64, "bytes, ru_maxrss where it rose in the step, else not taken"},
		}},
}
