package collector

import (
	"errors"

	"github.com/memgauge/memgauge/internal/keeper"
	"github.com/memgauge/memgauge/internal/session"
)

// kept sees to it that somebody stays with the collector: who started it may have been a client, and who stayed with it
// may have been killed.
type kept struct{ failed bool }

// look says once why nobody can.
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
