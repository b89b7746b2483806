//go:build !race && !invariants

package workload

const checked = false
