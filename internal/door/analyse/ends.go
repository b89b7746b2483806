package analyse

import (
	"fmt"
	"math"

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
	if err := l.spent(); err != nil {
		return err
	}
	var kills [][2]float64 // pid (0: not known), µs
	err := l.all(`SELECT name, coalesce(pid, 0), epoch_us(ts)::DOUBLE FROM memgauge.events WHERE name IN ('end', 'oom_kill')`, func(v []any) {
		if fmt.Sprint(v[0]) == "end" {
			l.over = true
		} else {
			kills = append(kills, [2]float64{number(v[1]), number(v[2])})
		}
	})
	end := l.end()
	if p := l.processes[l.trainer]; p != nil && l.most > 0 {
		l.over = l.over || p.Gone
	}
	for pid, p := range l.processes {
		p.Gone = p.Gone || l.over
		for _, k := range kills {
			if k[0] == float64(pid) || p.Gone && math.Abs(k[1]-l.seen[pid]) < atOnce {
				p.Killed, p.Gone, p.Spent = true, true, detect.OfHost
			}
		}
		if life := l.seen[pid] - l.firstSeen(p); p.ByTime && !p.Killed && p.Gone && l.seen[pid] < end-2e6 &&
			life < brief*(end-l.from0) {
			p.Ended = true
		}
	}
	return err
}

// spent tells which processes ended with an allocation that failed. One that the program caught ends nothing.
func (l *loader) spent() error {
	return l.all(`SELECT pid, b FROM memgauge.events WHERE name = 'oom' AND pid IS NOT NULL
 AND text NOT LIKE '%the program went on%' ORDER BY ts`, func(v []any) {
		p := l.processes[integer[int32](v[0])]
		switch device := number(v[1]); {
		case p == nil:
		case device < 0:
			p.Spent = detect.OfHost
		default:
			p.Spent = fmt.Sprintf("cuda:%.0f", device)
		}
	})
}

// firstSeen is the time of a process's first sample, in µs since the epoch.
func (l *loader) firstSeen(p *detect.Process) float64 {
	if len(p.Anon.Steps) == 0 {
		return l.from0
	}
	return l.from0 + 1e6*p.Anon.Steps[0]
}

// boosts tells which processes train boosted trees, and with what.
func (l *loader) boosts() error {
	return l.all(`SELECT pid, string_agg(DISTINCT text, ' and ' ORDER BY text) FROM memgauge.events
 WHERE name = 'boosting' AND pid IS NOT NULL GROUP BY pid`, func(v []any) {
		if p := l.processes[integer[int32](v[0])]; p != nil {
			p.Boosts = word(v[1])
		}
	})
}
