package cli

import "path/filepath"

// answerStep is progressStep of answers, which are made at some ten MiB a second.
const answerStep = 1 << 20

// telling is a sink that tells how large an answer has grown, until it is shown or given up.
type telling struct {
	sink
	countedOut
}

func (a *app) tellGrowth(out sink, name string) sink {
	what := "the answer so far"
	if name != "" {
		what = "writing " + filepath.Base(name)
	}
	return &telling{out, countedOut{Writer: out, step: answerStep, line: newStatusLine(a.stderr), what: what}}
}

func (t *telling) Write(b []byte) (int, error) { return t.countedOut.Write(b) }

func (t *telling) commit() error {
	t.line.clear()
	return t.sink.commit()
}

func (t *telling) discard() {
	t.line.clear()
	t.sink.discard()
}
