package attach

import "golang.org/x/sys/unix"

// callsHere are those of systemCallsMade that not every architecture has.
var callsHere = []made{
	{nr: unix.SYS_STAT, name: "stat"},
	{nr: unix.SYS_READLINK, name: "readlink"},
	{nr: unix.SYS_CHMOD, name: "chmod"},
	{nr: unix.SYS_RENAME, name: "rename"},
	{nr: unix.SYS_UNLINK, name: "unlink"},
	{nr: unix.SYS_POLL, name: "poll"},
	{nr: unix.SYS_EPOLL_WAIT, name: "epoll_wait"},
}
