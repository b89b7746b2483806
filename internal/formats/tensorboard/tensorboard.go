// Package tensorboard writes TensorBoard's event files: scalars and texts by step, one record after the other. A file
// has its name from TensorBoard's own convention, so that `tensorboard --logdir` finds it.
//
// Record: https://github.com/tensorflow/tensorboard/blob/master/tensorboard/summary/writer/record_writer.py;
// messages: tensorboard/compat/proto/event.proto, summary.proto, tensor.proto.
package tensorboard

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"time"
)

// FileName is the name of a file that begins at a time.
func FileName(began time.Time, host string) string {
	return fmt.Sprintf("events.out.tfevents.%010d.%s.memgauge", began.Unix(), host)
}

// Writer writes one file. It keeps the first error.
type Writer struct {
	w   *bufio.Writer
	err error
}

// New begins a file.
func New(w io.Writer, began time.Time) *Writer {
	t := &Writer{w: bufio.NewWriterSize(w, 1<<16)}
	e := event(began, 0)
	e.text(3, "brain.Event:2") // Event.file_version
	t.record(e)
	return t
}

// Scalar is a value of one tag.
type Scalar struct {
	Tag   string
	Value float64 // float32 in the file: seven figures
}

// Scalars writes the values of a step.
func (t *Writer) Scalars(at time.Time, step int64, values []Scalar) {
	var summary message
	for _, v := range values {
		var value message
		value.text(1, v.Tag)                                 // Summary.Value.tag
		value.fixed32(2, math.Float32bits(float32(v.Value))) // simple_value
		summary.bytes(1, value)
	}
	e := event(at, step)
	e.bytes(5, summary)
	t.record(e)
}

// Text writes a text (Markdown) for TensorBoard's page of texts.
func (t *Writer) Text(at time.Time, step int64, tag, text string) {
	var plugin, metadata, tensor, value, summary message
	plugin.text(1, "text")    // PluginData.plugin_name
	metadata.bytes(1, plugin) // SummaryMetadata.plugin_data
	tensor.number(1, 7)       // TensorProto.dtype: DT_STRING
	tensor.bytes(2, nil)      // tensor_shape: a single one
	tensor.text(8, text)      // string_val
	value.text(1, tag)
	value.bytes(8, tensor)
	value.bytes(9, metadata)
	summary.bytes(1, value)
	e := event(at, step)
	e.bytes(5, summary)
	t.record(e)
}

// Err is why nothing is written any more.
func (t *Writer) Err() error { return t.err }

// Close writes what is left.
func (t *Writer) Close() error {
	if t.err == nil {
		t.err = t.w.Flush()
	}
	if t.err != nil {
		return fmt.Errorf("write events: %w", t.err)
	}
	return nil
}

func event(at time.Time, step int64) message {
	var e message
	e.fixed64(1, math.Float64bits(float64(at.UnixMicro())/1e6)) // Event.wall_time
	e.number(2, uint64(step))
	return e
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is the checksum as TFRecords have it: a checksum of data that holds checksums would be a poor one.
func masked(b []byte) uint32 {
	crc := crc32.Checksum(b, castagnoli)
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// record writes length, its checksum, the message, its checksum.
func (t *Writer) record(m message) {
	if t.err != nil {
		return
	}
	head := binary.LittleEndian.AppendUint64(nil, uint64(len(m)))
	head = binary.LittleEndian.AppendUint32(head, masked(head))
	_, _ = t.w.Write(head) // a bufio.Writer keeps its error
	_, _ = t.w.Write(m)
	_, t.err = t.w.Write(binary.LittleEndian.AppendUint32(nil, masked(m)))
}

// message is a protocol buffer that is being written.
type message []byte

func (m *message) tag(field, wire int) { *m = binary.AppendUvarint(*m, uint64(field)<<3|uint64(wire)) }

func (m *message) number(field int, v uint64) {
	m.tag(field, 0)
	*m = binary.AppendUvarint(*m, v)
}

func (m *message) fixed64(field int, v uint64) {
	m.tag(field, 1)
	*m = binary.LittleEndian.AppendUint64(*m, v)
}

func (m *message) fixed32(field int, v uint32) {
	m.tag(field, 5)
	*m = binary.LittleEndian.AppendUint32(*m, v)
}

func (m *message) bytes(field int, b []byte) {
	m.tag(field, 2)
	*m = append(binary.AppendUvarint(*m, uint64(len(b))), b...)
}

func (m *message) text(field int, s string) { m.bytes(field, []byte(s)) }
