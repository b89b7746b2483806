package observe

import (
	"fmt"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/probe/agent"
	"github.com/memgauge/memgauge/internal/record/session"
)

// Settings are the user's options of any observation, of run and of attach.
type Settings struct {
	Dir     string // of the session: empty or not there yet; "" puts it into the default home
	Name    string // of the session; "" makes one from the command
	Budget  string // share of the training's time that observing may take: above 0, up to 100%
	Trace   string // steps whose modules are traced: auto (as the budget allows), all, off
	MaxDisk string // bound of the session's database, 64 MiB or more
	Version string // of this program, for the session's description

	// Note is called before anything runs, if files go elsewhere than the user has said.
	Note func(string)
}

// OptionError is a wrong option of the user. Its text names the command and the flag.
type OptionError struct{ err error }

// Error and Unwrap give the cause.
func (e *OptionError) Error() string { return e.err.Error() }
func (e *OptionError) Unwrap() error { return e.err }

func wrongOption(format string, args ...any) error { return &OptionError{fmt.Errorf(format, args...)} }

// minDisk is the smallest bound that DuckDB can stay within, including its log.
const minDisk units.Bytes = 64 << 20

// check reads the settings for a command of that name.
func (s Settings) check(command string) (agent.Options, units.Bytes, error) {
	share, err := units.ParseFraction(s.Budget)
	if err != nil || share <= 0 || share > 1 {
		return agent.Options{}, 0, wrongOption("%s: --budget %q: not a share between 0 and 100%%", command, s.Budget)
	}
	switch s.Trace {
	case "auto", "all", "off":
	default:
		return agent.Options{}, 0, wrongOption("%s: --trace %q: not auto, all or off", command, s.Trace)
	}
	size, err := units.ParseBytes(s.MaxDisk)
	if err != nil || size < minDisk {
		return agent.Options{}, 0, wrongOption("%s: --max-disk %q: not a size of at least %s", command, s.MaxDisk,
			minDisk)
	}
	return agent.Options{Budget: float64(share), Trace: s.Trace}, size, nil
}

// noteHome calls Note if sessions go elsewhere than the user has said. It doesn't for a session with a directory of its
// own.
func (s Settings) noteHome() {
	if note := session.HomeNote(); note != "" && s.Dir == "" {
		s.Note(note)
	}
}

// checkTimeout parses --timeout of the named command: how long it may wait for a process.
func checkTimeout(command, text string) (time.Duration, error) {
	timeout, err := units.ParseDuration(text)
	if err != nil || timeout <= 0 {
		return 0, wrongOption("%s: --timeout %q: not a duration such as 10s", command, text)
	}
	return time.Duration(timeout), nil
}

// CheckName says why a session may not have a name.
func CheckName(name string) error { return session.CheckName(name) }
