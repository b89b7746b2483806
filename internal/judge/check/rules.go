package check

import (
	"embed"
	"fmt"
	"strings"
	"sync"

	"github.com/memgauge/memgauge/internal/base/pattern"
)

// Severity says how much a finding matters.
type Severity string

// The severities: an error grows until memory runs out, a warning holds or may hold much, a note costs some.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Rule is a pattern that leaks.
type Rule struct {
	ID       string
	Name     string
	Severity Severity
	find     func(f *file, r *reporter)
}

// NoReason is the finding about a suppression that gives no reason.
const NoReason = "MG100"

// Unused is the finding about a suppression that silences nothing.
const Unused = "MG001"

// Unreadable is the finding about a file that can't be read.
const Unreadable = "MG000"

// Rules are all there are, by id. Each has a page rules/ID.md with its reason, its source and its examples.
var Rules = sync.OnceValue(func() []Rule {
	return []Rule{
		{Unreadable, "unreadable-file", Error, nil},
		{Unused, "unused-suppression", Note, nil},
		{NoReason, "ignore-without-reason", Note, nil},
		// tensors and graphs that are kept
		{"MG101", "loss-summed-with-graph", Error, sums},
		{"MG102", "step-outputs-never-cleared", Error, stepOutputs},
		{"MG103", "graph-kept-in-container", Error, graphInContainer},
		{"MG104", "meter-keeps-graph", Warning, meters},
		{"MG105", "outputs-kept-by-object", Error, objectOutputs},
		{"MG106", "retain-graph-in-loop", Warning, retainGraph},
		{"MG107", "state-carried-with-graph", Error, carriedState},
		{"MG108", "create-graph-left-on", Error, createGraph},
		{"MG109", "exception-kept", Warning, exceptionKept},
		{"MG110", "retry-inside-except", Warning, retryInExcept},
		{"MG111", "cache-keyed-by-tensor", Warning, tensorCache},
		{"MG112", "context-keeps-output", Error, contextOutput},
		{"MG113", "view-keeps-storage", Note, viewKept},
		{"MG114", "model-copies-kept", Warning, modelCopies},
		{"MG115", "training-step-returns-graph", Warning, stepReturns},
		{"MG116", "hook-registered-each-step", Error, hooksEachStep},
		{"MG117", "eval-with-gradients", Warning, evalWithGradients},
		{"MG118", "epoch-end-without-cleanup", Note, epochEndCleanup},
		{"MG119", "big-result-kept-past-epoch", Note, resultPastEpoch},
		{"MG120", "activations-kept-each-forward", Warning, activationsKept},
		{"MG121", "only-the-end-is-read", Warning, onlyTheEnd},
		{"MG122", "kept-and-never-read", Warning, neverRead},
		{"MG123", "state-updated-with-graph", Warning, carriedAttribute},
		{"MG124", "graphs-never-cleared", Error, neverCleared},
		{"MG125", "batches-kept", Warning, batchesKept},
		{"MG126", "metric-never-reset", Warning, metricNotReset},
		{"MG127", "cached-method-keeps-objects", Warning, cachedMethods},
		// data
		{"MG201", "python-objects-in-dataset", Note, objectsInDataset},
		{"MG202", "dataset-state-grows", Warning, datasetGrows},
		{"MG203", "persistent-workers-keep-growth", Warning, persistentWorkers},
		{"MG204", "pinned-queue-large", Warning, pinnedQueue},
		{"MG205", "cycle-over-loader", Error, cycleLoader},
		{"MG206", "unbounded-replay-buffer", Warning, replayBuffer},
		{"MG207", "queue-never-read", Warning, queueNeverRead},
		{"MG208", "dataframe-grows-each-step", Warning, dataframeGrows},
		{"MG209", "queue-without-bound", Warning, queueUnbounded},
		// figures and loggers
		{"MG301", "figure-not-closed", Error, figureOpen},
		{"MG302", "plots-in-every-epoch", Note, plotsEveryEpoch},
		{"MG303", "profiler-without-schedule", Warning, profilerSchedule},
		// devices, ranks, allocator
		{"MG401", "process-group-each-step", Error, groupEachStep},
		{"MG402", "load-on-every-rank", Warning, loadOnRanks},
		{"MG403", "every-rank-on-first-gpu", Warning, firstGPU},
		{"MG404", "allocator-setting-too-late", Warning, settingTooLate},
		{"MG405", "empty-cache-each-step", Note, emptyCacheEachStep},
		{"MG406", "varying-shapes-fragment", Note, varyingShapes},
		{"MG407", "gc-switched-off", Warning, gcOff},
		{"MG408", "compile-in-loop", Warning, compileInLoop},
		{"MG409", "compile-with-varying-shapes", Note, compileVarying},
		{"MG410", "optimizer-made-in-loop", Warning, optimizerInLoop},
		{"MG411", "gradients-zeroed-not-freed", Note, zeroedNotFreed},
		{"MG412", "autocast-around-loop", Warning, autocastLoop},
		{"MG413", "cuda-graph-without-pool", Warning, graphPool},
	}
})

