// Package replay runs the history of a program's allocations against allocators with other settings, on a device that
// has no memory, and tells what each would have reserved. It also tries settings and ranks them. It knows nothing of
// commands; what it is given is a snapshot.Trace, what it gives are numbers and curves.
package replay
