package observe

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/memgauge/memgauge/internal/base/webhook"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/judge/guard"
	"github.com/memgauge/memgauge/internal/record/session"
)

// GuardOptions are what a user may say about the guard of a run.
type GuardOptions struct {
	Policy     string // guide, or the path of a YAML file; "" for none
	DryRun     bool   // only tell what would be done
	OnOOM      string // retry, stop, or "" for what the policy says
	MaxRetries int    // 0 for what the policy says
}

// loadGuard reads the policy and what the command line changes of it.
func (o RunOptions) loadGuard() (*guard.Policy, error) {
	g := o.Guard
	if g.Policy == "" {
		if g.DryRun || g.OnOOM != "" || g.MaxRetries != 0 {
			return nil, wrongOption("run: --dry-run, --on-oom and --max-retries are about --guard POLICY")
		}
		return nil, nil
	}
	p, err := guard.Load(g.Policy)
	if err != nil {
		return nil, &OptionError{fmt.Errorf("run: --guard: %w", err)}
	}
	switch g.OnOOM {
	case "":
	case "retry", "stop":
		p.OnOOM.Retry = g.OnOOM == "retry"
	default:
		return nil, wrongOption("run: --on-oom %q: not retry or stop", g.OnOOM)
	}
	if g.MaxRetries < 0 || g.MaxRetries > guard.MaxRetries {
		return nil, wrongOption("run: --max-retries %d: not 1 to %d", g.MaxRetries, guard.MaxRetries)
	}
	if g.MaxRetries > 0 {
		p.OnOOM.MaxRetries = g.MaxRetries
	}
	if p.OnOOM.Retry && p.BatchSize() < 2 {
		return nil, wrongOption("run: --on-oom retry halves training.batch_size, which the policy %s doesn't have, or "+
			"which is below 2", g.Policy)
	}
	return p, nil
}

// Guarded is what a guard has done in a run.
type Guarded struct {
	Actions, Helped int      // that were to free memory
	Stopped         string   // what was told when it ended the training; "" if it hasn't
	LeftOut         []string // what was told of actions that did not help
	Failed          []string // what was told of checkpoints that could not be saved
	OOM             bool     // an allocation failed, or the kernel killed the run
	Read            []string // settings that the script asked for
	Unread          []string // settings that nothing has asked for
	Trouble         error    // of telling the webhook
}

// guarding is the guard of a run, from outside.
type guarding struct {
	policy *guard.Policy
	s      *session.Session
	sender *webhook.Sender
	cancel context.CancelFunc
	done   chan struct{} // when all is sent
}

// finishSending is how long the end of a run waits for an address that doesn't answer.
const finishSending = 5 * time.Second

// watchGuard follows a session's events where the policy has a webhook.
func watchGuard(s *session.Session, p *guard.Policy) *guarding {
	g := &guarding{policy: p, s: s}
	if p == nil || p.Webhook.URL == "" {
		return g
	}
	g.sender, g.done = webhook.New(p.Webhook.URL, p.Webhook.Form, "guard"), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		g.sender.Run(ctx)
	}()
	go func() {
		defer close(g.done)
		g.follow(ctx)
		g.sender.Finish()
		<-sent
	}()
	return g
}

