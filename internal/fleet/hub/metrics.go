package hub

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/judge/detect"
)

// metricsTime bounds all of a scrape: 8,000 ranks are 2 MB.
const metricsTime = 10 * time.Second

// metrics answers a scraper with the hub's own figures and those of all ranks, in Prometheus' text format.
func (h *Hub) metrics(w http.ResponseWriter, q *http.Request) {
	var out bytes.Buffer
	h.ownMetrics(q.Context(), &out)
	if v := h.judging.newest.Load(); v != nil {
		h.jobMetrics(&out, v)
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(out.Bytes())
}

// family begins a metric.
func family(out *bytes.Buffer, name, kind, help string) {
	fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// labelled is a value as it stands between quotes.
var labelled = strings.NewReplacer("\\", `\\`, "\"", `\"`, "\n", `\n`)

func (h *Hub) ownMetrics(ctx context.Context, out *bytes.Buffer) {
	s := h.lately(ctx, time.Now())
	family(out, "memgauge_hub_nodes", "gauge", "Nodes by state.")
	for state, n := range map[string]int{"connected": s.Up, "ended": s.Ended, "missing": s.Total - s.Up - s.Ended} {
		fmt.Fprintf(out, "memgauge_hub_nodes{state=%q} %d\n", state, n)
	}
	one := func(name, kind, help string, value float64) {
		family(out, name, kind, help)
		fmt.Fprintf(out, "%s %g\n", name, value)
	}
	one("memgauge_hub_rows_total", "counter", "Rows taken over from nodes.", float64(s.Rows))
	one("memgauge_hub_stored_rows_total", "counter", "Rows put into the lake.", float64(s.Stored))
	one("memgauge_hub_waiting_frames", "gauge", "Frames that wait for the lake.", float64(s.Waiting.Frames))
	one("memgauge_hub_waiting_bytes", "gauge", "Bytes of frames that wait for the lake.", float64(s.Waiting.Bytes))
	one("memgauge_hub_lake_bytes", "gauge", "Bytes of the lake.", float64(s.LakeBytes))
	one("memgauge_hub_troubles", "gauge", "Reasons why rows don't come further now.", float64(len(s.Trouble)))
	for name, counts := range map[string]map[string]int64{"memgauge_hub_refused_total": s.Refused,
		"memgauge_hub_lost_rows_total": s.Lost} {
		family(out, name, "counter", "By reason.")
		for _, why := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(out, "%s{reason=\"%s\"} %d\n", name, labelled.Replace(why), counts[why])
		}
	}
}

// jobMetrics are those of jobs with live sessions.
func (h *Hub) jobMetrics(out *bytes.Buffer, v *verdicts) {
	family(out, "memgauge_hub_judged_timestamp_seconds", "gauge", "When all jobs were judged last.")
	fmt.Fprintf(out, "memgauge_hub_judged_timestamp_seconds %.3f\n", float64(v.at.UnixMilli())/1e3)
	family(out, "memgauge_hub_judging_seconds", "gauge", "How long that took.")
	fmt.Fprintf(out, "memgauge_hub_judging_seconds %.3f\n", v.took.Seconds())
	live := liveJobs(h.roster.list(time.Now()))
	var leaks, step, held, odd bytes.Buffer
	family(&leaks, "memgauge_fleet_job_leaks", "gauge", "1 where a job leaks, else 0.")
	family(&step, "memgauge_fleet_rank_step", "gauge", "Last step of a rank.")
	family(&held, "memgauge_fleet_rank_held_bytes", "gauge", "Bytes that a rank held at that.")
	family(&odd, "memgauge_fleet_rank_odd", "gauge", "1 where a rank or, with rank -1, a node differs from its peers.")
	for _, one := range v.list {
		if live[one.Job.Job] == nil {
			continue
		}
		job := labelled.Replace(one.Job.Job)
		leak := 0
		if one.Job.Verdict == detect.Leak {
			leak = 1
		}
		fmt.Fprintf(&leaks, "memgauge_fleet_job_leaks{job=\"%s\"} %d\n", job, leak)
		for _, r := range one.Now {
			labels := fmt.Sprintf("{job=\"%s\",node=\"%s\",rank=\"%d\"}", job, labelled.Replace(r.Node), r.Rank)
			fmt.Fprintf(&step, "memgauge_fleet_rank_step%s %d\n", labels, r.Step)
			if r.Held > 0 {
				fmt.Fprintf(&held, "memgauge_fleet_rank_held_bytes%s %d\n", labels, r.Held)
			}
		}
		for _, f := range one.Job.Skew.Findings {
			fmt.Fprintf(&odd, "memgauge_fleet_rank_odd{job=\"%s\",node=\"%s\",rank=\"%d\",kind=%q,memory=%q} 1\n", job,
				labelled.Replace(f.Node), f.Rank, f.Kind, f.Memory)
		}
	}
	for _, b := range []*bytes.Buffer{&leaks, &step, &held, &odd} {
		out.Write(b.Bytes())
	}
}
