// Package board owns the verdict on the jobs of a fleet: what sessions say of themselves and how their ranks compare,
// joined into one answer for each job. A Board keeps what the comparison needs from the frames that a hub takes anyway,
// in a bounded memory, so that all jobs can be judged again and again without a question to any node. It asks nobody.
package board

import (
	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/fleet/skew"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// Job is what is known of one job across its sessions.
type Job struct {
	Job       string         `json:"job"`
	Verdict   detect.Verdict `json:"verdict"`
	Text      string         `json:"text"`
	FirstNode *string        `json:"first_node"` // where what is wrong began, by steps
	SinceStep *int64         `json:"since_step"`
	Failed    []string       `json:"failed"` // nodes whose session could not be judged
	Each      []Rank         `json:"ranks"`
	Skew      skew.Report    `json:"skew"`

	told []Told
	at   map[skew.Unit]int
}

// Rank is one rank by itself and among its peers.
type Rank struct {
	Rank    int            `json:"rank"`
	Node    string         `json:"node"`
	Session string         `json:"session"`
	Verdict detect.Verdict `json:"verdict"` // of its own memories
	Odd     []skew.Kind    `json:"odd"`     // what sets it apart from its peers
	Memory  *string        `json:"memory"`  // that leaks
	Since   *int64         `json:"since_step"`
	Pace    *float64       `json:"bytes_per_step"`
	Holder  *string        `json:"holder"`
	Site    *string        `json:"site"`
	Advice  []string       `json:"advice"`

	Beyond      *float64 `json:"beyond_peers_bytes"`          // at the end
	BeyondPace  *float64 `json:"beyond_peers_bytes_per_step"` // since BeyondSince
	BeyondSince *int64   `json:"beyond_peers_since_step"`
	Z           *float64 `json:"z"`

	leak *model.Finding
}

// Told is what one session of a job says of itself.
type Told struct {
	Node     string
	Session  string
	Verdict  detect.Verdict
	Findings []model.Finding
	Ranks    []skew.Unit // whose steps it has
	Err      error       // why it could not be judged; nothing else counts then
}

// Of joins what a job's sessions say with how its ranks compare.
func Of(name string, told []Told, compared skew.Report) *Job {
	j := &Job{Job: name, Failed: []string{}, Each: []Rank{}, Skew: compared, told: told, at: map[skew.Unit]int{}}
	for i := range told {
		s := &told[i]
		if s.Err != nil {
			j.Failed = append(j.Failed, s.Node)
			continue
		}
		for _, u := range s.Ranks {
			j.at[u] = len(j.Each)
			j.Each = append(j.Each, ownVerdict(u, s))
		}
	}
	j.Skew.Ranks = len(j.Each)
	j.join()
	j.sum()
	j.Text = j.paragraph()
	order.By(j.Each, func(a, b Rank) int { return a.Rank - b.Rank })
	return j
}

// ownVerdict is what a rank's session says of that rank. Memories that say nothing new (a healthy one beside an
// undecided one) don't count.
func ownVerdict(u skew.Unit, s *Told) Rank {
	v := Rank{Rank: u.Rank, Node: u.Node, Session: s.Session, Verdict: detect.Healthy, Odd: []skew.Kind{},
		Advice: []string{}}
	seen := false
	for i := range s.Findings {
		f := &s.Findings[i]
		if int(f.Rank) != u.Rank {
			continue
		}
		seen = true
		switch verdict := detect.Verdict(f.Verdict); {
		case verdict == detect.Leak && v.leak == nil: // the first is the worst
			v.Verdict, v.leak = detect.Leak, f
		case verdict == detect.Undecided && v.Verdict == detect.Healthy:
			v.Verdict = detect.Undecided
		}
	}
	if !seen {
		v.Verdict = detect.Undecided
	}
	if f := v.leak; f != nil {
		since, pace := begun(f), float64(f.Rate)
		v.Memory, v.Holder, v.Site = &f.Name, doc.Known(string(f.Holder)), doc.Known(string(f.Site))
		v.Advice = append(v.Advice, f.Advice.List()...)
		if !f.ByTime && pace == pace { // JSON has no word for a rate that is not known
			v.Since, v.Pace = &since, &pace
		}
	}
	return v
}

// begun is where a leak began; 0 where that is not known.
func begun(f *model.Finding) int64 {
	if int64(f.Start) == model.Null {
		return 0
	}
	return int64(f.Start)
}

// join adds to every rank what sets it apart.
func (j *Job) join() {
	for _, s := range j.Skew.Slopes {
		if i, ok := j.at[skew.Unit{Rank: s.Rank, Node: s.Node}]; ok {
			v := &j.Each[i]
			v.Beyond, v.BeyondPace, v.BeyondSince, v.Z = &s.Excess, &s.Pace, &s.Since, &s.Z
		}
	}
	for _, f := range j.Skew.Findings {
		if i, ok := j.at[skew.Unit{Rank: f.Rank, Node: f.Node}]; ok {
			j.Each[i].Odd = append(j.Each[i].Odd, f.Kind)
		}
	}
}

// sum finds the job's verdict, and where and when what is wrong began.
func (j *Job) sum() {
	j.Verdict = detect.Healthy
	first := func(node string, step int64) {
		if j.SinceStep == nil || step < *j.SinceStep {
			j.FirstNode, j.SinceStep = &node, &step
		}
	}
	for _, s := range j.told {
		switch {
		case s.Err == nil && s.Verdict == detect.Leak:
			j.Verdict = detect.Leak
		case j.Verdict == detect.Healthy && (s.Err != nil || s.Verdict == detect.Undecided):
			j.Verdict = detect.Undecided
		}
	}
	for _, v := range j.Each {
		if v.Since != nil {
			first(v.Node, *v.Since)
		}
	}
	for _, f := range j.Skew.Findings {
		if f.Kind == skew.Leak || f.Kind == skew.HostLeak {
			j.Verdict = detect.Leak
		}
		if j.leakOf(f) == nil { // a rank's own verdict dates it to the step
			first(f.Node, f.Since)
		}
	}
}

// leakOf is the leak that the rank of a finding has by its own session's verdict; nil for none.
func (j *Job) leakOf(f skew.Finding) *model.Finding {
	if i, ok := j.at[skew.Unit{Rank: f.Rank, Node: f.Node}]; ok && (f.Kind == skew.Leak || f.Kind == skew.Step) {
		return j.Each[i].leak
	}
	return nil
}

// Found says that a job leaks, or has a rank that is odd.
func (j *Job) Found() bool { return j.Verdict == detect.Leak || len(j.Skew.Findings) > 0 }

// Lead is the first node whose session says that it leaks; "" for none.
func (j *Job) Lead() string {
	for _, s := range j.told {
		if s.Err == nil && s.Verdict == detect.Leak {
			return s.Node
		}
	}
	return ""
}
