package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/judge/detect"
)

// TestDocumentsOfStrangers: no document becomes much more memory than it has bytes, whatever its lists are of; one that
// has no end is not read to it; and honest ones come through as they are.
func TestDocumentsOfStrangers(t *testing.T) {
	small(t)
	for what, elem := range map[string]string{"objects": "{}", "nulls": "null", "numbers": "1", "texts": `""`,
		"lists": `{"Evidence":[1]}`} {
		text := []byte(`{"findings":[` + strings.Repeat(elem+",", 1<<15) + elem + "]}")
		var r detect.Report
		if made, err := Unmarshal(text, &r, 4<<20); !errors.Is(err, ErrLarge) || r.Findings != nil {
			t.Errorf("%s: %d bytes made of %d, %v", what, made, len(text), err)
		}
	}
	var maps map[string]map[string]any
	text := []byte(`{` + strings.Repeat(`"a":{"b":[[],[]]},`, 1<<14) + `"c":{}}`)
	if _, err := Unmarshal(text, &maps, 1<<20); !errors.Is(err, ErrLarge) {
		t.Errorf("maps: %v", err)
	}
	if err := readWithin(t.Context(), endless{}, &maps); !errors.Is(err, ErrLarge) {
		t.Errorf("a document without an end: %v", err)
	}
	for _, text := range []string{``, `{`, `[1`, `{"findings":[{}`, `{"findings":`, `nil`, `{]`} {
		var r detect.Report
		if _, err := Unmarshal([]byte(text), &r, 1<<20); err == nil {
			t.Errorf("%q is a document", text)
		}
	}
	var r detect.Report
	text = []byte(`{"Verdict":"leak","findings":[{"Site":"a.py:1"},{"Evidence":["x"]}],"Later":[{"a":1}]}`)
	_, err := Unmarshal(text, &r, 1<<20)
	if err != nil || r.Verdict != "leak" || len(r.Findings) != 2 || r.Findings[1].Evidence[0] != "x" {
		t.Errorf("%+v, %v", r, err)
	}
}

// small sets bounds that are met at once.
func small(t *testing.T) {
	reply, made := maxReply, maxMade
	maxReply, maxMade = 1<<20, 1<<20
	t.Cleanup(func() { maxReply, maxMade = reply, made })
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

// TestFramesOfStrangers: a frame of a stream has the bounds of a document, and a stream has none.
func TestFramesOfStrangers(t *testing.T) {
	small(t)
	one := `{"output":{"process":1,"text":"eA=="}}` + "\n"
	d := newFrameReader(io.MultiReader(strings.NewReader(strings.Repeat(one, 100)), endless{}))
	for range 100 {
		var f frame
		if err := d.next(&f); err != nil || f.Output == nil {
			t.Fatalf("%+v, %v", f, err)
		}
	}
	if err := d.next(&frame{}); !errors.Is(err, ErrLarge) {
		t.Errorf("a frame without an end: %v", err)
	}
	many := fmt.Sprintf(`{"chosen":[%s1]}`, strings.Repeat("1,", int(maxMade)/int(reflect.TypeFor[Process]().Size())))
	if err := newFrameReader(strings.NewReader(many)).next(&frame{}); !errors.Is(err, ErrLarge) {
		t.Errorf("a frame of many processes: %v", err)
	}
}

// says answers a question with what it has.
type says struct{ io.Reader }

func (s says) Query(_ context.Context, _ QueryRequest, w io.Writer) error {
	_, err := io.Copy(w, s)
	return err
}

// TestRowsOfStrangers: rows without an end are not read to it, nor is one row, nor many that are only their type.
func TestRowsOfStrangers(t *testing.T) {
	small(t)
	many := strings.Repeat("{}\n", int(maxMade)/int(reflect.TypeFor[Process]().Size()))
	for what, answer := range map[string]io.Reader{"no end": endless{}, "many": strings.NewReader(many)} {
		if rows, err := Rows[Process](t.Context(), says{answer}, ""); !errors.Is(err, ErrLarge) {
			t.Errorf("%s: %d rows, %v", what, len(rows), err)
		}
	}
	if err := Each(t.Context(), says{endless{}}, "", func(Process) error { return nil }); !errors.Is(err, ErrLarge) {
		t.Errorf("one row: %v", err)
	}
	rows, n := 10*int(maxReply)/len(`{"pid":1}`), 0
	err := Each(t.Context(), says{strings.NewReader(strings.Repeat(`{"pid":1}`, rows))}, "", func(p Process) error {
		n += p.PID
		return nil
	})
	if err != nil || n != rows {
		t.Errorf("%d of %d rows, %v", n, rows, err)
	}
}
