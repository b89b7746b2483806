package detect

import "math"

// Doubt that a growth will end by itself, though nothing says so. Of what fills by design half is full after MinSteps,
// and what is not yet fills in as many steps again with the same odds, whatever its size (a prior without scale): after
// T steps a share of MinSteps/(MinSteps+T) is still filling. The odds, before any step was seen, that growth which
// passes for a leak is such filling depend on what is known of its holder.
const (
	oddsFree    = 0.1 // the program's lines add to it whatever its length
	oddsNamed   = 0.5 // a census names it
	oddsUnnamed = 1.0 // censuses found nothing that explains it
	oddsUnseen  = 1.2 // no census was taken
	oddsGuarded = 3.0 // the program's lines test a length before they add to it
	// firstCensus comes within so many seconds of steps, and says more than any odds.
	firstCensus = 2
	// Growth in few stairs is one of stages that somebody planned, more often than one that comes a little each step.
	inStages = 2
	// A process that has loaded PyTorch and made no step yet may read its data: that is likelier than training by hand,
	// and takes longer than buffers do, half of the time a minute.
	readsData    = 3
	readsSeconds = 60
	// doubted is the doubt above which a growth is not called a leak yet. While the run goes on to wait costs little,
	// and more steps or a census decide; of a run that is over nothing more will come, and the likelier of the two is
	// told.
	doubted     = 0.25
	doubtedOver = 0.5
)

// odds that the growth is filling, before any step of it was seen.
func (f Finding) odds(looked bool, accounts []account) float64 {
	for _, a := range accounts {
		switch {
		case f.Holder == "" || a.holder != f.Holder:
		case a.free:
			return oddsFree
		case a.guarded:
			return oddsGuarded
		}
	}
	switch {
	case f.Holder != "" || f.Site != "" || f.Memory == Shared: // little is shared by design that fills slowly
		return oddsNamed
	case looked:
		return oddsUnnamed
	}
	return oddsUnseen
}

// after is the doubt that is left of the odds after some steps (seconds, without steps) of growth.
func (p Process) after(odds, age float64) float64 {
	ripe := p.ripe()
	if p.Prepares {
		odds, ripe = odds*readsData, readsSeconds
	}
	odds *= ripe / (ripe + age)
	return odds / (1 + odds)
}

// mayFill leaves a growth undecided that is too young to be told from what fills by design, and says when it will be
// old enough.
func (p Process) mayFill(f *Finding, accounts []account, over bool) {
	if f.Verdict != Leak {
		return
	}
	odds, age, least := f.odds(p.looked(), accounts), f.End-f.Start, doubted
	if f.Stairs && f.Why == Steady {
		odds *= inStages
	}
	if over {
		least = doubtedOver
	}
	more := 1.0
	if soon := firstCensus - age*p.Pace; soon > 0 && p.Pace > 0 && !p.looked() && !over {
		more = soon / p.Pace
	} else if f.Doubt = p.after(odds, age); f.Doubt <= least {
		return
	}
	for p.after(odds, age+more) > least {
		more *= 1.1
	}
	f.Needs = math.Ceil(more)
	if f.because(MayFill); p.Prepares {
		f.because(NoStepYet)
	}
}
