package snapshot

// Columns are a memory snapshot with its events in columns, one row an event, in the order of the file: six million
// events take 250 MB. Close gives the memory back; nothing of it may be used after that.
//
// Texts, frames and stacks are kept once and named by their number: see Text, Frame, StackFrames.
type Columns struct {
	Action []uint8 // index in Actions
	Device []uint16
	Addr   []uint64 // of a block or segment; with OOM, DeviceFree: bytes that the driver still had
	Size   []int64  // bytes
	Time   []int64  // µs since the epoch; 0 where the file does not say
	Stream []uint16 // index in Streams
	Stack  []uint32 // see StackFrames; 0 is the empty one
	Pool   []uint16 // index in Pools: whose private pool (CUDA graphs)
	// Context is torch.compile's name for the graph, Metadata what the user attached; see Text. NoText where there is
	// none.
	Context, Metadata []uint32
	Thread            []uint64 // nil where the file names no threads; PyTorch does not

	Actions     []string // Alloc, FreeRequested, … first, then what this file has besides
	Streams     []uint64
	Pools       [][2]int64
	Rows        []Rows // which rows belong to which device
	Segments    []SegmentRow
	Blocks      []BlockRow // of all segments
	Annotations []Annotation
	Settings    []Setting

	Format Format
	// DeviceNames are what devices are called whose number says nothing: those of the CPU and of pinned
	// host memory.
	DeviceNames map[int]string

	// Cut says why a file ended before its time; what stood before is here. nil for a whole file.
	Cut error
	// Pickle is how many bytes the pickle has, unpacked; 0 if the file is none, or is cut short.
	Pickle int64
	// Bytearrays says that it has values for which protocol 4 has no opcode. PyTorch writes none.
	Bytearrays bool
	// Trailing is how many bytes followed the pickle and were not read.
	Trailing int64

	texts  interner
	frames interner // name, file, line: three numbers
	stacks interner // numbers of frames
	rows   rows
}

// Rows is a run of rows of one device.
type Rows struct{ Device, From, To int }

// SegmentRow is memory that the allocator has from the driver. Sizes are in bytes.
type SegmentRow struct {
	Address, Stream                    uint64
	Size, Allocated, Active, Requested int64 // see Segment
	Device                             int
	Kind                               uint32 // see Text
	Pool                               [2]int64
	Expandable                         bool
	Stack                              uint32
	From, To                           int // its blocks, in Blocks
}

// BlockRow is a piece of a segment. Sizes are in bytes.
type BlockRow struct {
	Address   uint64
	Size      int64
	Requested int64
	State     BlockState
	Stack     uint32
}

// NoText is the number of a text that is not there.
const NoText = ^uint32(0)

// Indices of the actions that are known.
const (
	IsAlloc uint8 = iota
	IsFreeRequested
	IsFreeCompleted
	IsSegmentAlloc
	IsSegmentFree
	IsSegmentMap
	IsSegmentUnmap
	IsTaken
	IsOOM
	IsAnnotate
	knownActions
)

var actionNames = [knownActions]Action{
	Alloc, FreeRequested, FreeCompleted, SegmentAlloc, SegmentFree, SegmentMap, SegmentUnmap, Taken, OOM, "annotate",
}

// Len is how many events there are.
func (c *Columns) Len() int { return len(c.Action) }

// Text is the text of a number, "" for NoText.
func (c *Columns) Text(id uint32) string {
	if id == NoText {
		return ""
	}
	return string(c.texts.get(id))
}

// Texts is how many texts there are.
func (c *Columns) Texts() int { return c.texts.len() }

// Stacks is how many stacks there are; number 0 is the empty one.
func (c *Columns) Stacks() int { return c.stacks.len() }

// Frames is how many frames there are.
func (c *Columns) Frames() int { return c.frames.len() }

// StackFrames is the frames of a stack by their numbers, innermost first. It must not be changed.
func (c *Columns) StackFrames(id uint32) []uint32 { return asNumbers(c.stacks.get(id)) }

// FrameTexts are the numbers of a frame's function and file, and its line.
func (c *Columns) FrameTexts(id uint32) (name, file uint32, line int) {
	f := asNumbers(c.frames.get(id))
	return f[0], f[1], int(int32(f[2]))
}

// Frame is the frame of a number.
func (c *Columns) Frame(id uint32) Frame {
	name, file, line := c.FrameTexts(id)
	return Frame{File: c.Text(file), Line: line, Name: c.Text(name)}
}

// Close gives back the memory of the columns.
func (c *Columns) Close() {
	c.rows.free()
	*c = Columns{}
}
