package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/webhook"
	"github.com/memgauge/memgauge/internal/fleet/board"
	"github.com/memgauge/memgauge/internal/fleet/skew"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

const (
	// goneFor is how often in a row a thing must not be found any more for its alert to end: ranks at a threshold would
	// make it come and go.
	goneFor   = 4
	jobAlerts = 32      // of a job at a time: beyond them it is not a rank that is odd but the job
	maxAlerts = 1 << 12 // of all jobs: some MB of texts
	alertTime = 10 * time.Second
)

// AlertTo says who is told of jobs that leak or have an odd rank; "" is nobody.
type AlertTo struct {
	Alertmanager string // its address, such as http://alerts:9093
	Webhook      string // an address for short messages as JSON
	Form         string // of those: json, or slack
}

// Check refuses addresses that are none.
func (a AlertTo) Check() error {
	for _, text := range []string{a.Alertmanager, a.Webhook} {
		if text != "" && !webhook.IsAddress(text) {
			return remedy.Add(errors.New("alerts: the address is none"), "such as http://alerts:9093")
		}
	}
	if a.Form != "" && !webhook.IsForm(a.Form) {
		return fmt.Errorf("alerts: form %q: there are json and slack", a.Form)
	}
	return nil
}

// alerts are what is told now. They are for one goroutine.
type alerts struct {
	to     AlertTo
	now    map[string]*alert // by job, node, rank and kind
	origin func(node string) string
	client *http.Client
	sender *webhook.Sender
	sent   sync.WaitGroup
	cancel context.CancelFunc
}

// alert is one of them, as Alertmanager takes it: its API v2, postableAlert.
type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Starts      time.Time         `json:"startsAt"`
	Ends        time.Time         `json:"endsAt,omitzero"`

	gone int // judgements since it was found last
}

func newAlerts(to AlertTo, origin func(node string) string) *alerts {
	a := &alerts{to: to, origin: origin, now: map[string]*alert{}, client: &http.Client{Timeout: alertTime}}
	if to.Webhook != "" {
		a.sender = webhook.New(to.Webhook, to.Form, "fleet")
		ctx, cancel := context.WithCancel(context.Background())
		a.cancel = cancel
		a.sent.Go(func() { a.sender.Run(ctx) })
	}
	return a
}

// end gives up what is not sent.
func (a *alerts) end() {
	if a.sender != nil {
		a.sender.Finish()
		a.cancel()
		a.sent.Wait()
	}
	a.client.CloseIdleConnections()
}

