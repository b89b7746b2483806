package source

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// Judged is what one session said of itself, and what its ranks held.
type Judged struct {
	Report detect.Report
	Held   []byte // the answer to fanout.Ranks
	End    api.End
}

// Judge asks a fleet's sessions for their verdicts, and for what their ranks held: the live ones, else the newest
// finished ones.
func (s *Source) Judge(ctx context.Context) (list []Answer[Judged], missing []fanout.Missing, err error) {
	list, missing, err = s.judgeLive(ctx)
	if err != nil || len(list) > 0 || slices.ContainsFunc(missing, fanout.Missing.Late) {
		return list, missing, err
	}
	s.Select.Finished = true
	over, missing, err := s.Fleet.Sessions(ctx, s.Select)
	if err != nil {
		return nil, nil, err
	}
	var members []Member
	for _, f := range newest(over) {
		members = append(members, s.member(f))
	}
	return Ask(ctx, members, NodeTime, judgeOne), missing, nil
}

// judgeLive asks all nodes at once; two messages, whatever their number.
func (s *Source) judgeLive(ctx context.Context) (list []Answer[Judged], missing []fanout.Missing, err error) {
	var reports, held []fanout.Answer
	var heldErr error
	var both sync.WaitGroup
	both.Go(func() { held, _, heldErr = s.Fleet.All(ctx, s.Select, fanout.Ranks()) })
	reports, missing, err = s.Fleet.All(ctx, s.Select, fanout.Leak())
	both.Wait()
	if err = cmp.Or(err, heldErr); err != nil {
		return nil, nil, err
	}
	ranks := map[string]fanout.Answer{} // by node and session
	for _, a := range held {
		ranks[a.Session.Node+"/"+a.Session.About.ID] = a
	}
	fanout.Sort(reports)
	list = make([]Answer[Judged], len(reports))
	rooms := rooms{of: map[string]*api.Room{}}
	var decode errgroup.Group
	decode.SetLimit(runtime.NumCPU())
	for i, a := range reports {
		decode.Go(func() error {
			one := Answer[Judged]{Member: s.member(a.Session), Err: a.Err}
			if one.Err == nil {
				one.Err = rooms.unmarshal(a.Session.Node, a.Data, &one.Value.Report)
			}
			of := ranks[a.Session.Node+"/"+a.Session.About.ID]
			if one.Value.Held = of.Data; one.Err == nil {
				one.Err = of.Err
			}
			list[i] = one
			return nil
		})
	}
	return list, missing, decode.Wait()
}

// nodeRoom is the memory that may be made of what one node says, in bytes: reports of 64 MiB take about twice that.
const nodeRoom = 256 << 20

// rooms are what nodes have left of it.
type rooms struct {
	mu sync.Mutex
	of map[string]*api.Room // by node
}

// room is a node's.
func (r *rooms) room(node string) *api.Room {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[node] == nil {
		r.of[node] = api.NewRoom(nodeRoom)
	}
	return r.of[node]
}

// unmarshal reads what a node says, one after the other of each.
func (r *rooms) unmarshal(node string, text []byte, into any) error {
	return r.room(node).Unmarshal(text, into, nodeRoom)
}

func judgeOne(ctx context.Context, m Member) (one Judged, err error) {
	door := m.Target.Open()
	defer door.Close()
	if one.Report, err = door.Leak(ctx, api.LeakRequest{}); err != nil {
		return one, err
	}
	one.End, _ = door.End(ctx) // without it the report has no end
	var held bytes.Buffer
	err = door.Query(ctx, fanout.Ranks().Body.(api.QueryRequest), AtMost(ctx, &held))
	one.Held = held.Bytes()
	return one, err
}

// maxAnswer bounds what one session may answer to a question to all of them, in bytes.
const maxAnswer = 64 << 20

var errLarge = errors.New("an answer of more than 64 MiB")

// AtMost fails what is written beyond the bound of one session's answer to a question to all, or of its node's.
func AtMost(ctx context.Context, w io.Writer) io.Writer {
	return &atMost{w, maxAnswer, api.RoomOf(ctx)}
}

type atMost struct {
	io.Writer
	left int
	room *api.Room
}

// Write passes on what fits.
func (w *atMost) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, errLarge
	}
	if err := w.room.Take(int64(len(b))); err != nil {
		return 0, err
	}
	return w.Writer.Write(b)
}