// follow passes events on until the session is over. A collector that died is replaced by another one, which is asked
// again from where it was.
func (g *guarding) follow(ctx context.Context) {
	since := time.Time{}
	for ctx.Err() == nil {
		door := ask.Open(g.s)
		err := door.Events(ctx, api.EventsRequest{Since: since, Follow: true}, func(e api.Event) error {
			if e.Time.After(since) {
				since = e.Time.Add(time.Microsecond)
			}
			if g.tells(e) {
				host, _ := os.Hostname()
				g.sender.Tell(webhook.Message{Session: g.s.Meta.Name, Host: host, PID: e.PID, Time: e.Time,
					Text: e.Text})
			}
			return nil
		})
		_ = door.Close()
		if err == nil && !g.s.Live() {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// tells reports whether the webhook hears of an event: of what rules send it; where none does, of warnings; of a stop,
// of what failed or did not help, and of memory that ran out in any case.
func (g *guarding) tells(e api.Event) bool {
	switch {
	case e.Name == "oom", e.Name == model.OOMKill:
		return true
	case e.Code == wire.EventStopped, e.Code == wire.EventWebhook, e.Code == wire.EventFailed,
		e.Code == wire.EventLeftOut:
		return true
	}
	return e.Code == wire.EventWarned && !g.policy.Needs("webhook")
}

// end waits until what has happened is sent, or until that takes too long.
func (g *guarding) end() error {
	if g.sender == nil {
		return nil
	}
	defer g.cancel()
	late := time.AfterFunc(finishSending, g.cancel)
	defer late.Stop()
	<-g.done
	if g.sender.Lost > 0 {
		return fmt.Errorf("%d of %d messages were not delivered: %w", g.sender.Lost, g.sender.Lost+g.sender.Sent,
			g.sender.Err)
	}
	return nil
}

// guarded sums up what the guard has done, after the session was finished.
func (g *guarding) guarded(ctx context.Context, end session.End) (sum Guarded, err error) {
	if g.policy == nil {
		return sum, nil
	}
	sum.OOM = end.OOM == session.OOMKill
	door := ask.Open(g.s)
	defer door.Close()
	err = door.Events(ctx, api.EventsRequest{}, func(e api.Event) error {
		sum.note(e)
		return nil
	})
	sum.OOM = sum.OOM && end.Code != 0
	for _, key := range g.policy.SettingKeys() {
		if !slices.Contains(sum.Read, key) {
			sum.Unread = append(sum.Unread, key)
		}
	}
	return sum, err
}

func (sum *Guarded) note(e api.Event) {
	switch e.Name {
	case "oom":
		sum.OOM = true
	case "policy":
		if !slices.Contains(sum.Read, e.Text) {
			sum.Read = append(sum.Read, e.Text)
		}
	}
	switch e.Code {
	case wire.EventStopped:
		sum.Stopped = e.Text
	case wire.EventFailed:
		if len(sum.Failed) < maxFailed {
			sum.Failed = append(sum.Failed, e.Text)
		}
	case wire.EventLeftOut:
		sum.LeftOut = append(sum.LeftOut, e.Text)
	case wire.EventHelped:
		sum.Helped++
		sum.Actions++
	case wire.EventVain:
		sum.Actions++
	}
}

// Retry makes the options of the next try of a run that ran out of memory, or was stopped before it would have: with
// half the batch, where the policy wants that and the script asks for the batch's size. said is what to tell the user,
// "" where there is nothing to say.
func (o RunOptions) Retry(end Ended) (next RunOptions, said string, ok bool) {
	p := end.Policy
	if p == nil || !p.OnOOM.Retry || !end.Guard.OOM && end.Guard.Stopped == "" {
		return o, "", false
	}
	o.asked = o.asked || slices.Contains(end.Guard.Read, batchKey) // a try may die before it could ask
	if !o.asked {
		return o, "not started again: the script never asked memgauge.policy() for " + batchKey +
			", so it would run out of memory again", false
	}
	smaller, can := p.Smaller()
	switch {
	case !can:
		return o, "not started again: the batch can't be smaller than 1", false
	case o.attempt >= p.OnOOM.MaxRetries:
		return o, fmt.Sprintf("not started again: it was %d times", o.attempt), false
	}
	if o.attempt == 0 {
		o.firstName, o.firstDir = end.Session.Name, o.Dir
	}
	o.attempt, o.policy = o.attempt+1, smaller
	o.Name = fmt.Sprintf("%s-retry%d", o.firstName, o.attempt)
	if o.firstDir != "" {
		o.Dir = fmt.Sprintf("%s-retry%d", filepath.Clean(o.firstDir), o.attempt)
	}
	return o, fmt.Sprintf("started again (%d of %d) with batch_size %d instead of %d", o.attempt, p.OnOOM.MaxRetries,
		smaller.BatchSize(), p.BatchSize()), true
}

// maxFailed bounds how many failed rescues the end of a run lists: each look near a limit may be one.
const maxFailed = 5

// Rescued reports whether the guard did what it was there for: no checkpoint failed, and memory did not run out.
func (sum *Guarded) Rescued() bool {
	return len(sum.Failed) == 0 && (!sum.OOM || sum.Stopped != "")
}

// batchKey is the setting that a retry changes.
const batchKey = "training.batch_size"
