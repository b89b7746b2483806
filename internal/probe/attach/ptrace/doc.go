// Package ptrace owns the moments in which a thread of another process is stopped: it stops the thread, reads its
// state, lays out work for it, and releases it. The work is a chain of signal frames. One system call starts the chain,
// and the thread runs through it by itself. So our death leaves the thread either untouched or with all it needs. A
// thread in a state that the package does not understand is released untouched. The package knows nothing of Python.
package ptrace
