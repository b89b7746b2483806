package web

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/fakesession"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/fleet/lake"
	"github.com/memgauge/memgauge/internal/fleet/outbox"
	"github.com/memgauge/memgauge/internal/fleet/skew"
	"github.com/memgauge/memgauge/internal/formats/model"
)

const (
	mebi      = int64(1 << 20)
	jobSteps  = 160
	perNode   = 2 // ranks
	jobNodes  = 4
	jobRanks  = perNode * jobNodes
	usualHeld = 4096 * mebi
)

// oddity changes what a rank's step, and its node's host, say.
type oddity struct {
	step func(rank int, s *model.Step)
	host func(node, step int) int64
}

// rowsOf are the rows of a node's session: two ranks that make a step a second.
func rowsOf(node int, odd oddity) *model.Batch {
	b := &model.Batch{}
	start := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC).UnixMicro()
	for n := 1; n <= jobSteps; n++ {
		at := start + int64(n)*1e6
		for rank := perNode * node; rank < perNode*(node+1); rank++ {
			s := model.Step{Time: at + int64(rank)*1000, PID: int32(100 + rank), Rank: int32(rank), World: jobRanks,
				Step: int64(n), Steps: 1, DurationNS: 1e9, Device: 0, Allocated: usualHeld + int64(n%3)*mebi,
				Anon: usualHeld, RSS: usualHeld}
			if odd.step != nil {
				odd.step(rank, &s)
			}
			b.Steps = append(b.Steps, s)
		}
		used := 8 * usualHeld
		if odd.host != nil {
			used += odd.host(node, n)
		}
		b.Samples.Hosts = append(b.Samples.Hosts, model.HostMemory{Time: at + 500_000, Total: 64 * usualHeld,
			Available: 64*usualHeld - used})
	}
	return b
}

// sameJob is a job's sessions, by id, and the lake that their nodes ship to.
type sameJob struct {
	open map[string]*fakesession.Session
	lake string
}

func (j sameJob) List(context.Context) ([]api.Listed, []error, error) { return nil, nil, nil }

func (j sameJob) Open(_ context.Context, id string) (api.Session, error) { return j.open[id], nil }

