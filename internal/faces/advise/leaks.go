package advise

import (
	"fmt"

	"github.com/memgauge/memgauge/internal/judge/detect"
)

// remedies are settings that hold a leak of a class back. Classes that only a change of the code mends have none.
var remedies = map[string]func() (setting, change, costs string, set Set){
	"worker_growth": func() (string, string, string, Set) {
		plain := "DataLoader(…, persistent_workers=False)"
		return "persistent_workers", "persistent_workers=False", "workers start anew in each epoch: some seconds each",
			Set{plain, plain, "TrainingArguments(dataloader_persistent_workers=False)"}
	},
	"gc_cycles": func() (string, string, string, Set) {
		return "gc", "gc.enable(), and gc.collect() every 100 steps",
			"a collection stops the trainer for tens to hundreds of ms",
			Set{"if step % 100 == 0: gc.collect()", "a callback's on_train_batch_end: gc.collect() every 100 batches",
				"TrainerCallback.on_step_end: gc.collect() every 100 steps"}
	},
	"device_cache": func() (string, string, string, Set) {
		return "allocator", "expandable_segments:True", "none known; a few driver calls more",
			environment("PYTORCH_ALLOC_CONF=expandable_segments:True")
	},
}

// onLeaks turns leaks that a setting holds back into advice; the others are for memgauge leak to tell.
func (e *evidence) onLeaks() (out []*Advice) {
	seen := map[string]bool{}
	for _, f := range e.leaks {
		remedy, ok := remedies[string(f.Class)]
		if !ok || seen[string(f.Class)] {
			continue
		}
		seen[string(f.Class)] = true
		setting, change, costs, set := remedy()
		out = append(out, &Advice{Setting: setting, Change: change, Memory: f.Name(), Known: Measured, Sure: "medium",
			Evidence: leakFigures(&f), Costs: costs, Set: set, rank: 2})
	}
	return out
}

func leakFigures(f *detect.Finding) string {
	return fmt.Sprintf("%s grows by %.2f MiB a %s (memgauge leak)", f.Name(), f.Rate/(1<<20), f.Unit())
}
