package skew

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// answerOf is what the statement gives of one rank.
func answerOf(rank int, perStep float64) string {
	var steps, held, ms []string
	for s := range 64 {
		steps = append(steps, fmt.Sprint(10*s))
		held = append(held, fmt.Sprint(1_000_000+int(perStep*float64(10*s))))
		ms = append(ms, fmt.Sprint(500*s))
	}
	const form = `{"rank":%d,"last":639,"steps":%q,"held":%q,"process":null,"began":1700000000000,"ms":%q}` + "\n"
	return fmt.Sprintf(form, rank, strings.Join(steps, " "), strings.Join(held, " "), strings.Join(ms, " "))
}

// What three nodes tell of their ranks is enough to name the one that grows.
func TestHeldNamesTheRank(t *testing.T) {
	h := NewHeld()
	for node := range 3 {
		var text string
		for rank := 2 * node; rank < 2*node+2; rank++ {
			pace := 0.0
			if rank == 3 {
				pace = 1024 // KiB
			}
			text += answerOf(rank, pace)
		}
		text += `{"rank":-1,"last":639,"steps":"0 320","held":"5 -","process":null,"began":null,"ms":null}` + "\n"
		if err := h.Add(fmt.Sprintf("n%d", node), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	r := h.Judge()
	if len(h.Ranks) != 6 || len(r.Findings) != 1 || r.Findings[0].Rank != 3 || r.Findings[0].Node != "n1" ||
		r.Findings[0].Kind != Leak || r.Findings[0].LastStep != 639 {
		t.Errorf("%d ranks, %+v", len(h.Ranks), r.Findings)
	}
	if p := r.Findings[0].Pace; p < 0.98*(1<<20) || p > 1.02*(1<<20) {
		t.Errorf("%.0f bytes a step", p)
	}
}

// TestStepsOfOneNode: one that tells of steps or ranks that no other has keeps nobody else's from being compared.
func TestStepsOfOneNode(t *testing.T) {
	many := ""
	for rank := range 100 {
		many += fmt.Sprintf(`{"rank":%d,"last":3,"steps":"3","held":"5"}`, rank)
	}
	for what, told := range map[string]string{
		"far":           `{"rank":99,"last":1,"steps":"1000000000000","held":"5"}`,
		"farther":       `{"rank":0,"last":1,"steps":"0 2305843009213693951","held":"5 5","process":"5 5","ms":"5 5"}`,
		"last":          `{"rank":0,"last":2305843009213693951,"steps":"0","held":"5"}`,
		"host":          `{"rank":-1,"last":1,"steps":"0 1000000000000","held":"5 5"}`,
		"hundred ranks": many,
	} {
		h := NewHeld()
		for rank := range 6 {
			pace := 0.0
			if rank == 3 {
				pace = 1024 // KiB
			}
			if err := h.Add(fmt.Sprintf("n%d", rank/3), strings.NewReader(answerOf(rank, pace))); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.Add("evil", strings.NewReader(told)); err != nil {
			t.Fatal(err)
		}
		r := h.Judge()
		if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Rank == 3 && f.Node == "n1" }) {
			t.Errorf("%s: %+v %q", what, r.Findings, r.Warnings)
		}
	}
}

// Who answers is not trusted.
func FuzzHeld(f *testing.F) {
	f.Add([]byte(answerOf(0, 1)))
	f.Add([]byte(`{"rank":-2}`))
	f.Add([]byte(`{"rank":1,"steps":"9223372036854775807 1 x","held":"- 1 1 1"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		h := NewHeld()
		if err := h.Add("n", strings.NewReader(string(text))); err == nil {
			h.Judge()
		}
	})
}
