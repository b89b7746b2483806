// Package attach owns the way into a running CPython process. It finds out what a process is (Inspect), explains
// obstacles and what can be done about them, and runs Python source in the process (Inject). It does not care what that
// source does. It guarantees three things: the target survives our death at any instant; the borrowed thread gets back
// every register, its signal mask and its system call; and nothing stays mapped in the target once the source has run.
// docs/attach.md describes how, step by step. The package knows nothing of agents and sessions, writes no file into the
// target's installation and needs no debugger.
package attach
