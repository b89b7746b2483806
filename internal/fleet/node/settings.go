package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/bus"
)

// Settings are what a user may say about joining a hub.
type Settings struct {
	Join     string // address of the hub
	Token    string // file
	CA       string // file
	Name     string // "": the host's
	Job      string // "": what a launcher says in the environment
	Insecure bool
	Shared   bool // the token may be readable by others: bus.SharedHint
	Allow    []string
	Resend   bool
	Version  string // of this program
}

// Options checks the settings. home is the user's directory for memgauge's files.
func (s Settings) Options(home string, env func(string) string) (o Options, err error) {
	if s.Join == "" {
		return o, remedy.Add(errors.New("no address of a hub"), "memgauge hub prints the whole line")
	}
	if o.Allow, err = api.Allowed(s.Allow); err != nil {
		return o, err
	}
	if o.Name = s.Name; o.Name == "" {
		if o.Name, err = Name(); err != nil {
			return o, err
		}
	}
	if o.Job = JobFromEnv(env); s.Job != "" {
		o.Job.Name = s.Job
	}
	o.Version, o.Resend = s.Version, s.Resend
	if o.From, err = s.anywhere(o.Name); err != nil {
		return o, err
	}
	o.Dial = bus.DialOptions{URL: s.Join, CA: s.CA, Plain: s.Insecure,
		Key: filepath.Join(home, "fleet", Clean(o.Name)+".key")}
	if s.Insecure {
		return o, nil
	}
	if s.Token == "" {
		return o, remedy.Add(errors.New("no --token-file"),
			"memgauge hub prints the name of the file on its machine: copy it here, chmod 600")
	}
	o.Dial.Again = func() (bus.Token, error) { return bus.ReadToken(s.Token, s.Shared) }
	o.Dial.Token, err = o.Dial.Again()
	if err == nil && !o.Dial.Token.Lets(bus.Join) {
		err = remedy.Add(fmt.Errorf("the token in %s lets one ask, not be a node", s.Token),
			"take the hub's join.token")
	}
	return o, err
}

// anywhere is the settings as another process can read them.
func (s Settings) anywhere(name string) (Settings, error) {
	s.Name = name
	for _, path := range []*string{&s.Token, &s.CA} {
		if *path == "" {
			continue
		}
		whole, err := filepath.Abs(*path)
		if err != nil {
			return s, err
		}
		*path = whole
	}
	return s, nil
}

// hubFile keeps the settings of the node that answers for a session alone, for a process that takes over from it.
const hubFile = "hub.json"

// Attend answers for one session until ctx ends, and keeps other nodes of this machine from answering for it too.
func Attend(ctx context.Context, dir string, o Options) error {
	if err := SetJob(dir, o.Job); err != nil {
		return fmt.Errorf("write down the job: %w", err)
	}
	text, err := json.Marshal(o.From)
	if err == nil {
		err = rootdir.ReplaceText(filepath.Join(dir, hubFile), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write down the hub: %w", err)
	}
	return attend(ctx, dir, o)
}

// TakeOver goes on where the process that answered for a session was killed. It returns at once where nobody did, or
// where somebody still does.
func TakeOver(ctx context.Context, dir, home, version string, log *slog.Logger) error {
	text, err := rootdir.ReadFile(filepath.Join(dir, hubFile), maxJob)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var s Settings
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", hubFile, err)
	}
	s.Version = version
	o, err := s.Options(home, func(string) string { return "" })
	if err != nil {
		return err
	}
	o.Job = jobOf(dir, "", o.Job)
	o.Log = log
	return attend(ctx, dir, o)
}

func attend(ctx context.Context, dir string, o Options) error {
	release, err := Hold(dir)
	if err != nil {
		return err
	}
	defer release()
	o.Session = dir
	return Run(ctx, o)
}
