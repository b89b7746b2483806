package env

import (
	"math"
	"os"
	"strconv"
	"testing"
)

// Lane is the variable that chooses the lane of tests. Empty or 0 is the short one, make test: what a newcomer and CI
// run. A number is the long one, make test-long, with every count of Times multiplied by it: 1 before an issue is
// closed, 10 over a night, 0.1 to see that the long tests still run.
const Lane = "MEMGAUGE_LONG"

// Long leaves a test to the long lane; why says what makes it long, or what a neighbour may disturb. Its place, the
// first lines of a test, is the only one that says which lane the test is in. A test without it is in both.
func Long(t testing.TB, why string) {
	t.Helper()
	if InLong() {
		return
	}
	t.Skipf("long lane: %s", why)
}

// InLong tells whether this is the long lane.
func InLong() bool { return scale() > 0 }

// Times is how often a test repeats what it does: few in the short lane, many times the scale in the long one, at least
// once.
func Times(few, many int) int {
	if !InLong() {
		return few
	}
	return max(1, int(math.Round(float64(many)*scale())))
}

// Ends are the first and the last of a list that is sorted by age, in the short lane; the long one has all.
func Ends[E any](all []E) []E {
	if InLong() || len(all) < 3 {
		return all
	}
	return []E{all[0], all[len(all)-1]}
}

func scale() float64 {
	text := os.Getenv(Lane)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 || n > 1000 {
		panic(Lane + " is the scale of the long lane's counts, a number up to 1000; it is " + strconv.Quote(text))
	}
	return n
}