func newSameJob(t *testing.T, odd oddity) sameJob {
	t.Helper()
	j := sameJob{map[string]*fakesession.Session{}, t.TempDir()}
	w, err := lake.New(t.Context(), lake.Options{Location: j.lake})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for n := range jobNodes {
		node := nodeName(n)
		s := &fakesession.Session{Rows: fakesession.Stored(t, rowsOf(n, odd))}
		j.open[node] = s
		box, err := outbox.Open(t.TempDir(), "s-"+node, "same", node)
		if err != nil {
			t.Fatal(err)
		}
		for more := true; more; {
			if more, err = box.Gather(t.Context(), s); err == nil {
				err = box.Send(t.Context(), func(ctx context.Context, data []byte) error {
					b, err := frame.Decode(data)
					if err != nil {
						return err
					}
					return w.Append(ctx, b)
				})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := box.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

func nodeName(n int) string { return fmt.Sprint("n", n) }

// asCommand compares as `memgauge hub leak --live` does.
func (j sameJob) asCommand(t *testing.T) skew.Report {
	t.Helper()
	held := skew.NewHeld()
	for n := range jobNodes {
		var text strings.Builder
		s := j.open[nodeName(n)]
		if err := s.Query(t.Context(), fanout.Ranks().Body.(api.QueryRequest), &text); err != nil {
			t.Fatal(err)
		}
		if err := held.Add(nodeName(n), strings.NewReader(text.String())); err != nil {
			t.Fatal(err)
		}
	}
	return held.Judge()
}

func (j sameJob) asLake(t *testing.T) skew.Report {
	t.Helper()
	tables, err := lake.Open(t.Context(), lake.Choice{Location: j.lake})
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	r, err := tables.Compare(t.Context(), "same")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (j sameJob) asPage(t *testing.T) skew.Report {
	t.Helper()
	s := &Server{Options: Options{Job: &Job{Name: "same",
		Members: func(context.Context) (list []Member, missing []string, err error) {
			for n := range jobNodes {
				list = append(list, Member{nodeName(n), nodeName(n)})
			}
			return list, nil, nil
		}}}}
	s.doors.sessions, s.doors.rights = j, api.Reading
	if err := s.fresh(t.Context()); err != nil || len(s.ranks.missing) > 0 {
		t.Fatal(err, s.ranks.missing)
	}
	return s.ranks.report
}

// named is a finding without its figures.
type named struct {
	kind skew.Kind
	rank int
	node string
}

// oddJobs are jobs in which something is odd, and those in which nothing may be called so.
var oddJobs = map[string]struct {
	odd  oddity
	want []named
}{
	"a rank leaks": {oddity{step: func(rank int, s *model.Step) {
		if rank == 3 {
			s.Allocated += 4 * mebi * s.Step
		}
	}}, []named{{skew.Leak, 3, "n1"}}},
	"a rank lags": {oddity{step: func(rank int, s *model.Step) {
		if rank == 6 {
			s.Time += s.Step * 200_000
		}
	}}, []named{{skew.Lagging, 6, "n3"}}},
	"rank 0 holds for all": {oddity{step: func(rank int, s *model.Step) {
		if rank == 0 {
			s.Allocated += 3 * usualHeld
		}
	}}, []named{{skew.PileUp, 0, "n0"}}},
	"a host leaks": {oddity{host: func(node, step int) int64 {
		if node == 2 {
			return int64(step) * 8 * mebi
		}
		return 0
	}}, []named{{skew.HostLeak, -1, "n2"}}},
	"a process on the host leaks": {oddity{step: func(rank int, s *model.Step) {
		if rank == 7 {
			s.Anon += 4 * mebi * s.Step
		}
	}}, []named{{skew.Leak, 7, "n3"}}},
	"a rank was restarted": {oddity{step: func(rank int, s *model.Step) {
		if rank == 5 && s.Step <= 40 { // it leaked, and was killed
			s.PID, s.Allocated = 55, s.Allocated+256*mebi*s.Step
		}
	}}, nil},
	"ranks infer": {oddity{step: func(rank int, s *model.Step) {
		if rank >= 6 {
			s.Inference, s.Allocated = true, s.Allocated+64*mebi*s.Step
		}
	}}, nil},
	"a process has no rank": {oddity{step: func(rank int, s *model.Step) {
		if rank == 7 {
			s.Rank, s.Allocated = -1, s.Allocated+64*mebi*s.Step
		}
	}}, nil},
	"a node says impossible things": {oddity{step: func(rank int, s *model.Step) {
		if rank == 4 {
			s.Step = math.MinInt64
		}
		if rank == 5 {
			s.Step = math.MaxInt64 - int64(jobSteps) + s.Step
		}
	}, host: func(node, step int) int64 {
		if node == 3 {
			return math.MinInt64 + int64(step)
		}
		return 0
	}}, nil},
}

// TestOneComparisonOfRanks: command, lake and page say the same of the same rows.
func TestOneComparisonOfRanks(t *testing.T) {
	for name, c := range oddJobs {
		t.Run(name, func(t *testing.T) {
			j := newSameJob(t, c.odd)
			command := j.asCommand(t)
			var got []named
			for _, f := range command.Findings {
				got = append(got, named{f.Kind, f.Rank, f.Node})
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the command: %v, want %v (%v)", got, c.want, command.Warnings)
			}
			want := document(command)
			for door, r := range map[string]skew.Report{"lake": j.asLake(t), "page": j.asPage(t)} {
				if got := document(r); got != want {
					t.Errorf("the %s says\n%s\nand the command\n%s", door, got, want)
				}
			}
		})
	}
}

// document is a report as text.
func document(r skew.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d ranks, %d nodes, %v\n", r.Ranks, r.Nodes, r.Warnings)
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%+v\n", f)
	}
	slices.SortFunc(r.Slopes, func(a, b skew.Slope) int { return a.Rank - b.Rank })
	fmt.Fprintf(&b, "%+v\n", r.Slopes)
	return b.String()
}
