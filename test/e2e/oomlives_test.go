package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/env"
)

// answer is what `memgauge oom` said at a moment.
type answer struct {
	at        time.Time
	verdict   string
	reason    string
	usage     float64
	predicted *float64
}

// askWhileItLives asks `memgauge oom` once a second until the command ends.
func askWhileItLives(t *testing.T, w *world, s string, run *background) (list []answer) {
	t.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-run.done:
			return list
		case <-tick.C:
		}
		at := time.Now()
		r := w.do("memgauge", "oom", "--session", s, "--json")
		var d struct {
			Verdict string
			Devices map[string]struct {
				Risk struct {
					Usage   float64  `json:"current_usage_percent"`
					Reason  string   `json:"reason"`
					Seconds *float64 `json:"predicted_oom_time_seconds"`
				} `json:"risk_assessment"`
			}
		}
		if json.Unmarshal([]byte(r.stdout), &d) != nil {
			continue // it has just died
		}
		risk := d.Devices["host"].Risk
		list = append(list, answer{at, d.Verdict, risk.Reason, risk.Usage, risk.Seconds})
	}
}

// Programs without PyTorch that leak 10 MiB a second into the limit of their cgroup until the kernel kills them:
// steadily beside a page cache that fills the cgroup, and in stairs. From half of the life on the time is told, within
// 15 % and a second as a rule, and it is never denied.
func TestOOMForetellsWithoutPyTorch(t *testing.T) {
	env.Long(t, "lives that end at a limit, in real time")
	for name, args := range map[string][]string{"beside page cache": {"10", "0.5", "60"},
		"in stairs": {"10", "8", "0"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := filepath.Join(w.home, "s")
			dir := memoryCgroup(t, 220<<20)
			command := inCgroup(dir, append([]string{"python3", script(t, "nativeleak.py")}, args...)...)
			run := w.start("memgauge", append([]string{"run", "--quiet", "--session", s, "--"}, command...)...)
			until(t, "the program", func() bool { return strings.Contains(run.out.String(), "begins") })
			began := time.Now()
			list := askWhileItLives(t, w, s, run)
			// Writing the session's end takes seconds on a machine that is full.
			died := time.UnixMicro(int64(w.number(s,
				"SELECT epoch_us(max(ts)) AS t FROM process.memory WHERE rss > 0")))
			life := died.Sub(began).Seconds()
			if life < 8 || len(list) < 5 {
				t.Fatalf("a life of %.1f s, asked %d times: this says nothing\n%s", life, len(list), run.err)
			}
			asked, told, right := 0, 0, 0
			for _, a := range list {
				since, left := a.at.Sub(began).Seconds(), died.Sub(a.at).Seconds()
				text := "nothing"
				if a.predicted != nil {
					text = fmt.Sprintf("%.1f s", *a.predicted)
				}
				t.Logf("at %4.1f of %4.1f s, %2.0f %% in use: %s (%s), told %s, it was %.1f s", since, life, a.usage,
					a.verdict, a.reason, text, left)
				if since < life/2 || left < 0.5 {
					continue
				}
				if asked++; a.verdict == "fine" || a.usage > 90 && a.predicted == nil {
					t.Errorf("at %.1f s, %.0f %% in use: %s, denied", since, a.usage, a.verdict)
				}
				if a.predicted == nil {
					continue
				}
				told++
				// Starting the command, reading and the kill itself take a second on a machine that is full.
				if math.Abs(*a.predicted-left) < 0.15*left+1.5 {
					right++
				}
			}
			if 4*told < 3*asked || 4*right < 3*told {
				t.Errorf("asked %d times, told %d times, right %d times", asked, told, right)
			}
			if r := w.do("memgauge", "oom", "--session", s); r.code != 3 || !strings.Contains(r.stdout, "AT RISK") ||
				strings.Contains(r.stdout, "expected in") {
				t.Errorf("afterwards: exit %d\n%s%s", r.code, r.stdout, r.stderr)
			}
		})
	}
}
