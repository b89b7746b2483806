package advise

import (
	"fmt"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/faces/doctor"
)

// Machine advises without a session: what follows from this machine alone.
func Machine(f doctor.Figures, s doctor.Suggestions) (out []Advice) {
	out = append(out, Advice{Setting: "num_workers", Change: fmt.Sprintf("num_workers=%d", s.Workers), Memory: "host",
		Known: Unknown, Sure: "medium", Costs: "none expected: more workers than cores wait for each other",
		Evidence: fmt.Sprintf("%d usable cores, %s of host memory free; a worker with torch takes some 0.5 GiB", f.CPUs,
			units.Bytes(f.FreeBytes)), Set: workers(s.Workers)})
	room, where := f.FreeBytes, "host"
	if f.GPUs > 0 {
		room, where = f.GPUFreeBytes, "GPU"
	}
	v := ForMachine(f, s)
	change := fmt.Sprintf("batch_size=%d", v.BatchSize)
	if v.Accumulate > 1 {
		change += fmt.Sprintf(", accumulated %d times", v.Accumulate)
	}
	out = append(out, Advice{Setting: "batch_size", Change: change, Memory: where, Known: Unknown, Sure: "low",
		Costs: "none: the effective batch size stays", Evidence: fmt.Sprintf("%s free; what the model takes is "+
			"not known: "+
			"memgauge estimate says it", units.Bytes(room)), Set: batch(v.BatchSize, v.Accumulate)})
	if f.GPUs > 0 && f.FreeBytes > pinnedRoom {
		out = append(out, Advice{Setting: "pin_memory", Change: "pin_memory=True", Memory: "host", Known: Unknown,
			Sure: "medium", Costs: "saves time: copies to the GPU run beside it; takes host memory for some batches",
			Evidence: fmt.Sprintf("a GPU, and %s of host memory free", units.Bytes(f.FreeBytes)), Set: pinned()})
	}
	if f.ShmFreeBytes > 0 && f.ShmFreeBytes < smallShm && s.Workers > 0 {
		out = append(out, Advice{Setting: "num_workers", Change: "num_workers=0, or a larger /dev/shm",
			Memory: "/dev/shm",
			Known:  Unknown, Sure: "high", Costs: "num_workers=0 loads data in the trainer: slower",
			Evidence: fmt.Sprintf("/dev/shm has %s free; workers pass batches through it", units.Bytes(f.ShmFreeBytes)),
			Set:      workers(0)})
	}
	return out
}

const (
	pinnedRoom = 4 << 30   // pinned pages can't be swapped; with less free the job needs them itself
	smallShm   = 512 << 20 // four workers with two batches of 64 MiB each
)

func workers(n int) Set {
	return Set{fmt.Sprintf("DataLoader(…, num_workers=%d)", n), fmt.Sprintf("DataLoader(…, num_workers=%d)", n),
		fmt.Sprintf("TrainingArguments(dataloader_num_workers=%d)", n)}
}

func batch(size, accumulate int) Set {
	if accumulate == 1 {
		loader := fmt.Sprintf("DataLoader(…, batch_size=%d)", size)
		return Set{loader, loader, fmt.Sprintf("TrainingArguments(per_device_train_batch_size=%d)", size)}
	}
	return Set{fmt.Sprintf("DataLoader(…, batch_size=%d); step the optimizer every %d batches, loss / %d",
		size, accumulate,
		accumulate), fmt.Sprintf("DataLoader(…, batch_size=%d), Trainer(accumulate_grad_batches=%d)", size, accumulate),
		fmt.Sprintf("TrainingArguments(per_device_train_batch_size=%d, gradient_accumulation_steps=%d)", size,
			accumulate)}
}

func pinned() Set {
	return Set{"DataLoader(…, pin_memory=True); batch.to(device, non_blocking=True)", "DataLoader(…, pin_memory=True)",
		"TrainingArguments(dataloader_pin_memory=True)"}
}

// environment is a variable that is set before the program starts, whatever the framework is.
func environment(assignment string) Set {
	text := "export " + assignment + "   # before Python starts"
	return Set{text, text, text}
}
