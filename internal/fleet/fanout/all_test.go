package fanout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// listens is a question to one process of n1 that goes on.
func listens() *gathering {
	return &gathering{a: &Asker{Patience: time.Millisecond}, most: time.Millisecond, failed: map[string]string{},
		wanted: map[string]bool{"n1/i": false, "n2/i": false}, open: map[string]*Answer{}, shares: map[string]*share{}}
}

// TestNoEnd: a node that gives signs of life for ever is waited for no longer than a bound.
func TestNoEnd(t *testing.T) {
	g, parts, over := listens(), make(chan Part), make(chan map[string]bool)
	go func() { over <- g.run(t.Context(), parts) }()
	sign, late := Part{Kind: Body, Node: "n1", Instance: "i"}, time.After(time.Minute)
	for {
		select {
		case parts <- sign:
		case silent := <-over:
			if !silent["n1/i"] || !silent["n2/i"] || g.failed["n1"] != whyWorks || g.failed["n2"] != "" {
				t.Errorf("late: %v, failed: %v", silent, g.failed)
			}
			return
		case <-late:
			t.Fatal("it is waited for")
		}
	}
}

// TestWaitsAreTold: who is waited for is told as soon as nodes had their time to begin an answer, and the missing
// node's reason is that it works, not that it is silent.
func TestWaitsAreTold(t *testing.T) {
	g, parts := listens(), make(chan Part)
	told := make(chan []string, 1)
	g.most, g.a.Waits = time.Hour, func(nodes []string, most time.Duration) {
		if most != time.Hour-g.a.Patience {
			t.Errorf("for %s", most)
		}
		told <- nodes
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan map[string]bool)
	go func() { over <- g.run(ctx, parts) }()
	for sign := (Part{Kind: Body, Node: "n1", Instance: "i"}); ; {
		select {
		case parts <- sign:
			continue
		case nodes := <-told:
			if !slices.Equal(nodes, []string{"n1"}) {
				t.Errorf("told of %v", nodes)
			}
		}
		break
	}
	cancel()
	late := <-over
	missing := missingOf([]Node{{Name: "n1", Up: true, Instances: []string{"i"}}, {Name: "n2", Up: true,
		Instances: []string{"i"}}}, Select{}, late, g.failed)
	if len(missing) != 2 || missing[0].Why != whyWorks || missing[1].Why != whyLate || !missing[0].Late() {
		t.Errorf("missing: %+v", missing)
	}
}

// TestTooMuchOfANode: neither sessions nor bytes of a node are gathered beyond a bound; others are waited for.
func TestTooMuchOfANode(t *testing.T) {
	for what, size := range map[string]int{"sessions": 0, "bytes": 1 << 20} {
		g := listens()
		for i := range 2 * maxSessions {
			id := fmt.Sprint(i)
			g.take(Part{Kind: Head, Node: "n1", Instance: "i", ID: id, Session: &Session{}, Size: size})
			g.take(Part{Kind: Tail, Node: "n1", Instance: "i", ID: id})
		}
		if _, waits := g.wanted["n2/i"]; len(g.list) > maxSessions || size > 0 && len(g.list) > nodeBytes/size ||
			len(g.wanted) != 1 || !waits || g.failed["n1"] == "" {
			t.Errorf("%s: %d answers, waits for %v, failed %v", what, len(g.list), g.wanted, g.failed)
		}
	}
}

// TestTooMuchOfAll: of many nodes that say too much together, those that say most are left out, with what they have
// said before; who says little is not.
func TestTooMuchOfAll(t *testing.T) {
	g := listens()
	answers := func(node string, size int) {
		g.wanted[node+"/i"] = true
		id := fmt.Sprint(len(g.list))
		g.take(Part{Kind: Head, Node: node, Instance: "i", ID: id, Session: &Session{}, Size: size})
		g.take(Part{Kind: Tail, Node: node, Instance: "i", ID: id})
	}
	answers("n1", 1<<10)
	for i := range 2 * fleetBytes / nodeBytes {
		answers(fmt.Sprint("flood", i), nodeBytes)
	}
	answers("n2", 1<<10)
	has, bytes := map[string]bool{}, 0
	for _, one := range g.list {
		has[one.Session.Node] = true
		bytes += g.shares[one.Session.Node].bytes
	}
	if !has["n1"] || !has["n2"] || g.failed["n1"] != "" || bytes != g.bytes || bytes > fleetBytes {
		t.Errorf("%d bytes of %d answers are kept, %d are counted; left out: %v", bytes, len(g.list), g.bytes, g.failed)
	}
	if n := len(g.failed); n < fleetBytes/nodeBytes {
		t.Errorf("%d were left out", n)
	}
}

// TestHeadsOfAll: where many nodes send more heads than can be kept, each has some of them decoded.
func TestHeadsOfAll(t *testing.T) {
	part := func(size int) []byte {
		b, err := Part{Kind: Head, ID: strings.Repeat("x", size)}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	e, large := &ear{heads: map[string]int{}}, part(maxHead/2)
	for i := range 2 * allHeads / len(large) {
		e.hears(fmt.Sprint("flood", i/4), large)
	}
	if e.all > allHeads || e.hears("n1", large) || !e.hears("n2", part(fewHeads/2)) {
		t.Errorf("%d bytes were decoded of %d", e.all, allHeads)
	}
}

// TestHeadsAreBounded: of a node that sends more heads than can be decoded the rest is left out unread, and another is
// heard all the same; where one node is asked no other is heard.
func TestHeadsAreBounded(t *testing.T) {
	large, err := Part{Kind: Head, ID: strings.Repeat("x", maxHead/2)}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	all, heard := &ear{heads: map[string]int{}}, 0
	for range 2 * maxHeads / len(large) {
		if all.hears("n1", large) {
			heard++
		}
	}
	if heard > maxHeads/(maxHead/2) || heard == 0 || !all.hears("n2", large) || !all.hears("n3", nil) {
		t.Errorf("%d heads of %d bytes were decoded", heard, len(large))
	}
	if one := (&ear{only: "n1"}); one.hears("n2", large) || !one.hears("n1", large) {
		t.Error("another node is heard than the one that is asked")
	}
}

// TestFollows tells answers without an end from others.
func TestFollows(t *testing.T) {
	for body, want := range map[string]bool{`{"follow":true}`: true, `{"FOLLOW":true}`: true, `{}`: false, ``: false} {
		if got := (Question{Path: "/v1/events", Body: []byte(body)}).Follows(); got != want {
			t.Errorf("%s: %t", body, got)
		}
	}
	if (Question{Path: "/v1/query", Body: []byte(`{"follow":true}`)}).Follows() {
		t.Error("a query")
	}
}
