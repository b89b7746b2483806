package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// machines are network namespaces on one bridge: each has an address of its own, and reaches the others through it.
type machines struct {
	names, addrs []string
}

// sets counts what newMachines made: tests run side by side.
var sets atomic.Int32

// newMachines makes n of them; the first has the address 192.168.1.100, and its name is m0. Where the kernel or the
// user's rights don't allow that, the test is left out.
func newMachines(t *testing.T, n int) machines {
	t.Helper()
	env.Root(t)
	var m machines
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			env.Missing(t, "netns", fmt.Sprintf("ip %v: %v %s", args, err, out))
		}
	}
	set := sets.Add(1)
	for i := range n {
		name := fmt.Sprintf("mg%d-%d-%d", os.Getpid(), set, i)
		ip("netns", "add", name)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
		m.names, m.addrs = append(m.names, name), append(m.addrs, fmt.Sprintf("192.168.1.%d", 100+i))
		ip("-n", name, "link", "set", "lo", "up")
	}
	ip("-n", m.names[0], "link", "add", "eth0", "type", "bridge") // the first machine is the switch as well
	for i := 1; i < n; i++ {
		port := fmt.Sprintf("port%d", i)
		ip("-n", m.names[0], "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", m.names[i])
		ip("-n", m.names[0], "link", "set", port, "master", "eth0", "up")
	}
	for i := range n {
		ip("-n", m.names[i], "addr", "add", m.addrs[i]+"/24", "dev", "eth0")
		ip("-n", m.names[i], "link", "set", "eth0", "up")
	}
	return m
}

// in is a command line that runs on one of them, under a host's name of its own.
func (m machines) in(i int, args ...string) (name string, rest []string) {
	const named = `echo "$0" > /proc/sys/kernel/hostname && exec "$@"`
	return "ip", append([]string{"netns", "exec", m.names[i], "unshare", "--uts", "sh", "-c", named,
		fmt.Sprintf("m%d", i)}, args...)
}
