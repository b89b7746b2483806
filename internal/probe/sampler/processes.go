package sampler

import (
	"errors"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/memgauge/memgauge/internal/base/secret"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/probe/proc"
)

const (
	tick      = 10 * time.Millisecond // USER_HZ is 100 wherever PyTorch runs
	retell    = time.Minute           // process.tree is written again after this time, for last_seen and peak_rss
	maxEnvs   = 512                   // variables of a process that are kept
	maxEnvLen = 1024                  // bytes of a value
)

func gonePID(err error) bool { return errors.Is(err, syscall.ESRCH) }

// processes reads the cheap sources of every process of the job.
func (s *Sampler) processes(now time.Time) {
	if s.o.Roots == nil {
		return
	}
	gone := s.members.update(filepath.Join(s.o.Root, "proc"), s.o.Roots(), now)
	s.kills.ended(gone)
	for _, p := range gone {
		if p.about = s.o.About(p.usage.PID); p.about.Steps ||
			p.about.Trainer && (p.role == RoleOther || p.role == RoleMain) {
			p.role = RoleTrainer // one that ended before it was recognised as a trainer
		}
		s.tellTree(p, now, true)
	}
	pids := s.members.pids()
	s.pids.Store(&pids)
	for _, pid := range pids {
		s.members.byPID[pid].about = s.o.About(pid)
	}
	before := map[int]string{}
	for pid, p := range s.members.byPID {
		before[pid] = p.role
	}
	s.members.assignRoles()
	for _, pid := range pids {
		p := s.members.byPID[pid]
		s.memoryOf(p, now)
		s.utilizationOf(p, now)
		if p.told.IsZero() {
			s.envsOf(p, now)
		}
		if p.role != before[pid] || now.Sub(p.told) >= retell {
			s.tellTree(p, now, false)
		}
	}
}

func (s *Sampler) memoryOf(p *member, now time.Time) {
	u := &p.usage
	row := model.ProcessMemory{Time: now.UnixMicro(), PID: int32(u.PID), StartTicks: int64(u.Start), Rank: p.about.Rank,
		PSS: model.Null, PSSAnon: model.Null, PSSFile: model.Null, PSSShmem: model.Null, PrivateDirty: model.Null,
		PrivateClean: model.Null, SwapPSS: model.Null, HeapInUse: p.about.HeapInUse, HeapHeld: p.about.HeapHeld,
		Threads: int32(u.Threads), MinorFaults: int64(u.MinorFaults), MajorFaults: int64(u.MajorFaults),
		UserNS: int64(u.UserTicks) * int64(tick), SystemNS: int64(u.SystemTicks) * int64(tick)}
	st, err := s.fs.Status(u.PID)
	if err != nil || st.RSS == proc.Unknown {
		return // it has ended since, or is about to end: then it has no memory any more
	}
	row.RSS, row.Anon, row.File, row.Shmem, row.Swap, row.HWM = st.RSS, st.Anon, st.File, st.Shmem, st.Swap, st.HWM
	row.PageTables, row.Locked, row.Pinned, row.VMSize = st.PageTables, st.Locked, st.Pinned, st.Size
	row.ReadBytes, row.WrittenBytes, _ = s.fs.IO(u.PID) // Unknown where the kernel does not report it
	p.rss, p.peak, p.nsPID = st.RSS, max(p.peak, st.HWM, st.RSS), st.NSPID
	s.out.Memory = append(s.out.Memory, row)
}

func (s *Sampler) utilizationOf(p *member, now time.Time) {
	u := &p.usage
	row := model.Utilization{Time: now.UnixMicro(), PID: int32(u.PID), Rank: p.about.Rank, Comm: u.Comm,
		RSS: model.Null, Threads: int32(u.Threads), State: string(u.State), Wchan: s.fs.Wchan(u.PID, u.PID)}
	if n := len(s.out.Memory); n > 0 && s.out.Memory[n-1].PID == row.PID {
		row.RSS = s.out.Memory[n-1].RSS
	}
	row.UserPct, row.SysPct = p.before.since(u, now)
	s.out.Utilization = append(s.out.Utilization, row)
}

