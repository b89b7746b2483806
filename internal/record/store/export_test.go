package store

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// TestExportsAreBounded: an export without an end is ended at the bound of the disk, and leaves nothing there.
func TestExportsAreBounded(t *testing.T) {
	db := open(t, Options{export: 4 << 20})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := db.ExportTo(ctx, "SELECT random() AS a, random() AS b FROM range(1000000000000)", io.Discard)
	var e *Error
	if !errors.As(err, &e) || e.Kind != ErrCalledOff || !strings.Contains(err.Error(), "bound of disk") {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(db.scratch.path); err != nil || len(left) != 0 || db.exports.bytes != 0 {
		t.Errorf("left behind: %v, %v, %d bytes", left, err, db.exports.bytes)
	}
}

// TestExportsShareTheirBound: exports that are under way have one bound together, beyond which those end that have more
// than their share, and not those that are small.
func TestExportsShareTheirBound(t *testing.T) {
	var all exports
	large, small, late := &export{all: &all, most: 90}, &export{all: &all, most: 90}, &export{all: &all, most: 90}
	for range 3 {
		all.begin()
	}
	if large.grows(60) || small.grows(20) || late.grows(10) {
		t.Error("ended within the bound")
	}
	if small.grows(25) || late.grows(30) || !large.grows(61) {
		t.Error("not the large one ended")
	}
	all.end(large)
	if late.grows(45) || small.grows(44) || !late.grows(47) {
		t.Error("what ended still counts, or nothing does")
	}
}
