package proc

import "golang.org/x/sys/unix"

// older are system calls that arm64 does not have.
var older = map[int]string{
	unix.SYS_POLL: "poll", unix.SYS_SELECT: "select", unix.SYS_EPOLL_WAIT: "epoll_wait", unix.SYS_PAUSE: "pause",
	unix.SYS_OPEN: "open", unix.SYS_STAT: "stat", unix.SYS_FORK: "fork", unix.SYS_VFORK: "vfork",
}
