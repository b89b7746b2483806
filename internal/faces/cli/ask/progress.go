package ask

import (
	"path/filepath"

	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/record/sink"
)

// answerStep is the number of bytes between two updates of the progress. An answer grows by some ten MiB a second.
const answerStep = 1 << 20

// telling is a sink that shows on a terminal how much of an answer is there, until the answer is printed or discarded.
type telling struct {
	sink.Sink
	term.CountedOut
}

func tellGrowth(a *app.App, out sink.Sink, name string) sink.Sink {
	what := "the answer so far"
	if name != "" {
		what = "writing " + filepath.Base(name)
	}
	return &telling{out, term.CountedOut{Writer: out, Step: answerStep, Line: term.NewStatusLine(a.Stderr), What: what}}
}

func (t *telling) Write(b []byte) (int, error) { return t.CountedOut.Write(b) }

func (t *telling) Commit() error {
	t.Line.Clear()
	return t.Sink.Commit()
}

func (t *telling) Discard() {
	t.Line.Clear()
	t.Sink.Discard()
}
