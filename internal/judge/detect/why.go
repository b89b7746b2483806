package detect

import "fmt"

// Why is the reason of a verdict. Code compares these; people read their words, with the figures of the case.
type Why uint8

// The reasons. Each belongs to one verdict.
const (
	NoReason Why = iota
	// Of a leak.
	Steady
	Testified
	HeldDown
	// Of what is healthy.
	NoGrowth
	Stopped
	SingleJumps
	Flattened
	GivenBack
	WithProcess
	KeptFree
	NoWitness
	OldMaps
	Larger
	Generations
	TooSlow
	NotCounted
	WithLoad
	// Of what is undecided.
	Flattens
	Slower
	Young
	TooFewSteps
	TooFewReadings
	TooShort
	FillsUp
	Full
	FillsSlots
	Guarded
	Stages
	Copies
	Touches
	MayFill
	GrowingModel
	NoStepYet
	Fragments
	PeakCreeps
	OtherLoad
)

// whys are the verdict that each reason belongs to, and its words.
var whys = [...]struct {
	verdict Verdict
	text    string
}{
	Steady:         {Leak, "it grows steadily, to the end"},
	Testified:      {Leak, "%s gains as many items from census to census, to the end"},
	HeldDown:       {Leak, "the guard holds it down: %d of its actions gave memory back"},
	NoGrowth:       {Healthy, "no growth beyond chance"},
	Stopped:        {Healthy, "it has stopped growing"},
	SingleJumps:    {Healthy, "it was single jumps"},
	Flattened:      {Healthy, "it grows ever more slowly, and little is left to come"},
	GivenBack:      {Healthy, "as much was given back before"},
	WithProcess:    {Healthy, "it ended with its process"},
	KeptFree:       {Healthy, "malloc keeps what was freed; what it has handed out does not grow"},
	NoWitness:      {Healthy, "neither Python's blocks nor the address space grow with it"},
	OldMaps:        {Healthy, "pages of files that were only read: the kernel takes them back when it needs them"},
	Larger:         {Healthy, "steps got larger: what they keep is all new each time, and as many tensors"},
	Generations:    {Healthy, "workers before it gave back as much when they ended: %s"},
	TooSlow:        {Healthy, "it grows too slowly to matter: %s"},
	NotCounted:     {Healthy, "%s"},
	WithLoad:       {Healthy, "it follows the load: between moments of equal load it does not grow"},
	Flattens:       {Undecided, "it grows ever more slowly"},
	Slower:         {Undecided, "it grew faster before"},
	Young:          {Undecided, "it is young"},
	TooFewSteps:    {Undecided, "too few steps"},
	TooFewReadings: {Undecided, "too few readings"},
	TooShort:       {Undecided, "too short a time"},
	FillsUp:        {Undecided, "%s fills up: it had %s of %s items at most"},
	Full:           {Undecided, "%s was full at the last census, with %s items: what it grew by has ended"},
	FillsSlots:     {Undecided, "%s fills up: it has %s places, of which ever more are in use"},
	Guarded:        {Undecided, "%s may fill up: what adds to it tests its length first"},
	Stages:         {Undecided, "optimizer state of parameters that began to train (%s): it is bounded by their size"},
	Copies:         {Undecided, "it copies pages that it shared with its parent, and has all of them some day"},
	Touches:        {Undecided, "it writes to memory that was mapped before: that ends when all of it is in use"},
	MayFill:        {Undecided, "it grows steadily, as a buffer does that fills by design"},
	GrowingModel:   {Undecided, "the model itself grows by design: %s keeps the trees of every round"},
	NoStepYet:      {Undecided, "it grows, but has made no step yet"},
	Fragments:      {Undecided, "the allocator holds ever more, and has handed out no more: fragmentation"},
	PeakCreeps:     {Undecided, "the allocator keeps what steps take at most, and that creeps up"},
	OtherLoad:      {Undecided, "the load has changed, from %s to %s, and no two moments are equal enough to compare"},
}

// Verdict is the one that the reason belongs to.
func (w Why) Verdict() Verdict { return whys[w].verdict }

// because gives the verdict that a reason belongs to, with its words; args are the figures of the case.
func (g *Growth) because(w Why, args ...any) {
	g.Verdict, g.Why, g.Reason = w.Verdict(), w, whys[w].text
	if len(args) > 0 {
		g.Reason = fmt.Sprintf(whys[w].text, args...)
	}
}
