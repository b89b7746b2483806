package owner

import (
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// seen remembers what the samplers need of the rings' rows: the last heap reading of each process, and failed
// allocations.
func (o *Owner) seen(steps []model.Step, events []model.Event) {
	o.trainers.Note(steps)
	for i := range events {
		if events[i].Name == "oom" {
			select {
			case o.ooms <- events[i].Time:
			default: // an earlier one was not received yet
			}
		}
	}
}

// Trainers has the last readings that the session's processes have written, by PID. The zero value is empty. Its
// methods may be called from several goroutines.
type Trainers struct {
	mu    sync.Mutex
	heaps map[int32][2]int64 // the last readings of mallinfo2, in bytes: in use, held
	first time.Time          // when the first step was noted
	steps map[int32]bool     // processes that have made steps of training
}

// MaxTrainers bounds the processes of a job that train.
const MaxTrainers = 4096

// Note remembers the readings in steps.
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

// Began returns when the first step was noted; zero before that.
func (t *Trainers) Began() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first
}

// Age returns the time since the first step was noted; zero before that.
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

// Heap returns the process's last reading of its heap in bytes; model.Null if there is none.
func (t *Trainers) Heap(pid int32) (inUse, held int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v, ok := t.heaps[pid]; ok {
		return v[0], v[1]
	}
	return model.Null, model.Null
}
