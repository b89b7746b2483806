package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/picture"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/probe/proc"
	"github.com/memgauge/memgauge/internal/probe/sampler"
	"github.com/memgauge/memgauge/internal/record/session"
)

// WhereFrom lists the job's bytes by process and class: the current ones of a live job, and of a finished job those
// that db has near its peak. The bytes of GPUs always come from db.
func (j Job) WhereFrom(ctx context.Context, db api.Querier) (w api.Where, err error) {
	live := j.S.Live()
	if live {
		w.Of = "session " + j.S.Meta.Name + ", now"
		w.Picture, err = j.now(ctx, db)
		live = !errors.Is(err, errNoneLeft) // they have just ended, and nobody has noted it yet
	}
	if !live {
		w.Of = "session " + j.S.Meta.Name + ", when it held most"
		w.Picture, err = picture.Recorded(ctx, api.Into(db))
	}
	if err != nil {
		return w, err
	}
	if w.Devices, err = picture.Devices(ctx, api.Into(db), !live); err != nil {
		return w, err
	}
	if w.Unsampled, err = api.Ask(ctx, db, questions.NativeUnknown); err != nil {
		return w, err
	}
	raised, err := api.Ask(ctx, db, questions.Raised)
	w.Peaks = detect.Peaks(raised)
	return w, err
}

func (j Job) now(ctx context.Context, db api.Querier) (picture.Picture, error) {
	var roots []int
	procs := j.S.Askable()
	for _, p := range procs {
		roots = append(roots, p.PID)
	}
	if pid := j.S.Meta.Process.PID; pid > 0 {
		roots = append(roots, pid)
	}
	training, err := picture.Trainers(ctx, api.Into(db))
	if err != nil {
		return picture.Picture{}, err
	}
	return take(procs, training, roots, Heaps(ctx, procs))
}

var errNoneLeft = errors.New("none of its processes is there any more")

// ErrGone means that there is no such process.
var ErrGone = errors.New("no process")

// WhereOf lists the bytes of a process that belongs to no session, and of its descendants.
func WhereOf(pid int) (w api.Where, err error) {
	if _, err := proc.New("/proc").Stat(pid); err != nil {
		return w, fmt.Errorf("%w with pid %d", ErrGone, pid)
	}
	w.Of = fmt.Sprintf("process %d and its children, now", pid)
	w.Picture, err = take(nil, nil, []int{pid}, nil)
	return w, err
}

// take reads the processes under roots. Those in training have made steps.
func take(procs []session.Process, training map[int]bool, roots []int, heaps map[int]*picture.Heap) (picture.Picture,
	error) {
	fs := proc.New("/proc")
	s := sampler.New(sampler.Options{Roots: func() []int { return roots }, About: func(pid int) sampler.About {
		about := sampler.Nothing
		about.Steps = training[pid]
		for _, p := range procs {
			if p.PID == pid {
				about.Rank, about.Trainer = int32(p.Rank), p.Torch && fs.Mapped(pid, "libtorch")
			}
		}
		return about
	}})
	defer s.Close()
	var members []picture.Member
	for _, t := range s.Sample().Tree {
		if !t.Ended {
			members = append(members, picture.Member{PID: int(t.PID), Role: t.Role, Command: t.Command,
				Rank: int(t.Rank), Heap: heaps[int(t.PID)]})
		}
	}
	if len(members) == 0 {
		return picture.Picture{}, remedy.Add(errNoneLeft,
			"memgauge list -a shows how the session ended")
	}
	var cgroup *proc.Cgroup
	if mounts, err := fs.CgroupMounts("/"); err == nil {
		if cg, err := fs.Cgroup(members[0].PID, mounts); err == nil {
			cgroup = &cg
		}
	}
	total := int64(0)
	if m, err := fs.Meminfo(); err == nil {
		total = m.Total
	}
	return picture.Take(fs, members, cgroup, total), nil
}
