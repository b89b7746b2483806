package hub

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/board"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
)

const (
	// judgeEvery is how often all jobs are judged: rows come every 30 s. Judging 8,000 ranks takes half a second.
	judgeEvery = 30 * time.Second
	// fewRanks are told of a job: those that leak or are odd, and the steepest.
	fewRanks = 64
	// maxAnswer bounds the jobs of an answer, in bytes; those that leak come first.
	maxAnswer = 4 << 20
	// usualWait is how long rows wait at a node where nothing is wrong: it sends them every 30 s, and a minute of them
	// is taken at a time.
	usualWait = 90 * time.Second
	mostGone  = 1 << 13 // nodes that are named as missing
)

// judging is the hub's own eye on all jobs.
type judging struct {
	board  *board.Board
	newest atomic.Pointer[verdicts]
}

// verdicts are those of one time. Nobody changes them.
type verdicts struct {
	at   time.Time
	took time.Duration
	list []board.Verdict
	text []json.RawMessage // of each, for those who ask
}

// Judgement is what the hub says of its jobs from the rows that it has.
type Judgement struct {
	At   time.Time `json:"judged_at"`
	Rows time.Time `json:"rows_at"` // when the last ones of these jobs came
	// Jobs are those that have live sessions, the ones that leak first.
	Jobs []*board.Job `json:"jobs"`
	// Lacking are live jobs of which the hub has not all rows, so that their sessions must be asked.
	Lacking []string         `json:"lacking"`
	Missing []fanout.Missing `json:"missing"` // nodes of which there may be more to say
}

// told is Judgement with its jobs as they travel.
type toldJudgement struct {
	Judgement
	Jobs []json.RawMessage `json:"jobs"`
}

// judge judges all jobs now and then, until ctx ends.
func (h *Hub) judge(ctx context.Context) {
	every := judgeEvery
	if h.o.JudgeEvery > 0 {
		every = h.o.JudgeEvery
	}
	alerts := newAlerts(h.o.AlertTo, h.networkOf)
	defer alerts.end()
	for {
		if pause(ctx, every); ctx.Err() != nil {
			return
		}
		began := time.Now()
		v := &verdicts{at: began, list: h.judging.board.Judge(began, h.behind())}
		slices.SortStableFunc(v.list, func(a, b board.Verdict) int { return found(b) - found(a) })
		for _, one := range v.list {
			text, err := json.Marshal(one.Few(fewRanks))
			if err != nil {
				h.o.Log.Error("tell of a job", "job", one.Job.Job, "error", err)
				text = nil
			}
			v.text = append(v.text, text)
		}
		v.took = time.Since(began)
		h.judging.newest.Store(v)
		if err := alerts.tell(ctx, v.list, liveJobs(h.roster.list(time.Now())), began); ctx.Err() == nil {
			h.noteAlerts(err)
		}
	}
}

func found(v board.Verdict) int {
	if v.Found() {
		return 1
	}
	return 0
}

// liveJobs are those of some nodes that say now that they have a live session of a job, by job.
func liveJobs(nodes []fanout.Node) map[string][]string {
	live := map[string][]string{}
	for _, n := range nodes {
		for _, job := range n.Jobs {
			if n.Up {
				live[job] = append(live[job], n.Name)
			}
		}
	}
	return live
}

// behind are the nodes that have rows which they should have sent.
func (h *Hub) behind() map[string]bool {
	all := map[string]bool{}
	for _, n := range h.roster.list(time.Now()) {
		if n.Up && waits(n) {
			all[n.Name] = true
		}
	}
	return all
}

func waits(n fanout.Node) bool { return n.Waits > 0 && n.Behind > usualWait.Seconds() }

// Judge asks for verdicts.
type Judge struct {
	Job string `json:"job"` // "": all
}

// leak answers with the newest verdicts.
func (h *Hub) leak(m bus.Msg) {
	var q Judge
	if len(m.Data) > 0 && json.Unmarshal(m.Data, &q) != nil {
		q.Job = "" // who asks for something else is answered as those that ask for all
	}
	h.reply(m, h.judgement(q.Job, h.judging.newest.Load()))
}

func (h *Hub) judgement(job string, v *verdicts) toldJudgement {
	t := toldJudgement{Jobs: []json.RawMessage{}}
	t.Lacking, t.Missing = []string{}, []fanout.Missing{}
	nodes := h.roster.list(time.Now())
	live := liveJobs(nodes)
	whole, bytes := map[string]bool{}, 0
	if v != nil {
		t.At = v.at
		for i, one := range v.list {
			name := one.Job.Job
			if job != "" && job != name || live[name] == nil || v.text[i] == nil || !covers(one, live[name]) {
				continue
			}
			if bytes += len(v.text[i]); bytes > maxAnswer {
				continue // it is lacking
			}
			whole[name] = true
			t.Jobs = append(t.Jobs, v.text[i])
			if one.Rows.After(t.Rows) {
				t.Rows = one.Rows
			}
		}
	}
	for name := range live {
		if (job == "" || job == name) && !whole[name] {
			t.Lacking = append(t.Lacking, name)
		}
	}
	slices.Sort(t.Lacking)
	for _, n := range nodes {
		if why := lacks(n); why != "" && (job == "" || slices.Contains(n.Jobs, job)) && len(t.Missing) < mostGone {
			t.Missing = append(t.Missing, fanout.Missing{Node: n.Name, Seen: n.Seen, Why: why})
		}
	}
	return t
}

// covers says that a verdict knows all of a job: each node that has a live session of it, from its first step on.
func covers(v board.Verdict, nodes []string) bool {
	return v.Whole && !slices.ContainsFunc(nodes, func(n string) bool {
		_, has := slices.BinarySearch(v.Nodes, n)
		return !has
	})
}

// lacks says why there may be more to say of a node than the hub knows.
func lacks(n fanout.Node) string {
	switch {
	case n.Ended:
	case !n.Up:
		return "it is not connected"
	case waits(n):
		return "its rows have waited there for " + (time.Duration(n.Behind) * time.Second).String()
	}
	return ""
}

// noteAlerts says in the status why alerts reach nobody.
func (h *Hub) noteAlerts(err error) {
	h.counts.Lock()
	defer h.counts.Unlock()
	if text := said(err); text != h.counts.alertError {
		if h.counts.alertError = text; err != nil {
			h.o.Log.Error("tell of alerts", "error", err)
		}
	}
}
