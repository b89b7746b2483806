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
	m, err := metaOf(f)
	if err != nil {
		return nil, err
	}
	if m.ledger == "" {
		return nil, errors.New("it does not say which rows it holds")
	}
	if err := json.Unmarshal([]byte(m.ledger), &l); err != nil {
		return nil, err
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	if n := l.rows(); n != uint64(max(m.rows, 0)) {
		return nil, fmt.Errorf("it has %d rows, and says that it holds %d", m.rows, n)
	}
	return l, nil
}

// sound says what keeps others from reading a file: DuckDB's stack ends where columns are nested 30,000 deep, and of
// 300,000 columns it makes tables for minutes.
func sound(f *os.File) error {
	_, err := metaOf(f)
	return err
}

// meta is what we take of a footer.
type meta struct {
	ledger string // "" if it has none
	rows   int64
}

func metaOf(f *os.File) (meta, error) {
	text, err := footer(f)
	if err != nil {
		return meta{}, err
	}
	return metaIn(text)
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

// Fields of Parquet's FileMetaData, SchemaElement and KeyValue (parquet.thrift).
const (
	schemaField   = 2 // list of SchemaElement, a tree from its root
	rowsField     = 3
	childrenField = 5
	keyValues     = 5 // list of KeyValue
	keyField      = 1
	textField     = 2
)

// Our tables have less than a hundred columns, of which none has more than lists of numbers.
const (
	maxElements = 2000
	maxNesting  = 16
)

// metaIn reads a footer.
func metaIn(footer []byte) (m meta, err error) {
	conf := &thrift.TConfiguration{MaxMessageSize: int32(len(footer))} // no list has more members than bytes
	in := thrift.NewTCompactProtocolConf(&thrift.TMemoryBuffer{Buffer: bytes.NewBuffer(footer)}, conf)
	err = fields(in, func(id int16, kind thrift.TType) (taken bool, err error) {
		switch {
		case id == schemaField && kind == thrift.LIST:
			return true, checkSchema(in)
		case id == rowsField && kind == thrift.I64:
			m.rows, err = in.ReadI64(context.Background())
			return true, err
		case id == keyValues && kind == thrift.LIST:
			return true, each(in, func() error {
				key, value, err := readPair(in)
				if key == rowsKey {
					m.ledger = value
				}
				return err
			})
		}
		return false, nil
	})
	return m, err
}

func readPair(in thrift.TProtocol) (key, value string, err error) {
	err = fields(in, func(id int16, kind thrift.TType) (taken bool, err error) {
		switch {
		case id == keyField && kind == thrift.STRING:
			key, err = in.ReadString(context.Background())
			return true, err
		case id == textField && kind == thrift.STRING:
			value, err = in.ReadString(context.Background())
			return true, err
		}
		return false, nil
	})
	return key, value, err
}

// checkSchema reads a schema, and refuses one that is larger or deeper than any of ours.
func checkSchema(in thrift.TProtocol) error {
	var open []int32 // children that are still to come, of the elements around the next
	elements := 0
	return each(in, func() error {
		if elements++; elements > maxElements {
			return fmt.Errorf("it has more than %d columns", maxElements)
		}
		children := int32(0)
		err := fields(in, func(id int16, kind thrift.TType) (taken bool, err error) {
			if id != childrenField || kind != thrift.I32 {
				return false, nil
			}
			children, err = in.ReadI32(context.Background())
			return true, err
		})
		if n := len(open); n > 0 {
			open[n-1]--
		}
		if children > 0 {
			open = append(open, children)
		}
		for len(open) > 0 && open[len(open)-1] == 0 {
			open = open[:len(open)-1]
		}
		if len(open) > maxNesting {
			return fmt.Errorf("its columns are nested more than %d deep", maxNesting)
		}
		return err
	})
}

// each reads a list of structs, of which read reads one.
func each(in thrift.TProtocol, read func() error) error {
	of, n, err := in.ReadListBegin(context.Background())
	if err == nil && of != thrift.STRUCT {
		err = fmt.Errorf("a list of %s where one of structs should be", of)
	}
	for ; err == nil && n > 0; n-- {
		err = read()
	}
	return err
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

// rows is how many rows a ledger has.
func (l ledger) rows() (n uint64) {
	for _, list := range l {
		for _, s := range list {
			n += s[1] - s[0] + 1
		}
	}
	return n
}

// streamForm: the names of a stream stand in SQL.
func streamForm(stream string) bool {
	node, session, ok := strings.Cut(stream, "/")
	return ok && frame.CheckName("node", node) == nil && frame.CheckName("session", session) == nil
}
