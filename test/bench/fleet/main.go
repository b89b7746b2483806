// Command fleet prints how long `memgauge hub leak` takes over a fleet of simulated nodes: real connections with TLS to
// a real hub on loopback, real frames, the whole command from dialling to its last line. Nodes send the steps of their
// ranks, from which the hub judges the job each 30 s and answers; with -live each node is asked, and what nodes answer
// was computed beforehand. One rank leaks, and every answer must name it.
//
//	go run ./test/bench/fleet [-nodes 1000] [-ranks 8] [-questions 100] [-live]
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/cli"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/fleet/hub"
	"github.com/memgauge/memgauge/internal/fleet/node"
	"github.com/memgauge/memgauge/internal/fleet/skew"
	"github.com/memgauge/memgauge/internal/fleet/skew/simulate"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/test/frames"
)

const (
	cells = 64 // of a rank's series, as the statement of fanout.Ranks makes them
	goal  = 250 * time.Millisecond
)

func main() {
	nodes := flag.Int("nodes", 1000, "simulated nodes")
	ranks := flag.Int("ranks", 8, "ranks of each")
	questions := flag.Int("questions", 100, "times that the command runs, one after the other")
	live := flag.Bool("live", false, "ask the nodes (hub leak --live)")
	profile := flag.String("cpuprofile", "", "write a profile of the questions to `FILE`")
	flag.Parse()
	if err := bench(*nodes, *ranks, *questions, *live, *profile); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func bench(nodes, ranks, questions int, live bool, profile string) error {
	dir, err := os.MkdirTemp("", "memgauge-fleet-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Setenv("MEMGAUGE_HOME", dir); err != nil {
		return err
	}
	h, err := hub.Open(hub.Options{Dir: filepath.Join(dir, "hub"), Listen: "127.0.0.1:0", MaxDisk: 1 << 30,
		Keep: keeper{}, Gather: bus.Gather{Every: time.Second, Bytes: 4 << 20},
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))})
	if err != nil {
		return err
	}
	defer h.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return h.Run(ctx) })
	fleet, fault := simulated(nodes, ranks, cells)
	var begun sync.WaitGroup
	begun.Add(nodes)
	slots := make(chan struct{}, 32) // handshakes at a time
	for i := range fleet {
		g.Go(func() error { return fleet[i].run(ctx, h, dir, slots, begun.Done) })
	}
	begun.Wait()
	if !live {
		if err := ship(ctx, fleet, slots); err != nil {
			return err
		}
		if err := judged(ctx, h); err != nil {
			return err
		}
	}
	fmt.Printf("%d nodes × %d ranks; rank %d on %s leaks; an answer of a node is %d bytes\n", nodes, ranks, fault.Rank,
		fault.Node, len(fleet[0].held)+len(fleet[0].report))
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	err = ask(fault, questions, live)
	cancel()
	return errors.Join(err, g.Wait())
}

