package analyse

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/judge/detect"
)

const (
	// atOnce is how long after a process's last sample the kernel's kill is noticed at most, in µs: two samples and a
	// step of some seconds.
	atOnce = 5e6
	// brief is the share of a run below which a process that has ended was a part of it, and gave its memory back.
	brief = 1.0 / 3
)

// ends tells which processes will not go on, and which the kernel killed. Asked for an earlier step it knows of no end.
func (l *loader) ends() error {
	if l.o.Until > 0 {
		return nil
	}
	l.over = l.o.Over
	l.spent()
	var kills []event
	for _, e := range l.events {
		switch e.name {
		case "end":
			l.over = true
		case "oom_kill":
			kills = append(kills, e)
		}
	}
	end := l.end()
	if p := l.processes[l.trainer]; p != nil && l.most > 0 {
		l.over = l.over || p.Gone
	}
	for pid, p := range l.processes {
		p.Gone = p.Gone || l.over
		for _, k := range kills {
			if k.pid == pid || p.Gone && math.Abs(k.us-l.seen[pid]) < atOnce {
				p.Killed, p.Gone, p.Spent = true, true, detect.OfHost
			}
		}
		if life := l.seen[pid] - l.firstSeen(p); p.ByTime && !p.Killed && p.Gone && l.seen[pid] < end-2e6 &&
			life < brief*(end-l.from0) {
			p.Ended = true
		}
	}
	return nil
}

// spent tells which processes ended with an allocation that failed. One that the program caught ends nothing.
func (l *loader) spent() {
	for _, e := range l.events {
		p := l.processes[e.pid]
		switch {
		case e.name != "oom" || e.pid == 0 || p == nil || strings.Contains(e.text, "the program went on"):
		case e.b < 0:
			p.Spent = detect.OfHost
		default:
			p.Spent = fmt.Sprintf("cuda:%.0f", e.b)
		}
	}
}

// firstSeen is the time of a process's first sample, in µs since the epoch.
func (l *loader) firstSeen(p *detect.Process) float64 {
	if len(p.Anon.Steps) == 0 {
		return l.from0
	}
	return l.from0 + 1e6*p.Anon.Steps[0]
}

// event is a row of memgauge.events.
type event struct {
	name, text string
	pid        int32   // 0: not known
	us, b      float64 // us: since the epoch
}

// happened reads the events that a verdict goes by. Which processes train boosted trees, and with what, it tells at
// once.
func (l *loader) happened() error {
	err := l.all(`SELECT name, coalesce(pid, 0), epoch_us(ts), b, coalesce(text, '') FROM memgauge.events
 WHERE name IN ('end', 'exit', 'oom', 'oom_kill', 'boosting') ORDER BY ts`, func(v []any) {
		l.events = append(l.events, event{name: word(v[0]), pid: integer[int32](v[1]), us: number(v[2]),
			b: number(v[3]), text: word(v[4])})
	})
	boosts := map[int32][]string{}
	for _, e := range l.events {
		if e.name == "boosting" && e.pid != 0 && e.text != "" {
			boosts[e.pid] = append(boosts[e.pid], e.text)
		}
	}
	for pid, with := range boosts {
		if p := l.processes[pid]; p != nil {
			slices.Sort(with)
			p.Boosts = strings.Join(slices.Compact(with), " and ")
		}
	}
	return err
}

// exits are when processes began to end, in µs since the epoch.
func (l *loader) exits() map[int32]float64 {
	at := map[int32]float64{}
	for _, e := range l.events {
		if e.name == "exit" {
			at[e.pid] = e.us
		}
	}
	return at
}
