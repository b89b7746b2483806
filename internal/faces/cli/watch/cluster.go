package watch

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/formats/doc"
)

// clusterDocument is the JSON of distributed (docs/cli-json.md). MB are of 2^20 bytes.
type clusterDocument struct {
	SchemaVersion   int                     `json:"schema_version"`
	Tool            string                  `json:"report"`
	Timestamp       time.Time               `json:"timestamp"`
	Role            string                  `json:"role"`
	Duration        float64                 `json:"duration_seconds"`
	Info            clusterInfo             `json:"cluster_info"`
	Nodes           map[string]*clusterNode `json:"node_details"`
	Memory          clusterMemory           `json:"memory_analysis"`
	OOM             []clusterEvent          `json:"oom_events"`
	Recommendations []string                `json:"recommendations"`
}

type clusterInfo struct {
	Reporter  string   `json:"reporter"` // the node that wrote the document
	Total     int      `json:"total_nodes"`
	Connected int      `json:"connected_nodes"`
	Watched   int      `json:"watched_nodes"` // that have told their memory
	Devices   int      `json:"total_devices"`
	Names     []string `json:"nodes"`
	Missing   []string `json:"missing_nodes"`         // that have gone
	Asked     int      `json:"questions_from_master"` // that this machine has answered; 0: the master never had it
}

// clusterNode is one machine as it told last. Devices and summary are null where it told nothing.
type clusterNode struct {
	Connected bool                     `json:"connected"`
	Watched   bool                     `json:"watched"`
	LastSeen  time.Time                `json:"last_seen"`
	Host      string                   `json:"host"`
	Jobs      []string                 `json:"jobs"`
	Sessions  int                      `json:"sessions"`
	Verdict   *string                  `json:"verdict"`
	Evidence  []string                 `json:"evidence"`
	Devices   map[string]clusterDevice `json:"devices"`
	Summary   json.RawMessage          `json:"summary"`
	Error     *string                  `json:"error"`

	events []clusterEvent
	advice []string
}

// clusterDevice is what monitor reports of a device, as far as the analysis reads it; the rest is passed on as it is.
type clusterDevice struct{ raw json.RawMessage }

// MarshalJSON passes on what the node has told.
func (d clusterDevice) MarshalJSON() ([]byte, error) { return d.raw, nil }

// UnmarshalJSON keeps what the node has told.
func (d *clusterDevice) UnmarshalJSON(b []byte) error {
	d.raw = slices.Clone(b)
	return nil
}

// deviceFigures are those of monitor.DeviceReport that the analysis needs. A report has numbers that may be null.
type deviceFigures struct {
	Usage struct {
		Allocated   int64   `json:"allocated"`
		Total       int64   `json:"total"`
		Utilization float64 `json:"utilization_percent"`
	} `json:"current_usage"`
	Peak int64 `json:"peak_memory"`
	Risk *struct {
		Level string `json:"risk_level"`
		Worst string `json:"worst_risk_level"`
	} `json:"risk_assessment"`
}

type clusterMemory struct {
	Total       int64                   `json:"total_bytes"`
	Used        int64                   `json:"used_bytes"`
	TotalMB     float64                 `json:"total_memory_mb"`
	UsedMB      float64                 `json:"used_memory_mb"`
	Utilization *float64                `json:"utilization_percent"` // null where no node told its memory
	Average     *float64                `json:"average_utilization_percent"`
	Imbalance   *float64                `json:"imbalance_percent"` // the fullest host less the emptiest
	Fullest     *clusterPlace           `json:"fullest"`
	ByNode      map[string]clusterUsage `json:"by_node"`
}

type clusterPlace struct {
	Node    string  `json:"node"`
	Device  string  `json:"device"`
	Percent float64 `json:"utilization_percent"`
}

// clusterUsage is all devices of a node together.
type clusterUsage struct {
	Total   int64   `json:"total_bytes"`
	Used    int64   `json:"used_bytes"`
	Peak    int64   `json:"peak_bytes"`
	Percent float64 `json:"utilization_percent"`
	Risk    string  `json:"risk_level"` // the worst of its devices
}

type clusterEvent struct {
	Node      string `json:"node"`
	Timestamp string `json:"timestamp"`
	Text      string `json:"text"`
}

