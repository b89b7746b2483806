package fanout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/fleet/skew"
)

// ranksSQL has a session tell what its ranks held at their steps: at most 65 cells of equal width in steps for each of
// at most 4,096 ranks, so 4 MiB at worst and 1 KiB a rank. Widths are powers of two and cells begin at multiples of
// them, so that those of all sessions fall together. Of a rank that was restarted the newest process counts. The row of
// rank -1 is the machine's memory, by the steps of its lowest rank. Sizes are KiB, times ms; lists are texts, which
// are read several times as fast as lists of JSON.
const ranksSQL = `WITH step AS (SELECT * FROM python.steps WHERE rank IS NOT NULL AND NOT inference),
	newest AS (SELECT rank, arg_max(pid, ts) AS pid FROM step GROUP BY rank ORDER BY rank LIMIT 4096),
	own AS (SELECT step.* FROM step JOIN newest USING (rank, pid)),
	wide AS (SELECT pow(2, ceil(log2(greatest(1, (max(step) - min(step) + 1) / 64))))::BIGINT AS width FROM own),
	host AS (SELECT own.step, min(h.total - h.available) AS used FROM host.memory h
		ASOF JOIN (SELECT ts, step FROM own WHERE rank = (SELECT min(rank) FROM newest)) own ON h.ts >= own.ts
		GROUP BY 1),
	cells AS (
		SELECT rank, step // width AS cell, min(step) AS first, max(step) AS last, min(allocated) AS held,
			min(anon) FILTER (device <> 'cpu') AS process, epoch_ms(min(ts)) AS ms FROM own, wide GROUP BY 1, 2
		UNION ALL SELECT -1, step // width, min(step), max(step), min(used), NULL, NULL FROM host, wide GROUP BY 1, 2)
	SELECT rank, max(last) AS last,
		string_agg(first, ' ' ORDER BY cell) AS steps,
		string_agg(coalesce((held // 1024)::VARCHAR, '-'), ' ' ORDER BY cell) AS held,
		CASE WHEN count(process) > 0
			THEN string_agg(coalesce((process // 1024)::VARCHAR, '-'), ' ' ORDER BY cell) END AS process,
		min(ms) AS began,
		CASE WHEN count(ms) > 0 THEN string_agg(ms - own_began, ' ' ORDER BY cell) END AS ms
	FROM (SELECT *, min(ms) OVER (PARTITION BY rank) AS own_began FROM cells) GROUP BY rank ORDER BY rank`

// Ranks asks for what ranks held at their steps. Any collector can answer it: it is a statement.
func Ranks() Request {
	return Request{http.MethodPost, "/v1/query", api.QueryRequest{SQL: ranksSQL, Format: "ndjson"}}
}

// Leak asks for the verdict on every memory of a session.
func Leak() Request { return Request{http.MethodPost, "/v1/leak", api.LeakRequest{}} }

// series is a row of the answer to Ranks.
type series struct {
	Rank    int     `json:"rank"`
	Last    int64   `json:"last"`
	Steps   string  `json:"steps"`
	Held    string  `json:"held"`
	Process string  `json:"process"`
	Began   float64 `json:"began"`
	MS      string  `json:"ms"`
}

// Held is what the sessions of a job have told: the ranks, and what they and their nodes held.
type Held struct {
	Input skew.Input
	Ranks []skew.Unit
}

// NewHeld makes an empty one.
func NewHeld() *Held {
	return &Held{Input: skew.Input{Memory: skew.NewGrid(), Process: skew.NewGrid(), Time: skew.NewGrid(),
		Host: skew.NewGrid()}}
}

// Add reads one session's answer to Ranks. One that can't be read whole adds nothing.
func (h *Held) Add(node string, data []byte) error {
	var list []series
	for dec := json.NewDecoder(bytes.NewReader(data)); ; {
		var s series
		err := dec.Decode(&s)
		switch {
		case errors.Is(err, io.EOF):
			for _, s := range list {
				h.add(node, s)
			}
			return nil
		case err != nil:
			return fmt.Errorf("what ranks held: %w", err)
		case s.Rank < -1 || s.Rank > math.MaxInt32:
			return fmt.Errorf("what ranks held: rank %d", s.Rank)
		}
		list = append(list, s)
	}
}

func (h *Held) add(node string, s series) {
	u := skew.Unit{Rank: s.Rank, Node: node}
	if u.Rank < 0 {
		each(s.Steps, s.Held, func(step int64, kib float64) { h.Input.Host.Add(u, step, kib*1024) })
		return
	}
	h.Ranks = append(h.Ranks, u)
	each(s.Steps, s.Held, func(step int64, kib float64) { h.Input.Memory.Add(u, step, kib*1024) })
	each(s.Steps, s.Process, func(step int64, kib float64) { h.Input.Process.Add(u, step, kib*1024) })
	each(s.Steps, s.MS, func(step int64, ms float64) { h.Input.Time.Add(u, step, (s.Began+ms)/1e3) })
	for _, g := range []*skew.Grid{h.Input.Memory, h.Input.Process, h.Input.Time} {
		g.Seen(u, s.Last)
	}
}

// maxCells bounds the values of one list: the statement makes 65, and who answers is not trusted to have run it.
const maxCells = 1024

// each walks two lists side by side, up to the end of the shorter one. What is no number is no value.
func each(steps, values string, take func(step int64, value float64)) {
	for range maxCells {
		var step, value string
		var more, both bool
		step, steps, more = strings.Cut(steps, " ")
		value, values, both = strings.Cut(values, " ")
		s, err := strconv.ParseInt(step, 10, 64)
		v, errValue := strconv.ParseInt(value, 10, 64)
		if err == nil && errValue == nil {
			take(s, float64(v))
		}
		if !more || !both {
			return
		}
	}
}
