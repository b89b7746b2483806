package model

import "reflect"

// Batch goes into the database whole or not at all; Cursors is what makes a record count exactly once. Each list is the
// rows of one table (package table says which). Those that say `rows:"replaced"` take the place of rows with the same
// key, so they don't make a table grow.
type Batch struct {
	Names     []Name    `rows:"replaced"`
	Processes []Process `rows:"replaced"` // by (PID, StartTicks)
	Trace     []Trace
	Steps     []Step
	Devices   []StepDevice
	Events    []Event
	Overheads []Overhead
	Drops     []Drop
	Cursors   []Cursor `rows:"replaced"` // by RingID
	Tensors   []TensorGroup
	Objects   []ObjectGroup
	Findings  []Finding
	Samples   Samples

	NativeLive   []NativeLive
	NativeStacks []NativeFrame
}

// Samples are rows that the samplers take from outside of the trainer: /proc, cgroups, NVML, sysfs. Sizes are bytes,
// times µs since the epoch, and Null is what was not taken or can't be had.
type Samples struct {
	Memory      []ProcessMemory
	Utilization []Utilization
	Tree        []TreeProcess `rows:"replaced"` // by (PID, StartTicks)
	Envs        []Env
	Cgroups     []CgroupMemory
	Hosts       []HostMemory
	Devices     []GPUDevice `rows:"replaced"` // by UUID
	GPUs        []GPUUtilization
	GPUProcs    []GPUProcess
	GPUEvents   []GPUEvent
	Window      []WindowSample
	Classes     []ProcessClasses
}

// Rows is the number of rows for tables that grow.
func (b *Batch) Rows() int { return count(reflect.ValueOf(b).Elem(), true) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { reset(reflect.ValueOf(b).Elem()) }

// Rows is the number of rows for tables that grow.
func (s *Samples) Rows() int { return count(reflect.ValueOf(s).Elem(), true) }

// Empty is true when there is nothing to store.
func (s *Samples) Empty() bool { return count(reflect.ValueOf(s).Elem(), false) == 0 }

// Reset empties and keeps the memory.
func (s *Samples) Reset() { reset(reflect.ValueOf(s).Elem()) }

// Add puts other's rows behind those that are there.
func (s *Samples) Add(other *Samples) {
	to, from := reflect.ValueOf(s).Elem(), reflect.ValueOf(other).Elem()
	for i := range to.NumField() {
		to.Field(i).Set(reflect.AppendSlice(to.Field(i), from.Field(i)))
	}
}

// count is the number of rows in the lists; growing leaves those out that replace others.
func count(lists reflect.Value, growing bool) (n int) {
	for i := range lists.NumField() {
		list := lists.Field(i)
		if list.Kind() == reflect.Struct {
			n += count(list, growing)
		} else if !growing || lists.Type().Field(i).Tag.Get("rows") == "" {
			n += list.Len()
		}
	}
	return n
}

func reset(lists reflect.Value) {
	for i := range lists.NumField() {
		if list := lists.Field(i); list.Kind() == reflect.Struct {
			reset(list)
		} else {
			list.SetLen(0)
		}
	}
}
