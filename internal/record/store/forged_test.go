package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// How DuckDB's files lie on a disk (storage_info.hpp, metadata_manager.hpp): three headers of 4 KiB, then blocks that
// begin with their checksum. A block of metadata has 64 parts, each of which begins with where the next is.
const (
	headers  = 3 << 12
	partSize = (blockSize - 8) / 64 &^ 7
)

// catalogBytes are the places in a file of the first block's metadata, without the pointers between its parts.
func catalogBytes() (at []int) {
	for part := range 64 {
		for i := 8; i < partSize; i++ {
			at = append(at, headers+8+part*partSize+i)
		}
	}
	return at
}

// forge gives the first CAST … AS DOUBLE of python.steps another type, which goes by an alias. That makes the tree of
// the view longer; so much is taken off the text of the statement that made it, which nobody reads.
func forge(t *testing.T, path string, id byte, alias string) {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := catalogBytes()
	was := make([]byte, len(at))
	for i, place := range at {
		was[i] = file[place]
	}
	text := bytes.Index(was, []byte("CREATE OR REPLACE VIEW python.steps AS"))
	if text < 0 {
		t.Fatal("the view is not in the first block")
	}
	if was[text-1] == '\n' { // of a view that is not the first of its statements
		text--
	}
	double := []byte{0xc9, 0, 0x64, 0, 23, 0xff, 0xff} // field 201: a type; its field 100, DOUBLE; its end
	cast := text + bytes.Index(was[text:], double)
	length := int(was[text-2])&0x7f | int(was[text-1])<<7
	if cast < text || length > 1000 {
		t.Fatalf("the view is not where it should be: %d, %d, %d", text, cast, length)
	}
	named := binary.AppendUvarint([]byte{0x65, 0, 1, 0x64, 0, 1, 0x65, 0}, uint64(len(alias))) // 101: more of the type
	named = append(append(named, alias...), 0xff, 0xff)
	length -= len(named)
	now := append([]byte{}, was[:text-2]...)
	now = append(now, byte(length)|0x80, byte(length>>7))
	now = append(now, was[text:text+length]...)
	now = append(now, was[text+length+len(named):cast+4]...)
	now = append(append(now, id), named...)
	now = append(now, was[cast+5:]...)
	for i, place := range at {
		file[place] = now[i]
	}
	sum := uint64(5381) // common/checksum.cpp
	for i := 8; i < blockSize; i += 8 {
		sum ^= binary.LittleEndian.Uint64(file[headers+i:]) * 0xbf58476d1ce4e5b9
	}
	binary.LittleEndian.PutUint64(file[headers:], sum)
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestForgedViews: a view whose text is ours and whose tree is not, since a type in it goes by the name of another, is
// not used. The type may be one that no question may name.
func TestForgedViews(t *testing.T) {
	const variant, varchar, bigint = 109, 25, 14
	for what, f := range map[string]struct {
		id    byte
		alias string
	}{
		"variant": {variant, "DOUBLE"},
		"text":    {varchar, "DOUBLE"},
		"number":  {bigint, "DOUBLE"},
	} {
		path := filepath.Join(t.TempDir(), "session.duckdb")
		if err := open(t, Options{Path: path}).Close(); err != nil {
			t.Fatal(err)
		}
		forge(t, path, f.id, f.alias)
		for _, readOnly := range []bool{true, false} {
			db, err := Open(t.Context(), Options{Path: path, ReadOnly: readOnly})
			if !errors.Is(err, ErrEdited) {
				t.Errorf("%s, read only %t: %v", what, readOnly, err)
			}
			if err == nil {
				db.Close()
			}
		}
	}
}
