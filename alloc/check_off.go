//go:build !race && !invariants

package alloc

const checking = false
