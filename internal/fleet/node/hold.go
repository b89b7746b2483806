package node

import (
	"fmt"
	"path/filepath"

	"github.com/memgauge/memgauge/internal/base/rootdir"
)

// Hold says to other nodes of this machine that this process answers for a session: until release, or its own end.
func Hold(dir string) (release func(), err error) {
	f, err := rootdir.EditFile(filepath.Join(dir, holdFile))
	if err != nil {
		return nil, fmt.Errorf("hold the session: %w", err)
	}
	if err := rootdir.TryLock(f, true); err != nil {
		f.Close()
		return nil, fmt.Errorf("hold the session: %w", err)
	}
	return func() { _ = rootdir.Unlock(f) }, nil
}
