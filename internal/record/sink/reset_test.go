package sink

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReset: what was written before is in no output, however long it was.
func TestReset(t *testing.T) {
	var shown bytes.Buffer
	path := filepath.Join(t.TempDir(), "out")
	file, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Sink{&Spool{To: &shown}, file} {
		for _, text := range []string{strings.Repeat("half ", MemorySpool/4), "whole"} {
			s.Reset()
			if _, err := s.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "whole" || shown.String() != "whole" {
		t.Errorf("%.20q, %v; shown %.20q", text, err, shown.String())
	}
}
