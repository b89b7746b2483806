package detect

import (
	"cmp"
	"strings"
)

// advise gives the remedies that fit what was found to hold the memory, the likeliest first. Where nothing was named
// there is none to give but how to find out: a remedy for a holder of another kind sends people astray.
func advise(f Finding) []string {
	switch f.Class {
	case AllocatorRetention, DeviceCache:
		return []string{"fix the sizes (pad to buckets) or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
			"call torch.cuda.empty_cache() once an epoch at most"}
	case OutsideAllocator:
		if f.Memory == Mapped {
			return []string{"flush what is written to a mapping, and unmap it: each that stays referenced stays mapped"}
		}
		return []string{"look at communicators, CUDA graphs and libraries that are made again and again: " +
			"the allocator doesn't know of this memory"}
	}
	if f.Holder == "" && f.Site == "" {
		look := []string{"run memgauge tensors while it grows: it says what holds the memory"}
		switch {
		case f.Class == NativeHeap && f.grows: // Python's objects may explain it: they come first
			return append(look, freedBy(f)...)
		case f.Class == NativeHeap:
			return append(freedBy(f), look...)
		}
		return look
	}
	switch f.Class {
	case AutogradGraph:
		return []string{
			"store loss.item() or tensor.detach() instead of the tensor: it keeps the whole graph of its step alive",
			"where the graph is meant to be kept, clear " + f.Holder + " after each step"}
	case GCCycles:
		if f.kind == frozen {
			return []string{"call gc.freeze() once, before the loop: garbage that it freezes is never collected; " +
				"gc.unfreeze() and gc.collect() give it back"}
		}
		return []string{"call gc.collect() every some hundred steps, or gc.enable() it again",
			"break the cycle: a weakref.ref to the parent needs no collector"}
	case NativeHeap:
		look := "look for a missing free() or release in what " + cmp.Or(f.Site, f.Holder) + " calls"
		if strings.HasPrefix(f.Holder, nativePrefix) {
			return append(freedBy(f), look)
		}
		return append([]string{look}, freedBy(f)...) // the call is known, the samples would tell no more
	case SharedMemory:
		return []string{"drop what came over a queue or lies in shared memory from " + cmp.Or(f.Holder, f.Site) +
			" once it is used; close() and unlink() SharedMemory blocks"}
	}
	return append(bounding(f), inWorkers(f)...)
}

// managers is what the path of something begins with that a process of multiprocessing.Manager holds for others.
const managers = "multiprocessing.Manager()"

// bounding says how a holder of its kind is kept from growing.
func bounding(f Finding) []string {
	tensors := f.Class == RetainedTensors
	switch kind := f.kind; {
	case f.views:
		return []string{"keep a copy of the part, with .clone(), in " + f.Holder +
			": a view keeps the whole storage that it was taken from", "clear " + f.Holder + ", or bound it"}
	case strings.HasPrefix(f.Holder, "weakref.finalize."):
		return []string{"give weakref.finalize a function and arguments that don't refer to the object itself: " +
			"a method of it keeps it for good"}
	case kind == cycleKind:
		return []string{"begin the iterator anew at its end, in a loop: itertools.cycle keeps every item that it gave"}
	case kind == "ndarray":
		return []string{"bound " + f.Holder + ": keep its last rows, or write them to a file and begin anew"}
	case kind == "StringIO" || kind == "BytesIO":
		return []string{"empty the stream once it is read: stream.seek(0), then stream.truncate()",
			"write to a file; of logging, to a RotatingFileHandler"}
	case kind == "deque" && strings.HasSuffix(f.Holder, ".queue"):
		return []string{"give the queue a size, queue.Queue(maxsize=…), and take from it: put() waits when it is full"}
	case strings.HasPrefix(f.Holder, managers):
		return []string{"take out of the proxy in the training what is done: " +
			"what is stored in a manager stays in its process"}
	case kind == "hooks" || strings.HasSuffix(f.Holder, "_hooks"):
		return []string{"keep the handle that registering a hook gives, and call its remove() when the hook is done"}
	case kind == "traceback":
		return []string{"keep the text of the exception (traceback.format_exc()) in " + f.Holder +
			": its traceback keeps the frames with all their variables"}
	case kind == methodKind:
		return []string{"put the cache on a function of the values that it needs, or into the object: " +
			"functools.lru_cache on a method has self in each key, and keeps every object that called it",
			"give the cache a size: functools.lru_cache(maxsize=…)"}
	case kind == cacheKind:
		return []string{"give the cache a size: functools.lru_cache(maxsize=…)"}
	case kind == "parameter" || kind == "buffer" || kind == "optimizer":
		return []string{"register it once, before the loop, and write into it: " +
			"each registration under another name stays"}
	case strings.Contains(f.Holder, "Gcf.figs"):
		return []string{"close each figure once it is saved: plt.close(figure)"}
	case kind == "deque" || kind == "list" || tensors && kind == "tensors":
		if tensors {
			copies := "" // on the host they take as much as the tensors
			if f.Device != "" {
				copies = " or copies on the host (.detach().cpu())"
			}
			return []string{"clear " + f.Holder + f.done() + ", or bound it: collections.deque(maxlen=…)",
				"keep numbers (.item())" + copies + " there instead of the tensors"}
		}
		return []string{"clear " + f.Holder + f.done() + ", or bound it: collections.deque(maxlen=…)"}
	case kind == "dict" || kind == "set" || strings.HasSuffix(kind, "Dict") || strings.HasSuffix(kind, "dict"):
		return []string{"bound " + f.Holder + ": take the oldest entry out when there are enough, " +
			"and see whether its keys ever come again"}
	}
	held := cmp.Or(f.Holder, "what "+f.Site+" adds to")
	return []string{"clear " + held + " when it is no longer needed, or bound it"}
}

// inWorkers says what helps beside where the process is a DataLoader's.
func inWorkers(f Finding) []string {
	if f.Class != WorkerGrowth || !strings.Contains(f.Holder, "dataset") {
		return nil
	}
	return []string{"persistent_workers=False: each epoch begins with fresh workers"}
}

// done says when what was kept is needed no more.
func (f Finding) done() string {
	if unit := unitNames[f.Work]; unit != "" {
		return ": take out what belongs to a " + unit + " when that is over"
	}
	return " at the end of each epoch"
}