// ask runs the command again and again.
func ask(fault simulate.Fault, questions int, live bool) error {
	var took []time.Duration
	cpu := processorTime()
	for range questions {
		var out, errs bytes.Buffer
		began := time.Now()
		words := []string{"hub", "leak", "--deadline", "60s"}
		if live {
			words = append(words, "--live")
		}
		code := cli.Main(words, strings.NewReader(""), &out, &errs)
		took = append(took, time.Since(began))
		if want := fmt.Sprintf("Rank %d on %s grows", fault.Rank, fault.Node); code != 3 ||
			!strings.Contains(out.String(), want) || strings.Contains(errs.String(), "the hub's verdict") == live {
			return fmt.Errorf("exit %d without %q:\n%.2000s%.2000s", code, want, out.String(), errs.String())
		}
	}
	cpu = (processorTime() - cpu) / time.Duration(questions)
	slices.Sort(took)
	at := func(q float64) time.Duration {
		return took[min(len(took)-1, int(q*float64(len(took))))].Round(time.Millisecond)
	}
	fmt.Printf("memgauge hub leak: p50 %s, p90 %s, p99 %s, least %s, of %d questions; goal p99 ≤ %s\n", at(0.5),
		at(0.9), at(0.99), took[0].Round(time.Millisecond), questions, goal)
	fmt.Printf("processor time of a question, hub, nodes and command together: %s\n", cpu.Round(time.Millisecond))
	return nil
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// pretended is a node that has its answers ready.
type pretended struct {
	name         string
	session      fanout.Session
	held, report []byte
	frames       [][]byte
	conn         *bus.Conn
}

// keeper drops what it is given: the lake is measured by test/bench/hub.
type keeper struct{}

func (keeper) AppendAll(context.Context, []frame.Batch) error { return nil }
func (keeper) ID() string                                     { return "none" }
func (keeper) Counts() (stored, again int64)                  { return 0, 0 }
func (keeper) Parts(frame.Batch) []string                     { return []string{"one"} }
func (keeper) Refused() map[string]int64                      { return nil }
func (keeper) Aside() (names []string, more int)              { return nil, 0 }

// ship has every node send its frames.
func ship(ctx context.Context, fleet []*pretended, slots chan struct{}) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, n := range fleet {
		g.Go(func() error {
			slots <- struct{}{}
			defer func() { <-slots }()
			for _, text := range n.frames {
				for n.conn.Ship(ctx, text) != nil { // until the hub has it
					if ctx.Err() != nil {
						return ctx.Err()
					}
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// judged waits until the hub has judged all that was sent.
func judged(ctx context.Context, h *hub.Hub) error {
	conn, err := bus.Dial(bus.DialOptions{URL: h.Identity.Addr, Token: h.Identity.Ask})
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		var j hub.Judgement
		b, err := conn.Request(ctx, bus.Hub(conn.Place(), "leak"), nil)
		if err == nil {
			err = json.Unmarshal(b, &j)
		}
		if err != nil {
			return err
		}
		if len(j.Jobs) == 1 && len(j.Lacking) == 0 {
			fmt.Printf("the hub's answer has %d bytes\n", len(b))
			return nil
		}
		time.Sleep(time.Second)
	}
}

// stepRows is a node's steps and its own verdicts as frames.
func (n *pretended) stepRows(units []skew.Unit, held, times map[skew.Unit]map[int64]float64, r detect.Report) error {
	rows := frames.Rows(frames.Fields("python.steps"), cells*len(units), func(f frame.Field, k int) any {
		u, c := units[k%len(units)], int64(k/len(units))
		return map[string]any{"job": "llama", "node": n.name, "rank": u.Rank, "pid": 4000 + u.Rank, "step": int(c * 32),
			"steps": 1, "inference": false, "device": "cuda:0", "allocated": int64(held[u][c]),
			"anon": int64(held[u][c]), "ts": int64(times[u][c] * 1e6)}[f.Name]
	})
	verdicts := frames.Rows(frames.Fields("memgauge.findings"), len(r.Findings), func(f frame.Field, k int) any {
		d := r.Findings[k].Document()
		return map[string]any{"job": "llama", "node": n.name, "rank": int(d.Rank), "pid": int(d.PID), "judgement": 1,
			"run_verdict": string(r.Verdict), "verdict": d.Verdict, "memory": d.Memory, "device": string(d.Device),
			"by_time": false, "rate_mb_per_step": float64(d.Rate) / (1 << 20), "start_step": int64(d.Start),
			"unit": d.Unit, "site": string(d.Site), "holder": string(d.Holder), "advice": string(d.Advice)}[f.Name]
	})
	for name, part := range map[string]frame.Rows{"python.steps": rows, "memgauge.findings": verdicts} {
		text, err := frame.Encode(frame.Batch{Header: frame.Header{Job: "llama", Node: n.name, Rank: -1,
			Session: n.session.About.ID, Table: name, First: 1, Count: part.Len()}, Rows: part})
		if err != nil {
			return err
		}
		n.frames = append(n.frames, text)
	}
	return nil
}

// simulated makes the nodes' answers, with the noise of the simulations in docs/lake.md.
func simulated(nodes, ranks, steps int) (list []*pretended, fault simulate.Fault) {
	f := simulate.New(1, "", nodes*ranks, steps*32)
	f.PerNode = ranks
	fault = simulate.Fault{Kind: skew.Leak, Rank: nodes*ranks/2 + 1, Node: fmt.Sprintf("node-%04d", nodes/2), At: 400,
		Size: 8e6}
	f.Faults = []simulate.Fault{fault}
	held, times := map[skew.Unit]map[int64]float64{}, map[skew.Unit]map[int64]float64{}
	floor := func(into map[skew.Unit]map[int64]float64) func(skew.Unit, int64, float64) {
		return func(u skew.Unit, step int64, v float64) {
			if into[u] == nil {
				into[u] = map[int64]float64{}
			}
			if old, ok := into[u][step/32]; !ok || v < old {
				into[u][step/32] = v
			}
		}
	}
	f.Each(floor(held), floor(times), func(skew.Unit, int64, float64) {})
	for i := range nodes {
		n := &pretended{name: fmt.Sprintf("node-%04d", i)}
		n.session = fanout.Session{Node: n.name, Job: "llama", Rows: -1, State: "running", About: api.About{Version: 1,
			ID: fmt.Sprintf("%016d", i), Name: "bold-heron", Dir: "/var/lib/memgauge/sessions/bold-heron",
			Command: []string{"torchrun", "--nproc-per-node", "8", "train.py", "--config", "llama-70b.yaml"},
			Cwd:     "/srv/train", Host: n.name, Started: time.Now(), Live: true}}
		r := detect.Report{Verdict: detect.Healthy, Steps: float64(steps * 32)}
		var text bytes.Buffer
		var units []skew.Unit
		for k := range ranks {
			u := skew.Unit{Rank: i*ranks + k, Node: n.name}
			n.session.Ranks = append(n.session.Ranks, u.Rank)
			units = append(units, u)
			line(&text, u, held[u], times[u])
			r.Findings = append(r.Findings, own(u, u.Rank == fault.Rank)...)
			if u.Rank == fault.Rank {
				r.Verdict = detect.Leak
			}
		}
		n.held = text.Bytes()
		n.report, _ = json.Marshal(r) // of plain values
		if err := n.stepRows(units, held, times, r); err != nil {
			panic(err) // rows of this program's making
		}
		list = append(list, n)
	}
	return list, fault
}

// line is a rank's series as the statement gives it.
func line(w io.Writer, u skew.Unit, held, times map[int64]float64) {
	var steps, memory, ms []string
	began := times[0]
	for c := range int64(len(held)) {
		steps = append(steps, fmt.Sprint(c*32))
		memory = append(memory, fmt.Sprint(int64(held[c])/1024))
		ms = append(ms, fmt.Sprint(int64((times[c]-began)*1e3)))
	}
	fmt.Fprintf(w, `{"rank":%d,"last":%d,"steps":%q,"held":%q,"process":%q,"began":%d,"ms":%q}`+"\n", u.Rank,
		len(held)*32-1, strings.Join(steps, " "), strings.Join(memory, " "), strings.Join(memory, " "),
		int64(began*1e3), strings.Join(ms, " "))
}

// own are the findings on a rank's memories.
func own(u skew.Unit, leaks bool) (list []detect.Finding) {
	for _, memory := range []string{"", "cuda:0"} {
		f := detect.Finding{Device: memory, Rank: u.Rank, PID: 4000 + u.Rank}
		f.Verdict, f.N, f.End, f.Level, f.Reason = detect.Healthy, 200, 2047, 3e10, "no trend"
		if leaks && memory != "" {
			f.Verdict, f.Rate, f.Low, f.High, f.Start, f.Total = detect.Leak, 8e6, 7.9e6, 8.1e6, 400, 1.3e10
			f.Holder, f.Site = "__main__.all_losses", "/srv/train/train.py:48"
			f.Advice = []string{"store loss.item() instead of loss"}
		}
		list = append(list, f)
	}
	return list
}

// run answers until ctx ends.
func (n *pretended) run(ctx context.Context, h *hub.Hub, dir string, slots chan struct{}, begun func()) error {
	ready := sync.OnceFunc(begun)
	defer ready()
	slots <- struct{}{}
	c, err := bus.Dial(bus.DialOptions{URL: h.Identity.Addr, Token: h.Identity.Join, Node: n.name,
		Key: filepath.Join(dir, n.name+".key")})
	if err != nil {
		<-slots
		return err
	}
	defer c.Close()
	n.conn = c
	stop, err := c.Hear(bus.Ask(""), func(m bus.Msg) { n.answer(c, m) })
	if err == nil {
		defer stop()
		err = n.hello(ctx, c)
	}
	<-slots
	if err != nil {
		return err
	}
	ready()
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := n.hello(ctx, c); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

func (n *pretended) hello(ctx context.Context, c *bus.Conn) error {
	text, err := json.Marshal(node.Hello{Instance: "one", Host: n.name, Jobs: []string{"llama"}, Sessions: 1})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	_, err = c.Request(ctx, bus.Hello(n.name), text)
	return err
}

// answer sends the parts that a node sends.
func (n *pretended) answer(c *bus.Conn, m bus.Msg) {
	var q fanout.Question
	if json.Unmarshal(m.Data, &q) != nil {
		return
	}
	body := n.report
	if q.Path == fanout.Ranks().Path {
		body = n.held
	}
	id := n.session.About.ID
	for _, p := range []fanout.Part{{Kind: fanout.Head, ID: id, Session: &n.session},
		{Kind: fanout.Head, ID: id, Status: http.StatusOK}, {Kind: fanout.Body, ID: id, Data: body},
		{Kind: fanout.Tail, ID: id}, {Kind: fanout.Done, Count: 1}} {
		p.Instance = "one"
		if b, err := p.Encode(); err == nil {
			// who does not come is missing, and the answer then wrong
			_ = c.Send(bus.Answer(n.name, q.Ear, q.ID), "", b)
		}
	}
}
