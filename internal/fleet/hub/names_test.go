package hub

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"time"

	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
)

// local is where tests join from.
var local = netip.MustParseAddr("127.0.0.1")

// claims has so many names claimed, each by a key of its own, and says how many were given.
func (r *roster) claims(t *testing.T, prefix string, n int, from netip.Addr, now time.Time) (given int) {
	t.Helper()
	for i := range n {
		name := fmt.Sprint(prefix, i)
		switch _, err := r.claim(name, name, from, now); {
		case err == nil:
			given++
		case !errors.Is(err, errHasty):
			t.Fatal(err)
		}
	}
	return given
}

// TestRateOfNames: who invents names gets so many at once and few later. Nodes at other addresses come in meanwhile,
// and those that are known are never refused.
func TestRateOfNames(t *testing.T) {
	r, now := emptyRoster(t, t.TempDir()), time.Now()
	if r.claims(t, "honest", 3, local, now) != 3 {
		t.Fatal("three nodes did not come in")
	}
	stranger := netip.MustParseAddr("192.0.2.7")
	first := r.claims(t, "a", 5000, stranger, now)
	if first != int(namesOfOne.burst) {
		t.Errorf("%d names at once", first)
	}
	now = now.Add(time.Hour)
	if more := r.claims(t, "b", 5000, stranger, now); more > int(namesOfOne.burst) {
		t.Errorf("%d names in an hour", more)
	}
	if _, err := r.claim("honest1", "honest1", stranger, now); err != nil {
		t.Errorf("a node that is known, at the stranger's address: %v", err)
	}
	if r.claims(t, "new", 100, local, now) != 100 {
		t.Error("new nodes at another address are refused")
	}
	for i := range 3 {
		if name := fmt.Sprint("honest", i); r.nodes[name] == nil || r.nodes[name].Key != name {
			t.Errorf("%s is not known any more", name)
		}
	}
}

// TestNamesOfManyAddresses: a stranger with many addresses has what all have together, and takes no memory for them.
func TestNamesOfManyAddresses(t *testing.T) {
	now := time.Now()
	s := &sources{}
	given := 0
	for i := range 3 * maxSources {
		var b [16]byte
		binary.BigEndian.PutUint32(b[4:], uint32(i))
		for range 4 {
			if s.take(netip.AddrFrom16(b), now) {
				given++
			}
		}
	}
	if given > int(namesOfAll.burst) || len(s.of) > maxSources+1 {
		t.Errorf("%d names, %d addresses", given, len(s.of))
	}
	one := netip.MustParseAddr("2001:db8::1")
	for _, same := range []string{"2001:db8::ffff:0:1", "2001:db8::1%eth0"} {
		if bus.Network(one) != bus.Network(netip.MustParseAddr(same)) {
			t.Errorf("%s is another machine", same)
		}
	}
	mapped := netip.MustParseAddr("::ffff:127.0.0.1")
	if bus.Network(local) != bus.Network(mapped) || bus.Network(netip.Addr{}).IsValid() {
		t.Error("addresses of IPv4, and none")
	}
}

// TestFloodPutsOutItself: where there is no room, the names of a flood go, and none that was there before it: of a hub
// without a lake no node has rows.
func TestFloodPutsOutItself(t *testing.T) {
	r, now := emptyRoster(t, t.TempDir()), time.Now()
	day := now.Add(-24 * time.Hour)
	for i := range maxNodes {
		name, since := fmt.Sprint("flood", i), now.Add(-time.Hour+time.Duration(i)*time.Millisecond)
		if i < 100 {
			name, since = fmt.Sprint("honest", i), day
		}
		r.nodes[name] = &known{Key: name, Since: since, Node: fanout.Node{Name: name, Seen: since}}
	}
	if r.claims(t, "new", 200, local, now) != 200 {
		t.Error("new nodes are refused")
	}
	for i := range 100 {
		if r.nodes[fmt.Sprint("honest", i)] == nil {
			t.Fatalf("honest%d is not known any more", i)
		}
	}
	if len(r.nodes) > maxNodes || r.nodes[fmt.Sprint("flood", maxNodes-1)] != nil {
		t.Errorf("%d nodes", len(r.nodes))
	}
}
