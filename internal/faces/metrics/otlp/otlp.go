// Package otlp sends a session's metrics to an OpenTelemetry endpoint (OTLP, protocol buffers over HTTP).
package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/faces/metrics"
)

// Options say where to and how often.
type Options struct {
	URL      string
	Interval time.Duration
	Version  string
	Sent     func(error) // is called after each sending but the last, with its error or nil
}

// Check returns an error for a URL that can't be an endpoint.
func Check(to string) (*url.URL, error) {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, remedy.Add(fmt.Errorf("%q is not an address of a receiver", to), "write http://HOST:4318")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/metrics" // where the protocol has metrics
	}
	return u, nil
}

const (
	// goodbye bounds the last sending, after which the command ends.
	goodbye = 5 * time.Second
	// maxAnswer bounds an answer, in bytes: that nothing was wrong is some 10.
	maxAnswer = 64 << 10
)

// Attributes of the resource.
const (
	serviceName    = "service.name"
	serviceVersion = "service.version"
)

// Send sends the figures at each interval until ctx ends, and once more then.
func Send(ctx context.Context, source *metrics.Source, o Options) error {
	to, err := Check(o.URL)
	if err != nil {
		return err
	}
	s := &sender{source: source, to: to.String(), version: o.Version, began: time.Now(), headers: http.Header{},
		resource: [][2]string{{serviceName, "memgauge"}, {serviceVersion, o.Version}}}
	if err = s.environment(); err == nil {
		err = s.run(ctx, o)
	}
	s.client.CloseIdleConnections()
	if err != nil {
		return fmt.Errorf("send to %s: %w", to.Redacted(), err)
	}
	return nil
}

// sender reads and sends on demand, so that the caller gets each error.
type sender struct {
	source   *metrics.Source
	to       string
	version  string
	began    time.Time
	client   http.Client
	headers  http.Header
	resource [][2]string
	gzip     bool
}

// run sends until ctx ends, and once more then. It returns only the error of the last sending: earlier errors were
// reported through Sent, and newer figures were sent after them.
func (s *sender) run(ctx context.Context, o Options) error {
	tick := time.NewTicker(o.Interval)
	defer tick.Stop()
	for {
		if err := s.send(ctx, o.Interval); ctx.Err() == nil {
			o.Sent(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return s.send(context.WithoutCancel(ctx), goodbye)
		}
	}
}

// send sends once. What fails is not repeated: the next interval sends newer figures.
func (s *sender) send(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, max(patience, goodbye))
	defer cancel()
	reading, err := s.source.Read(ctx)
	if err != nil {
		return err
	}
	body := s.request(reading, s.began, time.Now())
	if s.gzip {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err = w.Write(body)
		if err = errors.Join(err, w.Close()); err != nil {
			return err
		}
		body = packed.Bytes()
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, s.to, bytes.NewReader(body))
	if err != nil {
		return err
	}
	q.Header = s.headers.Clone()
	q.Header.Set("Content-Type", "application/x-protobuf")
	q.Header.Set("User-Agent", "memgauge/"+s.version)
	if s.gzip {
		q.Header.Set("Content-Encoding", "gzip")
	}
	r, err := s.client.Do(q)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if r.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %.200q", r.Status, text)
	}
	if why := rejected(text); why != "" {
		return errors.New(valid(why))
	}
	return nil
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