// Find is the rule with an id or a name.
func Find(name string) (Rule, bool) {
	for _, r := range Rules() {
		if strings.EqualFold(r.ID, name) || strings.EqualFold(r.Name, name) {
			return r, true
		}
	}
	return Rule{}, false
}

//go:embed rules/*.md
var pages embed.FS

// Page is what there is to say about the rule, as Markdown.
func (r Rule) Page() string {
	text, err := pages.ReadFile("rules/" + r.ID + ".md")
	if err != nil {
		panic(fmt.Sprintf("rule %s has no page: %v", r.ID, err)) // a test reads them all
	}
	return string(text)
}

var fenced = pattern.Of("(?ms)^## (Wrong|Right)\n.*?^```python\n(.*?)^```$")

// Examples are the page's wrong and right ones.
func (r Rule) Examples() (wrong, right []string) {
	for _, section := range strings.Split(r.Page(), "\n## ")[1:] {
		for _, m := range fenced().FindAllStringSubmatch("## "+section+"\n", -1) {
			if m[1] == "Wrong" {
				wrong = append(wrong, m[2])
			} else {
				right = append(right, m[2])
			}
		}
	}
	return wrong, right
}

// Finding is a place in the code that matches a rule.
type Finding struct {
	Rule      Rule
	Path      string
	Cell      int // of a notebook, from 1; 0: a plain file
	Line, Col int // from 1; of the cell in a notebook; Col counts characters
	EndLine   int
	EndCol    int
	Message   string
	Hint      string
	Source    string // the line of the text; "" where it is longer than a screen is wide many times over
	Fix       []Edit // nil: none
	Unsafe    bool   // the fix is a suggestion: results may change, or a type isn't known for sure
	Holder    string // the name of what keeps memory: "losses", "self.outputs"; "" unknown
	Lines     []int  // lines of the file that take part, in the file's own count: where it is made, kept, held
	at        int    // byte, for order
}

// Edit replaces bytes of the text that was checked.
type Edit struct {
	Start, End int
	New        string
}

// reporter collects the findings of one rule in one file.
type reporter struct {
	f    *file
	rule Rule
	list []Finding
	room int // how many findings there may be
	seen map[int]bool
}

// option adds to a finding.
type option func(*reporter, *Finding)

// held names what keeps the memory.
func held(name string) option { return func(_ *reporter, f *Finding) { f.Holder = name } }

// with adds places that take part.
func with(nodes ...node) option {
	return func(r *reporter, f *Finding) {
		r.f.spend(len(nodes))
		for _, n := range nodes[:min(len(nodes), maxLines)] {
			if n.ok() {
				f.Lines = append(f.Lines, r.f.src.line(n.start()))
			}
		}
	}
}

// fixed adds a fix that can't change results.
func fixed(edits ...Edit) option { return func(_ *reporter, f *Finding) { f.Fix = edits } }

// suggested adds a fix that somebody should look at.
func suggested(edits ...Edit) option {
	return func(_ *reporter, f *Finding) { f.Fix, f.Unsafe = edits, len(edits) > 0 }
}

// report adds a finding; one place counts once.
func (r *reporter) report(n node, message, hint string, more ...option) {
	if r.seen[n.start()] {
		return
	}
	if len(r.list) == r.room {
		panic(spent{})
	}
	r.seen[n.start()] = true
	f := Finding{Rule: r.rule, Path: r.f.src.path, Message: message, Hint: hint, at: n.start(),
		Lines: []int{r.f.src.line(n.start())}}
	f.Cell, f.Line, f.Col = r.f.src.position(n.start())
	_, f.EndLine, f.EndCol = r.f.src.position(n.end())
	r.f.spend(1 + f.Col/bytesAStep)
	if f.Source = r.f.src.lineText(n.start()); len(f.Source) > maxLine {
		f.Source = ""
	}
	for _, o := range more {
		o(r, &f)
	}
	r.list = append(r.list, f)
}
