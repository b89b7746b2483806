package lake

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/memgauge/memgauge/internal/fleet/frame"
)

// rowsKey is the member of a Parquet file's footer with the ledger of its rows.
const rowsKey = "memgauge.rows"

// rowsOf reads the ledger of a flushed file from its footer. Whatever the file holds, the error is errBad where it is
// the file's own. It is read from this machine: of S3, nobody could tell such errors from the network's.
func rowsOf(name string, f *os.File) (ledger, error) {
	l, err := rowsIn(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", name, errBad, err)
	}
	return l, nil
}

// rowsIn takes the ledger out of a footer and steps over the rest: a library would make columns and row groups of it,
// of each byte a hundred, and of a length that is no more than claimed as much as it says.
func rowsIn(f *os.File) (l ledger, err error) {
	text, err := footer(f)
	if err != nil {
		return nil, err
	}
	value, err := valueIn(text, rowsKey)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(value), &l); err != nil {
		return nil, err
	}
	return l, l.check()
}

const (
	parquetMagic = "PAR1"
	// maxFooter bounds a footer, in bytes: that of a thousand nodes' rows takes some 3 MB, most of it the ledger.
	maxFooter = maxMarker
)

// footer reads a Parquet file's footer, in Thrift's compact form; its length and the magic stand behind it.
func footer(f *os.File) ([]byte, error) {
	i, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var tail [8]byte
	end := i.Size() - int64(len(tail))
	if end < int64(len(parquetMagic)) {
		return nil, errors.New("it is too short for Parquet")
	}
	if _, err := f.ReadAt(tail[:], end); err != nil {
		return nil, err
	}
	length := int64(binary.LittleEndian.Uint32(tail[:]))
	if string(tail[4:]) != parquetMagic || length > end-int64(len(parquetMagic)) || length > maxFooter {
		return nil, fmt.Errorf("it does not end as Parquet: %x", tail)
	}
	text := make([]byte, length)
	_, err = f.ReadAt(text, end-length)
	return text, err
}

// Fields of Parquet's FileMetaData and KeyValue (parquet.thrift).
const (
	keyValues = 5 // list of KeyValue
	keyField  = 1
	textField = 2
)

// valueIn finds the value of a key in a footer.
func valueIn(footer []byte, key string) (value string, err error) {
	conf := &thrift.TConfiguration{MaxMessageSize: int32(len(footer))} // no list has more members than bytes
	in := thrift.NewTCompactProtocolConf(&thrift.TMemoryBuffer{Buffer: bytes.NewBuffer(footer)}, conf)
	err = fields(in, func(id int16, kind thrift.TType) (bool, error) {
		if id != keyValues || kind != thrift.LIST {
			return false, nil
		}
		of, n, err := in.ReadListBegin(context.Background())
		if err == nil && of != thrift.STRUCT {
			err = fmt.Errorf("its keys are a list of %s", of)
		}
		for ; err == nil && n > 0; n-- {
			var pair [textField + 1]string
			err = fields(in, func(id int16, kind thrift.TType) (bool, error) {
				if kind != thrift.STRING || id != keyField && id != textField {
					return false, nil
				}
				pair[id], err = in.ReadString(context.Background())
				return true, err
			})
			if pair[keyField] == key {
				value = pair[textField]
			}
		}
		return true, err
	})
	if err == nil && value == "" {
		err = errors.New("it does not say which rows it holds")
	}
	return value, err
}

// fields reads a struct; take reads a field or leaves it to be stepped over.
func fields(in thrift.TProtocol, take func(id int16, kind thrift.TType) (bool, error)) error {
	ctx := context.Background()
	_, err := in.ReadStructBegin(ctx)
	for err == nil {
		_, kind, id, e := in.ReadFieldBegin(ctx)
		if e != nil || kind == thrift.STOP {
			return errors.Join(e, in.ReadStructEnd(ctx))
		}
		taken, e := take(id, kind)
		if e == nil && !taken {
			e = in.Skip(ctx, kind)
		}
		err = e
	}
	return err
}

// check refuses a ledger that no writer makes: its spans are bounded, ascend, and have room for what comes.
func (l ledger) check() error {
	for stream, list := range l {
		if !streamForm(stream) {
			return fmt.Errorf("rows of %.100q", stream)
		}
		last := uint64(0)
		for _, s := range list {
			if s[0] <= last || s[0] > s[1] || s[1] > 1<<63 {
				return fmt.Errorf("rows %v of %.100q", s, stream)
			}
			last = s[1]
		}
	}
	for node, n := range spansOf(l) {
		if n > 2*maxSpans { // a file's may fill the gaps between a partition's
			return fmt.Errorf("%d stretches of rows of %.100q, at most %d", n, node, 2*maxSpans)
		}
	}
	return nil
}

// streamForm: the names of a stream stand in SQL.
func streamForm(stream string) bool {
	node, session, ok := strings.Cut(stream, "/")
	return ok && frame.CheckName("node", node) == nil && frame.CheckName("session", session) == nil
}
