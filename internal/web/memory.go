package web

import (
	"context"
	"fmt"
	"time"

	"github.com/memgauge/memgauge/internal/api"
)

// counted are the censuses of a session and the groups of one, beside those of the one before.
type counted struct {
	Censuses []censusRow `json:"censuses"`
	Groups   []group     `json:"groups"`
	Objects  []object    `json:"objects"`
}

type censusRow struct {
	Micros int64  `json:"t"`
	PID    int    `json:"pid"`
	Rank   *int   `json:"rank"`
	ID     int64  `json:"census_id"`
	Step   *int64 `json:"step"`
	Bytes  int64  `json:"bytes"`
	Count  int64  `json:"count"`
}

// group is what a holder keeps of a kind. Before is what it kept at the census that is compared; nil where there was
// nothing.
type group struct {
	Holder *string `json:"holder"`
	Site   *string `json:"site"`
	Role   string  `json:"role"`
	Device string  `json:"device"`
	DType  string  `json:"dtype"`
	Shape  string  `json:"shape"`
	Count  int64   `json:"count"`
	Bytes  int64   `json:"bytes"`
	Oldest *int64  `json:"oldest_step"`
	Before *int64  `json:"before"`
}

type object struct {
	Evidence string  `json:"evidence"`
	Type     string  `json:"type"`
	Count    *int64  `json:"count"`
	Delta    *int64  `json:"delta"`
	Length   *int64  `json:"length"`
	Bytes    *int64  `json:"bytes"`
	Holder   *string `json:"holder"`
	Site     *string `json:"site"`
	Detail   *string `json:"detail"`
}

const (
	censusesSQL = `SELECT epoch_us(max(ts)) AS t, pid, any_value(rank) AS rank, census_id, max(step) AS step,
		coalesce(sum(bytes), 0)::BIGINT AS bytes, coalesce(sum("count"), 0)::BIGINT AS "count"
		FROM python.tensors GROUP BY pid, census_id ORDER BY t DESC LIMIT 200`
	groupsSQL = `WITH g AS (SELECT census_id, holder, site, role, device, dtype, shape, sum("count")::BIGINT AS n,
			coalesce(sum(bytes), 0)::BIGINT AS bytes, min(oldest_step) AS oldest FROM python.tensors
			WHERE pid = %[1]d AND census_id IN (%[2]d, %[3]d) GROUP BY ALL)
		SELECT coalesce(a.holder, b.holder) AS holder, coalesce(a.site, b.site) AS site,
			coalesce(a.role, b.role) AS role,
			coalesce(a.device, b.device) AS device, coalesce(a.dtype, b.dtype) AS dtype,
			coalesce(a.shape, b.shape) AS shape, coalesce(a.n, 0) AS "count", coalesce(a.bytes, 0) AS bytes,
			a.oldest AS oldest_step, b.bytes AS before
		FROM (SELECT * FROM g WHERE census_id = %[2]d) a FULL JOIN (SELECT * FROM g WHERE census_id = %[3]d) b
			ON a.holder IS NOT DISTINCT FROM b.holder AND a.site IS NOT DISTINCT FROM b.site AND a.role = b.role
			AND a.device = b.device AND a.dtype = b.dtype AND a.shape = b.shape
		ORDER BY greatest(coalesce(a.bytes, 0), coalesce(b.bytes, 0)) DESC LIMIT 500`
	objectsSQL = `SELECT evidence, type, "count", delta, length, bytes, holder, site, detail FROM python.objects
		WHERE pid = %d AND census_id = %d AND evidence <> 'count'
		ORDER BY delta DESC NULLS LAST, length DESC NULLS LAST LIMIT 100`
)

// tensors are the groups of one census, compared with an older one: by default the newest with the one before.
func tensors(ctx context.Context, s api.Session, q params) (any, error) {
	var c counted
	var err error
	if c.Censuses, err = api.Rows[censusRow](ctx, s, censusesSQL); err != nil || len(c.Censuses) == 0 {
		c.Groups, c.Objects = []group{}, []object{}
		return c, err
	}
	pid, id, before := q.number("pid"), q.number("census"), q.number("before")
	if pid == 0 {
		pid = int64(c.Censuses[0].PID)
	}
	for _, x := range c.Censuses {
		switch {
		case int64(x.PID) != pid:
		case id == 0:
			id = x.ID
		case before == 0 && x.ID < id:
			before = x.ID
		}
	}
	if c.Groups, err = api.Rows[group](ctx, s, fmt.Sprintf(groupsSQL, pid, id, before)); err != nil {
		return nil, err
	}
	c.Objects, err = api.Rows[object](ctx, s, fmt.Sprintf(objectsSQL, pid, id))
	return c, err
}

// censusPatience is how long a census may take before the page gives it up.
const censusPatience = time.Minute

// census has live processes look at what holds their memory.
func census(ctx context.Context, s api.Session, _ params) (any, error) {
	return s.Census(ctx, api.CensusRequest{Timeout: censusPatience})
}

// stacks are what every thread does.
func stacks(ctx context.Context, s api.Session, _ params) (any, error) {
	return s.Backtrace(ctx, api.BacktraceRequest{Choice: api.Choice{All: true}})
}
