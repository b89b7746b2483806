package env

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// settle is how long what a test has closed may take to end: goleak's own patience for goroutines, and descriptors go
// with them.
const settle = 5 * time.Second

// Leftovers runs a package's tests and fails when goroutines or descriptors outlive them: whoever starts or opens
// something waits for it and closes it. It is what a TestMain calls.
func Leftovers(m *testing.M, known ...goleak.Option) {
	before := descriptors()
	code := m.Run()
	if code == 0 {
		code = leftovers(before, known)
	}
	os.Exit(code)
}

func leftovers(before int, known []goleak.Option) int {
	if err := goleak.Find(known...); err != nil {
		fmt.Fprintln(os.Stderr, "goroutines outlive the tests:", err)
		return 1
	}
	end := time.Now().Add(settle)
	for now := range time.Tick(10 * time.Millisecond) {
		if descriptors() <= before {
			break
		}
		if now.After(end) {
			fmt.Fprintf(os.Stderr, "%d descriptors are open after the tests, %d before: %v\n", descriptors(), before,
				openFiles())
			return 1
		}
	}
	return 0
}

// descriptors are those that something is open under: the runtime's own (epoll and its event) come with the first
// socket.
func descriptors() int { return len(openFiles()) }

func openFiles() map[string]string {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	open := map[string]string{}
	for _, e := range list {
		at, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && at != "anon_inode:[eventpoll]" && at != "anon_inode:[eventfd]" && !lostReplica(at) {
			open[e.Name()] = at
		}
	}
	return open
}

// lostReplica knows a file of a NATS server of a test that was lost while it kept a copy of a group's log, as only
// servers of a cluster do: nats-server 2.15.2 leaves the log of a group that it was catching up with open.
func lostReplica(path string) bool {
	return strings.Contains(path, "/jetstream/") && strings.Contains(path, "/_js_/") &&
		strings.HasSuffix(path, " (deleted)")
}
