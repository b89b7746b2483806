package check

import (
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkFiles reads the Python files of a directory, $CHECK_BENCH.
func BenchmarkFiles(b *testing.B) {
	dir := os.Getenv("CHECK_BENCH")
	if dir == "" {
		b.Skip("CHECK_BENCH names no directory")
	}
	files, _, err := Config{}.Files([]string{dir})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		lines := 0
		for _, f := range files {
			_, data := Read(filepath.Clean(f), Selection{})
			for _, c := range data {
				if c == '\n' {
					lines++
				}
			}
		}
		b.ReportMetric(float64(lines), "lines")
	}
}
