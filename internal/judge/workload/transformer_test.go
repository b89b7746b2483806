package workload

import (
	"math/rand/v2"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// Transformer is the shape of a language model's training, for traces that resemble real ones: parameters that stay,
// activations that live from their layer's forward to its backward, temporaries, gradients, and an optimizer's state
// that appears at the end of the first step. Batches differ in length, which fragments a cache.
type Transformer struct {
	Layers, Hidden, Vocabulary int
	Batch, Context             int // sequences, and tokens in the longest of them
	Steps                      int
	Seed                       uint64 // of the batches' lengths
}

// Small is the model of the examples in the docs: 302 million parameters in 24 layers.
var Small = Transformer{Layers: 24, Hidden: 1024, Vocabulary: 32000, Batch: 16, Context: 1024, Steps: 3, Seed: 1}

// trainer writes the history of a training. Addresses are names: each is used once.
type trainer struct {
	shape  Transformer
	rand   *rand.Rand
	next   uint64
	events []snapshot.Event
}

// block is an allocation of the training.
type block struct {
	addr uint64
	size int64
}

const wordBytes = 2 // bfloat16

func (t *trainer) take(size int64) block {
	t.next++
	b := block{t.next << 12, max(size, 1)}
	t.events = append(t.events, snapshot.Event{Action: snapshot.Alloc, Addr: b.addr, Size: b.size})
	return b
}

func (t *trainer) give(blocks ...block) {
	for _, b := range blocks {
		t.events = append(t.events, snapshot.Event{Action: snapshot.FreeCompleted, Addr: b.addr, Size: b.size})
	}
}

// Trace is the history of such a training, the same in every run.
func (shape Transformer) Trace() *snapshot.Trace {
	t := &trainer{shape: shape, rand: rand.New(rand.NewPCG(shape.Seed, 11))}
	h := int64(shape.Hidden)
	weights := []int64{int64(shape.Vocabulary) * h}
	for range shape.Layers {
		weights = append(weights, 3*h*h, h*h, 4*h*h, 4*h*h, h, h)
	}
	for _, n := range weights {
		t.take(n * wordBytes)
	}
	for step := range shape.Steps {
		t.step(weights, step == 0)
	}
	return &snapshot.Trace{Events: snapshot.HistoryOf(t.events...)}
}

// step is forward, backward and the optimizer's update.
func (t *trainer) step(weights []int64, first bool) {
	tokens := int64(t.shape.Batch) * int64(t.shape.Context*(60+t.rand.IntN(41))/100)
	h := int64(t.shape.Hidden)
	kept := make([][]block, t.shape.Layers)
	input := t.take(tokens * 8)
	for i := range kept {
		kept[i] = t.forward(tokens, h)
	}
	logits := t.take(tokens * int64(t.shape.Vocabulary) * wordBytes)
	loss := t.take(tokens * int64(t.shape.Vocabulary) * 4)
	t.give(logits)
	upstream := t.take(tokens * h * wordBytes)
	t.give(loss)
	grads := []block{t.take(weights[0] * wordBytes)}
	for i := t.shape.Layers - 1; i >= 0; i-- {
		upstream = t.backward(kept[i], upstream, tokens, h)
		for _, n := range weights[1+6*i : 7+6*i] {
			grads = append(grads, t.take(n*wordBytes))
		}
	}
	t.give(upstream, input)
	t.update(weights, first)
	t.give(grads...)
}

// forward returns what backward will need.
func (t *trainer) forward(tokens, h int64) []block {
	norm := t.take(tokens * h * wordBytes)
	qkv := t.take(3 * tokens * h * wordBytes)
	mixed := t.take(tokens * h * wordBytes)
	projected := t.take(tokens * h * wordBytes)
	residual := t.take(tokens * h * wordBytes)
	t.give(projected)
	wide := t.take(4 * tokens * h * wordBytes)
	gelu := t.take(4 * tokens * h * wordBytes)
	narrow := t.take(tokens * h * wordBytes)
	out := t.take(tokens * h * wordBytes)
	t.give(narrow)
	return []block{norm, qkv, mixed, residual, wide, gelu, out}
}

// backward frees what forward kept, last first, and returns the gradient for the layer before.
func (t *trainer) backward(kept []block, upstream block, tokens, h int64) block {
	for i := len(kept) - 1; i >= 0; i-- {
		g := t.take(kept[i].size)
		t.give(kept[i], upstream)
		upstream = g
	}
	down := t.take(tokens * h * wordBytes)
	t.give(upstream)
	return down
}

// update makes the optimizer's state at the first step, and a temporary for each weight.
func (t *trainer) update(weights []int64, first bool) {
	for _, n := range weights {
		if first { // two moments and a master copy, in float32
			for range 3 {
				t.take(n * 4)
			}
		}
		t.give(t.take(n * 4))
	}
}
