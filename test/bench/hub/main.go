// Command hub measures what a hub takes while simulated nodes ship rows to it over loopback, each every 30 s a frame of
// python.steps and one of each of twelve smaller tables, as nodes of eight ranks do: its processor time, its memory,
// how long nodes take to join, and how long a frame waits until it is on the hub's disk. It starts the hub itself.
//
//	go run ./test/bench/hub -memgauge bin/memgauge -nodes 1000 -times 18
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/fleet/hub"
	"github.com/memgauge/memgauge/internal/formats/table"
	"github.com/memgauge/memgauge/test/frames"
)

const (
	ranks    = 8
	stepTime = 3600 * time.Millisecond // of 1,000 nodes with 8 ranks: 2,222 rows a second
	every    = 30 * time.Second        // between a node's frames of a table
	tables   = 13                      // that a node has new rows of in that time
	fewRows  = 8                       // of a table but python.steps
)

func main() {
	program := flag.String("memgauge", "bin/memgauge", "the program")
	nodes := flag.Int("nodes", 1000, "simulated nodes, with 8 ranks each")
	times := flag.Int("times", 1, "so many times the rate of a step in 3.6 s")
	length := flag.Duration("for", 90*time.Second, "how long")
	flag.Parse()
	if err := run(*program, *nodes, *times, *length); err != nil {
		log.Fatal(err)
	}
}

func run(program string, nodes, times int, length time.Duration) (err error) {
	dir, err := os.MkdirTemp("", "memgauge-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	const addr = "127.0.0.1:14333"
	c := exec.Command(program, "hub", "--dir", dir, "--listen", addr)
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Process.Signal(os.Interrupt), c.Wait()) }()
	var join bus.Token
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if join, err = bus.ReadToken(hub.JoinToken(dir), false); err == nil || time.Now().After(end) {
			break
		}
	}
	conns, joined := make([]*bus.Conn, nodes), time.Now()
	for i := range conns {
		name := fmt.Sprintf("n%d", i)
		o := bus.DialOptions{URL: addr, Token: join, Node: name, Key: filepath.Join(dir, "keys", name), Patient: true}
		if conns[i], err = bus.Dial(o); err != nil {
			return err
		}
		defer conns[i].Close()
	}
	until(func() bool { return !slices.ContainsFunc(conns, func(c *bus.Conn) bool { return !c.Up() }) })
	fmt.Printf("%d nodes joined within %s\n", nodes, time.Since(joined).Round(time.Millisecond))
	idle := usage(c.Process.Pid)
	began := time.Now()
	s := &sum{}
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	var all sync.WaitGroup
	for i, conn := range conns {
		all.Go(func() { s.node(ctx, conn, i, times) })
	}
	all.Wait()
	took, used := time.Since(began), usage(c.Process.Pid)
	slices.Sort(s.acks)
	if len(s.acks) == 0 {
		return errors.New("no frame arrived")
	}
	at := func(q float64) time.Duration { return s.acks[int(q*float64(len(s.acks)-1))] }
	fmt.Printf("%d nodes, %.0f rows/s in %.1f frames/s of %d bytes for %s; %d failed\n", nodes,
		float64(s.rows)/took.Seconds(), float64(len(s.acks))/took.Seconds(), s.bytes/len(s.acks),
		took.Round(time.Second), s.failed)
	fmt.Printf("acknowledged after: p50 %s, p99 %s, most %s\n", at(0.5), at(0.99), at(1))
	fmt.Printf("hub: %.2f cores, RSS %d MiB before, %d MiB at most\n", (used.cpu-idle.cpu)/took.Seconds(),
		idle.rss>>20, used.peak>>20)
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("load: %s", load)
	return nil
}

// sum is what all nodes saw.
type sum struct {
	mu     sync.Mutex
	acks   []time.Duration
	rows   int
	bytes  int
	failed int
}

// node ships as a node does: frames of what 8 ranks make in half a minute, one behind the other, or as many more often.
func (s *sum) node(ctx context.Context, c *bus.Conn, node, times int) {
	perFrame := int(every/stepTime) * ranks
	pause := every / time.Duration(times)
	next := time.NewTimer(rand.N(pause))
	defer next.Stop()
	for round := 0; ; round++ {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		next.Reset(pause)
		for _, t := range table.All[:tables] {
			rows := fewRows
			if t.View == "python.steps" {
				rows = perFrame
			}
			s.ship(ctx, c, t.View, node, 1+round*rows, rows)
		}
	}
}

// ship sends one frame, and notes when it is on the hub's disk.
func (s *sum) ship(ctx context.Context, c *bus.Conn, view string, node, first, rows int) {
	data, err := made(view, node, first, rows)
	if err != nil {
		log.Fatal(err)
	}
	began := time.Now()
	err = c.Ship(ctx, data)
	took := time.Since(began)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.acks, s.rows, s.bytes = append(s.acks, took), s.rows+rows, s.bytes+len(data)
	} else if ctx.Err() == nil {
		s.failed++
	}
}

// made is a frame of rows.
func made(view string, node, first, count int) ([]byte, error) {
	h := frame.Header{Job: "llama", Node: fmt.Sprintf("n%d", node), Rank: -1, Session: "s", Table: view,
		First: uint64(first), Count: count}
	now := time.Now()
	return frame.Encode(frame.Batch{Header: h, Rows: frames.Rows(frames.Fields(h.Table), count,
		func(f frame.Field, i int) any {
			switch f.Type {
			case frame.Text:
				return map[string]string{"job": h.Job, "node": h.Node}[f.Name]
			case frame.Int32:
				return i % ranks
			case frame.Time:
				return now.Add(time.Duration(i) * time.Microsecond)
			case frame.Int64:
				return (first+i)<<20 + rand.IntN(1<<16) // sizes that differ in their last bits
			}
			return nil
		})})
}

// used is what a process took.
type used struct {
	cpu       float64 // s
	rss, peak int64
}

func usage(pid int) (u used) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	for _, i := range []int{11, 12} { // user and system, in 1/100 s
		n, _ := strconv.ParseFloat(fields[i], 64)
		u.cpu += n / 100
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			u.rss = n << 10
		case "VmHWM":
			u.peak = n << 10
		}
	}
	return u
}

func until(ok func() bool) {
	for end := time.Now().Add(time.Minute); !ok() && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
}
