// Package stats is statistics on plain numbers: order statistics, robust lines, and a test for a trend that holds both
// for noise that comes back to the line and for noise that wanders off. Pure functions; inputs are never changed, and
// an input that carries no answer gives NaN or a zero result, never a panic. It knows nothing of memory.
package stats
