// Package anatomy owns what a memory history means: which bytes were live after each event, what made the peak, who
// allocated it and for what, what each training step left behind, what was free but could not be used. Its input are
// the columns of package snapshot; it reads no file and prints nothing.
package anatomy
