package advise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/faces/advise"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/judge/estimate"
	"github.com/memgauge/memgauge/internal/record/sink"
)

// ofScript are the flags that say how a script is run.
var ofScript = []string{"python", "conf", "steps", "shapes", "once", "batch", "precision", "timeout"}

// takenAnswer is what a session's training takes.
type takenAnswer struct {
	SchemaVersion int    `json:"schema_version"`
	Session       string `json:"session"`
	*advise.Taken
	Fits        *string `json:"fits"` // in place of Taken's
	DeviceName  *string `json:"device_name"`
	DeviceTotal *int64  `json:"device_bytes"`
}

// estimateSession answers from what a session has recorded; nothing is run.
func (a *commands) estimateSession(ctx context.Context, o estimateOptions, given []string) error {
	if len(given) > 0 {
		return app.Usage(remedy.Add(fmt.Errorf("estimate: --%s is about a SCRIPT that is run", given[0]),
			"of a session it is known what it took; leave the flag out, or name the script"))
	}
	var into estimate.Device
	var err error
	if o.device != "" {
		if into, err = estimate.ParseDevice(o.device); err != nil {
			return app.Usage(fmt.Errorf("estimate: %w", err))
		}
	}
	s, err := a.Connect(ctx)
	if err != nil {
		return fmt.Errorf("estimate: %w", err)
	}
	defer s.Close()
	about, err := s.About(ctx)
	if err != nil {
		return fmt.Errorf("estimate: %w", err)
	}
	t, err := advise.Take(ctx, s, into)
	if err != nil {
		return fmt.Errorf("estimate: %w", err)
	}
	r := takenAnswer{SchemaVersion: doc.JSONVersion, Session: about.Name, Taken: t, Fits: doc.Known(string(t.Fits))}
	if into.Total > 0 {
		r.DeviceName, r.DeviceTotal = &into.Name, &into.Total
	}
	return a.showTaken(&r, o.json)
}

func (a *commands) showTaken(r *takenAnswer, asJSON bool) error {
	out := &sink.Spool{To: a.Answer(asJSON)}
	defer out.Discard()
	var err error
	if asJSON {
		err = doc.WriteJSON(out, r)
	} else {
		err = r.writeText(out)
	}
	if err = errors.Join(err, out.Commit()); err != nil {
		return fmt.Errorf("estimate: %w", err)
	}
	if r.Taken.Fits == estimate.FitsNot {
		return app.Exit(app.ExitFindings, nil)
	}
	return nil
}

func (r *takenAnswer) writeText(w io.Writer) error {
	var b bytes.Buffer
	plain.Fprintf(&b, "session %s: %s on %s\n", r.Session, doc.Plural(int(r.Steps), "step"), r.On)
	if d := r.Taken.Device; d != nil {
		plain.Fprintf(&b, "takes %s of a GPU (%s to %s): PyTorch reserved %s, of which %s were in use at the peak\n",
			doc.Size(d.Bytes), doc.Size(d.Low), doc.Size(d.High), doc.Size(r.Allocator.High), doc.Size(r.Allocator.Low))
	} else {
		plain.Fprintf(&b, "takes at least %s of a GPU\n", doc.Size(r.Least))
	}
	if r.DeviceTotal != nil {
		b.WriteString(r.fit())
	}
	b.WriteString("\nWhat fills it:\n")
	for _, p := range r.Parts {
		plain.Fprintf(&b, "  %10s  %s\n", doc.Size(p.Bytes), p.What)
	}
	b.WriteString("Not known from a session:\n")
	for _, n := range r.Notes {
		plain.Fprintf(&b, "  %s\n", n)
	}
	plain.Fprintf(&b, "Not PyTorch's: CUDA's context and kernels, %s to %s; in the interval\n",
		units.Bytes(estimate.ContextLow), units.Bytes(estimate.ContextHigh))
	_, err := io.Copy(plain.NewWriter(w), &b)
	return err
}

// fit says whether it fits, and how much more would.
func (r *takenAnswer) fit() string {
	head := fmt.Sprintf("%s has %s: ", *r.DeviceName, units.Bytes(*r.DeviceTotal))
	switch r.Taken.Fits {
	case estimate.Fits:
		head += "it fits"
	case estimate.Perhaps:
		head += "perhaps it fits: what was in use does, what was reserved need not"
	case estimate.FitsNot:
		head += "it does not fit"
	default:
		return head + "whether it fits is not known; the parts below do\n"
	}
	if f := r.Factor; f != nil && *f > 0 {
		head += fmt.Sprintf("\na batch of up to %.2g times its size fits for certain, if what a step adds goes with it",
			*f)
	} else if f != nil {
		head += "\nno batch fits: what stays between steps is too large"
	}
	return head + "\n"
}
