package keeper

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The log stays within its bound while it is written, and keeps the newest lines.
func TestLogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "collector.log")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log := NewLog(f)
	line := strings.Repeat("x", 1000)
	for i := range 5000 {
		if _, err := fmt.Fprintf(log, "%d %s\n", i, line); err != nil {
			t.Fatal(err)
		}
		if st, err := f.Stat(); err != nil || st.Size() > maxLog {
			t.Fatalf("after line %d it has %d bytes, %v", i, st.Size(), err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasSuffix(string(text), "4999 "+line+"\n") ||
		!strings.HasPrefix(string(text), "… older") {
		t.Errorf("%d bytes, %v: %.40q", len(text), err, text)
	}
	if _, err := log.Write(make([]byte, 3*maxLog)); err != nil {
		t.Fatal(err)
	}
	if st, _ := f.Stat(); st.Size() > maxLog {
		t.Errorf("one line made it %d bytes", st.Size())
	}
}
