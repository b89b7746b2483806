package outbox

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/memgauge/memgauge/internal/fleet/frame"
)

// The file of frames: for each its length (4 bytes, little-endian) and its bytes; then a length of 0 and the state as
// JSON. It gets its name when it is whole.

// made is what the file of frames holds.
type made struct {
	frames []place
	after  State // when all of them were sent
}

// place is where a frame lies in the file.
type place struct {
	offset int64
	size   int
}

// pack writes frames one after the other.
type pack struct {
	out    *bufio.Writer
	offset int64
	made   made
}

func (p *pack) add(data []byte) error {
	p.offset += 4
	p.made.frames = append(p.made.frames, place{p.offset, len(data)})
	p.offset += int64(len(data))
	_, err := p.out.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(data))))
	if err == nil {
		_, err = p.out.Write(data)
	}
	return err
}

func (p *pack) finish(after State) error {
	text, err := json.Marshal(after)
	if err == nil {
		p.made.after = after
		_, err = p.out.Write(append(make([]byte, 4), text...))
	}
	if err == nil {
		err = p.out.Flush()
	}
	return err
}

// readBox finds frames that were made and not sent, by this process or one before it; nil if there are none. One that
// is damaged is made anew: the numbers are those of the state.
func (b *Box) readBox() (*made, error) {
	f, err := b.dir.Open(boxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := readFrames(f)
	if err != nil || m.after.After <= b.state.After && m.after.Rows <= b.state.Rows { // sent, and the state says so
		return nil, b.dir.Remove(boxFile)
	}
	return m, nil
}

// readFrames reads where the frames lie.
func readFrames(f io.ReadSeeker) (*made, error) {
	m, in := &made{}, bufio.NewReader(f)
	for offset := int64(0); ; {
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return nil, fmt.Errorf("read %s: %w", boxFile, err)
		}
		size := binary.LittleEndian.Uint32(head[:])
		offset += 4
		if size == 0 {
			break
		}
		if size > frame.MaxBytes {
			return nil, fmt.Errorf("read %s: a frame of %d bytes", boxFile, size)
		}
		data := make([]byte, size)
		if _, err := io.ReadFull(in, data); err != nil {
			return nil, fmt.Errorf("read %s: %w", boxFile, err)
		}
		if _, err := frame.Peek(data); err != nil {
			return nil, fmt.Errorf("read %s: %w", boxFile, err)
		}
		m.frames = append(m.frames, place{offset, int(size)})
		offset += int64(size)
	}
	text, err := io.ReadAll(io.LimitReader(in, maxState))
	if err == nil {
		err = json.Unmarshal(text, &m.after)
	}
	if err == nil {
		err = m.after.check()
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", boxFile, err)
	}
	return m, nil
}
