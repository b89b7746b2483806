//go:build !race && !invariants

package replay

const checked = false
