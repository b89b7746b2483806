package collector

import (
	"errors"

	"github.com/memgauge/memgauge/internal/record/keeper"
	"github.com/memgauge/memgauge/internal/record/session"
)

// kept makes sure that the collector has a keeper, which restarts it if it dies. A collector that a client started has
// none, and a keeper may be killed.
type kept struct{ failed bool }

// look starts a keeper if there is none. It returns an error only once.
func (k *kept) look(s *session.Session) error {
	lock, err := s.TryKeep()
	if err == nil {
		lock.Release()
		err = keeper.Spawn(s)
	}
	if err == nil || k.failed || errors.Is(err, session.ErrLocked) {
		return nil
	}
	k.failed = true
	return err
}