// since returns the CPU time since the previous reading, in % of one core, and replaces that reading.
func (c *cpuTimes) since(u *proc.Usage, now time.Time) (user, system float64) {
	old := *c
	*c = cpuTimes{now, u.UserTicks, u.SystemTicks}
	span := now.Sub(old.at)
	if old.at.IsZero() || span <= 0 || u.UserTicks < old.user || u.SystemTicks < old.system {
		return math.NaN(), math.NaN()
	}
	percent := func(ticks uint64) float64 { return 100 * float64(ticks) * float64(tick) / float64(span) }
	return percent(u.UserTicks - old.user), percent(u.SystemTicks - old.system)
}

// tellTree writes the process's row of process.tree.
func (s *Sampler) tellTree(p *member, now time.Time, ended bool) {
	if !ended {
		p.told = now
		if cg, err := s.cgroups.of(p.usage.PID, now); err == nil {
			p.cgroup = cg.Path
		}
		if p.command == "" || p.usage.PPID == 0 {
			if args, err := s.fs.Cmdline(p.usage.PID); err == nil {
				p.command = commandText(args)
			}
		}
	}
	s.out.Tree = append(s.out.Tree, model.TreeProcess{PID: int32(p.usage.PID), StartTicks: int64(p.usage.Start),
		PPID: int32(p.usage.PPID), Rank: p.about.Rank, Role: p.role, Comm: p.usage.Comm, Command: p.command,
		Cgroup: p.cgroup, NSPID: int32(p.nsPID), Started: s.started(p, now), FirstSeen: p.first.UnixMicro(),
		LastSeen: now.UnixMicro(), Ended: ended, PeakRSS: p.peak})
}

// started converts clock ticks since boot into a time.
func (s *Sampler) started(p *member, now time.Time) int64 {
	boot, err := s.fs.Uptime()
	if err != nil {
		return model.Null
	}
	return now.Add(-boot).Add(time.Duration(p.usage.Start) * tick).UnixMicro()
}

func (s *Sampler) envsOf(p *member, now time.Time) {
	envs, err := s.fs.Environ(p.usage.PID)
	if err != nil {
		return
	}
	s.visibleGPUs(p, envs)
	for i, e := range envs {
		name, value, ok := strings.Cut(e, "=")
		if !ok || i >= maxEnvs {
			continue
		}
		s.out.Envs = append(s.out.Envs, model.Env{Time: now.UnixMicro(), PID: int32(p.usage.PID), Name: name,
			Value: clip(secret.Env(name, value), maxEnvLen)})
	}
}

// visibleGPUs reads CUDA_VISIBLE_DEVICES of the command; a launcher's children each get a part of it.
func (s *Sampler) visibleGPUs(p *member, envs []string) {
	if s.o.GPUs == nil || s.members.byPID[p.usage.PPID] != nil {
		return
	}
	for _, e := range envs {
		if value, ok := strings.CutPrefix(e, "CUDA_VISIBLE_DEVICES="); ok {
			s.o.GPUs.SetVisible(value, true)
		}
	}
}

// rollupBudget limits how often smaps_rollup is read, by its cost: for it the kernel walks a process's page tables
// while it holds the lock on the address space. The processes take turns.
type rollupBudget struct {
	saved time.Duration // CPU time that may be spent
	next  int           // pid at which the next sample continues
	begun bool
}

const (
	rollupShare = 0.0005                // of one core may go to it
	rollupSaved = 20 * time.Millisecond // at most this much is saved up
	rollupFirst = 5 * time.Millisecond  // for the first sample
	rollupEvery = 5 * time.Second       // more often it gives nothing new about a process
	// a reading that is expected to take longer is made only on request (memgauge where)
	rollupLimit = 100 * time.Millisecond
	rollupRest  = 5 * time.Minute // until such a process is reconsidered: it may have shrunk
	pageCost    = 30.0            // ns a page of 4 KiB, before it was ever measured
	pageSize    = 4096
)

