package hub

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/board"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/fleet/skew"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/test/frames"
)

// keepsAll is a sink that has all that comes.
type keepsAll struct{ kept }

// stepsOf is a frame with the steps of a rank on a node, from one to another; it holds so many bytes more each step.
func stepsOf(t *testing.T, node string, rank, from, to, grows int) []byte {
	t.Helper()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	rows := frames.Rows(frames.Fields("python.steps"), to-from+1, func(f frame.Field, k int) any {
		return map[string]any{"job": "llama", "node": node, "rank": rank, "pid": 100 + rank,
			"step": from + k, "steps": 1,
			"inference": false, "device": "cuda:0", "ts": at.Add(time.Duration(from+k) * time.Second),
			"allocated": 1<<30 + (from+k)*grows}[f.Name]
	})
	text, err := frame.Encode(frame.Batch{Header: frame.Header{Job: "llama", Node: node, Rank: -1,
		Session: fmt.Sprint("s", rank),
		Table:   "python.steps", First: uint64(1000*rank + from), Count: to - from + 1}, Rows: rows})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// judged asks the hub until what it says fits.
func judged(t *testing.T, asks *bus.Conn, fits func(Judgement) bool) (j Judgement) {
	t.Helper()
	var b []byte
	for end := time.Now().Add(time.Minute); ; {
		var err error
		if b, err = asks.Request(t.Context(), bus.Hub(asks.Place(), asksLeak), []byte(`{"job":"llama"}`)); err == nil {
			j = Judgement{}
			if err := json.Unmarshal(b, &j); err != nil {
				t.Fatalf("%v: %s", err, b)
			}
			if fits(j) {
				return j
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%v: %s", err, b)
		}
		time.Sleep(200 * time.Millisecond) // one who asks may ask eight times a second
	}
}

// TestHubJudges: from the frames of nodes alone the hub names the rank that leaks in one answer, tells Alertmanager and
// a webhook of it once and when it is over, and scrapers what ranks hold. What it has not all rows of it leaves to the
// sessions.
func TestHubJudges(t *testing.T) {
	posts, words := make(chan []alert, 1000), make(chan string, 1000)
	there := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		text, _ := io.ReadAll(q.Body)
		var list []alert
		if q.URL.Path == "/api/v2/alerts" && json.Unmarshal(text, &list) == nil {
			posts <- list
			return
		}
		words <- string(text)
	}))
	defer there.Close()
	k := keepsAll{kept{make(chan frame.Header, 1000)}}
	h, stop := running(t, Options{Dir: t.TempDir(), Keep: k, JudgeEvery: 20 * time.Millisecond,
		AlertTo: AlertTo{Alertmanager: there.URL + "/", Webhook: there.URL + "/hook"}})
	defer stop()
	asks := dial(t, h, "")
	n1, n2 := dial(t, h, "n1"), dial(t, h, "n2")
	hello(t, n1, "n1", "a", false)
	hello(t, n2, "n2", "b", false)
	j := judged(t, asks, func(j Judgement) bool { return len(j.Lacking) == 1 })
	if len(j.Jobs) != 0 {
		t.Errorf("of no rows: %+v", j.Jobs)
	}
	send := func(c *bus.Conn, node string, rank, grows int) {
		for _, half := range [][2]int{{1, 200}, {201, 400}} {
			if err := ship(t, c, stepsOf(t, node, rank, half[0], half[1], grows)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for rank := range 4 {
		send(n1, "n1", rank, 0)
	}
	j = judged(t, asks, func(j Judgement) bool { return !j.At.IsZero() && len(j.Lacking) == 1 })
	if len(j.Jobs) != 0 {
		t.Error("a job of which one node has sent nothing is judged")
	}
	for rank := 4; rank < 8; rank++ {
		send(n2, "n2", rank, map[int]int{5: 1 << 20}[rank])
	}
	j = judged(t, asks, func(j Judgement) bool {
		return len(j.Jobs) == 1 && j.Jobs[0].Skew.Ranks == 8 && j.Jobs[0].Verdict == detect.Leak
	})
	if one := j.Jobs[0]; !strings.Contains(one.Text, "Rank 5 on n2 grows by 1.00 MiB a step") || len(j.Missing) != 0 ||
		len(j.Lacking) != 0 || j.Rows.IsZero() {
		t.Errorf("%+v", j)
	}
	alerted(t, posts, words, false)
	if text := scraped(t, h); !strings.Contains(text, `memgauge_fleet_rank_step{job="llama",node="n2",rank="5"} 400`) ||
		!strings.Contains(text, `memgauge_fleet_job_leaks{job="llama"} 1`) ||
		!strings.Contains(text, `memgauge_fleet_rank_odd{job="llama",node="n2",rank="5",kind="leak",memory=""} 1`) {
		t.Error(text)
	}
	hello(t, n1, "n1", "a", true)
	hello(t, n2, "n2", "b", true)
	judged(t, asks, func(j Judgement) bool { return len(j.Jobs) == 0 && len(j.Missing) == 2 })
	alerted(t, posts, words, true)
}

// alerted waits for the alert to be told, or for its end.
func alerted(t *testing.T, posts chan []alert, words chan string, over bool) {
	t.Helper()
	for late := time.After(time.Minute); ; {
		select {
		case list := <-posts:
			if len(list) != 1 || list[0].Ends.IsZero() == over {
				continue
			}
			l := list[0].Labels
			if l["alertname"] != "MemgaugeLeak" || l["job"] != "llama" || l["rank"] != "5" || l["node"] != "n2" ||
				list[0].Starts.IsZero() {
				t.Errorf("%+v", list[0])
			}
		case <-late:
			t.Fatal("no alert")
		}
		break
	}
	text := <-words
	if !strings.Contains(text, `"event":"fleet"`) || strings.Contains(text, `"text":"over: job llama`) != over ||
		!strings.Contains(text, "Rank 5 on n2") {
		t.Error(text)
	}
}

func scraped(t *testing.T, h *Hub) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.metrics(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// TestAlertsOfAJob: of one rank's leak there is one alert, with what its own session says; leaks that don't stand out
// are told by the sessions' word, and too many are cut.
func TestAlertsOfAJob(t *testing.T) {
	site, found := "train.py:48", map[string]*alert{}
	one := board.Of("j", nil, skew.Report{Findings: []skew.Finding{{Kind: skew.Leak, Rank: 3, Node: "n"}}})
	one.Each = []board.Rank{{Rank: 3, Node: "n", Verdict: detect.Leak, Site: &site},
		{Rank: 4, Node: "n", Verdict: detect.Leak}, {Rank: 5, Node: "n", Verdict: detect.Healthy}}
	if ofJob(found, one); len(found) != 2 {
		t.Errorf("%d alerts", len(found))
	}
	lines := map[string]string{}
	for _, a := range found {
		lines[a.Labels["rank"]] = a.Annotations["line"]
	}
	if lines["3"] != site || lines["4"] != "" || len(lines) != 2 {
		t.Errorf("%v", lines)
	}
	for rank := range 100 {
		one.Skew.Findings = append(one.Skew.Findings, skew.Finding{Kind: skew.Step, Rank: 10 + rank, Node: "n"})
	}
	if clear(found); len(found) > 0 {
		t.Fatal()
	}
	if ofJob(found, one); len(found) != jobAlerts {
		t.Errorf("%d alerts of a job", len(found))
	}
}

// TestAlertsAddress: what is no address is refused, and an error does not carry it.
func TestAlertsAddress(t *testing.T) {
	for _, bad := range []AlertTo{{Alertmanager: "alerts:9093"}, {Webhook: "ftp://x"},
		{Webhook: "http://x", Form: "xml"}} {
		if bad.Check() == nil {
			t.Errorf("%+v", bad)
		}
	}
	a := newAlerts(AlertTo{Alertmanager: "http://user:secret@127.0.0.1:1"}, func(string) string { return "" })
	defer a.end()
	one := board.Of("j", []board.Told{{Node: "n", Verdict: detect.Leak}}, skew.Report{})
	err := a.tell(t.Context(), []board.Verdict{{Job: one}}, map[string][]string{"j": {"n"}}, time.Now())
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

// TestAlertsOfMadeUpNames: who makes up nodes that leak keeps no alert of another's from being told, neither where the
// other comes from elsewhere nor where it was there before.
func TestAlertsOfMadeUpNames(t *testing.T) {
	a := newAlerts(AlertTo{}, func(node string) string { return node[:1] })
	found := map[string]*alert{}
	add := func(node string, n int) {
		for i := range n {
			found[fmt.Sprint(node, "-", i)] = &alert{Labels: map[string]string{"node": node}}
		}
	}
	for i := range 10_000 {
		add(fmt.Sprint("flood-", i), 3)
	}
	add("honest", 8)
	add("fellow", 1) // of the flood's origin
	kept := a.fair(found)
	if len(kept) != maxAlerts || !kept["fellow-0"] {
		t.Errorf("%d alerts, that of the fellow: %v", len(kept), kept["fellow-0"])
	}
	for i := range 8 {
		if !kept[fmt.Sprint("honest-", i)] {
			t.Errorf("alert %d of another origin is not told", i)
		}
	}
	add("flood-0", 50)
	if again := a.fair(found); !maps.Equal(kept, again) {
		t.Error("another alert of one node moves those of others")
	}
}
