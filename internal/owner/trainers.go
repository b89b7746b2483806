package owner

import (
	"context"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/ingest"
	"github.com/memgauge/memgauge/internal/model"
	"github.com/memgauge/memgauge/internal/store"
)

// tap passes batches on to the database and keeps of them what the samplers show: each process's last reading of its
// heap, and that an allocation failed.
type tap struct {
	*store.DB
	trainers *Trainers
	ooms     chan<- int64
}

// Append stores a batch.
func (t tap) Append(ctx context.Context, b *model.Batch) error {
	err := t.DB.Append(ctx, b)
	if err != nil {
		return err
	}
	t.trainers.Note(b.Steps)
	for i := range b.Events {
		if b.Events[i].Name == "oom" {
			select {
			case t.ooms <- b.Events[i].Time:
			default: // one is being treated
			}
		}
	}
	return nil
}

var _ ingest.Sink = tap{}

// Trainers are what the session's processes have said of themselves last, by PID; the zero value knows of none. Its
// methods may be called from several goroutines.
type Trainers struct {
	mu    sync.Mutex
	heaps map[int32][2]int64 // the last readings of mallinfo2, in bytes: in use, held
	first time.Time          // when a step was first told of
	steps map[int32]bool     // processes that have made steps of training
}

// MaxTrainers bounds the processes of a job that train.
const MaxTrainers = 4096

// Note takes what steps say of their processes.
func (t *Trainers) Note(steps []model.Step) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first.IsZero() && len(steps) > 0 {
		t.first = time.Now()
	}
	for i := range steps {
		t.noteLocked(&steps[i])
	}
}

func (t *Trainers) noteLocked(s *model.Step) {
	if !s.Inference && !t.steps[s.PID] && len(t.steps) < MaxTrainers {
		if t.steps == nil {
			t.steps = map[int32]bool{}
		}
		t.steps[s.PID] = true
	}
	if s.HeapInUse != model.Null && (len(t.heaps) < MaxTrainers || t.heaps[s.PID] != [2]int64{}) {
		if t.heaps == nil {
			t.heaps = map[int32][2]int64{}
		}
		t.heaps[s.PID] = [2]int64{s.HeapInUse, s.HeapHeld}
	}
}

// Began is when the first step was told of; zero before that.
func (t *Trainers) Began() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first
}

// Age is the time since the first step was told of; zero before that.
func (t *Trainers) Age() time.Duration {
	if first := t.Began(); !first.IsZero() {
		return time.Since(first)
	}
	return 0
}

// Trains reports whether the process has made steps of training.
func (t *Trainers) Trains(pid int32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.steps[pid]
}

// Heap is what the process last read of its heap, in bytes; model.Null where it never did.
func (t *Trainers) Heap(pid int32) (inUse, held int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v, ok := t.heaps[pid]; ok {
		return v[0], v[1]
	}
	return model.Null, model.Null
}
