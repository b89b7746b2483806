package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/observe"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/probe/jupyter"
)

func (a *commands) attachCommand() *cobra.Command {
	var o observe.AttachOptions
	var asJSON, within bool
	c := &cobra.Command{
		Use:         "attach PID|NOTEBOOK.ipynb",
		Annotations: app.AboutNoSession(),
		Short:       "Observe a training that runs already",
		Long: "Brings the agent into a running Python process, without a restart and without a debugger, and leaves a collector in the\n" +
			"background. From the next step on everything works as after memgauge run; what happened before is not known. memgauge detach\n" +
			"takes the agent out again. What is done to the process, step by step: docs/attach.md.\n" +
			"A notebook's name, or its path, stands for the kernel that runs it: docs/notebooks.md.",
		Example: "  memgauge attach 27891\n" +
			"  memgauge attach --name resnet --children $(pgrep -o torchrun)\n" +
			"  memgauge attach train.ipynb\n" +
			"  memgauge attach --native 27891\n" +
			"  memgauge attach 27891 && memgauge 27891 query \"SELECT * FROM python.steps\"",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTargets,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err = nativeSize(cmd, o.Native); err != nil {
				return err
			}
			if err = target(cmd.Context(), &o, args[0]); err != nil {
				return err
			}
			if within {
				if o.Within, err = a.within(o.PID); err != nil {
					return err
				}
			}
			return a.attach(cmd.Context(), o, asJSON)
		},
	}
	f := c.Flags()
	a.observeFlags(f, &o.Settings)
	f.StringVar(&o.Timeout, "timeout", "10s", "give up when there is no way in for `DURATION`")
	f.BoolVar(&o.Children, "children", false, "the Python processes that descend from PID too: ranks and workers")
	f.BoolVar(&o.Force, "force", false,
		"also a process whose seccomp filters are not known, or forbid what is needed: one may kill it")
	app.Offer(c, "trace", traces...)
	nativeFlag(f, &o.Native, "sample native memory (malloc, mmap) from now on, one block in so many "+
		"`BYTES` on average; also of a process that is observed already (docs/native.md)")
	f.BoolVar(&asJSON, "json", false, "as JSON (docs/cli-json.md)")
	f.BoolVar(&within, "within", false, "for the process that starts this command: it runs the source (docs/attach.md)")
	if err := f.MarkHidden("within"); err != nil {
		panic(err) // it was defined above
	}
	return c
}

// completeTargets offers the Python processes that a shell's user may observe, and notebooks.
func completeTargets(_ *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var list []cobra.Completion
	for _, one := range observe.Targets() {
		if pid := strconv.Itoa(one.PID); strings.HasPrefix(pid, word) {
			about := units.Bytes(one.Resident).String() + " " + strings.Join(one.Command, " ")
			list = append(list, cobra.CompletionWithDesc(pid, plain.Line(about)))
		}
	}
	if len(list) > 0 {
		return list, cobra.ShellCompDirectiveNoFileComp
	}
	return []cobra.Completion{jupyter.Extension[1:]}, cobra.ShellCompDirectiveFilterFileExt
}

// target finds the process that an argument means. The session of a notebook has the notebook's name.
func target(ctx context.Context, o *observe.AttachOptions, arg string) (err error) {
	if strings.HasSuffix(arg, jupyter.Extension) {
		kernel, err := jupyter.Find(ctx, arg)
		if err != nil {
			return fmt.Errorf("attach: %w", err)
		}
		o.PID = kernel.PID
		nameAfter(o, kernel.Notebook)
		return nil
	}
	if o.PID, err = pidArgument("attach", arg); err == nil {
		nameAfter(o, jupyter.Named(o.PID))
	}
	return err
}

// nameAfter names the session after a notebook, where the user has not named it and the notebook's name can be one.
func nameAfter(o *observe.AttachOptions, notebook string) {
	if notebook != "" && o.Name == "" {
		o.Name = observe.NameFrom(strings.TrimSuffix(filepath.Base(notebook), jupyter.Extension))
	}
}

