package outbox

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/formats/table"
)

const (
	// roundRows is how many rows are made frames of at a time, unless one transaction has more: they bound the file of
	// frames, about 1 MiB then, and what has to be sent again.
	roundRows = 32 << 10
	// lookAhead bounds how many (transaction, table) are looked at for a round: what 30 tables get in some minutes.
	lookAhead = 4096
	// frameRows and frameBytes end a frame: of the widest table 4096 rows take 2 MB as text, a tenth of it packed.
	frameRows  = 4096
	frameBytes = 4 << 20
)

// Gather makes frames of rows that were stored since the last ones; what waits is sent first. more says that it left
// some, for the next round.
func (b *Box) Gather(ctx context.Context, db api.Querier) (more bool, err error) {
	if b.made != nil {
		return true, nil
	}
	began := time.Now().UTC() // what is stored from now on may be missed
	r, more, err := b.look(ctx, db)
	if err != nil {
		return false, fmt.Errorf("gather rows: %w", err)
	}
	r.began = began
	if len(r.tables) == 0 {
		b.state.At = began // the disk need not know
		return false, nil
	}
	p := &pack{}
	err = b.dir.Replace(boxFile, func(f *os.File) error {
		p.out = bufio.NewWriterSize(f, 64<<10)
		return b.pack(ctx, db, r, p, more)
	})
	if err != nil {
		return false, fmt.Errorf("gather rows: %w", err)
	}
	b.made = &p.made
	return more, nil
}

// round is what the next frames are made of.
type round struct {
	began  time.Time // when it was looked for
	upTo   int64     // the newest transaction
	rows   int64
	tables []*table.Table // that have rows
}

// look finds the next transactions: whole ones, until there are enough rows.
func (b *Box) look(ctx context.Context, db api.Querier) (r round, more bool, err error) {
	var parts []string
	for _, t := range table.All {
		if t.Ships() && b.knows(t) {
			parts = append(parts, fmt.Sprintf("SELECT '%s' AS name, batch, count(*) AS n FROM store.%s "+
				"WHERE batch > %d GROUP BY batch", t.View, t.Store, b.after(t)))
		}
	}
	type line struct {
		Name  string `json:"name"`
		Batch int64  `json:"batch"`
		N     int64  `json:"n"`
	}
	list, err := api.Rows[line](ctx, db, fmt.Sprintf("SELECT * FROM (%s) ORDER BY batch LIMIT %d",
		strings.Join(parts, " UNION ALL "), lookAhead))
	if err != nil {
		return r, false, err
	}
	if n := len(list); n == lookAhead { // the last transaction may have more; 30 tables don't fill the list
		for n > 0 && list[n-1].Batch == list[len(list)-1].Batch {
			n--
		}
		list, more = list[:n], true
	}
	seen := map[string]bool{}
	for _, x := range list {
		if x.Batch != r.upTo && r.rows >= roundRows {
			return r, true, nil
		}
		r.upTo, r.rows = x.Batch, r.rows+x.N
		if !seen[x.Name] {
			seen[x.Name] = true
			r.tables = append(r.tables, table.Find(x.Name))
		}
	}
	return r, more, nil
}

// pack writes the frames of a round, and behind them the state that the outbox has when they were sent.
func (b *Box) pack(ctx context.Context, db api.Querier, r round, p *pack, more bool) error {
	after := b.State()
	for _, t := range r.tables {
		s, err := newSheet(t, frame.Header{Job: after.Job, Node: after.Node, Rank: -1, Session: b.session,
			Table: t.View, First: max(1, after.Next[t.View]), Schema: table.Latest()})
		if err != nil {
			return err
		}
		err = b.readTable(ctx, db, t, r.upTo, s, p)
		if err != nil {
			return fmt.Errorf("%s: %w", t.View, err)
		}
		after.Next[t.View] = s.head.First
		after.Rows += s.sent
		if s.large > 0 {
			b.lose(&after, "row too large", s.large)
		}
	}
	gone, err := b.givenUp(ctx, db, r.upTo)
	if err != nil {
		return err
	}
	if gone > 0 {
		b.lose(&after, "disk limit of the session", gone)
	}
	b.hold(&after, r.upTo)
	if !more {
		after.At = r.began
	}
	return p.finish(after)
}

