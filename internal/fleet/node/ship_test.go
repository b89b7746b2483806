package node

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/fleet/frame"
)

// TestFormerHub: a hub that takes frames of another version gets none, the trouble says which side to upgrade, and rows
// are shipped as soon as that is done.
func TestFormerHub(t *testing.T) {
	var s shipping
	s.init(&Node{o: Options{Log: slog.New(slog.DiscardHandler)}})
	asked := func() bool {
		select {
		case <-s.want:
			return true
		default:
			return false
		}
	}
	for _, c := range []struct {
		hub     Welcome
		trouble string
		ships   bool
	}{
		{Welcome{}, "", false},
		{Welcome{Keeps: true}, "upgrade memgauge on the hub", false}, // says nothing of versions
		{Welcome{Keeps: true, Frames: frame.Version + 1}, "upgrade memgauge on this node", false},
		{Welcome{Keeps: true, Frames: frame.Version}, "upgrade", true},
	} {
		s.wanted(c.hub)
		if got := s.tell().Trouble; !strings.Contains(got, c.trouble) || asked() != c.ships {
			t.Errorf("%+v: ships: %v, %q", c.hub, asked(), got)
		}
	}
}
