package web_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/memgauge/memgauge/test/env"

	"github.com/memgauge/memgauge/internal/faces/web"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
)

// carried is what the tests read of a timeline's page.
type carried struct {
	Answers map[string]json.RawMessage
	Tiles   map[string][]struct {
		Level, Index int
		Bytes        []byte
	}
	Blocks map[string]struct {
		ID, Stack []uint32
		Attached  []int
		Bytes     []int64
	}
	Stacks map[string]struct {
		Site   string
		Frames []int
	}
	Frames map[string]struct{ Name string }
	Texts  [][]string
}

func timelineOf(t *testing.T, h *anatomy.History) (page []byte, c carried) {
	t.Helper()
	var out bytes.Buffer
	if err := web.WriteTimeline(t.Context(), &out, h, "<script>.pickle", 7, "1"); err != nil {
		t.Fatal(err)
	}
	data := regexp.MustCompile(`id="data">([^<]*)<`).FindSubmatch(out.Bytes())
	packed, err := base64.StdEncoding.DecodeString(string(data[1]))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(&c); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), c
}

// The page of a snapshot carries all that it can ask for, and nothing that asks a network.
func TestTimelineIsWhole(t *testing.T) {
	env.Page(t, web.Bundled())
	for _, name := range []string{"h100-expandable.pickle.gz", "mosaic.pickle"} {
		f, err := os.Open(filepath.Join(env.Checkout(), "testdata", "snapshots", name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		columns, err := snapshot.ReadColumns(context.Background(), f, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		h := anatomy.New(columns)
		defer h.Close()
		d := h.Devices[0]
		page, c := timelineOf(t, h)
		if !bytes.Contains(page, []byte(`content="default-src &#39;none&#39;;`)) ||
			bytes.Count(page, []byte("<script")) != 2 {
			t.Errorf("%s: the page may ask others, or a name stands as markup", name)
		}
		if len(page) > 4<<20 {
			t.Errorf("%s: %d bytes", name, len(page))
		}
		var m struct{ Live int64 }
		err = json.Unmarshal(c.Answers[fmt.Sprintf("moment?device=0&event=%d", d.Peak-d.From)], &m)
		if err != nil || m.Live != d.PeakLive {
			t.Errorf("%s: %d bytes at the peak, want %d: %v", name, m.Live, d.PeakLive, err)
		}
		for _, question := range []string{"", "list", "segments?device=0",
			fmt.Sprintf("flame?device=0&event=%d", d.Peak-d.From),
			fmt.Sprintf("flame?device=0&event=%d", d.To-d.From-1)} {
			if len(c.Answers[question]) < 20 {
				t.Errorf("%s: no answer to %q", name, question)
			}
		}
		checkTiles(t, name, c, d.To-d.From)
	}
}

// checkTiles holds that the tiles of a level cover the events, and that each of their blocks is told with its stack.
func checkTiles(t *testing.T, name string, c carried, events int) {
	t.Helper()
	blocks, covered := c.Blocks["0"], map[int]int{}
	for _, x := range c.Tiles["0"] {
		n := func(i int) int { return int(binary.LittleEndian.Uint32(x.Bytes[4*i:])) }
		columns, boxes := n(3), n(4)
		covered[x.Level] += columns << x.Level
		for i := range boxes {
			id := binary.LittleEndian.Uint32(x.Bytes[24+20*columns+20*i+12:])
			if id == anatomy.Rest {
				continue
			}
			at, ok := slices.BinarySearch(blocks.ID, id)
			if !ok || len(c.Stacks[fmt.Sprint(blocks.Stack[at])].Frames) == 0 && blocks.Stack[at] != 0 {
				t.Fatalf("%s: level %d, tile %d: block %d is not told", name, x.Level, x.Index, id)
			}
		}
	}
	if len(covered) < 2 && events > anatomy.TileColumns*2 {
		t.Errorf("%s: %d levels", name, len(covered))
	}
	for level, got := range covered {
		if got < events {
			t.Errorf("%s: level %d covers %d of %d events", name, level, got, events)
		}
	}
	for key, s := range c.Stacks {
		for _, f := range s.Frames {
			if c.Frames[fmt.Sprint(f)].Name == "" {
				t.Fatalf("%s: stack %s has frame %d, which is not told", name, key, f)
			}
		}
	}
}

// The page tells what the program has attached to a block, and the map of the segments what its blocks have beyond what
// was asked for, in the order of addresses.
func TestTimelineTellsWhatIsAttachedAndLost(t *testing.T) {
	env.Page(t, web.Bundled())
	var file bytes.Buffer
	if err := snapshot.WritePickle(&file, &snapshot.Snapshot{
		Segments: []snapshot.Segment{{Address: 4096, Size: 8192, Kind: "small", Blocks: []snapshot.Block{
			{Address: 4096, Size: 4096, Requested: 1000, State: snapshot.Allocated},
			{Address: 8192, Size: 1024, Requested: 1024, State: snapshot.Allocated},
			{Address: 9216, Size: 3072, State: snapshot.Inactive}}}},
		Traces: [][]snapshot.Event{{
			{Action: snapshot.Alloc, Addr: 8192, Size: 1024, Time: 1, Metadata: "layer 1"},
			{Action: "annotate", Addr: 8192, Size: 1024, Time: 2, Metadata: "kept"},
			{Action: "annotate", Addr: 4096, Size: 1000, Time: 3, Metadata: "weights"}}},
	}); err != nil {
		t.Fatal(err)
	}
	columns, err := snapshot.ReadColumns(t.Context(), &file, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	h := anatomy.New(columns)
	defer h.Close()
	_, c := timelineOf(t, h)
	var attached [][]string
	for _, at := range c.Blocks["0"].Attached {
		attached = append(attached, c.Texts[at])
	}
	if got := fmt.Sprint(attached); got != "[[weights] [layer 1 kept]]" {
		t.Errorf("attached: %s", got)
	}
	var m struct {
		Rounding int64 `json:"rounding_bytes"`
		Rest     int64 `json:"rest_bytes"`
		Segments []struct {
			Used int64
			Runs []struct {
				At, Bytes int64
				State     string
				Blocks    int
			}
		}
	}
	if err := json.Unmarshal(c.Answers["segments?device=0"], &m); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(m.Rounding, m.Rest, m.Segments)
	if want := "24 3072 [{5120 [{0 1000 used 1} {1000 24 rounding 0} {1024 3072 rest 0} {4096 1024 used 1} " +
		"{5120 3072 free 0}]}]"; got != want {
		t.Errorf("segments: %s, want %s", got, want)
	}
}
