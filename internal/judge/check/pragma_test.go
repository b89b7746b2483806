package check

import (
	"slices"
	"testing"
)

// TestSilencers: our own comment and noqa silence what they name; what silences nothing, or names no rule, is told.
func TestSilencers(t *testing.T) {
	const head = "import torch\ntotal = 0\nfor x, y in loader:\n    loss = model(x)\n    loss.backward()\n"
	for _, c := range []struct {
		line string
		want []string
	}{
		{"    total += loss", []string{"MG101"}},
		{"    total += loss  # noqa: MG101", nil},
		{"    total += loss  # noqa: E501, MG101 why", nil},
		{"    total += loss  # NOQA", nil},
		{"    total += loss  # noqa: E501", []string{"MG101"}},
		{"    total += loss  # noqa: MG103", []string{"MG101", "MG001"}},
		{"    total += loss  # memgauge: ignore[MG101] three steps", nil},
		{"    # memgauge: ignore[MG101] three steps\n    total += loss", nil},
		{"    total += loss  # memgauge: ignore[MG101, MG103] three steps", []string{"MG001"}},
		{"    total += loss  # memgauge: ignore[MG101, MG999] three steps", []string{"MG001"}},
		{"    total += loss.item()  # memgauge: ignore[MG101] three steps", []string{"MG001"}},
		{"    total += loss.item()  # noqa: MG101", []string{"MG001"}},
		{"    total += loss.item()  # noqa", nil},
		{"    total += loss.item()  # noqa: F401", nil},
	} {
		ids := found(t, head+c.line+"\n")
		slices.Sort(ids)
		slices.Sort(c.want)
		if !slices.Equal(ids, c.want) {
			t.Errorf("%s: %v, want %v", c.line, ids, c.want)
		}
	}
	found, err := File("x.py", []byte(head+"    total += loss.item()  # noqa: MG101\n"),
		Selection{Ignore: []string{"MG101"}})
	if err != nil || len(found) > 0 {
		t.Errorf("of a rule that is not asked: %v, %v", found, err)
	}
}
