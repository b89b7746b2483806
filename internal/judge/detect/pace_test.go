package detect

import (
	"encoding/csv"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// recorded reads columns of a file of testdata, the first of which is the step.
func recorded(t *testing.T, name string) (columns []Series) {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	columns = make([]Series, len(rows[0])-1)
	for _, row := range rows[1:] {
		step, _ := strconv.ParseFloat(row[0], 64)
		for i := range columns {
			if v, err := strconv.ParseFloat(row[i+1], 64); err == nil {
				columns[i].Steps, columns[i].Bytes = append(columns[i].Steps, step), append(columns[i].Bytes, v)
			}
		}
	}
	return columns
}

// inHoles is a training that keeps 49 KiB a step and whose private memory goes another way, judged as of a step.
func inHoles(anon, heap Series, until float64) (Finding, float64) {
	p := Process{PID: 7, Rank: -1, Pace: 0.1, Last: until, Anon: anon.until(until), Heap: heap.until(until)}
	used := p.Anon.Bytes[len(p.Anon.Bytes)-1]
	r := Run(Input{Steps: until, Processes: []Process{p}, Over: true,
		Host: Limit{Name: "host 24 GiB", Bytes: 24 << 30, Used: used}})
	return r.Findings[0], until + (24<<30-used)/(49<<10)
}

// TestLimitGoesByTheProcess: memory is full when the process fills it, however much more that is than what it keeps;
// where holes have stopped growing, or grow ever more slowly, by what they still grow.
func TestLimitGoesByTheProcess(t *testing.T) {
	const mib, kept = 1 << 20, 49 << 10
	for name, c := range map[string]struct {
		holes     func(r *rand.Rand, step float64) float64
		near, far float64 // that the step told may be: of the truth
		full      func(used, until float64) float64
	}{
		"no holes": {func(*rand.Rand, float64) float64 { return 0 }, 0.9, 1.1, nil},
		"in a line": {func(_ *rand.Rand, x float64) float64 { return 2 * mib * x }, 0.9, 1.1,
			func(used, until float64) float64 { return until + (24<<30-used)/(2*mib+kept) }},
		"in pieces": {func(r *rand.Rand, x float64) float64 { return 2*mib*x + 200*mib*r.Float64() }, 0.75, 1.35,
			func(used, until float64) float64 { return until + (24<<30-used)/(2*mib+kept) }},
		"filling": {func(_ *rand.Rand, x float64) float64 { return 2048 * mib * (1 - math.Exp(-x/300)) }, 0.5, 1.1,
			nil},
		"filled": {func(_ *rand.Rand, x float64) float64 { return mib * min(4*x, 2000) }, 0.5, 1.1, nil},
	} {
		for _, until := range []float64{1500, 2600} {
			r := rand.New(rand.NewPCG(uint64(until), 11))
			heap, anon := growing(2600, kept), growing(2600, kept)
			for i, x := range anon.Steps {
				anon.Bytes[i] += c.holes(r, x)
			}
			f, truth := inHoles(anon, heap, until)
			if c.full != nil {
				truth = c.full(anon.Bytes[int(until)-2], until)
			}
			if f.Verdict != Leak || f.AtStep < c.near*truth || f.AtStep > c.far*truth {
				t.Errorf("%s at %.0f: %s, full at step %.0f, and %.0f is right: %q", name, until, f.Verdict, f.AtStep,
					truth, f.Evidence)
			}
			if f.SecondsLow > f.Seconds || f.SecondsHigh < f.Seconds {
				t.Errorf("%s at %.0f: %.0f s is not in %.0f to %.0f", name, until, f.Seconds, f.SecondsLow,
					f.SecondsHigh)
			}
		}
	}
}

// TestLimitOfARecordedRun: nanoGPT that kept each step's loss with its graph. The process grew by 2 MiB a step, rested
// from step 700 to 1,900, and grew again. While it grows, its own pace is told; while it rests, no near end; and what
// it grew by before is within the interval.
func TestLimitOfARecordedRun(t *testing.T) {
	run := recorded(t, "graphs-in-holes.csv")
	for until, want := range map[float64]struct{ from, to, soonest float64 }{
		650:  {5_000, 40_000, 12_000},
		1600: {30_000, 200_000, 60_000},
		1950: {30_000, 200_000, 60_000},
		2300: {8_000, 25_000, 15_000},
		2600: {8_000, 16_000, 12_000},
	} {
		f, _ := inHoles(run[0], run[1], until)
		soonest := until + f.SecondsLow/0.1
		if f.Verdict != Leak || f.AtStep < want.from || f.AtStep > want.to || soonest > want.soonest {
			t.Errorf("at %.0f: %s, full at step %.0f, %.0f at the soonest: %q", until, f.Verdict, f.AtStep, soonest,
				f.Evidence)
		}
	}
}
