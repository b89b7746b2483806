package detect

// advise gives the remedies that fit the cause, the likeliest first.
func advise(f Finding) []string {
	held := f.Holder
	if held == "" {
		held = "the container"
	}
	switch f.Class {
	case AutogradGraph:
		return []string{
			"store loss.item() or tensor.detach() instead of the tensor: it keeps the whole graph of its step alive",
			"where the graph is meant to be kept, clear " + held + " after each step"}
	case RetainedTensors:
		return []string{"keep numbers (.item()) or .detach().cpu() copies in " + held +
			", and clear it at the end of each epoch, or bound it",
			"a cache needs a size: functools.lru_cache(maxsize=…), collections.deque(maxlen=…)"}
	case RetainedObjects:
		return []string{"clear " + held + " at the end of each epoch, or bound it: collections.deque(maxlen=…)",
			"plots: plt.close(figure) after each one; hooks: handle.remove() when they are done"}
	case GCCycles:
		return []string{"call gc.collect() every some hundred steps, or gc.enable() it again",
			"break the cycle: a weakref.ref to the parent needs no collector"}
	case NativeHeap:
		return []string{"look for a missing free() or release in the extension that " + lineOr(f.Site, "the training") +
			" calls: nothing in Python holds this memory"}
	case WorkerGrowth:
		return []string{"bound what the Dataset keeps (" + held +
			"), or use persistent_workers=False, so that each epoch begins with fresh workers",
			"hold samples in one numpy array or tensor instead of lists: fewer pages are copied into workers"}
	case SharedMemory:
		return []string{
			"drop batches and tensors that came over a queue once they are used; close() and unlink() SharedMemory blocks"}
	case AllocatorRetention, DeviceCache:
		return []string{
			"fix the sizes (pad to buckets) or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; torch.cuda.empty_cache() once an epoch at most"}
	case OutsideAllocator:
		if f.Memory == Mapped {
			return []string{
				"keep files mapped once: each np.memmap or torch.load(mmap=True) that stays referenced stays mapped"}
		}
		return []string{
			"look at communicators, CUDA graphs and libraries that are made again and again: the allocator doesn't know of this memory"}
	}
	if f.ByTime && f.Holder == "" {
		return []string{
			"look for what is added to and never cleared: caches without a size (functools.lru_cache(maxsize=…)), lists, dicts, queues",
			"run memgauge tensors while it grows: it says who holds the memory"}
	}
	return []string{"run memgauge tensors while it grows: it says who holds the memory",
		"plots closed (plt.close), outputs cleared at the end of each epoch, .item() instead of tensors in logs are the usual remedies"}
}

func lineOr(site, otherwise string) string {
	if site == "" {
		return otherwise
	}
	return site
}
