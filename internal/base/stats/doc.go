// Package stats is statistics on plain numbers: order statistics, robust lines, and a test for a trend that is valid
// for noise that returns to the line and for noise that wanders off. It has pure functions. Inputs are never changed.
// An input without an answer gives NaN or a zero result, never a panic. It knows nothing of memory.
package stats
