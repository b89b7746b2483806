// Package attach owns the way into a CPython process that already runs: it finds out what a process is (Inspect), says
// what stands in the way and what can be done about it, and runs Python source in it (Inject). What that source does is
// other packages' business. It guarantees that the target survives our death at any instant, that the thread which it
// borrows gets back every register, its signal mask and its system call, and that nothing stays mapped in the target
// once the source has run. How, step by step: docs/attach.md. It knows nothing of agents and sessions, writes no file
// into the target's installation and needs no debugger.
package attach
