package keeper

import (
	"io"
	"os"
	"strconv"
	"sync"
)

// collector.log may take maxLog; before it would become longer, its older part is removed.
const (
	maxLog  = 1 << 20
	keptLog = maxLog / 4
)

// boundedLog writes to a file that was opened for appending and keeps it short.
type boundedLog struct {
	mu sync.Mutex
	f  *os.File
}

// NewLog makes a writer that keeps f within the bound. A file that is not a regular one, such as a terminal, has no
// bound.
func NewLog(f *os.File) io.Writer { return &boundedLog{f: f} }

func (b *boundedLog) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	line := p
	if len(line) > keptLog {
		line = line[:keptLog]
	}
	if st, err := b.f.Stat(); err == nil && st.Size()+int64(len(line)) > maxLog {
		cutLog(b.f)
	}
	if _, err := b.f.Write(line); err != nil {
		return 0, err
	}
	return len(p), nil
}

// cutLog keeps the newest part of a log that is too long. A process that appends meanwhile may lose a line.
func cutLog(f *os.File) {
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || st.Size() <= maxLog-keptLog {
		return
	}
	tail := make([]byte, keptLog)
	in, err := os.Open("/proc/self/fd/" + strconv.Itoa(int(f.Fd()))) // f may be open for writing only
	n := 0
	if err == nil {
		n, _ = in.ReadAt(tail, st.Size()-keptLog)
		in.Close()
	}
	if f.Truncate(0) == nil {
		_, _ = f.Write(append([]byte("… older lines were cut\n"), tail[:n]...)) // what can't be kept is lost
	}
}