// tell tells of what is found in live jobs. Alertmanager hears of everything each time: it takes an alert for ended
// that it does not hear of for some minutes.
func (a *alerts) tell(ctx context.Context, list []board.Verdict, live map[string][]string, now time.Time) error {
	if a.to.Alertmanager == "" && a.sender == nil {
		return nil
	}
	found := map[string]*alert{}
	for _, v := range list {
		if live[v.Job.Job] != nil {
			ofJob(found, v.Job)
		}
	}
	var post []*alert
	kept := a.fair(found)
	for key := range a.now { // no more is said of those that have no room any more
		if found[key] != nil && !kept[key] {
			delete(a.now, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(kept)) {
		one := found[key]
		if old := a.now[key]; old != nil {
			one.Starts = old.Starts
		} else {
			one.Starts = now
			a.message(one, now, one.Annotations["summary"])
		}
		a.now[key] = one
		post = append(post, one)
	}
	for key, one := range a.now {
		if kept[key] {
			continue
		}
		if one.gone++; one.gone >= goneFor {
			one.Ends = now
			delete(a.now, key)
			a.message(one, now, "over: "+one.Annotations["summary"])
		}
		post = append(post, one)
	}
	if a.to.Alertmanager == "" || len(post) == 0 {
		return nil
	}
	return a.post(ctx, post)
}

// fair are the alerts that there is room for: the first of each origin, then the second of each, and so on, and within
// an origin likewise by node. Who makes up nodes and jobs keeps nobody else's alerts from being told.
func (a *alerts) fair(found map[string]*alert) map[string]bool {
	keys := slices.Sorted(maps.Keys(found))
	for _, by := range []func(node string) string{func(node string) string { return node }, a.origin} {
		turns, turn := map[string]int{}, map[string]int{}
		for _, key := range keys {
			who := by(found[key].Labels["node"])
			turn[key] = turns[who]
			turns[who]++
		}
		order.Stable(keys, func(a, b string) int { return turn[a] - turn[b] })
	}
	kept := map[string]bool{}
	for _, key := range keys[:min(len(keys), maxAlerts)] {
		kept[key] = true
	}
	return kept
}

func (a *alerts) message(one *alert, now time.Time, text string) {
	if a.sender != nil {
		a.sender.Tell(webhook.Message{Session: one.Labels["job"], Host: one.Labels["node"], Time: now.UTC(),
			Text: text})
	}
}

// post sends alerts to Alertmanager. Errors don't carry its address, which may have a password.
func (a *alerts) post(ctx context.Context, list []*alert) error {
	text, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("alertmanager: %w", err)
	}
	to := strings.TrimRight(a.to.Alertmanager, "/") + "/api/v2/alerts"
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(text))
	if err != nil {
		return errors.New("alertmanager: its address is none")
	}
	q.Header.Set("Content-Type", "application/json")
	answer, err := a.client.Do(q)
	if err != nil {
		if e := new(url.Error); errors.As(err, &e) {
			err = e.Err
		}
		return fmt.Errorf("alertmanager: %w", err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection can be used again
	if answer.StatusCode >= 300 {
		return fmt.Errorf("alertmanager: it answers %s", answer.Status)
	}
	return nil
}

// alertNames are the alerts' names, by what is odd.
var alertNames = map[skew.Kind]string{skew.Leak: "MemgaugeLeak",
	skew.Step: "MemgaugeStep", skew.PileUp: "MemgaugePileUp",
	skew.Lagging: "MemgaugeLagging", skew.HostLeak: "MemgaugeHostLeak"}

// ofJob adds a job's alerts: what sets ranks apart, and what sessions say of ranks that stand out by nothing.
func ofJob(all map[string]*alert, j *board.Job) {
	own := map[skew.Unit]*board.Rank{}
	for i := range j.Each {
		if r := &j.Each[i]; r.Verdict == detect.Leak {
			own[skew.Unit{Rank: r.Rank, Node: r.Node}] = r
		}
	}
	left := jobAlerts
	add := func(kind skew.Kind, u skew.Unit, memory, text string) {
		if left--; left < 0 {
			return
		}
		one := &alert{Labels: map[string]string{"alertname": alertNames[kind], "job": j.Job, "node": u.Node,
			"severity": "warning"}, Annotations: map[string]string{"summary": "job " + j.Job + ": " + text}}
		if u.Rank >= 0 {
			one.Labels["rank"] = strconv.Itoa(u.Rank)
		}
		if memory != "" {
			one.Labels["memory"] = memory
		}
		if r := own[u]; r != nil && (kind == skew.Leak || kind == skew.Step) {
			annotate(one.Annotations, r)
		}
		all[strings.Join([]string{j.Job, u.Node, strconv.Itoa(u.Rank), string(kind), memory}, "\x00")] = one
	}
	for _, f := range j.Skew.Findings {
		u := skew.Unit{Rank: f.Rank, Node: f.Node}
		add(f.Kind, u, f.Memory, f.Text())
		if f.Kind == skew.Leak {
			delete(own, u)
		}
	}
	for i := range j.Each {
		r := &j.Each[i]
		if u := (skew.Unit{Rank: r.Rank, Node: r.Node}); own[u] != nil {
			add(skew.Leak, u, "", fmt.Sprintf("rank %d on %s leaks by its own session's verdict.", r.Rank, r.Node))
		}
	}
	if j.Verdict == detect.Leak && left == jobAlerts { // in a process without a rank
		add(skew.Leak, skew.Unit{Rank: -1, Node: j.Lead()}, "", j.Text)
	}
}

// annotate says where a rank's own session has found the leak.
func annotate(to map[string]string, r *board.Rank) {
	for name, text := range map[string]*string{"line": r.Site, "holder": r.Holder, "memory": r.Memory} {
		if text != nil {
			to[name] = *text
		}
	}
	if r.Since != nil {
		to["since_step"] = strconv.FormatInt(*r.Since, 10)
	}
	if len(r.Advice) > 0 {
		to["advice"] = r.Advice[0]
	}
}
