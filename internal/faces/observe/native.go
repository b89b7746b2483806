package observe

import (
	"fmt"
	"os"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/probe/native"
	"github.com/memgauge/memgauge/internal/record/session"
)

// nativeInterval reads how many bytes lie between two samples; 0 for no samples.
func (o RunOptions) nativeInterval() (units.Bytes, error) {
	if o.Native == "" {
		return 0, nil
	}
	size, err := units.ParseBytes(o.Native)
	if err != nil || size < native.MinInterval || size > native.MaxInterval {
		return 0, wrongOption("run: --native=%s: not a size between %s and %s", o.Native, native.MinInterval,
			native.MaxInterval)
	}
	return size, nil
}

// installNative unpacks the library beside the sessions, if it is wanted: a session that can't have what was asked for
// is not begun.
func installNative(command string, interval units.Bytes) (path string, err error) {
	if interval == 0 {
		return "", nil
	}
	home, err := session.Home()
	if err == nil {
		err = native.Refuse(command, os.Getenv("LD_PRELOAD"))
	}
	if err == nil {
		path, err = native.Install(home)
	}
	if err != nil {
		return "", fmt.Errorf("run --native: %w", err)
	}
	return path, nil
}

// withNative is the command's environment with the library, or without that of a session around this one.
func withNative(env []string, s *session.Session, library string, interval units.Bytes) ([]string, error) {
	if library == "" {
		return native.Without(env), nil
	}
	if err := s.MakeNative(); err != nil {
		return nil, fmt.Errorf("run --native: %w", err)
	}
	return native.Env(env, library, s.Native(), interval), nil
}
