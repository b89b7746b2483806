// Package top holds the command that shows sessions and the machine on a full screen.
package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/observe"
	"github.com/memgauge/memgauge/internal/faces/tui"
	"github.com/memgauge/memgauge/internal/probe/gpu/discover"
	"github.com/memgauge/memgauge/internal/probe/inventory"
	"github.com/memgauge/memgauge/internal/probe/sampler"
)

// Commands makes them.
func Commands(a *app.App) []*cobra.Command { return []*cobra.Command{topCommand(a)} }

// options are the command's flags.
type options struct {
	interval string
	replay   float64
	noMouse  bool
	once     bool
	wide     int
	high     int
}

func topCommand(a *app.App) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "top",
		Short: "A full screen of sessions, or of the machine, live",
		Long: "Shows a session on the whole terminal, live or as it was: limits and when they will be met,\n" +
			"memory by class, floors after each step, the verdict, processes, holders and events. Enter opens a\n" +
			"process with its tensors, its stacks and a prompt for code. Esc leads back, up to the machine with its\n" +
			"sessions and Python processes, where the command begins without an ENDPOINT. ? lists the keys. The\n" +
			"arrow keys go back in time, and p replays. docs/top.md shows it.",
		Example: "  memgauge top\n" +
			"  memgauge 27891 top\n" +
			"  memgauge outputs top --replay 20",
		Args: app.Alone,
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), a, o) },
	}
	f := c.Flags()
	f.StringVar(&o.interval, "interval", "1s", "read anew each `DURATION`, 0.1s or longer")
	f.Float64Var(&o.replay, "replay", 0, "replay the session from its beginning, `N` times as fast as it was")
	f.BoolVar(&o.noMouse, "no-mouse", false, "leave the mouse to the terminal, for selecting text")
	f.BoolVar(&o.once, "once", false, "print one frame and exit; into a pipe too")
	f.IntVar(&o.wide, "width", 0, "columns of that frame; 0: the terminal's, else 80")
	f.IntVar(&o.high, "height", 24, "lines of that frame")
	c.MarkFlagsMutuallyExclusive("replay", "once")
	return c
}

// leastInterval: a tenth of a second is as often as a young session is sampled.
const leastInterval = 100 * time.Millisecond

// largest frame of --once: that of a wall of screens.
const largest = 1000

func (o options) check() (time.Duration, error) {
	every, err := units.ParseDuration(o.interval)
	switch {
	case err != nil:
		return 0, app.Usage(fmt.Errorf("top: --interval: %w", err))
	case time.Duration(every) < leastInterval:
		return 0, app.Usage(fmt.Errorf("top: --interval %s: below %s", o.interval, leastInterval))
	case o.replay < 0 || o.replay > 4096:
		return 0, app.Usage(fmt.Errorf("top: --replay %g: not between 0 and 4096", o.replay))
	case o.wide < 0 || o.wide > largest || o.high < 1 || o.high > largest:
		return 0, app.Usage(fmt.Errorf("top: --width %d --height %d: not between 1 and %d", o.wide, o.high, largest))
	}
	return time.Duration(every), nil
}

func run(ctx context.Context, a *app.App, o options) error {
	every, err := o.check()
	if err != nil {
		return err
	}
	if o.replay > 0 && !a.Named() {
		return app.Usage(remedy.Add(errors.New("top: --replay needs a session"),
			"memgauge list -a names them: memgauge NAME top --replay 10"))
	}
	in, out, err := streams(a, o)
	if err != nil {
		return err
	}
	d := &doors{}
	defer d.close()
	t := tui.Options{Doors: d, Interval: every, Speed: o.replay, Mouse: !o.noMouse, In: in, Out: out,
		Environ: os.Environ()}
	if a.Named() {
		target, err := a.Target(ctx)
		if err != nil {
			return fmt.Errorf("top: %w", err)
		}
		if t.Session, err = target.Connect(ctx); err != nil {
			return fmt.Errorf("top: %w", err)
		}
		t.PID = target.PID
	}
	if o.once {
		return once(ctx, a, t, o)
	}
	if err := tui.Run(ctx, t); err != nil {
		return fmt.Errorf("top: %w", err)
	}
	return nil
}

// streams are the terminal's; a frame alone needs none.
func streams(a *app.App, o options) (in, out *os.File, err error) {
	if o.once {
		return nil, nil, nil
	}
	in, reads := a.Stdin.(*os.File)
	out, writes := term.FileOf(a.Stdout)
	if !reads || !writes || !term.IsTerminal(in) || !term.IsTerminal(out) {
		return nil, nil, remedy.Add(errors.New("top: this is not a terminal"),
			"top --once prints one frame; list, where and leak print too")
	}
	return in, out, nil
}

// once prints a frame: without colours, since it may go anywhere.
func once(ctx context.Context, a *app.App, t tui.Options, o options) error {
	wide := o.wide
	if wide == 0 {
		wide = term.TerminalWidth(a.Stdout)
	}
	if wide == 0 {
		wide = 80
	}
	if err := tui.Once(ctx, t, wide, o.high, a.Text()); err != nil {
		return fmt.Errorf("top: %w", err)
	}
	return nil
}

// doors are tui's ways out: the sessions, the machine, attach.
type doors struct{ machine *inventory.Machine }

func (d *doors) close() {
	if d.machine != nil {
		d.machine.Close()
	}
}

// Sessions lists the sessions; those that can't be read are left out.
func (d *doors) Sessions(ctx context.Context, finished bool) ([]api.Listed, error) {
	list, _, err := ask.List(ctx, finished)
	return list, err
}

// Open makes the door to a session.
func (d *doors) Open(ctx context.Context, dir string) (api.Session, error) {
	t, err := ask.At(dir)
	if err != nil {
		return nil, err
	}
	return t.Connect(ctx)
}

// Machine looks at this machine. The drivers of its GPUs are opened at the first look.
func (d *doors) Machine(context.Context) (inventory.View, error) {
	if d.machine == nil {
		var gpus sampler.GPUs
		if found := discover.Open("/", nil); found.Set != nil {
			gpus = found.Set
		}
		m, err := inventory.Open("/", gpus)
		if err != nil {
			return inventory.View{}, err
		}
		d.machine = m
	}
	return d.machine.Read(time.Now())
}

// Attach observes a process as memgauge attach does without flags.
func (d *doors) Attach(ctx context.Context, pid int) (session, dir string, err error) {
	done, err := observe.Attach(ctx, observe.AttachOptions{PID: pid, Timeout: "10s", Settings: observe.Settings{
		Budget: "1%", Trace: "auto", MaxDisk: "2GiB", Version: app.Version, Note: func(string) {}}})
	if err != nil {
		return "", "", err
	}
	return done.Session.Name, done.Session.Dir, nil
}
