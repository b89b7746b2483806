package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/formats/wire/wiretest"
)

var le = binary.LittleEndian

func open(b []byte) (*wire.Ring, error) {
	return wire.OpenRing(bytes.NewReader(b), int64(len(b)))
}

func TestHeaderErrors(t *testing.T) {
	put := func(off int, v uint64) func([]byte) []byte {
		return func(b []byte) []byte { le.PutUint64(b[off:], v); return b }
	}
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }
	for _, c := range []struct {
		harm func([]byte) []byte
		is   error
		want string
	}{
		{cut(0), wire.ErrCreating, "0 bytes, its header has 4096"},
		{cut(4095), wire.ErrCreating, "4095 bytes"},
		{func([]byte) []byte { return []byte("a note") }, wire.ErrCorrupt, "file ends at byte 6"},
		{func(b []byte) []byte { return make([]byte, len(b)) }, wire.ErrCreating, "header is empty"},
		{put(wire.OffState, 0), wire.ErrCreating, ""},
		{put(wire.OffMagic, 1), wire.ErrCorrupt, "byte 0"},
		{put(wire.OffMajor, 0x1000_0007_0002), wire.ErrVersion, "ring format 2.7; this memgauge reads 1.x"},
		{put(wire.OffMajor, 0x1000_0007_0000), wire.ErrCorrupt, "major version 0"},
		{put(wire.OffRingID, 0), wire.ErrCorrupt, "ring id 0"},
		{put(wire.OffSlotSize, 256<<32|128), wire.ErrCorrupt, "slots of 128 bytes"},
		{put(wire.OffSlotSize, 3<<32|64), wire.ErrCorrupt, "3 slots, want a power of two"},
		{put(wire.OffSlotSize, 64), wire.ErrCorrupt, "0 slots"},
		{put(wire.OffSlotSize, 1<<52|64), wire.ErrCorrupt, "slots end at byte"},
		{put(wire.OffSlotsOffset, 1<<63), wire.ErrCorrupt, "slots begin"},
		{put(wire.OffSlotsOffset, 64), wire.ErrCorrupt, "slots begin"},
		{put(wire.OffNamesOffset, 1<<63), wire.ErrCorrupt, "names begin"},
		{put(wire.OffNamesOffset, 4096), wire.ErrCorrupt, "names begin"},
		{put(wire.OffNamesSize, 1<<27), wire.ErrCorrupt, "names end at byte"},
		{put(wire.OffState, 9), wire.ErrCorrupt, "byte 72: state 9"},
		{put(wire.InfoOffset, 1<<31), wire.ErrCorrupt, "description of"},
		{cut(4096 + 100), wire.ErrCorrupt, "slots end at byte 20480, file has 4196"},
		{cut(20480 + 1), wire.ErrCorrupt, "names end at byte 36864, file has 20481"},
	} {
		b := c.harm(bytes.Clone(wiretest.New(wiretest.Options{PID: 1}).Bytes()))
		if _, err := open(b); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %v with %q", err, c.is, c.want)
		}
	}
}

func TestNewerMinorIsUnderstood(t *testing.T) {
	r := wiretest.New(wiretest.Options{PID: 1, Minor: 99,
		Info: map[string]string{"argv": "a\\b\nc", "key of the future": "x"}})
	var future [wire.SlotSize]byte
	future[16] = 77
	r.AppendSlot(&future)
	r.Append(&wire.Step{Step: 5})
	g, err := open(r.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	c, err := g.Read(make([]byte, 1024), 1)
	if err != nil || c.Len() != 2 || c.Damaged != 0 || wire.SlotKind(c.Slot(0)) != 77 || g.Minor != 99 ||
		g.Info["argv"] != "a\\b\nc" {
		t.Errorf("%+v %v %v", c, err, g.Info)
	}
}
