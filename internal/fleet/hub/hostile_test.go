package hub

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/quota"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/fleet/lake"
	"github.com/memgauge/memgauge/internal/fleet/node"
	"github.com/memgauge/memgauge/test/frames"
)

// everyone is known, and comes from nowhere.
func everyone(string) (string, bool) { return "", true }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// greeted sends a hello and gives what the hub says to it.
func greeted(t *testing.T, c *bus.Conn, name string, text []byte) (w node.Welcome) {
	t.Helper()
	until(t, "an answer to a hello", func() bool {
		b, err := c.Request(t.Context(), bus.Hello(name), text)
		return err == nil && json.Unmarshal(b, &w) == nil
	})
	return w
}

// TestLargeHellos: words of 4 MB about a node itself are refused, counted and told; the hub answers on, and so does the
// next one over its files.
func TestLargeHellos(t *testing.T) {
	dir := t.TempDir()
	h, stop := running(t, Options{Dir: dir})
	for i := range 3 {
		name := fmt.Sprint("s", i)
		c := dial(t, h, name)
		text, err := json.Marshal(node.Hello{Instance: "a", Host: strings.Repeat("x", 4<<20)})
		if err != nil {
			t.Fatal(err)
		}
		if w := greeted(t, c, name, text); w.Refused == "" {
			t.Errorf("%s is welcome: %+v", name, w)
		}
	}
	asker := fanout.NewAsker(dial(t, h, ""), patience)
	if list, err := asker.Nodes(t.Context()); err != nil || len(list) != 3 {
		t.Errorf("%d nodes, %v", len(list), err)
	}
	if s := h.Status(t.Context()); s.Refused[whyHello] != 3 {
		t.Errorf("%+v", s.Refused)
	}
	stop()
	h, stop = running(t, Options{Dir: dir})
	defer stop()
	asker = fanout.NewAsker(dial(t, h, ""), 5*time.Second)
	until(t, "the nodes after its restart", func() bool { // it may not hear yet
		list, err := asker.Nodes(t.Context())
		return err == nil && len(list) == 3
	})
}

