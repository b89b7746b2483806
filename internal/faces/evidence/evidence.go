// Package evidence joins what a session has measured with what package check found in the code: bytes beside a finding,
// and the rule beside a leak. It queries a session through api only, and reads source files; it changes nothing.
package evidence

import (
	"context"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/judge/check"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// Measured has a session's measurements at the place of a finding.
type Measured struct {
	Bytes   int64   `json:"bytes"`          // held at the last census; 0 if that found none
	Count   int64   `json:"count"`          // tensors, or items of the container
	PerStep float64 `json:"bytes_per_step"` // of the leak that holds them; 0: none
	Since   int64   `json:"since_step"`
	Unit    string  `json:"unit"` // what PerStep and Since count: step, second
	Holder  string  `json:"holder"`
	Site    string  `json:"site"`
	Leak    string  `json:"leak"` // the memory that grows, "" for none
}

// Session has the measurements of a session, indexed by places in the code.
type Session struct {
	cwd   string
	leaks []detect.Finding
	held  []heldRow
}

// heldRow is what a place held at the last census of a process.
type heldRow struct {
	Site   *string `json:"site"`
	Holder *string `json:"holder"`
	Bytes  int64   `json:"bytes"`
	Count  int64   `json:"count"`
}

// maxHeld bounds the places that are queried, the largest of all processes; a program has some dozens.
const maxHeld = "2000"

var heldSQL = `WITH newest AS (` + questions.NewestCensuses("true") + `),
rows AS (SELECT t.pid, t.site, t.holder, coalesce(t.bytes, 0) AS bytes, t.count AS n FROM python.tensors t
 JOIN newest n ON n.pid = t.pid AND n.census_id = t.census_id WHERE t.role = 'tensor'
 UNION ALL SELECT o.pid, o.site, o.holder, coalesce(o.bytes, 0), o.length FROM python.objects o
 JOIN newest n ON n.pid = o.pid AND n.census_id = o.census_id WHERE o.evidence = 'container')
SELECT site, holder, max(bytes)::BIGINT AS bytes, coalesce(max(n), 0)::BIGINT AS count FROM rows
WHERE site IS NOT NULL OR holder IS NOT NULL GROUP BY site, holder ORDER BY bytes DESC LIMIT ` + maxHeld

// Gather queries a session's measurements.
func Gather(ctx context.Context, s api.Session) (*Session, error) {
	about, err := s.About(ctx)
	if err != nil {
		return nil, err
	}
	report, err := s.Leak(ctx, api.LeakRequest{})
	if err != nil {
		return nil, err
	}
	held, err := api.Rows[heldRow](ctx, s, heldSQL)
	if err != nil {
		return nil, err
	}
	out := &Session{cwd: about.Cwd, held: held}
	for _, f := range report.Findings {
		if f.Verdict == detect.Leak {
			f.Site = placed(f.Site, f.Holder, about.Command)
			out.leaks = append(out.leaks, f)
		}
	}
	return out, nil
}

// For returns the measurements at a finding; false if there are none.
func (s *Session) For(f check.Finding) (m Measured, ok bool) {
	for _, l := range s.leaks {
		if matches(f, l.Site, l.Holder, s.cwd) {
			m = Measured{PerStep: l.Rate, Since: int64(l.Start), Unit: l.Unit(), Holder: l.Holder, Site: l.Site,
				Leak: l.Name(), Bytes: int64(l.Total)}
			ok = true
			break
		}
	}
	for _, h := range s.held {
		site, holder := text(h.Site), text(h.Holder)
		if !matches(f, site, holder, s.cwd) {
			continue
		}
		if !ok {
			m.Holder, m.Site = holder, site
		}
		ok = true
		m.Bytes, m.Count = max(m.Bytes, h.Bytes), max(m.Count, h.Count)
	}
	return m, ok && (m.Bytes > 0 || m.PerStep > 0)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// matches reports whether a finding is about a place that a session names: one of its lines, or in the same file the
// container that holds.
func matches(f check.Finding, site, holder, cwd string) bool {
	file, line := splitSite(site)
	if file == "" || f.Cell > 0 || !sameFile(f.Path, file, cwd) {
		return false
	}
	if slices.Contains(f.Lines, line) && (f.Holder == "" || holder == "" || named(f.Holder, holder)) {
		return true
	}
	return f.Holder != "" && holder != "" && named(f.Holder, holder)
}

// placed is a site; where none is known and a global of __main__ holds, that is somewhere in the script that was run.
func placed(site, holder string, command []string) string {
	if site != "" || !strings.HasPrefix(holder, "__main__.") {
		return site
	}
	return script(command)
}

// script is the file that a command runs, as a site; "" for none.
func script(command []string) string {
	for _, arg := range command {
		if strings.HasSuffix(arg, ".py") {
			return arg + ":0" // no line: the container's name must do
		}
	}
	return ""
}

// splitSite splits "train.py:48".
func splitSite(site string) (file string, line int) {
	i := strings.LastIndexByte(site, ':')
	if i <= 0 {
		return "", 0
	}
	line, err := strconv.Atoi(site[i+1:])
	if err != nil {
		return "", 0
	}
	return site[:i], line
}

// sameFile reports whether a path on this machine is the same file as a path of the session's machine: the paths are
// equal, or equal below the directory in which the command ran.
func sameFile(here, there, cwd string) bool {
	abs, err := filepath.Abs(here)
	if err != nil {
		return false
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real
	}
	if !path.IsAbs(there) {
		there = path.Join(cwd, there)
	}
	if abs == path.Clean(there) {
		return true
	}
	rel, inside := strings.CutPrefix(path.Clean(there), strings.TrimSuffix(cwd, "/")+"/")
	return inside && strings.HasSuffix(filepath.ToSlash(abs), "/"+rel)
}

// named reports whether a census's path to what holds memory, such as Trainer.fit().self.outputs[*]['logits'], goes by
// the name that the code gives it: self.outputs.
func named(name, holder string) bool {
	want := name[strings.LastIndexByte(name, '.')+1:]
	parts := strings.FieldsFunc(holder, func(r rune) bool { return strings.ContainsRune(".[]*'\"() ", r) })
	return want != "" && slices.Contains(parts, want)
}
