package bus

import (
	"fmt"
	"net"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/memgauge/memgauge/test/env"
)

// TestStrangersShareBeyond: an address gives up its oldest connections beyond its share, and where all are too many,
// those that have most do.
func TestStrangersShareBeyond(t *testing.T) {
	var list []*server.ConnInfo
	come := func(n int, ip func(i int) string) {
		for i := range n {
			list = append(list, &server.ConnInfo{Cid: uint64(len(list) + 1), IP: ip(i)})
		}
	}
	come(10, func(i int) string { return fmt.Sprint("192.0.2.", i) })
	come(strangersOf+5, func(int) string { return "198.51.100.1" })
	out := beyond(list)
	if len(out) != 5 || out[0].Cid != 11 || out[4].Cid != 15 {
		t.Errorf("%d are ended", len(out))
	}
	come(strangersOf, func(i int) string { return fmt.Sprintf("2001:db8::%x:1", i) }) // one machine's
	come(strangersOf, func(int) string { return "203.0.113.1" })
	ended := map[string]int{}
	for _, one := range beyond(list) {
		at := one.IP
		if len(at) > 14 || at[:4] == "2001" {
			at = "2001"
		}
		ended[at]++
	}
	if half := strangersOf / 2; len(ended) != 3 || ended["2001"] != half || ended["203.0.113.1"] != half ||
		ended["198.51.100.1"] != half+5 {
		t.Errorf("%v", ended)
	}
	var known server.ConnInfo
	known.AuthorizedUser = "hub"
	if s, others := strangers(append(list, &known)); len(s) != len(list) || others != 1 {
		t.Errorf("%d strangers, %d others", len(s), others)
	}
}

// TestStrangersKeepNobodyOut: who can reach the port and has no token holds no place of those who have one.
func TestStrangersKeepNobodyOut(t *testing.T) {
	oldMost, oldShare := maxConnections, strangersOf
	maxConnections, strangersOf = 200, 8
	t.Cleanup(func() { maxConnections, strangersOf = oldMost, oldShare }) // after the server's end
	h := open(t, nil)
	for range maxConnections {
		c, err := net.Dial("tcp", h.o.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	until(t, "none was ended", func() bool {
		return h.Refused()[whyStranger] > 0 && h.ns.NumClients() <= strangersOf+1
	})
	for i := range 3 {
		name := fmt.Sprint("n", i)
		env.Must[*Conn](t)(h.node(t, name, name, nil))
		env.Must[*Conn](t)(h.dialed(t, DialOptions{URL: h.o.Addr, Token: h.o.Ask}))
	}
}
