package lake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// failing is a place where a write fails now and then: before it has an effect, or behind it, as one of S3 that has
// arrived and whose answer was lost.
type failing struct {
	place
	r *rand.Rand
}

var errFailing = errors.New("a write that failed")

func (f *failing) put(ctx context.Context, name, made string) error {
	switch f.r.IntN(8) {
	case 0:
		return errFailing
	case 1:
		return errors.Join(f.place.put(ctx, name, made), errFailing)
	}
	return f.place.put(ctx, name, made)
}

// TestAgainstAModel: rows are appended, come again, are merged by writers that end at any place, and writes fail with
// and without an effect. After each step every acknowledged row is there once, and every other at most once.
func TestAgainstAModel(t *testing.T) {
	for n := range env.Times(3, 60) {
		againstAModel(t, uint64(13+n)) // 15 lost rows once
	}
}

func againstAModel(t *testing.T, seed uint64) {
	dir, r := t.TempDir(), rand.New(rand.NewPCG(seed, 7))
	open := func() *Writer {
		w := writer(t, soon(dir))
		w.place = &failing{w.place, r}
		return w
	}
	w := open()
	defer func() { w.Close() }()
	acked, sent := map[[2]int]bool{}, [][2]int{}
	steps := []string{}
	for next := 0; len(steps) < 40; {
		var err error
		switch what := r.IntN(8); {
		case what < 4 || len(sent) == 0:
			b := [2]int{next % nodes, next / nodes}
			if what == 3 && len(sent) > 0 { // again
				b = sent[r.IntN(len(sent))]
			} else {
				next++
				sent = append(sent, b)
			}
			err = w.Append(t.Context(), batch(t, b[0], b[1]))
			acked[b] = acked[b] || err == nil
			steps = append(steps, fmt.Sprintf("append %v: %v", b, err))
		case what < 7:
			_, err = w.Maintain(t.Context())
			steps = append(steps, fmt.Sprintf("maintain: %v", err))
		default:
			err = w.Close()
			w = open()
			steps = append(steps, "another writer")
		}
		if err != nil && !errors.Is(err, errFailing) {
			t.Fatalf("seed %d: %v, after %s", seed, err, strings.Join(steps, "; "))
		}
	}
	for _, b := range sent { // what has no answer comes again until it has one
		for !acked[b] {
			acked[b] = w.Append(t.Context(), batch(t, b[0], b[1])) == nil
		}
	}
	checkRows(t, dir, fmt.Sprintf("seed %d", seed), acked, len(sent), true)
	for n := 0; n < 3; {
		if _, err := w.Maintain(t.Context()); err == nil {
			n++
		}
	}
	checkRows(t, dir, fmt.Sprintf("seed %d, merged", seed), acked, len(sent), true)
	if names, _ := w.Aside(); len(slices.DeleteFunc(names, func(s string) bool { return s == "" })) > 0 {
		t.Errorf("seed %d: set aside: %q", seed, names)
	}
	if t.Failed() {
		t.Logf("%s", strings.Join(steps, "\n"))
	}
}

// TestMarkerAndMergedDiffer: where a marker tells of other rows than its merged file has, more, fewer, or as many of
// other sessions, rows that come are there, the marker is named, and neither file is written over or removed.
func TestMarkerAndMergedDiffer(t *testing.T) {
	for name, rows := range map[string]string{
		"more":    `{"node-0/s1":[[1,9000]]}`,
		"fewer":   `{"node-0/s1":[[1,7]]}`,
		"nothing": `{}`,
		"others":  fmt.Sprintf(`{"node-1/s1":[[1,%d]]}`, batchRows),
	} {
		dir := t.TempDir()
		w := writer(t, soon(dir))
		appended(t, w, batch(t, 0, 0))
		if r, err := w.Maintain(t.Context()); err != nil || r.Merged != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		planted(t, dir, tenOClock+"/_gen-1.json", `{"generation":1,"rows":`+rows+`}`)
		merged := filepath.Join(dir, filepath.FromSlash(tenOClock), "tier=c1", mergedName)
		before := env.Must[[]byte](t)(os.ReadFile(merged))
		w = writer(t, soon(dir))
		appended(t, w, batch(t, 0, 1))
		if _, err := w.Maintain(t.Context()); !errors.Is(err, errOdd) || !strings.Contains(err.Error(), "_gen-1.json") {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := os.ReadFile(merged); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: the merged file has changed: %v", name, err)
		}
		if got := csv(t, Choice{Location: dir}, countRows); got != fmt.Sprint(2*batchRows) {
			t.Errorf("%s: %s rows", name, got)
		}
		w.Close()
	}
}
