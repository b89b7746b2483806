//go:build race || invariants

package replay

// checked says that package alloc looks at its whole state after each operation: a thousandth of the speed.
const checked = true
