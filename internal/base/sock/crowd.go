package sock

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// Crowd is a listener that every user of the machine, or others, can reach. Of the connections of those who have not
// shown that they may ask, the newest stay open: however many there are, they take neither memory nor descriptors.
type Crowd struct {
	net.Listener
	most   int
	mu     sync.Mutex
	guests list.List // of *guest, the oldest first
}

// NewCrowd bounds the strangers' connections of a listener.
func NewCrowd(l net.Listener, most int) *Crowd { return &Crowd{Listener: l, most: most} }

// guest is a connection; place is nil once it is vouched for, or closed.
type guest struct {
	net.Conn
	crowd *Crowd
	place *list.Element
}

// Accept implements net.Listener.
func (c *Crowd) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g := &guest{Conn: conn, crowd: c}
	c.mu.Lock()
	g.place = c.guests.PushBack(g)
	var oldest *guest
	if c.guests.Len() > c.most {
		oldest = c.guests.Front().Value.(*guest)
	}
	c.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
	return g, nil
}

// leave takes a guest out of the crowd.
func (g *guest) leave() {
	g.crowd.mu.Lock()
	defer g.crowd.mu.Unlock()
	if g.place != nil {
		g.crowd.guests.Remove(g.place)
		g.place = nil
	}
}

// Close implements net.Conn.
func (g *guest) Close() error {
	g.leave()
	return g.Conn.Close()
}

type guestKey struct{}

// WithGuest is a server's ConnContext: it lets Vouch find the connection of a request.
func WithGuest(ctx context.Context, conn net.Conn) context.Context {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	return context.WithValue(ctx, guestKey{}, conn)
}

// Vouch says that who sends the request may ask: its connection is no stranger's any more.
func Vouch(r *http.Request) {
	if g, ok := r.Context().Value(guestKey{}).(*guest); ok {
		g.leave()
	}
}
