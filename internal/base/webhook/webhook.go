// Package webhook tells an address what happens, such as what a guard does: short messages as JSON, in a generic form
// or in Slack's, in the order in which they come, with back-off, from outside the trainer. Nobody waits for it: what an
// address doesn't take is given up and counted. Errors never carry the address, which may be a secret.
package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Bounds. A message is some 500 bytes.
const (
	maxQueue = 100              // messages that wait; the oldest goes
	maxTries = 6                // of a message: 1+2+4+8+16 s of waiting
	firstGap = time.Second      // between the first two
	maxGap   = time.Minute      // also where an address asks for more
	timeout  = 10 * time.Second // of one try
)

// Message is what is told.
type Message struct {
	Session string    `json:"session"`
	Host    string    `json:"host"`
	PID     int       `json:"pid,omitempty"`
	Time    time.Time `json:"ts"`
	Text    string    `json:"text"`
}

// Sender sends to one address.
type Sender struct {
	url, form, event string

	client   *http.Client
	queue    chan Message
	firstGap time.Duration

	// after Run
	Sent, Lost int
	Err        error // the last one
}

// IsAddress says whether a text is an address that messages can be sent to.
func IsAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// IsForm says whether there is a form of messages with that name.
func IsForm(name string) bool { return name == "json" || name == "slack" }

// New makes a sender in the form json or slack, of messages about one kind of event, such as guard; nothing is sent
// before Run.
func New(url, form, event string) *Sender {
	return &Sender{url: url, form: form, event: event, client: &http.Client{Timeout: timeout},
		queue: make(chan Message, maxQueue), firstGap: firstGap}
}

// Tell puts a message into the queue; from one goroutine. Where that is full the oldest goes. It never blocks.
func (s *Sender) Tell(m Message) (lost bool) {
	for {
		select {
		case s.queue <- m:
			return lost
		default:
		}
		select {
		case <-s.queue:
			lost = true
		default:
		}
	}
}

// Finish says that there are no more messages; Run then ends once all are sent.
func (s *Sender) Finish() { close(s.queue) }

// Run sends until Finish, or until ctx ends: what then waits is lost.
func (s *Sender) Run(ctx context.Context) {
	for m := range s.queue {
		if err := s.deliver(ctx, m); err != nil {
			s.Lost, s.Err = s.Lost+1, err
			continue
		}
		s.Sent++
	}
}

func (s *Sender) deliver(ctx context.Context, m Message) error {
	gap := s.firstGap
	for try := 1; ; try++ {
		wait, err := s.post(ctx, m)
		var final *refused
		if err == nil || errors.As(err, &final) || try == maxTries {
			return err
		}
		wait, gap = min(max(gap, wait), maxGap), min(2*gap, maxGap)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// refused is an answer that another try would not change.
type refused struct{ status string }

func (r *refused) Error() string { return "webhook: the address answers " + r.status }

// post makes one try. wait is what the address asks for.
func (s *Sender) post(ctx context.Context, m Message) (wait time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(s.body(m)))
	if err != nil {
		return 0, &refused{"nothing: it is not an address"}
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := s.client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("webhook: %w", withoutURL(err))
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection can be used again
	switch code := answer.StatusCode; {
	case code < 300:
		return 0, nil
	case code == http.StatusTooManyRequests || code >= 500:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return time.Duration(min(max(seconds, 0), int(maxGap/time.Second))) * time.Second,
			fmt.Errorf("webhook: the address answers %s", answer.Status)
	}
	return 0, &refused{answer.Status}
}

func withoutURL(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

func (s *Sender) body(m Message) []byte {
	var v any = struct {
		SchemaVersion int    `json:"schema_version"`
		Event         string `json:"event"`
		Message
	}{1, s.event, m}
	if s.form == "slack" { // its documents: "Sending messages using incoming webhooks"
		v = struct {
			Text string `json:"text"`
		}{fmt.Sprintf("memgauge %s on %s: %s", m.Session, m.Host, m.Text)}
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts and numbers
	}
	return text
}
