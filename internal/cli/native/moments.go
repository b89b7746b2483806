package native

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/flame"
	"github.com/memgauge/memgauge/internal/remedy"
	"github.com/memgauge/memgauge/internal/units"
)

// patience is how long a question to the session may take: the tables have some ten thousand rows.
const patience = 30 * time.Second

// settled is the share of the recorded time after which growth counts: imports and first steps are no leak.
const settled = 4

// session asks the tables of one session.
type session struct{ api.Session }

// connect finds the session and refuses one without samples.
func (a *commands) connect(ctx context.Context) (session, error) {
	s, err := a.Connect(ctx)
	if err != nil {
		return session{}, err
	}
	var n []struct{ N int64 }
	if err = ask(ctx, s, "SELECT count(*) AS n FROM native.live", &n); err == nil && (len(n) == 0 || n[0].N == 0) {
		err = remedy.Add(errors.New("this session has no samples of native memory"),
			"start the training with memgauge run --native -- …")
	}
	if err != nil {
		s.Close()
		return session{}, err
	}
	return session{s}, nil
}

// ask reads the rows of a statement.
func ask[Row any](ctx context.Context, s api.Session, sql string, rows *[]Row) error {
	var b bytes.Buffer
	if err := s.Query(ctx, api.QueryRequest{SQL: sql, Format: "ndjson", Timeout: patience}, &b); err != nil {
		return err
	}
	d := json.NewDecoder(&b)
	for {
		var row Row
		if err := d.Decode(&row); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		*rows = append(*rows, row)
	}
}

// moment is SQL for the time of each process's reading at a moment: peak, now, start, settled, or a time after the
// first reading.
func moment(name string) (sql string, err error) {
	switch name {
	case "now":
		return "SELECT pid, max(ts) AS ts FROM native.live GROUP BY pid", nil
	case "start":
		return "SELECT pid, min(ts) AS ts FROM native.live GROUP BY pid", nil
	case "peak":
		return `SELECT pid, arg_max(ts, total) AS ts
 FROM (SELECT pid, ts, sum(bytes) AS total FROM native.live GROUP BY pid, ts) GROUP BY pid`, nil
	case "settled":
		return fmt.Sprintf(`SELECT pid, max(ts) AS ts FROM native.live JOIN (SELECT pid,
 min(ts) + (max(ts) - min(ts)) / %d AS until FROM native.live GROUP BY pid) USING (pid) WHERE ts <= until GROUP BY pid`,
			settled), nil
	}
	d, err := units.ParseDuration(name)
	if err != nil || d < 0 {
		return "", fmt.Errorf("%q is not a moment: peak, now, start, settled, or a time after the start such as 90s", name)
	}
	return fmt.Sprintf(`SELECT pid, max(ts) AS ts FROM native.live
 WHERE ts <= (SELECT min(ts) FROM native.live) + INTERVAL %d MICROSECONDS GROUP BY pid`,
		time.Duration(d).Microseconds()), nil
}

// held is a stack at a moment, over all processes.
type held struct {
	Stack   int64   `json:"stack"`
	Bytes   int64   `json:"bytes"`
	Half    float64 `json:"half"` // half of the 95 % interval
	Count   int64   `json:"count"`
	Samples int64   `json:"samples"`
	Site    string  `json:"site"`
	Called  string  `json:"called"`
}

// at lists what was held at a moment, by stack.
func (s session) at(ctx context.Context, name string) (list []held, err error) {
	when, err := moment(name)
	if err != nil {
		return nil, err
	}
	err = ask(ctx, s, `SELECT stack, sum(bytes)::BIGINT AS bytes,
 sqrt(sum(((bytes_high - bytes_low) / 2.0) ** 2)) AS half,
 sum("count")::BIGINT AS count, sum(samples)::BIGINT AS samples, coalesce(any_value(site), '') AS site,
 coalesce(any_value(called), '') AS called
 FROM native.live JOIN (`+when+`) USING (pid, ts) GROUP BY stack ORDER BY bytes DESC, stack`, &list)
	return list, err
}

// off gives how far a line's readings between two moments are off a straight line: the standard deviation in bytes,
// over all processes. Where a process has fewer than three readings, nothing is known of it.
func (s session) off(ctx context.Context, from, to string) (map[line]float64, error) {
	first, err := moment(from)
	if err != nil {
		return nil, err
	}
	last, err := moment(to)
	if err != nil {
		return nil, err
	}
	var rows []struct {
		Site   string  `json:"site"`
		Called string  `json:"called"`
		Off    float64 `json:"off"`
	}
	err = ask(ctx, s, `WITH ends AS (SELECT pid, a.ts AS a, b.ts AS b FROM (`+first+`) a JOIN (`+last+`) b USING (pid)),
 moments AS (SELECT DISTINCT pid, ts FROM native.live JOIN ends USING (pid)
 WHERE ts BETWEEN least(a, b) AND greatest(a, b)),
 held AS (SELECT pid, ts, CASE stack WHEN 0 THEN '`+smaller+`' ELSE coalesce(site, '') END AS site,
 coalesce(called, '') AS called, sum(bytes)::DOUBLE AS bytes
 FROM native.live JOIN moments USING (pid, ts) GROUP BY ALL),
 points AS (SELECT pid, site, called, epoch(ts) AS x, coalesce(bytes, 0) AS y FROM moments
 JOIN (SELECT DISTINCT pid, site, called FROM held) USING (pid) LEFT JOIN held USING (pid, ts, site, called)),
 fits AS (SELECT site, called, (regr_syy(y, x) - regr_sxy(y, x) ** 2 / regr_sxx(y, x)) / (count(*) - 2) AS variance
 FROM points GROUP BY pid, site, called HAVING count(*) > 2)
 SELECT site, called, sqrt(sum(greatest(variance, 0))) AS off FROM fits GROUP BY ALL`, &rows)
	off := map[line]float64{}
	for _, r := range rows {
		off[line{r.Site, r.Called}] = r.Off
	}
	return off, err
}

// frames reads every stack, innermost first.
func (s session) frames(ctx context.Context) (map[int64][]flame.Frame, error) {
	var rows []struct {
		Stack int64  `json:"stack"`
		Func  string `json:"func"`
		File  string `json:"file"`
		Line  int    `json:"lineno"`
	}
	err := ask(ctx, s, `SELECT stack, func, coalesce(file, '') AS file, coalesce(lineno, 0) AS lineno
 FROM native.stacks ORDER BY stack, depth`, &rows)
	list := map[int64][]flame.Frame{0: {{Name: "(smaller stacks)"}}}
	for _, r := range rows {
		list[r.Stack] = append(list[r.Stack], flame.Frame{File: r.File, Line: r.Line, Name: r.Func})
	}
	return list, err
}
