// Package arch holds the house's own rules as tests: which package may import which, one doc for each package, sizes of
// functions and files, the list of embedded files. It has no code of its own.
package arch
