package api

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// Room bounds the memory that answers of one stranger take together, however many they are. It is for many goroutines.
type Room struct {
	mu     sync.Mutex
	left   int64 // bytes
	making sync.Mutex
}

// NewRoom makes one of so many bytes.
func NewRoom(bytes int64) *Room { return &Room{left: bytes} }

type roomKey struct{}

// WithRoom has the answers that come under a context take their memory from a room, beside their own bounds.
func WithRoom(ctx context.Context, r *Room) context.Context {
	return context.WithValue(ctx, roomKey{}, r)
}

// RoomOf is the context's; nil has no bound.
func RoomOf(ctx context.Context) *Room {
	r, _ := ctx.Value(roomKey{}).(*Room)
	return r
}

// Take has so many bytes of it, which Give gives back.
func (r *Room) Take(n int64) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > r.left {
		return fmt.Errorf("%w: with what its node has answered before", ErrLarge)
	}
	r.left -= n
	return nil
}

// Give gives bytes back.
func (r *Room) Give(n int64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left += n
}

// Unmarshal is that of the package, within what is left of the room: what was made stays taken. One is made after the
// other, since how much it takes is known when it is made.
func (r *Room) Unmarshal(text []byte, into any, most int64) error {
	if r == nil {
		_, err := Unmarshal(text, into, most)
		return err
	}
	r.making.Lock()
	defer r.making.Unlock()
	r.mu.Lock()
	most = min(most, r.left)
	r.mu.Unlock()
	made, err := Unmarshal(text, into, most)
	r.Give(-made)
	return err
}

// taking is a reader whose bytes are in a room.
type taking struct {
	io.Reader
	room  *Room
	taken int64
}

// Read reads what the room has space for.
func (t *taking) Read(b []byte) (int, error) {
	n, err := t.Reader.Read(b)
	if full := t.room.Take(int64(n)); full != nil {
		return 0, full
	}
	t.taken += int64(n)
	return n, err
}
