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
		{RetainedTensors, "__main__.kept", "list", "copies in __main__.kept", "lru_cache"},
		{RetainedObjects, "__main__.kept", "list", "deque(maxlen", "plt.close"},
		{RetainedObjects, "__main__.seen", "dict", "bound __main__.seen", "deque"},
		{RetainedTensors, "__main__.rotary", "cache", "lru_cache(maxsize", ".item()"},
		{RetainedObjects, "model._forward_hooks", "hooks", "remove()", "deque"},
		{WorkerGrowth, "loader.dataset.cache", "list", "persistent_workers", "lru_cache"},
		{WorkerGrowth, "main().kept", "list", "clear main().kept", "persistent_workers"},
	} {
		text := strings.Join(advise(Finding{Class: c.class, Holder: c.holder, kind: c.kind}), "\n")
		if !strings.Contains(text, c.want) || strings.Contains(text, c.never) {
			t.Errorf("%s held by %q (%s): %q", c.class, c.holder, c.kind, text)
		}
	}
}
