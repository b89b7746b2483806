package skew

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/doc"
)

// shownFindings bounds the sentences: beyond them it is not a rank that is odd but the job.
const shownFindings = 5

// Text is the report as one paragraph.
func (r Report) Text() string {
	var b strings.Builder
	switch {
	case len(r.Findings) == 0 && len(r.Slopes) == 0 && len(r.Warnings) > 0:
		b.WriteString("Ranks were not compared: " + strings.Join(r.Warnings, "; ") + ".")
	case len(r.Findings) == 0:
		fmt.Fprintf(&b, "No rank is odd: %s on %s keep together at equal steps.", doc.Plural(r.Ranks, "rank"),
			doc.Plural(r.Nodes, "node"))
	default:
		r.sentences(&b)
	}
	return b.String()
}

func (r Report) sentences(b *strings.Builder) {
	for i, f := range r.Findings {
		if i == shownFindings {
			fmt.Fprintf(b, " And %d more (--json lists them).", len(r.Findings)-shownFindings)
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(f.Text())
	}
	if first := r.Findings[0]; len(r.Findings) > 1 {
		fmt.Fprintf(b, " It began on %s at step %d.", first.Node, first.Since)
	}
}

// Text is the finding as a sentence or two, with what to do.
func (f Finding) Text() string {
	z := fmt.Sprintf("z %.0f, %.0f to %.0f", f.Z, f.ZLow, f.ZHigh)
	who := fmt.Sprintf("Rank %d on %s", f.Rank, f.Node)
	if f.Memory != "" {
		who = fmt.Sprintf("The %s memory of rank %d on %s", f.Memory, f.Rank, f.Node)
	}
	ask := fmt.Sprintf("Ask it: memgauge hub rank=%d leak.", f.Rank)
	switch f.Kind {
	case Leak:
		return fmt.Sprintf("%s grows by %s a step (%s to %s) beyond its peers since step %d, %s by now (%s). %s", who,
			bytes(f.Pace), bytes(f.PaceLow), bytes(f.PaceHigh), f.Since, bytes(f.Excess), z, ask)
	case Step:
		return fmt.Sprintf("%s holds %s more than its peers since step %d (%s). %s", who, bytes(f.Excess), f.Since,
			z, ask)
	case PileUp:
		return fmt.Sprintf("%s holds %s more than its peers from the beginning (%s): look for what every rank puts "+
			"there (a checkpoint loaded without map_location, gathered metrics, contexts on device 0).", who,
			bytes(f.Excess), z)
	case HostLeak:
		return fmt.Sprintf("The host memory of %s grows by %s a step (%s to %s) beyond that of other nodes since "+
			"step %d, %s by now (%s). Ask it: memgauge hub node=%s where.", f.Node, bytes(f.Pace), bytes(f.PaceLow),
			bytes(f.PaceHigh), f.Since, bytes(f.Excess), z, f.Node)
	}
	if f.Excess == 0 {
		return fmt.Sprintf("%s made its last step, %d, while others are at %d (%s). "+
			"Ask it: memgauge hub rank=%d backtrace.", who, f.LastStep, f.PeerLastStep, z, f.Rank)
	}
	return fmt.Sprintf("%s falls behind since step %d: it ends its steps %s later than its peers (%s). "+
		"Ask it: memgauge hub rank=%d backtrace.", who, f.Since,
		units.Duration(time.Duration(f.Excess*float64(time.Second))), z, f.Rank)
}

func bytes(n float64) string {
	if n < 0 {
		return "-" + units.Bytes(math.Round(-n)).String()
	}
	return units.Bytes(math.Round(n)).String()
}
