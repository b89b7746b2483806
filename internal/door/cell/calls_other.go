//go:build !amd64

package cell

// oldCalls: there are none.
var oldCalls []uint32