// readTable makes frames of one table's rows.
func (b *Box) readTable(ctx context.Context, db api.Querier, t *table.Table, upTo int64, s *sheet, p *pack) error {
	err := eachLine(ctx, db, statement(t, b.after(t), upTo), func(fields []string) error {
		if err := s.row(fields); err != nil {
			return err
		}
		if s.rows >= frameRows || s.bytes >= frameBytes {
			return s.flush(p)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.flush(p)
}

// statement selects rows of a table as they travel: times as µs, texts behind '=', so that NULL is nothing.
func statement(t *table.Table, after, upTo int64) string {
	rank := "NULL"
	var columns []string
	for _, c := range t.Columns {
		expr := c.Name
		if c.As != "" {
			expr = c.As
		}
		switch {
		case c.Name == "":
			continue
		case c.Name == "rank":
			rank = expr
			continue
		case c.Type == "TIMESTAMP":
			expr = "epoch_us(" + expr + ")"
		case c.Type == "VARCHAR": // encoding/csv drops a CR before the end of a line
			expr = `'=' || replace(replace((` + expr + `)::VARCHAR, '\', '\\'), chr(13), '\r')`
		}
		columns = append(columns, expr)
	}
	return fmt.Sprintf("SELECT %s AS c0, %s FROM store.%s WHERE batch > %d AND batch <= %d", rank,
		strings.Join(columns, ", "), t.Store, after, upTo)
}

var unescape = strings.NewReplacer(`\\`, `\`, `\r`, "\r")

// eachLine calls take for each row of an answer; fields are valid until it returns.
func eachLine(ctx context.Context, db api.Querier, sql string, take func(fields []string) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, out := io.Pipe()
	asked := make(chan error, 1)
	go func() {
		err := db.Query(ctx, api.QueryRequest{SQL: sql, Format: "csv"}, out)
		out.CloseWithError(err) // nil is the end
		asked <- err
	}()
	err := readLines(in, take)
	if err != nil {
		cancel()
	}
	in.CloseWithError(err) // whoever still writes
	if asked := <-asked; asked != nil && (err == nil || errors.Is(err, asked)) {
		return asked
	}
	return err
}

func readLines(in io.Reader, take func(fields []string) error) error {
	lines := csv.NewReader(in)
	lines.ReuseRecord = true
	for first := true; ; first = false {
		fields, err := lines.Read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the session's answer: %w", err)
		case first: // names
			continue
		}
		if err := take(fields); err != nil {
			return err
		}
	}
}

// givenUp counts rows that the session gave up for want of disk while they waited here: retention writes down up to
// which time it went, and what is older than our last look had been sent. It is at most so many, since not all of what
// was given up was waiting.
func (b *Box) givenUp(ctx context.Context, db api.Querier, upTo int64) (n int64, err error) {
	type line struct {
		Records int64  `json:"records"`
		Detail  string `json:"detail"`
	}
	list, err := api.Rows[line](ctx, db, fmt.Sprintf("SELECT records, detail FROM store.drops WHERE batch > %d AND "+
		"batch <= %d AND reason IN ('thinned', 'merged', 'disk limit')", b.state.After, upTo))
	for _, x := range list {
		_, before, ok := strings.Cut(x.Detail, "before ")
		at, bad := time.Parse(time.RFC3339Nano, before)
		if !ok || bad != nil || at.After(b.state.At) {
			n += x.Records
		}
	}
	return n, err
}

// number reads a whole number.
func number(text string, bits int) (int64, error) {
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a number of %d bits", text, bits)
	}
	return n, nil
}
