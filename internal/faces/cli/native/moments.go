package native

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/formats/flame"
)

// patience is how long a question to the session may take: the tables have some ten thousand rows.
const patience = 30 * time.Second

// session asks the tables of one session.
type session struct{ api.Session }

// connect finds the session and refuses one without samples.
func (a *commands) connect(ctx context.Context) (session, error) {
	s, err := a.Connect(ctx)
	if err != nil {
		return session{}, err
	}
	n, err := ask(ctx, s, questions.NativeReadings)
	if err == nil && (len(n) == 0 || n[0].N == nil || *n[0].N == 0) {
		err = remedy.Add(errors.New("this session has no samples of native memory"),
			"start the training with memgauge run --native -- …, or memgauge attach --native PID where it runs")
	}
	if err != nil {
		s.Close()
		return session{}, err
	}
	return session{s}, nil
}

// ask reads the rows of a question.
func ask[Row any](ctx context.Context, s api.Session, q questions.Of[Row]) (rows []Row, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return api.Ask(ctx, s, q)
}

// moment is each process's reading at a moment: peak, now, start, settled, or a time after the first reading.
func moment(name string) (questions.NativeMoment, error) {
	switch name {
	case "now":
		return questions.NativeNow, nil
	case "start":
		return questions.NativeStart, nil
	case "peak":
		return questions.NativePeak, nil
	case "settled":
		return questions.NativeSettled, nil
	}
	d, err := units.ParseDuration(name)
	if err != nil || d < 0 {
		return "", fmt.Errorf("%q is not a moment: peak, now, start, settled, or a time after the start such as 90s",
			name)
	}
	return questions.NativeAfter(time.Duration(d).Microseconds()), nil
}

type held = questions.NativeHeld

// at lists what was held at a moment, by stack.
func (s session) at(ctx context.Context, name string) (list []held, err error) {
	when, err := moment(name)
	if err != nil {
		return nil, err
	}
	return ask(ctx, s, questions.NativeAt(when))
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
	rows, err := ask(ctx, s, questions.NativeOff(first, last))
	off := map[line]float64{}
	for _, r := range rows {
		off[line{r.Site, r.Called}] = r.Off
	}
	return off, err
}

// frames reads every stack, innermost first.
func (s session) frames(ctx context.Context) (map[int64][]flame.Frame, error) {
	rows, err := ask(ctx, s, questions.NativeFrames)
	list := map[int64][]flame.Frame{0: {{Name: "(smaller stacks)"}}}
	for _, r := range rows {
		list[r.Stack] = append(list[r.Stack], flame.Frame{File: r.File, Line: r.Line, Name: r.Func})
	}
	return list, err
}
