// Package ptrace owns the moments in which a thread of another process is held: stopping it, reading what it has,
// laying out work for it, letting it go. Work is a chain of signal frames that the thread runs through by itself once
// it has been entered with one system call, so our death leaves it either untouched or with all it needs. A thread
// whose state the package does not understand is let go untouched. It knows nothing of Python.
package ptrace