// within is the way in by our parent's own hand: it reads the source from our output, as a line of JSON, and writes
// what that left in `result` to our input.
func (a *commands) within(pid int) (observe.Within, error) {
	if pid != os.Getppid() {
		return nil, app.Usage(fmt.Errorf("attach --within: process %d has not started this command", pid))
	}
	return func(ctx context.Context, source string) (string, error) {
		if err := json.NewEncoder(a.Stdout).Encode(map[string]string{"source": source}); err != nil {
			return "", fmt.Errorf("hand over the source: %w", err)
		}
		var answer struct{ Result, Error string }
		in := a.OpenStdin(ctx)
		defer in.Close()
		if err := json.NewDecoder(io.LimitReader(in, maxAnswer)).Decode(&answer); err != nil {
			return "", fmt.Errorf("read what process %d answers: %w", pid, err)
		}
		if answer.Error != "" {
			return "", fmt.Errorf("process %d: %s", pid, answer.Error)
		}
		return answer.Result, nil
	}, nil
}

// maxAnswer bounds what the process answers: a path and some words.
const maxAnswer = 64 << 10

func (a *commands) attach(ctx context.Context, o observe.AttachOptions, asJSON bool) error {
	done, err := observe.Attach(ctx, o)
	if err != nil {
		return optionMistake(err)
	}
	for _, failure := range done.Failed {
		plain.Fprintf(a.Stderr, "memgauge: attach: %v; not observed\n", failure)
	}
	if done.NoKeeper != nil {
		plain.Fprintf(a.Stderr, "memgauge: %v; the next command that asks the session tries again\n", done.NoKeeper)
	}
	if asJSON {
		return doc.WriteJSON(a.Stdout, documentAttached(done))
	}
	return a.sayAttached(o.PID, done)
}

func pidArgument(command, arg string) (int, error) {
	pid, err := strconv.ParseUint(arg, 10, 31)
	if err != nil || pid == 0 {
		return 0, app.Usage(fmt.Errorf("%s: %q: not a PID", command, arg))
	}
	return int(pid), nil
}

// The JSON of attach is documented in docs/cli-json.md.
type attachJSON struct {
	SchemaVersion int              `json:"schema_version"`
	Session       string           `json:"session"`
	Dir           string           `json:"dir"`
	Observed      bool             `json:"already_observed"`
	Processes     []attachedJSON   `json:"processes"`
	Native        bool             `json:"native"`
	Unseen        []observe.Unseen `json:"unseen"`
}

type attachedJSON struct {
	PID     int     `json:"pid"`
	Python  string  `json:"python"`
	Way     string  `json:"way"`
	Doing   string  `json:"doing"`
	Stopped float64 `json:"stopped_us"`
}

func documentAttached(done observe.Attached) attachJSON {
	doc := attachJSON{SchemaVersion: doc.JSONVersion, Session: done.Session.Name, Dir: done.Session.Dir,
		Observed: done.Observed, Native: done.Native, Unseen: append([]observe.Unseen{}, done.Unseen...),
		Processes: []attachedJSON{}}
	for _, p := range done.Processes {
		doc.Processes = append(doc.Processes, attachedJSON{p.PID, p.Python, p.Way, p.Doing,
			float64(p.Stopped.Nanoseconds()) / 1e3})
	}
	return doc
}

func (a *commands) sayAttached(pid int, done observe.Attached) error {
	if done.Observed {
		fmt.Fprintf(a.Text(), "process %d is observed already, in session %s\n", pid, done.Session.Name)
		return a.saySampled(done)
	}
	for _, p := range done.Processes {
		fmt.Fprintf(a.Text(), "attached to %d (Python %s): stopped for %s\n", p.PID, p.Python,
			units.Duration(p.Stopped.Round(time.Microsecond)))
	}
	fmt.Fprintf(a.Text(), "session %s; steps count from now on, what happened before is not known\n",
		done.Session.Endpoint)
	return a.saySampled(done)
}

func (a *commands) saySampled(done observe.Attached) (err error) {
	if done.Native {
		_, err = fmt.Fprintln(a.Text(), "native memory is sampled from now on; what was allocated before is not known")
	}
	for _, u := range done.Unseen {
		plain.Fprintf(a.Text(), "process %d has %s: what is allocated by that is not seen, but for what it maps\n",
			u.PID, u.Allocators)
	}
	return err
}
