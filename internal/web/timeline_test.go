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

	"github.com/memgauge/memgauge/internal/anatomy"
	"github.com/memgauge/memgauge/internal/snapshot"
	"github.com/memgauge/memgauge/internal/web"
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
		Bytes     []int64
	}
	Stacks map[string]struct {
		Site   string
		Frames []int
	}
	Frames map[string]struct{ Name string }
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
