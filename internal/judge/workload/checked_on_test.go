//go:build race || invariants

package workload

// checked says that package alloc checks its whole state after each operation: a thousandth of the speed.
const checked = true
