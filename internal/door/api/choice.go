package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// Choice selects the live processes of a request. The zero Choice selects the main trainer.
type Choice struct {
	PID  int  `json:"pid,omitempty"`  // this process; an error if it is not there
	Rank *int `json:"rank,omitempty"` // the trainer of this rank; likewise
	All  bool `json:"all,omitempty"`  // every trainer
	Hint int  `json:"hint,omitempty"` // this process if it is there, before the main trainer
}

// Choose selects live processes of a session and keeps their order, in which the main trainer is first. Processes
// without an answering agent are left out, unless kernel says that the kernel can answer the request too.
func Choose(all []Process, c Choice, kernel bool) ([]Process, error) {
	live := keep(all, func(p Process) bool { return p.Alive && (p.Agent || kernel) })
	if len(live) == 0 {
		return nil, remedy.Add(errors.New("no observed process of the session is alive"),
			"this needs a live trainer; query works on finished sessions too")
	}
	switch {
	case c.All:
		return trainers(live), nil
	case c.PID != 0:
		return first(live, fmt.Sprintf("pid %d", c.PID), func(p Process) bool { return p.PID == c.PID })
	case c.Rank != nil:
		return first(live, fmt.Sprintf("rank %d", *c.Rank), func(p Process) bool { return p.Rank == *c.Rank })
	}
	if hinted := keep(live, func(p Process) bool { return p.PID == c.Hint }); len(hinted) > 0 {
		return hinted, nil
	}
	return live[:1], nil
}

func keep(list []Process, ok func(Process) bool) []Process {
	return slices.DeleteFunc(slices.Clone(list), func(p Process) bool { return !ok(p) })
}

// trainers leaves out processes that only start or feed the trainers: a launcher has no rank, and a DataLoader's worker
// makes no steps. If that doesn't distinguish them, all remain.
func trainers(live []Process) []Process {
	for _, ok := range []func(Process) bool{
		func(p Process) bool { return p.Torch },
		func(p Process) bool { return p.Rank >= 0 },
	} {
		if found := keep(live, ok); len(found) > 0 {
			live = found
		}
	}
	return live
}

func first(live []Process, what string, ok func(Process) bool) ([]Process, error) {
	if found := keep(live, ok); len(found) > 0 {
		return found[:1], nil
	}
	var names []string
	for _, p := range live {
		names = append(names, p.Label())
	}
	return nil, remedy.Add(fmt.Errorf("no live process with %s", what), "there are: "+strings.Join(names, ", "))
}

// Label is a process's name at the beginning of an output line.
func (p Process) Label() string {
	if p.Rank >= 0 && p.Torch {
		return fmt.Sprintf("rank %d", p.Rank)
	}
	return fmt.Sprintf("pid %d", p.PID)
}
