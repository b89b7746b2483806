package workload

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/judge/replay"
)

func TestMeasure(t *testing.T) {
	if checked {
		t.Skip("package alloc checks itself after each operation in this build: hours")
	}
	figures, err := Measure(Options{Policies: []string{"torch", "packed", "vmm"}, Pairs: 2000, Rounds: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(figures) != 15 {
		t.Errorf("%d figures", len(figures))
	}
	for _, f := range figures {
		if !(f.Value > 0) || f.What == "" || f.Unit == "" {
			t.Errorf("%+v", f)
		}
	}
}

// The trace in testdata is the one that the generator makes; UPDATE=1 writes it anew.
func TestStoredTrace(t *testing.T) {
	const path = "../../../testdata/snapshots/transformer.trace.gz"
	trace := Small.Trace()
	var text bytes.Buffer
	if err := snapshot.WriteTrace(&text, trace); err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE") != "" {
		store(t, path, text.Bytes())
	}
	s, _, err := snapshot.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := s.Trace(0)
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := snapshot.WriteTrace(&again, stored); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text.Bytes(), again.Bytes()) {
		t.Error("the stored trace is not what the generator makes: UPDATE=1 go test ./internal/judge/workload")
	}
}

// The trace is balanced: what is held at its end is weights and the optimizer's state.
func TestTransformerHoldsWhatATrainingHolds(t *testing.T) {
	if checked {
		t.Skip("package alloc checks itself after each operation in this build: hours")
	}
	trace := Small.Trace()
	held := replay.Requested(trace)
	if end, want := int64(held.Bytes[len(held.Bytes)-1]), parameters(Small)*(wordBytes+12); end != want {
		t.Errorf("%d bytes held at the end, want %d", end, want)
	}
	r, err := replay.Run(context.Background(), trace, replay.Setting{Name: "torch"}, replay.Unlimited)
	if err != nil {
		t.Fatal(err)
	}
	if r.Waste() < 0.03 {
		t.Errorf("waste %.3f: nothing to see in this trace", r.Waste())
	}
}

// The trace that is shipped keeps the policies to their share of waste where the recorded trainings are not at hand.
func TestWasteOfTheShippedTrace(t *testing.T) {
	if checked {
		t.Skip("package alloc checks itself after each operation in this build: hours")
	}
	trace := Small.Trace()
	for policy, most := range map[alloc.Policy]float64{alloc.Packed: 0.045, alloc.VMM: 0.02} {
		s, err := replay.NewSetting(string(policy), "")
		if err != nil {
			t.Fatal(err)
		}
		r, err := replay.Run(t.Context(), trace, s, replay.Unlimited)
		if err != nil {
			t.Fatal(err)
		}
		if r.Waste() > most {
			t.Errorf("%s: waste %.4f, more than %.3f", policy, r.Waste(), most)
		}
	}
}

func parameters(s Transformer) int64 {
	h := int64(s.Hidden)
	return int64(s.Vocabulary)*h + int64(s.Layers)*(12*h*h+2*h)
}

func store(t *testing.T, path string, text []byte) {
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := pack(f, text); err != nil {
		t.Fatal(err)
	}
}
