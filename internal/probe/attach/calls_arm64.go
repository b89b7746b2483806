package attach

import "golang.org/x/sys/unix"

// callsHere are those of systemCallsMade that not every architecture makes.
var callsHere = []made{
	{nr: unix.SYS_UNLINKAT, name: "unlinkat"},
	{nr: unix.SYS_RENAMEAT, name: "renameat"},
	{nr: unix.SYS_READLINKAT, name: "readlinkat"},
	{nr: unix.SYS_FCHMODAT, name: "fchmodat"},
	{nr: unix.SYS_PPOLL, name: "ppoll"},
	{nr: unix.SYS_EPOLL_PWAIT, name: "epoll_pwait"},
}
