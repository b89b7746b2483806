package web

import (
	"context"
	"errors"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/formats/flame"
)

// nativeHeld is what native code holds at the newest reading of each process: by line, and by stack as a flame graph.
type nativeHeld struct {
	Lines []questions.NativeLine `json:"lines"`
	Root  *burned                `json:"root"` // null where nothing was sampled
	// Unknown is what was allocated before samples began.
	Unknown []questions.NativeBefore `json:"unknown"`
}

func native(ctx context.Context, s api.Session, _ params) (any, error) {
	lines, err := api.Ask(ctx, s, questions.NativeLines)
	rows, stackErr := api.Ask(ctx, s, questions.NativeStacks)
	unknown, unknownErr := api.Ask(ctx, s, questions.NativeUnknown)
	held := nativeHeld{Lines: lines, Unknown: append([]questions.NativeBefore{}, unknown...)}
	if err := errors.Join(err, stackErr, unknownErr); err != nil || len(rows) == 0 {
		return held, err
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
	held.Root = burnedOf(g, mostServed)
	return held, nil
}
