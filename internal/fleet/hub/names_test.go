package hub

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/node"
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

// TestHellosOfMadeUpNames: ten thousand names of a token, each with as many processes as there may be that say as much
// as they may, take a bounded memory. A node at another address stays, however many processes it has, and so does one
// behind the same address that says what nodes say.
func TestHellosOfMadeUpNames(t *testing.T) {
	const names, processes = 10_000, 4
	r, now := emptyRoster(t, t.TempDir()), time.Now()
	stranger := netip.MustParseAddr("192.0.2.7")
	join := func(name string, from netip.Addr) {
		if _, err := r.claim(name, name, from, now); err != nil {
			t.Fatal(name, err)
		}
	}
	says := func(name string, h node.Hello, processes int) (err error) {
		for i := range processes {
			h.Instance = fmt.Sprint(i)
			err = errors.Join(err, r.hello(name, h, now))
		}
		return err
	}
	join("honest", local)
	join("fellow", stranger)
	usual := node.Hello{Host: "gpu-17.cluster.example", Version: "1.0", Jobs: []string{"llama-70b"}, Sessions: 8}
	if err := errors.Join(says("honest", usual, maxInstances), says("fellow", usual, 3)); err != nil {
		t.Fatal(err)
	}
	large := node.Hello{Host: strings.Repeat("x", maxWord)}
	for i := range maxJobs {
		large.Jobs = append(large.Jobs, fmt.Sprintf("%0100d", i))
	}
	refused := 0
	for i := range names {
		name := fmt.Sprint("flood", i)
		r.nodes[name] = &known{Key: name, Since: now, origin: originOf(stranger)}
		if says(name, large, processes) != nil {
			refused++
		}
		if r.said.Sum() > mostSaid {
			t.Fatalf("%d bytes of %d names", r.said.Sum(), i)
		}
	}
	kept := int64(0)
	for _, n := range r.nodes {
		for _, h := range n.hellos {
			kept += h.bytes()
		}
	}
	if kept != r.said.Sum() || kept < mostSaid/2 {
		t.Errorf("%d bytes are kept, %d counted", kept, r.said.Sum())
	}
	if n := len(r.nodes["honest"].hellos); n != maxInstances {
		t.Errorf("%d processes of a node at another address", n)
	}
	if n := len(r.nodes["fellow"].hellos); n != 3 {
		t.Errorf("%d processes of a node behind the same address", n)
	}
	if err := r.forget("flood1"); err == nil && r.said.Has("flood1") != 0 {
		t.Error("a name that is gone is counted")
	}
	t.Logf("%d of %d names were told that they say too much", refused, names)
}

// TestPartitionsOfMadeUpNames: what is remembered of the partitions of ten thousand names is bounded, and those of
// another's cost it nothing again; names that are gone are not remembered.
func TestPartitionsOfMadeUpNames(t *testing.T) {
	gone := false
	s, now := newShares(1<<40, func(node string) (string, bool) { return node[:1], !gone }), time.Now()
	parts := make([]string, 200)
	for i := range parts {
		parts[i] = fmt.Sprint("steps/", i)
	}
	at := func(node string) time.Duration { return s.parts(node, parts, map[string]bool{}, now) }
	if at("honest") != 0 {
		t.Fatal("a node waits")
	}
	for i := range 10_000 {
		s.lets(s.of(fmt.Sprint("x", i), now), 4<<20, now)
		if at(fmt.Sprint("x", i)); s.seen.Sum() > mostSeen {
			t.Fatalf("%d partitions of %d names", s.seen.Sum(), i)
		}
	}
	kept := 0
	for _, one := range s.all {
		kept += len(one.seen)
	}
	if int64(kept) != s.seen.Sum() || len(s.of("honest", now).seen) != len(parts) {
		t.Errorf("%d partitions, counted %d; %d of the honest one", kept, s.seen.Sum(), len(s.of("honest", now).seen))
	}
	if gone = true; len(s.all) < 10_000 {
		t.Fatalf("%d nodes", len(s.all))
	}
	if s.forget(now); len(s.all) != 0 || s.seen.Sum() != 0 {
		t.Errorf("%d nodes whose names are gone, %d partitions", len(s.all), s.seen.Sum())
	}
}
