package detect

import (
	"fmt"
	"math"

	"github.com/memgauge/memgauge/internal/base/units"
)

// generations takes back what grows in a worker when workers before it grew as much and gave it back with their end:
// each epoch's are started anew. It must outlast the longest of them threefold, or grow to twice what any of them had
// gained.
func generations(judged []judgement) {
	longest, most, count := 0.0, 0.0, 0
	for _, j := range judged {
		if p := j.process; p.Worker && p.Ended {
			if s := p.Anon.clean(); len(s.Steps) > 1 {
				count++
				longest, most = math.Max(longest, s.width()), math.Max(most, s.total())
			}
		}
	}
	if count == 0 {
		return
	}
	for _, j := range judged {
		for i := range j.findings {
			f := &j.findings[i]
			if f.Memory != Worker || f.Verdict == Healthy || f.End-f.Since >= outlast*longest || f.Total > 2*most {
				continue
			}
			f.because(Generations, fmt.Sprintf("%d of them, up to %s each", count, units.Bytes(math.Round(most))))
			f.Class, f.Holder, f.Site, f.Held, f.Needs = "", "", "", "", 0
		}
	}
}
