package fragment

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// A heap that is fragmented on purpose: of 20,000 blocks every second one is freed. The truth is known from the script.
const swissCheese = `
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
libc.mallopt(-3, 1 << 30)   # M_MMAP_THRESHOLD: all of it in the heap
size, n = int(sys.argv[1]), int(sys.argv[2])
blocks = [libc.malloc(size) for _ in range(n)]
for p in blocks: ctypes.memset(p, 1, size)
for p in blocks[::2]: libc.free(p)
sys.path.insert(0, sys.argv[3])
from memgauge._agent.gauges import heap
print(heap.malloc_info())
`

func mallocInfoOf(t *testing.T, size, n int) string {
	t.Helper()
	lib, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "-B", "-c", swissCheese, strconv.Itoa(size), strconv.Itoa(n), lib+"/../../../python")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.TrimSpace(string(out)) == "None" {
		t.Skip("this C library has no malloc_info")
	}
	return string(out)
}

func TestHeapFragmentedOnPurpose(t *testing.T) {
	for _, c := range []struct{ size, n int }{{100 << 10, 4000}, {4 << 10, 40000}, {1 << 20, 300}} {
		s, err := OfMallocInfo(mallocInfoOf(t, c.size, c.n))
		if err != nil {
			t.Fatal(err)
		}
		chunk := int64(c.size + 16)
		count, bytes := int64(c.n/2), int64(c.n/2)*chunk
		near(t, "holes", s.Holes.Count, count)
		near(t, "bytes in holes", s.Holes.Bytes, bytes)
		near(t, "largest hole", s.Holes.Largest, chunk)
		near(t, "in use", s.InUse, bytes)
		t.Logf("%d × %d: %.1f %% of %d held; reclaimable %d, spare %d", c.n, c.size, s.Percent(), s.Held, s.Reclaimable,
			s.Spare)
	}
}

// near allows 5 %, and a little more for what Python itself has in its heap.
func near(t *testing.T, what string, got, want int64) {
	t.Helper()
	slack := want/20 + 3<<20
	if what == "holes" {
		slack = want/20 + 1500
	}
	if got < want-want/20 || got > want+slack {
		t.Errorf("%s: %d, the truth is %d", what, got, want)
	}
}

// The truth is counted by hand here, from the file's blocks alone.
func TestRecordedSnapshot(t *testing.T) {
	file, _, err := snapshot.ReadFile("../../../testdata/snapshots/mosaic.pickle")
	if err != nil {
		t.Fatal(err)
	}
	device := file.Segments[0].Device
	got := OfSegments(file.Segments, device)
	var held, used, holes, spare, largest, count int64
	for _, seg := range file.Segments {
		if seg.Device != device {
			continue
		}
		held += seg.Size
		inUse := false
		for _, b := range seg.Blocks {
			inUse = inUse || b.State != snapshot.Inactive
		}
		for _, b := range seg.Blocks {
			switch {
			case b.State != snapshot.Inactive:
				used += b.Size
			case inUse:
				holes, count, largest = holes+b.Size, count+1, max(largest, b.Size)
			default:
				spare += b.Size
			}
		}
	}
	if held == 0 || got.Held != held || got.InUse != used || got.Spare != spare || got.Holes.Bytes != holes ||
		got.Holes.Count != count || got.Holes.Largest != largest {
		t.Errorf("%+v\nwant held %d, in use %d, spare %d, holes %d of %d bytes, the largest %d", got, held, used, spare,
			count, holes, largest)
	}
	if got.Untold != held-used-spare-holes {
		t.Errorf("%d bytes of no block, want %d", got.Untold, held-used-spare-holes)
	}
	var n, bytes int64
	for _, c := range got.Holes.Sizes {
		n, bytes = n+c.Count, bytes+c.Bytes
		if c.To != 2*c.From {
			t.Errorf("class %+v", c)
		}
	}
	if n != count || bytes != holes {
		t.Errorf("the classes hold %d holes of %d bytes", n, bytes)
	}
}

func TestSegmentsByHand(t *testing.T) {
	b := func(size int64, state snapshot.BlockState) snapshot.Block {
		return snapshot.Block{Size: size, State: state}
	}
	s := OfSegments([]snapshot.Segment{
		{Device: 0, Size: 20, Blocks: []snapshot.Block{b(8, snapshot.Allocated), b(4, snapshot.Inactive),
			b(8, snapshot.PendingFree)}},
		{Device: 0, Size: 20, Blocks: []snapshot.Block{b(20, snapshot.Inactive)}},
		{Device: 1, Size: 99, Blocks: []snapshot.Block{b(99, snapshot.Allocated)}},
	}, 0)
	if s.Held != 40 || s.InUse != 16 || s.Spare != 20 || s.Holes.Bytes != 4 || s.Holes.Count != 1 ||
		s.Reclaimable != 24 || s.LargestRequest != 8 || s.Percent() != 10 {
		t.Errorf("%+v", s)
	}
	if s.Unfit() {
		t.Error("the spare segment would do for the largest request")
	}
}

func FuzzOfMallocInfo(f *testing.F) {
	f.Add(`<malloc version="1"><heap nr="0"><sizes><size from="33" to="48" total="96" count="2"/></sizes><total ` +
		`type="fast" count="0" size="0"/><total type="rest" count="3" size="200"/><system type="current" ` +
		`size="1000"/></heap><total type="mmap" count="1" size="4096"/></malloc>`)
	f.Add(`<malloc`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := OfMallocInfo(text)
		if err == nil && (s.Held < 0 || s.InUse < 0 || s.Holes.Bytes > s.Held) {
			t.Errorf("%+v", s)
		}
	})
}
