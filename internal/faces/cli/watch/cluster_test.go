package watch

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/fanout"
)

const half = `{"verdict":"fine","evidence":["host 50%"],"devices":{"host":{"current_usage":{"allocated":50,"total":100,
	"utilization_percent":50},"peak_memory":60,"risk_assessment":{"risk_level":"low","worst_risk_level":"high"}}},
	"summary":{"total_devices":1},"events":[{"timestamp":"t","text":"host: OOM risk high","bad":true},
	{"timestamp":"t","text":"attached","bad":false}],"recommendations":["smaller batches"]}`

func answer(node, data string, err error) fanout.Answer {
	return fanout.Answer{Session: fanout.MachineOf(node), Data: []byte(data), Err: err}
}

// A node is in the report because the hub knows it, and a figure because that node has told it; nothing is made up, and
// nobody is left out.
func TestClusterHasWhatNodesTold(t *testing.T) {
	b := newClusterBook("boss", "master")
	if err := b.self([]byte(`{"devices":{"host":{"current_usage":{"allocated":10,"total":100}}}}`)); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if line := b.take([]fanout.Node{{Name: "boss", Seen: now}}, nil); line != "[CLUSTER] 1 node: boss" {
		t.Errorf("before the hub has noticed its own node: %s", line)
	}
	nodes := []fanout.Node{{Name: "boss", Up: true, Seen: now}, {Name: "w1", Up: true, Seen: now},
		{Name: "silent", Up: true, Seen: now}, {Name: "broken", Up: true, Seen: now},
		{Name: "liar", Up: true, Seen: now},
		{Name: "yesterday", Seen: now.Add(-24 * time.Hour)}}
	line := b.take(nodes, []fanout.Answer{answer("w1", half, nil), answer("broken", "", errors.New("it failed")),
		answer("liar", "\x80\x04pickle", nil)})
	if line != "[CLUSTER] 5 nodes: boss, broken, liar, silent, w1" {
		t.Error(line)
	}
	if again := b.take(nodes, nil); again != "" {
		t.Errorf("told twice: %s", again)
	}
	nodes[1].Up = false
	if line = b.take(nodes, nil); line != "[CLUSTER] 5 nodes: boss, broken, liar, silent, w1 (gone)" {
		t.Error(line)
	}
	d := b.document()
	if d.Info.Total != 5 || d.Info.Connected != 4 || d.Info.Watched != 2 || len(d.Info.Missing) != 1 ||
		d.Info.Missing[0] != "w1" {
		t.Errorf("%+v", d.Info)
	}
	if d.Memory.Used != 60 || d.Memory.Total != 200 || *d.Memory.Utilization != 30 || *d.Memory.Average != 30 ||
		*d.Memory.Imbalance != 40 || d.Memory.Fullest.Node != "w1" {
		t.Errorf("%+v", d.Memory)
	}
	if len(d.OOM) != 1 || d.OOM[0].Node != "w1" || !d.atRisk() {
		t.Errorf("%+v", d.OOM)
	}
	for _, name := range []string{"broken", "liar"} {
		if n := d.Nodes[name]; n.Error == nil || n.Watched || n.Devices != nil {
			t.Errorf("%s: %+v", name, n)
		}
	}
	if n := d.Nodes["silent"]; n.Watched || n.Devices != nil {
		t.Errorf("a node that told nothing has figures: %+v", n)
	}
	if _, err := json.Marshal(d); err != nil {
		t.Error(err)
	}
}