// clusterBook collects what nodes tell. Nothing in it is made up: a node is there because the hub knows it, and a
// figure because that node has told it.
type clusterBook struct {
	mu    sync.Mutex
	role  string
	own   string
	began time.Time
	nodes map[string]*clusterNode
	state string // who was there when a line was printed last
}

func newClusterBook(own, role string) *clusterBook {
	return &clusterBook{own: own, role: role, began: time.Now(), nodes: map[string]*clusterNode{}}
}

// self takes the report on this machine.
func (b *clusterBook) self(report []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.node(b.own)
	n.Connected, n.LastSeen = true, time.Now().UTC()
	return n.told(b.own, report)
}

func (b *clusterBook) node(name string) *clusterNode {
	n := b.nodes[name]
	if n == nil {
		n = &clusterNode{Jobs: []string{}, Evidence: []string{}, Summary: json.RawMessage("null")}
		b.nodes[name] = n
	}
	return n
}

// maxTold bounds the memory that is made of what a node says of its machine, in bytes: 16 GPUs take some 100 KB.
const maxTold = 64 << 20

// told reads a node's report.
func (n *clusterNode) told(name string, report []byte) error {
	var r struct {
		Verdict         string
		Evidence        []string
		Devices         map[string]clusterDevice
		Summary         json.RawMessage
		Events          []monitor.EventReport
		Recommendations []string
	}
	if _, err := api.Unmarshal(report, &r, maxTold); err != nil {
		return fmt.Errorf("the report of %s: %w", name, err)
	}
	if len(r.Summary) == 0 {
		r.Summary = json.RawMessage("null")
	}
	n.Watched, n.Error, n.Verdict, n.Evidence = true, nil, &r.Verdict, append([]string{}, r.Evidence...)
	n.Devices, n.Summary, n.advice, n.events = r.Devices, r.Summary, r.Recommendations, nil
	for _, e := range r.Events {
		if e.Bad {
			n.events = append(n.events, clusterEvent{name, e.Timestamp, e.Text})
		}
	}
	return nil
}

// take notes what the hub knows and what nodes have told, and gives a line where who is there has changed.
func (b *clusterBook) take(nodes []fanout.Node, answers []fanout.Answer) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, known := range nodes {
		if !known.Up && b.nodes[known.Name] == nil && known.Seen.Before(b.began) {
			continue // the hub remembers it from another day
		}
		n := b.node(known.Name)
		n.Connected = known.Up || known.Name == b.own // we are here before the hub has noticed
		n.Host, n.Sessions = known.Host, known.Sessions
		n.Jobs = append([]string{}, known.Jobs...)
		if known.Seen.After(n.LastSeen) {
			n.LastSeen = known.Seen
		}
	}
	for _, a := range answers {
		n := b.node(a.Session.Node)
		err := a.Err
		if err == nil {
			err = n.told(a.Session.Node, a.Data)
		}
		if err != nil {
			text := err.Error()
			n.Error = &text
		}
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(b.nodes)) {
		if n := b.nodes[name]; !n.Connected {
			names = append(names, name+" (gone)")
		} else {
			names = append(names, name)
		}
	}
	state := strings.Join(names, ", ")
	if state == b.state {
		return ""
	}
	b.state = state
	return fmt.Sprintf("[CLUSTER] %s: %s", doc.Plural(len(names), "node"), state)
}

// document is all of it.
func (b *clusterBook) document() clusterDocument {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	d := clusterDocument{SchemaVersion: monitor.SchemaVersion, Tool: "distributed", Timestamp: now.UTC(), Role: b.role,
		Duration: math.Round(now.Sub(b.began).Seconds()*1e3) / 1e3, Nodes: maps.Clone(b.nodes), OOM: []clusterEvent{},
		Recommendations: []string{}, Info: clusterInfo{Reporter: b.own, Total: len(b.nodes),
			Names: slices.Sorted(maps.Keys(b.nodes)), Missing: []string{}}}
	d.Memory.ByNode = map[string]clusterUsage{}
	for _, name := range d.Info.Names {
		n := b.nodes[name]
		if n.Connected {
			d.Info.Connected++
		} else {
			d.Info.Missing = append(d.Info.Missing, name)
		}
		if n.Watched {
			d.Info.Watched++
			d.analyse(name, n)
		}
		d.OOM = append(d.OOM, n.events...)
		for _, advice := range n.advice {
			d.Recommendations = append(d.Recommendations, name+": "+advice)
		}
	}
	d.balance()
	return d
}

