package export

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/metrics"
	"github.com/memgauge/memgauge/internal/faces/metrics/otlp"
	"github.com/memgauge/memgauge/internal/faces/metrics/prom"
)

// monitor serves a session's metrics and sends them.
type monitor struct {
	*app.App
	o      exportOptions
	source *metrics.Source
	server *prom.Server // nil: only sends
}

// monitor reads the session once, so that errors are reported at once, and binds the address.
func (a *commands) monitor(ctx context.Context, t ask.Target, o exportOptions) (*monitor, error) {
	m := &monitor{App: a.App, o: o, source: metrics.NewSource(func(ctx context.Context) (api.Session, error) {
		return t.Limited(api.Reading).Connect(ctx) // whoever reads the figures changes nothing
	})}
	if o.prometheus != "" {
		server, err := prom.Listen(ctx, o.prometheus, m.source)
		if err != nil {
			return nil, err
		}
		server.Require(o.token)
		m.server = server
	}
	if _, err := m.source.Read(ctx); err != nil {
		m.close()
		return nil, whyCut(ctx, err)
	}
	return m, nil
}

func (m *monitor) close() {
	m.source.Close()
	if m.server != nil {
		_ = m.server.Close() // it has stopped serving, or never began
	}
}

// errOver stops the parts that run until the job ends.
var errOver = errors.New("the job has ended")

// run runs until Ctrl-C, or until a live job has ended and its last values were served or sent.
func (m *monitor) run(ctx context.Context) error {
	first, err := m.source.Read(ctx)
	if err != nil {
		return whyCut(ctx, err)
	}
	g, both := errgroup.WithContext(ctx)
	if m.server != nil {
		m.announce(first)
		g.Go(func() error { return m.server.Serve(both) })
	}
	sending, stop := context.WithCancel(both)
	defer stop()
	if m.o.otlp != "" {
		g.Go(func() error { return m.send(sending) })
	}
	g.Go(func() error {
		defer stop()
		if m.source.UntilEnd(both) != nil {
			return nil // Ctrl-C, or another part failed
		}
		stop() // what is sent now is the last
		if m.server == nil || !first.Live {
			if m.server != nil {
				<-both.Done()
			}
			return nil
		}
		plain.Fprintf(m.Stderr, "memgauge: the job has ended; its last values are served for %s\n", m.o.linger)
		select {
		case <-time.After(time.Duration(m.o.linger)):
		case <-both.Done():
		}
		return errOver
	})
	if err := g.Wait(); err != nil && !errors.Is(err, errOver) {
		return err
	}
	return nil
}

func (m *monitor) announce(first metrics.Reading) {
	state := "which has ended, until Ctrl-C"
	if first.Live {
		state = "until it ends or Ctrl-C"
	}
	plain.Fprintf(m.Stderr, "memgauge: serving http://%s/metrics of session %s, %s\n", m.server.Addr(),
		first.Session, state)
	if m.o.token == "" && !m.server.Open() {
		fmt.Fprintln(m.Stderr, "memgauge: every user of this machine can read them; --token-file asks for a token")
	}
	if m.server.Open() {
		fmt.Fprintln(m.Stderr, "memgauge: who reaches this address can read them; :PORT serves this machine alone")
	}
}

// send reports each kind of failure once, until a later attempt succeeds.
func (m *monitor) send(ctx context.Context) error {
	last := ""
	return otlp.Send(ctx, m.source, otlp.Options{URL: m.o.otlp, Interval: time.Duration(m.o.interval),
		Version: app.Version, Sent: func(err error) {
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != "" && text != last {
				plain.Fprintf(m.Stderr, "memgauge: export: %s\n", text)
			}
			last = text
		}})
}
