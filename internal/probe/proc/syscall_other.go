//go:build !amd64

package proc

var older map[int]string