// levels are the risks, from none to the worst.
var levels = []string{"", "low", "medium", "high", "critical"}

// analyse adds one node's devices.
func (d *clusterDocument) analyse(name string, n *clusterNode) {
	u := clusterUsage{Risk: "low"}
	for _, id := range slices.Sorted(maps.Keys(n.Devices)) {
		var f deviceFigures
		if json.Unmarshal(n.Devices[id].raw, &f) != nil {
			continue // another version's; node_details has it as it came
		}
		d.Info.Devices++
		u.Total, u.Used, u.Peak = u.Total+f.Usage.Total, u.Used+f.Usage.Allocated, u.Peak+f.Peak
		if f.Risk != nil && slices.Index(levels, f.Risk.Worst) > slices.Index(levels, u.Risk) {
			u.Risk = f.Risk.Worst
		}
		if d.Memory.Fullest == nil || f.Usage.Utilization > d.Memory.Fullest.Percent {
			d.Memory.Fullest = &clusterPlace{name, id, f.Usage.Utilization}
		}
	}
	u.Percent = percent(u.Used, u.Total)
	d.Memory.ByNode[name] = u
	d.Memory.Total, d.Memory.Used = d.Memory.Total+u.Total, d.Memory.Used+u.Used
}

// uneven is from where two nodes differ so much, in percent of their memory, that somebody should look.
const uneven = 20

func (d *clusterDocument) balance() {
	m := &d.Memory
	m.TotalMB, m.UsedMB = float64(m.Total)/float64(units.MiB), float64(m.Used)/float64(units.MiB)
	if len(m.ByNode) == 0 {
		return
	}
	all, sum, low, high := percent(m.Used, m.Total), 0.0, math.Inf(1), math.Inf(-1)
	fullest, emptiest := "", ""
	for _, name := range slices.Sorted(maps.Keys(m.ByNode)) {
		p := m.ByNode[name].Percent
		sum += p
		if p < low {
			low, emptiest = p, name
		}
		if p > high {
			high, fullest = p, name
		}
	}
	average, imbalance := sum/float64(len(m.ByNode)), high-low
	m.Utilization, m.Average, m.Imbalance = &all, &average, &imbalance
	if imbalance >= uneven {
		d.Recommendations = append(d.Recommendations, fmt.Sprintf(
			"%s holds %.0f%% of its memory and %s %.0f%%: compare what they run (memgauge hub leak, hub where)",
			fullest, high, emptiest, low))
	}
	for _, name := range d.Info.Missing {
		d.Recommendations = append(d.Recommendations, fmt.Sprintf("%s has gone: it was last heard of at %s", name,
			d.Nodes[name].LastSeen.Format(time.RFC3339)))
	}
}

func percent(part, of int64) float64 {
	if of == 0 {
		return 0
	}
	return math.Round(1e4*float64(part)/float64(of)) / 100
}

// atRisk says that a machine is about to run out of memory.
func (d clusterDocument) atRisk() bool {
	for _, u := range d.Memory.ByNode {
		if u.Risk == "high" || u.Risk == "critical" {
			return true
		}
	}
	return false
}

// text is the report for people.
func (d clusterDocument) text(out io.Writer) error {
	plain.Fprintf(out, "%s, %d connected, %d told their memory\n", doc.Plural(d.Info.Total, "node"), d.Info.Connected,
		d.Info.Watched)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tSTATE\tUSED\tOF\t%\tRISK")
	for _, name := range d.Info.Names {
		state := "connected"
		if !d.Nodes[name].Connected {
			state = "gone"
		}
		plain.Fprintf(t, "%s\t%s", name, state)
		if u, ok := d.Memory.ByNode[name]; ok {
			plain.Fprintf(t, "\t%s\t%s\t%.1f\t%s", units.Bytes(u.Used), units.Bytes(u.Total), u.Percent, u.Risk)
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, e := range d.OOM {
		plain.Fprintf(out, "  %s  %s: %s\n", e.Timestamp, e.Node, e.Text)
	}
	for _, advice := range d.Recommendations {
		if _, err := plain.Fprintf(out, "  do  %s\n", advice); err != nil {
			return err
		}
	}
	return nil
}
