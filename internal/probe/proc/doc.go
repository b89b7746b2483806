// Package proc owns what is read of /proc and of file systems: which process is which, whether it still lives, its
// descendants, the memory that it holds, and whether a directory lies on a network. Everything under /proc is read
// below a root directory, so that a recording serves as well as the live machine. The package changes nothing and
// starts nothing. A process that vanishes between two reads is an answer, not an error.
package proc
