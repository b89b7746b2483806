package web

import (
	"context"
	"errors"

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/flame"
)

// nativeHeld is what native code holds at the newest reading of each process: by line, and by stack as a flame graph.
type nativeHeld struct {
	Lines []nativeLine `json:"lines"`
	Root  *burned      `json:"root"` // null where nothing was sampled
}

type nativeLine struct {
	Site   string `json:"site"`
	Called string `json:"called"`
	Bytes  int64  `json:"bytes"`
	Half   int64  `json:"half"`  // of the 95 % interval
	Grown  int64  `json:"grown"` // since a process's first reading
}

// nativeNow is the newest reading of each process beside its first; a stack that is gone has no bytes now.
const nativeNow = `WITH span AS (SELECT pid, min(ts) AS first, max(ts) AS last FROM native.live GROUP BY pid),
 held AS (SELECT stack, site, called, bytes * (ts = last)::INT AS bytes, bytes * (ts = first)::INT AS was,
  (bytes_high - bytes_low) / 2.0 * (ts = last)::INT AS half
  FROM native.live JOIN span USING (pid) WHERE ts = last OR ts = first)
 `

const nativeLinesSQL = nativeNow + `SELECT coalesce(site, '') AS site, coalesce(called, '') AS called,
 sum(bytes)::BIGINT AS bytes, sqrt(sum(half ** 2))::BIGINT AS half, sum(bytes - was)::BIGINT AS grown
 FROM held WHERE stack != 0 GROUP BY ALL HAVING sum(bytes) > 0 ORDER BY bytes DESC, site LIMIT 100`

const nativeStacksSQL = nativeNow + `SELECT stack, bytes::BIGINT AS bytes, coalesce(func, '(smaller stacks)') AS func,
 coalesce(file, '') AS file, coalesce(lineno, 0) AS lineno
 FROM (SELECT stack, sum(bytes) AS bytes FROM held GROUP BY stack HAVING sum(bytes) > 0)
 LEFT JOIN native.stacks USING (stack) ORDER BY stack, depth`

func native(ctx context.Context, s api.Session, _ params) (any, error) {
	type row struct {
		Stack int64  `json:"stack"`
		Bytes int64  `json:"bytes"`
		Func  string `json:"func"`
		File  string `json:"file"`
		Line  int    `json:"lineno"`
	}
	lines, err := api.Rows[nativeLine](ctx, s, nativeLinesSQL)
	rows, stackErr := api.Rows[row](ctx, s, nativeStacksSQL)
	if err := errors.Join(err, stackErr); err != nil || len(rows) == 0 {
		return nativeHeld{Lines: lines}, err
	}
	g := flame.New("")
	for len(rows) > 0 {
		var stack []flame.Frame
		first := rows[0]
		for len(rows) > 0 && rows[0].Stack == first.Stack {
			stack = append(stack, flame.Frame{Name: rows[0].Func, File: rows[0].File, Line: rows[0].Line})
			rows = rows[1:]
		}
		g.Add(stack, first.Bytes, false)
	}
	return nativeHeld{lines, burnedOf(g, mostServed)}, nil
}
