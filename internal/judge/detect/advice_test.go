package detect

import (
	"strings"
	"testing"
)

// TestAdviceFits: a remedy names the holder and is one for its kind; without a holder there is none but to find out.
func TestAdviceFits(t *testing.T) {
	for _, c := range []struct {
		class       Class
		holder      string
		kind        string
		want, never string
	}{
		{Unknown, "", "", "memgauge tensors", ".item()"},
		{RetainedTensors, "", "", "memgauge tensors", ".item()"},
		{NativeHeap, "", "", "memgauge tensors", "Python"},
		{RetainedTensors, "__main__.kept", "list", "deque(maxlen", ".cpu()"},
		{RetainedObjects, "__main__.kept", "list", "deque(maxlen", "plt.close"},
		{RetainedObjects, "__main__.seen", "dict", "bound __main__.seen", "deque"},
		{RetainedTensors, "__main__.rotary", "cache", "lru_cache(maxsize", ".item()"},
		{RetainedObjects, "model._forward_hooks", "hooks", "remove()", "deque"},
		{RetainedObjects, "model._backward_hooks", "OrderedDict", "remove()", "oldest"},
		{RetainedTensors, "__main__.Clips.__getitem__", methodKind, "self in each key", ".item()"},
		{RetainedTensors, "weakref.finalize._registry", "dict", "refer to the object", "oldest"},
		{RetainedTensors, "main().outbox.queue", "deque", "queue.Queue(maxsize", "maxlen"},
		{RetainedTensors, "main().source", cycleKind, "begin the iterator anew", "clear"},
		{RetainedObjects, "main().stream", "StringIO", "truncate()", "deque"},
		{WorkerGrowth, "multiprocessing.Manager().list", "list", "proxy", "deque"},
		{NativeHeap, "__main__.fill", "", "look for a missing free()", "memgauge tensors"},
		{WorkerGrowth, "loader.dataset.cache", "list", "persistent_workers", "lru_cache"},
		{WorkerGrowth, "main().kept", "list", "clear main().kept", "persistent_workers"},
	} {
		text := strings.Join(advise(Finding{Class: c.class, Holder: c.holder, kind: c.kind}), "\n")
		if !strings.Contains(text, c.want) || strings.Contains(text, c.never) {
			t.Errorf("%s held by %q (%s): %q", c.class, c.holder, c.kind, text)
		}
	}
	rows := Finding{Class: RetainedTensors, Holder: "main().rows", kind: "list", views: true}
	views := strings.Join(advise(rows), "\n")
	if !strings.Contains(views, ".clone()") || strings.Contains(views, ".item()") {
		t.Errorf("views: %q", views)
	}
	device := Finding{Class: RetainedTensors, Holder: "main().rows", kind: "list", Device: "cuda:0"}
	if text := strings.Join(advise(device), "\n"); !strings.Contains(text, ".detach().cpu()") {
		t.Errorf("on a device: %q", text)
	}
	grows := strings.Join(advise(Finding{Class: NativeHeap, grows: true}), "\n")
	if !strings.HasPrefix(grows, "run memgauge tensors") {
		t.Errorf("containers grow: %q", grows)
	}
}
