package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/probe/agent"
	"github.com/memgauge/memgauge/internal/record/session"
)

var places = map[api.Place]wire.Place{api.Main: wire.PlaceMain, api.Step: wire.PlaceStep, api.Beside: wire.PlaceBeside}

// Eval runs code in all chosen processes at once.
func (j Job) Eval(ctx context.Context, q api.EvalRequest, out api.EvalOutput) (api.EvalReply, error) {
	place, known := places[q.Place]
	if !known {
		return api.EvalReply{}, fmt.Errorf("eval: %q is not a place for code", q.Place)
	}
	if len(q.Code) > api.MaxCode {
		return api.EvalReply{}, fmt.Errorf("eval: code of %d bytes, at most %d", len(q.Code), api.MaxCode)
	}
	chosen, err := j.choose(q.Choice, false)
	if err != nil {
		return api.EvalReply{}, fmt.Errorf("eval: %w", err)
	}
	if out.Chosen != nil {
		list := make([]api.Process, len(chosen))
		for i, p := range chosen {
			list[i] = processOf(p)
		}
		if err := out.Chosen(list); err != nil {
			return api.EvalReply{}, err
		}
	}
	code := wire.Eval{Timeout: q.Timeout, Code: q.Code, Place: place}
	results := make([]api.EvalResult, len(chosen))
	var printing sync.Mutex
	var all sync.WaitGroup
	for i, p := range chosen {
		stream := func(stderr bool) io.Writer { return &printer{&printing, out, i, stderr} }
		all.Go(func() { results[i] = evalIn(ctx, code, p, stream(false), stream(true)) })
	}
	all.Wait()
	return api.EvalReply{Results: results}, nil
}

// printer forwards the output of one process to one stream.
type printer struct {
	mu      *sync.Mutex // of the whole eval: calls of the client's print function come one at a time
	out     api.EvalOutput
	process int
	stderr  bool
}

func (p *printer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.out.Print(p.process, p.stderr, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// dialFor waits for the agent's Hello as long as for the code itself: both need the GIL.
func dialFor(ctx context.Context, timeout time.Duration, socket string) (*agent.Client, error) {
	if timeout > agent.HelloWait {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return agent.Dial(ctx, socket)
}

var outcomes = map[wire.Outcome]api.Outcome{wire.OutcomeFine: api.Fine, wire.OutcomeException: api.Exception,
	wire.OutcomeTimeout: api.TimedOut, wire.OutcomeInterrupted: api.Interrupted, wire.OutcomeGoesOn: api.Blocked}

func evalIn(ctx context.Context, e wire.Eval, p session.Process, stdout, stderr io.Writer) api.EvalResult {
	r := api.EvalResult{Process: processOf(p), Outcome: api.Failed}
	c, err := dialFor(ctx, e.Timeout, p.Socket)
	if err != nil {
		r.Error = api.Pack(fmt.Errorf("eval in %d: %w", p.PID, err))
		return r
	}
	defer c.Close()
	began := time.Now()
	told, err := c.Eval(ctx, e, stdout, stderr)
	r.Took = time.Since(began)
	r.Value, r.Exception, r.Elapsed = told.Value, told.Exception, told.Elapsed
	if r.Began = told.Began; r.Began {
		r.Place = api.Place(told.Place.String())
	}
	switch {
	case errors.Is(err, agent.ErrEnded):
		r.Outcome, r.Error, r.Elapsed = api.Ended, api.Pack(err), r.Took
	case err != nil:
		r.Error, r.Elapsed = api.Pack(err), r.Took
	default:
		r.Outcome = outcomes[told.Outcome]
	}
	return r
}
