// Command memgauge_alloc is libmemgauge_alloc.so, built with -buildmode=c-shared: package alloc for C, for Python by
// ctypes, and for PyTorch as its pluggable allocator. memgauge_alloc.h is its interface. The C side (shim.c) keeps Go
// from being entered in a forked child, where Go's threads don't exist.
package main

// #cgo CFLAGS: -O3 -fexceptions -Wall -Wextra
// #cgo LDFLAGS: -ldl -lpthread
import "C"

func main() {} // a shared library has none, but c-shared needs it
