package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/profiler"
	"github.com/chromedp/chromedp"
)

// wantProfile has the functions that took most of a part's time written to standard error.
var wantProfile bool

// profiled runs a part, and tells where the page's processor time went where that was asked for.
func profiled[T any](ctx context.Context, what string, part func() (T, error)) (T, error) {
	if !wantProfile {
		return part()
	}
	var none T
	if _, err := chromedp.Call(ctx, profiler.Enable, cdp.Empty{}); err != nil {
		return none, err
	}
	if _, err := chromedp.Call(ctx, profiler.Start, cdp.Empty{}); err != nil {
		return none, err
	}
	v, err := part()
	if err != nil {
		return v, err
	}
	taken, err := chromedp.Call(ctx, profiler.Stop, cdp.Empty{})
	if err != nil {
		return v, err
	}
	const shown = 16
	fmt.Fprintf(os.Stderr, "%s:\n", what)
	self := selfTimes(taken.Profile)
	names := slices.SortedFunc(maps.Keys(self), func(a, b string) int { return cmp.Compare(self[b], self[a]) })
	for _, name := range names[:min(shown, len(names))] {
		fmt.Fprintf(os.Stderr, "%8.1f ms  %s\n", self[name]/1000, name)
	}
	return v, nil
}

// selfTimes are µs by function, without what it called.
func selfTimes(p *profiler.Profile) map[string]float64 {
	names, self := map[int64]string{}, map[string]float64{}
	for _, n := range p.Nodes {
		f := n.CallFrame
		names[n.ID] = fmt.Sprintf("%s %d:%d", f.FunctionName, f.LineNumber, f.ColumnNumber)
	}
	for i, id := range p.Samples {
		if i < len(p.TimeDeltas) {
			self[names[id]] += float64(p.TimeDeltas[i])
		}
	}
	return self
}
