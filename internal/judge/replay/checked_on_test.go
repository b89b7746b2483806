//go:build race || invariants

package replay

// checked says that package alloc checks its whole state after each operation: a thousandth of the speed.
const checked = true
