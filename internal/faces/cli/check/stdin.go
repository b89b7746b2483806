package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/judge/check"
)

// stdin is the PATH that means standard input.
const stdin = "-"

// maxStdin bounds what is read of standard input, in bytes, like a notebook.
const maxStdin = 64 << 20

// checkStdin checks what an editor sends: a file's text before it is saved. With --fix the mended text is the answer,
// and findings go to the error output.
func (a *commands) checkStdin(ctx context.Context, o options) error {
	in := a.OpenStdin(ctx)
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, maxStdin+1))
	if err == nil && len(data) > maxStdin {
		err = errors.New("the text is too large")
	}
	if err != nil {
		return fmt.Errorf("check: read standard input: %w", err)
	}
	name := o.stdinName
	if name == "" {
		name = "stdin.py"
	}
	config, err := check.ReadConfig(filepath.Dir(name))
	if err != nil {
		return app.Usage(fmt.Errorf("check: %w", err))
	}
	config.ForceExclude = config.ForceExclude || o.forceExclude
	r := &result{files: 1, version: app.Version}
	after := data
	if !config.ForceExclude || !config.Excludes(name) {
		found, rest, mended, err := o.one(name, data, o.rulesFor(config, name))
		if err != nil {
			return fmt.Errorf("check: %s: %w", name, err)
		}
		after, r.mended = rest, mended
		for _, f := range found {
			r.findings = append(r.findings, measured{Finding: f})
		}
	}
	return a.answerStdin(o, r, name, data, after)
}

// one checks a text, and mends it if that was asked for.
func (o options) one(name string, data []byte, rules check.Selection) (left []check.Finding, after []byte, n int,
	err error) {
	if o.fix || o.diff {
		after, left, n, err = check.Mend(name, data, rules)
		return left, after, n, err
	}
	left, err = check.File(name, data, rules)
	return left, data, 0, err
}

func (a *commands) answerStdin(o options, r *result, name string, before, after []byte) error {
	if err := r.compare(o); err != nil {
		return err
	}
	var out, said bytes.Buffer
	switch {
	case o.diff:
		if r.mended > 0 {
			out.WriteString(check.Diff(name, before, after))
		}
	case o.fix:
		out.Write(after)
		if err := formats[o.format](&said, r); err != nil {
			return err
		}
	default:
		if err := formats[o.format](&out, r); err != nil {
			return err
		}
	}
	if _, err := a.Answer(o.fix || o.diff || o.format != "text" &&
		o.format != "github").Write(out.Bytes()); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if _, err := a.Stderr.Write(said.Bytes()); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if len(r.findings) > 0 {
		return app.Exit(app.ExitFindings, nil)
	}
	return nil
}
