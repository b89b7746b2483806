package detect

import (
	"fmt"
	"strconv"

	"github.com/memgauge/memgauge/internal/base/pattern"
)

// among is how a census tells that several lines may add to a holder, and that nothing says which of them does.
var among = pattern.Of(`one of (\d+) lines: ([^;]*)`)

// choice says of a finding's line that it is one of several, by the last census that saw its holder.
func (p Process) choice(f *Finding) {
	last, lines := int64(0), ""
	for _, o := range p.Objects {
		if o.Site != f.Site || f.Site == "" || o.Census < last || !below(HolderOf(o.Holder), f.Holder) {
			continue
		}
		if last, f.Lines = o.Census, 0; o.Detail != "" {
			if m := among().FindStringSubmatch(o.Detail); m != nil {
				f.Lines, _ = strconv.Atoi(m[1])
				lines = m[2]
			}
		}
	}
	if f.Lines > 0 {
		f.Evidence = append(f.Evidence, fmt.Sprintf("%d lines may add to it, and which does is not known: %s", f.Lines,
			lines))
	}
}

// Created is the line that makes what is held, and among how many it was chosen.
func (f Finding) Created() string {
	if f.Lines > 1 {
		return fmt.Sprintf("%s (one of %d lines)", f.Site, f.Lines)
	}
	return f.Site
}