func (b *rollupBudget) read(s *Sampler, now time.Time, elapsed time.Duration) {
	if !b.begun {
		b.begun, b.saved = true, rollupFirst
	}
	b.saved = min(b.saved+time.Duration(rollupShare*float64(elapsed)), rollupSaved)
	rows := s.out.Memory // in order of pid
	from := 0
	for from < len(rows) && int(rows[from].PID) < b.next {
		from++
	}
	for i := range rows {
		row := &rows[(from+i)%len(rows)]
		if b.saved <= 0 {
			b.next = int(row.PID)
			return
		}
		if p := s.members.byPID[int(row.PID)]; p != nil && !now.Before(p.due) {
			b.saved -= s.rollup(p, row, now)
			b.next = int(row.PID) + 1
		}
	}
}

// rollup reads one process and returns what it cost.
func (s *Sampler) rollup(p *member, row *model.ProcessMemory, now time.Time) time.Duration {
	if p.pages == 0 {
		p.pages = pageCost
	}
	if time.Duration(p.pages*float64(row.RSS)/pageSize) > rollupLimit {
		p.due, p.pages = now.Add(rollupRest), pageCost // measured anew when it has shrunk
		return 0
	}
	before := threadTime()
	r, err := s.fs.Rollup(p.usage.PID)
	took := threadTime() - before
	p.due = now.Add(rollupEvery)
	if err != nil {
		return took // it has ended, or may not be read
	}
	p.pages = max(float64(took)*pageSize/float64(max(row.RSS, pageSize)), 1)
	row.PSS, row.PSSAnon, row.PSSFile, row.PSSShmem = r.PSS, r.PSSAnon, r.PSSFile, r.PSSShmem
	row.PrivateDirty, row.PrivateClean, row.SwapPSS = r.PrivateDirty, r.PrivateClean, r.SwapPSS
	return took
}

// threadBudget gives threads the time that is left for them: a job may have thousands, and each costs two reads.
type threadBudget struct {
	saved  time.Duration // CPU time that may be spent
	next   int           // pid at which the next sample continues
	before map[[2]int]cpuTimes
}

const (
	threadShare = 0.0003                // of one core may go to threads
	threadSaved = 10 * time.Millisecond // at most this much is saved up
	threadFirst = time.Millisecond      // for the first sample
	maxThreads  = 256                   // of a process, in one sample
)

func (b *threadBudget) read(s *Sampler, now time.Time, elapsed time.Duration) {
	if b.before == nil {
		b.before, b.saved = map[[2]int]cpuTimes{}, threadFirst
	}
	b.saved = min(b.saved+time.Duration(threadShare*float64(elapsed)), threadSaved)
	pids := s.members.pids()
	from := 0
	for from < len(pids) && pids[from] < b.next {
		from++
	}
	for i := range pids {
		pid := pids[(from+i)%len(pids)]
		if b.saved <= 0 {
			b.next = pid
			return
		}
		before := threadTime()
		b.process(s, s.members.byPID[pid], now)
		b.saved -= threadTime() - before
		b.next = pid + 1
	}
}

func (b *threadBudget) process(s *Sampler, p *member, now time.Time) {
	pid := p.usage.PID
	seen := map[[2]int]bool{}
	for i, tid := range numbers(filepath.Join(s.o.Root, "proc", strconv.Itoa(pid), "task")) {
		if i >= maxThreads {
			break
		}
		u, err := s.fs.ThreadUsage(pid, tid)
		if err != nil {
			continue
		}
		key := [2]int{pid, tid}
		seen[key] = true
		times := b.before[key]
		row := model.Utilization{Time: now.UnixMicro(), PID: int32(pid), Rank: p.about.Rank, TID: int32(tid),
			Comm: u.Comm, RSS: model.Null, State: string(u.State), Wchan: s.fs.Wchan(pid, tid)}
		row.UserPct, row.SysPct = times.since(&u, now)
		b.before[key] = times
		s.out.Utilization = append(s.out.Utilization, row)
	}
	for key := range b.before {
		if key[0] == pid && !seen[key] || !s.members.has(key[0]) {
			delete(b.before, key)
		}
	}
}
