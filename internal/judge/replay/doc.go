// Package replay replays the history of a program's allocations against allocators with other settings, on a device
// that has no memory, and returns what each would have reserved. It also tries settings and ranks them. It knows
// nothing of commands: its input is a snapshot.Trace, its output are numbers and curves.
package replay