// TestHelloBounds: each bound of what a node says of itself.
func TestHelloBounds(t *testing.T) {
	many := make([]string, maxJobs+1)
	for i := range many {
		many[i] = fmt.Sprint("job", i)
	}
	reasons := map[string]int64{}
	for i := range maxReasons + 1 {
		reasons[fmt.Sprint(i)] = 1
	}
	long := strings.Repeat("x", maxWord+1)
	for name, h := range map[string]node.Hello{
		"no instance": {}, "instance": {Instance: long}, "host": {Instance: "a", Host: long},
		"version": {Instance: "a", Version: long}, "jobs": {Instance: "a", Jobs: many},
		"a job's name":  {Instance: "a", Jobs: []string{long}},
		"a job's form":  {Instance: "a", Jobs: []string{"../x"}},
		"sessions":      {Instance: "a", Sessions: -1},
		"many sessions": {Instance: "a", Sessions: maxCount + 1},
		"behind":        {Instance: "a", Shipping: fanout.Shipping{Behind: -1}},
		"ages behind":   {Instance: "a", Shipping: fanout.Shipping{Behind: 1e300}},
		"waits":         {Instance: "a", Shipping: fanout.Shipping{Waits: -5}},
		"reasons":       {Instance: "a", Shipping: fanout.Shipping{Lost: reasons}},
		"a reason":      {Instance: "a", Shipping: fanout.Shipping{Lost: map[string]int64{long: 1}}},
		"lost":          {Instance: "a", Shipping: fanout.Shipping{Lost: map[string]int64{"x": -1}}},
		"refused":       {Instance: "a", Refused: -1},
	} {
		text, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readHello(text); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	honest, err := json.Marshal(node.Hello{Instance: "a", Host: "gpu-1", Version: "1.0", Jobs: many[:maxJobs],
		Sessions: 64, Shipping: fanout.Shipping{Behind: 1e6, Trouble: strings.Repeat("the hub is away; ", 30)}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readHello(honest); err != nil || len(got.Trouble) > keptTrouble+3 {
		t.Errorf("%+v, %v", got, err)
	}
}

// emptyRoster is one of no nodes, in a directory of the test's.
func emptyRoster(t testing.TB, path string) *roster {
	t.Helper()
	dir, err := rootdir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return newRoster(dir)
}

// TestSilentProcessesAreForgotten: what the processes of a node have said is kept no longer than they are there.
func TestSilentProcessesAreForgotten(t *testing.T) {
	r := emptyRoster(t, t.TempDir())
	before := time.Now().Add(-2 * missedAfter)
	for i := range maxInstances {
		at := before
		if i == 0 {
			at = time.Now()
		}
		if err := r.hello("n1", node.Hello{Instance: fmt.Sprint(i)}, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.save(); err != nil {
		t.Fatal(err)
	}
	if there := len(r.nodes["n1"].hellos); there != 1 {
		t.Errorf("%d processes are kept, want the one that is there", there)
	}
}

// TestManyHellos: a node that says hello without end is read as often as its processes could need, and the hub hears
// the others.
func TestManyHellos(t *testing.T) {
	now, heard, all := time.Now(), 0, hellos{}
	for range 10_000 {
		if all.take("n1", now) {
			heard++
		}
	}
	if most := int(helloShare.burst); heard > most || heard < maxInstances {
		t.Errorf("%d were read at once, at most %d", heard, most)
	}
	if !all.take("n2", now) || !all.take("n1", now.Add(time.Hour)) {
		t.Error("another node is not heard, or this one for ever")
	}
}

// crowded is a roster with as many nodes as there may be, each of which says as much as it may.
func crowded(t testing.TB, nodes int) *roster {
	t.Helper()
	r := emptyRoster(t, t.TempDir())
	r.said = quota.New(1<<40, maxNodes)                                                        // for once
	h := node.Hello{Host: strings.Repeat("<", maxWord), Version: strings.Repeat(">", maxWord)} // six bytes each in JSON
	for i := range maxJobs {
		h.Jobs = append(h.Jobs, fmt.Sprintf("%0100d", i))
	}
	h.Trouble, h.Lost = strings.Repeat("<", keptTrouble), map[string]int64{}
	for i := range maxReasons {
		h.Lost[fmt.Sprintf("%064d", i)] = maxCount
	}
	now := time.Now()
	for i := range nodes {
		name := fmt.Sprintf("%0128d", i)
		r.nodes[name] = &known{Key: name, Node: fanout.Node{Name: name}}
		for k := range maxInstances {
			h.Instance = fmt.Sprintf("%0*d", maxWord, k)
			if err := r.hello(name, h, now); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r
}

// TestRepliesAreBounded: whatever the roster holds, what the hub tells of nodes is a message; the rest can be asked
// for. The roster's file can be read again.
func TestRepliesAreBounded(t *testing.T) {
	r := crowded(t, 1000)
	list := r.list(time.Now())
	seen, after := 0, ""
	for rest := 1; rest > 0; {
		var nodes []fanout.Node
		nodes, rest = page(list, after)
		text, err := json.Marshal(nodes)
		if err != nil || len(text) > bus.MaxMessage-1<<20 || len(nodes) == 0 {
			t.Fatalf("%d nodes in %d bytes, %v", len(nodes), len(text), err)
		}
		seen, after = seen+len(nodes), nodes[len(nodes)-1].Name
	}
	if seen != 1000 {
		t.Errorf("%d nodes in all pages", seen)
	}
	r.dirty = true
	if err := r.save(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(r.dir.Path(), nodeFile))
	if err != nil || info.Size()*maxNodes/1000 > maxRoster {
		t.Errorf("%d bytes of 1000 nodes: %d would make more than can be read; %v", info.Size(), maxNodes, err)
	}
	again, err := openRoster(r.dir, quiet())
	if err != nil || len(again.nodes) != 1000 || again.left != 0 {
		t.Errorf("%d nodes read, %d left out: %v", len(again.nodes), again.left, err)
	}
	h := &Hub{roster: r, o: Options{Log: quiet()}}
	s := h.Status(t.Context())
	text, err := json.Marshal(s)
	if err != nil || len(text) > bus.MaxMessage-1<<20 || s.Total != 1000 || s.Up != 1000 || len(s.Lost) > maxReasons {
		t.Errorf("a status of %d bytes, %d nodes, %d reasons: %v", len(text), s.Total, len(s.Lost), err)
	}
}

// TestAskerReadsAllPages over a real hub.
func TestAskerReadsAllPages(t *testing.T) {
	h, stop := running(t, Options{Dir: t.TempDir()})
	defer stop()
	h.roster.mu.Lock()
	h.roster.nodes = crowded(t, 1000).nodes
	h.roster.mu.Unlock()
	list, err := fanout.NewAsker(dial(t, h, ""), patience).Nodes(t.Context())
	if err != nil || len(list) != 1000 {
		t.Errorf("%d nodes, %v", len(list), err)
	}
}

// TestDamagedRoster: the hub is there whatever its file holds; what can be read of it counts, and it is kept.
func TestDamagedRoster(t *testing.T) {
	host := `"host":"` + strings.Repeat("x", 4<<20) + `","jobs"`
	good := fmt.Sprintf(`"n1":{"key":"K","node":{"node":"n1","seen":%q,"jobs":["j"]}}`,
		time.Now().UTC().Format(time.RFC3339))
	for name, f := range map[string]struct {
		text        string
		nodes, left int
		aside       bool
	}{
		"good":      {"{" + good + "}", 1, 0, false},
		"empty":     {"", 0, 0, true},
		"text":      {"no JSON", 0, 0, true},
		"a list":    {"[1]", 0, 0, true},
		"cut":       {"{" + good + `,"n2":{"key":`, 1, 0, true},
		"null":      {"{" + good + `,"n2":null,"n3":[],"n4":7}`, 1, 3, false},
		"names":     {"{" + good + `,"../x":{"key":"K"},"":{"key":"K"}}`, 1, 2, false},
		"long key":  {"{" + good + `,"n2":{"key":"` + strings.Repeat("k", 200) + `"}}`, 1, 1, false},
		"long host": {strings.Replace("{"+good+"}", `"jobs"`, host, 1), 1, 0, false},
		"too large": {"{" + good + strings.Repeat(" ", maxRoster) + "}", 1, 0, true},
	} {
		path := filepath.Join(t.TempDir(), "nodes.json")
		if err := os.WriteFile(path, []byte(f.text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := openRoster(emptyRoster(t, filepath.Dir(path)).dir, quiet())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		kept, err := os.ReadFile(path + badRoster)
		if len(r.nodes) != f.nodes || r.left != f.left || (err == nil) != f.aside || f.aside && string(kept) != f.text {
			t.Errorf("%s: %d nodes, %d left out, set aside: %v", name, len(r.nodes), r.left, err)
		}
		if f.nodes == 1 && (r.known("n1", "other", local) == nil || r.known("n1", "K", local) != nil) {
			t.Errorf("%s: the name lost its key", name)
		}
	}
}

// TestFloodOfNames: a stranger's names lock no node out, and no node that has shipped rows loses its own.
func TestFloodOfNames(t *testing.T) {
	r := emptyRoster(t, t.TempDir())
	now := time.Now()
	add := func(name string, seen time.Duration, kept uint64) {
		r.nodes[name] = &known{Key: name, Node: fanout.Node{Name: name, Seen: now.Add(-seen), Kept: kept}}
	}
	for i := range maxNodes - 2 {
		add(fmt.Sprint("flood", i), time.Minute+time.Duration(i)*time.Millisecond, 0)
	}
	add("honest", 24*time.Hour, 5)
	add("gone", forgetAfter+time.Hour, 5)
	for _, name := range []string{"new-1", "new-2", "new-3"} {
		if err := r.known(name, name, local); err != nil {
			t.Errorf("%s is locked out: %v", name, err)
		}
	}
	if len(r.nodes) > maxNodes || r.nodes["honest"] == nil || r.nodes["gone"] != nil {
		t.Errorf("%d nodes, honest: %v, gone: %v", len(r.nodes), r.nodes["honest"] != nil, r.nodes["gone"] != nil)
	}
	names := 0
	for i := range namesPerKey + 3 {
		if r.known(fmt.Sprint("one-key", i), "one", local) == nil {
			names++
		}
	}
	if names != namesPerKey {
		t.Errorf("a key has %d names", names)
	}
	for i := range maxInstances + 3 {
		err := r.hello("new-1", node.Hello{Instance: fmt.Sprint(i)}, now)
		if (err != nil) != (i >= maxInstances) {
			t.Errorf("process %d: %v", i, err)
		}
	}
	if err := r.hello("new-1", node.Hello{Instance: "later"}, now.Add(time.Minute)); err != nil {
		t.Errorf("when the others are silent: %v", err)
	}
}

// TestKeptShare: a node that floods a lake with a bound has a sixteenth of it a day, whatever names its rows have, and
// comes again later; another one doesn't notice. A lake without a bound has no such share.
func TestKeptShare(t *testing.T) {
	const lake, frame = 160 << 30, 4 << 20
	s, now := newShares(lake, everyone), time.Now()
	kept, later := 0, time.Duration(0)
	for range 10_000 {
		if later = s.lets(s.of("flood", now), frame, now); later == 0 {
			kept += frame
		}
	}
	if kept > lake/16+frame || kept < lake/16 || later != mostLater {
		t.Errorf("%d bytes of %d are kept at once, then one is to come in %s", kept, lake, later)
	}
	if s.lets(s.of("honest", now), frame, now) != 0 {
		t.Error("another node waits")
	}
	kept = 0
	for second := range 24 * 3600 {
		at := now.Add(time.Duration(second) * time.Second)
		if s.lets(s.of("flood", at), frame, at) == 0 {
			kept += frame
		}
	}
	if kept > lake/16+frame {
		t.Errorf("%d bytes more in a day", kept)
	}
	if s.forget(now.Add(24 * time.Hour)); len(s.all) != 1 { // the flood's share is spent, and must be remembered
		t.Errorf("%d shares are remembered", len(s.all))
	}
	s = newShares(0, everyone)
	for range 10_000 {
		if s.lets(s.of("flood", now), frame, now) != 0 {
			t.Fatal("a lake without a bound lets a node wait")
		}
	}
}

// TestShares: what a node may have at once and in a time, as the clock goes.
func TestShares(t *testing.T) {
	now := time.Now()
	s := newShares(0, everyone)
	one := s.of("n", now)
	most := float64(64 << 20)
	passed := 0
	for range 1000 {
		if one.bytes.take(byteShare, most, now) == 0 {
			passed++
		}
	}
	if want := int(byteShare.burst / most); passed != want {
		t.Errorf("%d frames of 64 MiB at once, want %d", passed, want)
	}
	if s.of("other", now).bytes.take(byteShare, most, now) != 0 {
		t.Error("another node waits")
	}
	passed = 0
	for i := range 3600 { // each second one comes again
		if one.bytes.take(byteShare, most, now.Add(time.Duration(i)*time.Second)) == 0 {
			passed++
		}
	}
	if want := int(3600 * byteShare.each / most); passed < want-1 || passed > want+1 {
		t.Errorf("%d frames in an hour, want %d", passed, want)
	}
	// a node of 8 jobs with 13 tables each, for an hour, and a month that another was away
	for minute := range 60 {
		at := now.Truncate(time.Hour).Add(time.Duration(minute) * time.Minute)
		flushed := map[string]bool{}
		for k := range 8 * 13 * 2 {
			if s.parts("busy", []string{fmt.Sprint(k % (8 * 13))}, flushed, at) > 0 {
				t.Fatalf("a busy node waits in minute %d", minute)
			}
		}
	}
	away, tries := 0, 0
	at := now
	for hour := 0; hour < 30*24*13; tries++ {
		if s.parts("away", []string{fmt.Sprint(hour)}, map[string]bool{}, at) == 0 {
			hour, away = hour+1, away+1
		} else {
			at = at.Add(time.Second)
		}
	}
	if took := at.Sub(now); took > 6*time.Hour || took < 4*time.Hour {
		t.Errorf("a month's rows take %s", took)
	}
	s.forget(at.Add(24 * time.Hour * 20))
	if len(s.all) != 0 {
		t.Errorf("%d shares are remembered", len(s.all))
	}
}

// rowsAt is a frame of memgauge.events with one row at each time.
func rowsAt(t testing.TB, from string, first uint64, times []time.Time) []byte {
	t.Helper()
	rows := frames.Rows(frames.Fields("memgauge.events"), len(times), func(f frame.Field, row int) any {
		return map[string]any{"job": "j", "node": from, "ts": times[row]}[f.Name]
	})
	text, err := frame.Encode(frame.Batch{Header: frame.Header{Job: "j", Node: from, Rank: -1, Session: "s",
		Table: "memgauge.events", First: first, Count: len(times)}, Rows: rows})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestSpreadRows: frames whose rows are spread over thousands of hours make no more files than a node may have, are
// counted, and keep no other node's rows from coming.
func TestSpreadRows(t *testing.T) {
	dir := t.TempDir()
	w, err := lake.New(t.Context(), lake.Options{Location: filepath.Join(dir, "lake")})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	h, stop := running(t, Options{Dir: dir, Keep: w})
	defer stop()
	hostile, honest := dial(t, h, "n1"), dial(t, h, "n2")
	const each = 100
	now := time.Now()
	for k := range 6 {
		var times []time.Time
		for i := range each {
			times = append(times, now.Add(-time.Duration(k*each+i)*time.Hour))
		}
		if err := ship(t, hostile, rowsAt(t, "n1", uint64(k*each+1), times)); err != nil {
			t.Fatal(err)
		}
	}
	if err := ship(t, honest, rowsAt(t, "n2", 1, []time.Time{now})); err != nil {
		t.Fatal(err)
	}
	until(t, "the honest row, and a refusal", func() bool {
		s := h.Status(t.Context())
		return s.Refused[whyShare] > 0 && s.Rows >= 2*each+1
	})
	files := 0
	err = filepath.WalkDir(filepath.Join(dir, "lake"), func(path string, d os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".parquet") && !strings.Contains(path, ".stage") {
			files++
		}
		return nil
	})
	if most := 3*each + 2; err != nil || files > most {
		t.Errorf("%d files, at most %d; %v", files, most, err)
	}
	found := false
	for _, n := range h.Status(t.Context()).Nodes {
		found = found || n.Name == "n2" && n.Kept == 1
	}
	if hello(t, honest, "n2", "a", false); !found {
		t.Error("the other node's row was not kept")
	}
}

// TestManyColumns: a frame with columns of its own reaches the keeper without them, and that is counted.
func TestManyColumns(t *testing.T) {
	k := kept{make(chan frame.Header, 16)}
	h, stop := running(t, Options{Dir: t.TempDir(), Keep: k})
	defer stop()
	c := dial(t, h, "n1")
	for _, name := range []string{"newer", "TEXT"} {
		fields := append(frames.Fields("memgauge.events"), frame.Field{Name: name, Type: frame.Text})
		text := encoded(t, fields, "n1", "n1", 1)
		if err := ship(t, c, text); err != nil {
			t.Fatal(err)
		}
	}
	<-k.came
	until(t, "both to be counted", func() bool {
		s := h.Status(t.Context())
		return s.Refused[whyColumn] == 1 && s.Refused[whyCorrupt] == 1
	})
}

// FuzzHello: whatever bytes nodes say of themselves, what the hub tells of them is a message, and the roster can be
// read again.
func FuzzHello(f *testing.F) {
	f.Add([]byte(`{"instance":"a","host":"h","jobs":["j"],"lost":{"x":1},"behind_seconds":3}`))
	f.Add([]byte(`{"instance":"a","sessions":9223372036854775807,"lost":{"x":9223372036854775807}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := emptyRoster(t, t.TempDir())
		h, err := readHello(text)
		if err != nil {
			return
		}
		if err := r.hello("n", h, time.Now()); err != nil {
			t.Fatal(err)
		}
		list := r.list(time.Now())
		nodes, _ := page(list, "")
		told, err := json.Marshal(nodes)
		if err != nil || len(told) > 64<<10 {
			t.Fatalf("%d bytes, %v", len(told), err)
		}
		stored, err := json.Marshal(r.nodes)
		if err != nil {
			t.Fatal(err)
		}
		again := newRoster(nil)
		err = again.read(bytes.NewReader(stored))
		if err != nil || len(again.nodes) != len(r.nodes) || again.left > 0 {
			t.Fatalf("%s: %v, %d left out", stored, err, again.left)
		}
	})
}
