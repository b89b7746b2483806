package model

// TensorGroup is a row of python.tensors: live tensors of one process that are alike and hang at the same place.
type TensorGroup struct {
	Time       int64 // µs since the epoch
	PID, Rank  int32 // rank -1 unknown
	Census     int64 // number of the census in its process, from 1
	Step       int64 // the last that had ended; Null before the first
	Shape      string
	Dtype      string
	Device     string // as torch writes it: cpu, cuda:0, meta …
	Role       string // tensor, parameter, buffer, optimizer
	Count      int64
	Bytes      int64  // of their storages, each counted once in a census
	Fresh      int64  // of them were not there at the census before; Null where there was none
	OldestStep int64  // the last step at the census that saw the first of them; Null if that was this one
	Site       string // file:line that makes or keeps them, "" unknown
	Holder     string // path from a root, such as __main__.all_losses[*]; "" unknown
	Estimated  bool   // counted in a sample of a large container and scaled up
}

// ObjectGroup is a row of python.objects: one piece of evidence about what holds memory in Python.
type ObjectGroup struct {
	Time      int64 // µs since the epoch
	PID, Rank int32 // rank -1 unknown
	Census    int64
	Step      int64  // the last that had ended; Null before the first
	Evidence  string // type, container, graph, cycle, traceback, hooks, extension, native, count (docs/census.md)
	Type      string // module.Class
	Count     int64
	Delta     int64 // length, or where there is none count, less that of the census before; Null where there was none
	Length    int64 // items, nodes, frames; Null where it has no meaning
	Bytes     int64 // that it keeps alive, as far as known; Null if not
	Holder    string
	Site      string
	Detail    string
	Estimated bool
}
