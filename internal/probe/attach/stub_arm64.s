#include "go_asm.h"
#include "textflag.h"

// Code that runs in the target. It calls C functions through the table in the data page, keeps the data page's address in
// R19 (which C functions preserve), and reaches nothing else. No part keeps anything on the stack but what it has pushed.

// stubMark
#define MARK WORD $0x00004d47; WORD $0x00004d47

#define SYS_nanosleep 101
#define SYS_clock_gettime 113
#define SYS_rt_sigprocmask 135
#define SYS_rt_sigpending 136
#define SYS_prctl 167
#define SYS_munmap 215

// Words, since Go's assembler follows the stack pointer where it knows of its changes.
#define PUSH_R19_LR WORD $0xa9bf7bf3 // stp x19, x30, [sp, #-16]!
#define POP_R19_LR WORD $0xa8c17bf3 // ldp x19, x30, [sp], #16
#define PUSH_R20_R21 WORD $0xa9bf57f4 // stp x20, x21, [sp, #-16]!
#define POP_R20_R21 WORD $0xa8c157f4 // ldp x20, x21, [sp], #16
#define PUSH_R22_R23 WORD $0xa9bf5ff6 // stp x22, x23, [sp, #-16]!
#define POP_R22_R23 WORD $0xa8c15ff6 // ldp x22, x23, [sp], #16
// GO_R16 jumps to an instruction that need not be a landing pad (BTI): a return goes anywhere, a branch does not.
#define GO_R16 WORD $0xd65f0200 // ret x16

#define CALL_KERNEL(nr) MOVD $nr, R8; SVC
#define DATA(at, to) MOVD $at, to; ADD R19, to, to
// CLOCK(at) stores CLOCK_MONOTONIC.
#define CLOCK(at) MOVD $1, R0; DATA(at, R1); CALL_KERNEL(SYS_clock_gettime)
#define CCALL(fn) MOVD fn(R19), R16; CALL (R16)
// STATE makes what was stored before visible before the state, and the state before what is read after it.
#define STATE(s) DATA(const_dataState, R9); MOVD $s, R10; STLR R10, (R9); DMB $0xb
#define NAP DATA(const_dataNap, R0); MOVD $0, R1; CALL_KERNEL(SYS_nanosleep)
// LOOK(at) reads what another thread, or memgauge, writes.
#define LOOK(at) DATA(at, R9); LDAR (R9), R10
// CREATE starts the thread.
#define CREATE DATA(const_dataThread, R0); MOVD $0, R1; MOVD const_dataMain(R19), R2; MOVD R19, R3; CCALL(const_fnPthreadCreate); MOVW R0, const_dataErrno(R19)
// OUT leaves by storing CLOCK_MONOTONIC from a system call instruction outside, which returns 0 to the caller: once the time
// can be read, this thread is no longer in the code, and another one may unmap it.
#define OUT(at) MOVD $1, R0; DATA(at, R1); MOVD const_fnSyscall(R19), R16; POP_R19_LR; MOVD $SYS_clock_gettime, R8; GO_R16
// LEAVE unmaps everything, this code too, and returns 0 to the caller: munmap by a system call instruction elsewhere.
#define LEAVE MOVD const_dataMap(R19), R0; MOVD const_dataMapSize(R19), R1; MOVD const_fnSyscall(R19), R16; POP_R19_LR; MOVD $SYS_munmap, R8; GO_R16

// func stub()
TEXT ·stub(SB), NOSPLIT|NOFRAME, $0-0
	MARK
	// spawn(data, last frame, signals, pc after the interrupted call): in a thread that is blocked in a system call, or
	// computes outside the C library.
	PUSH_R19_LR
	PUSH_R20_R21
	PUSH_R22_R23
	MOVD R0, R19
	MOVD R1, R20
	MOVD R2, R21
	MOVD R3, R22
	CLOCK(const_dataT0)
	CCALL(const_fnErrnoLocation)
	MOVW (R0), R23
	CREATE
	CCALL(const_fnErrnoLocation)
	MOVW R23, (R0)
	MOVW const_dataErrno(R19), R9
	CBZW R9, made
	STATE(const_stateNoThread)
made:
	// A signal that has come meanwhile ends the call with EINTR where it would have done so without us.
	CBZ R22, spawned
	DATA(const_dataPending, R0)
	MOVD $8, R1
	CALL_KERNEL(SYS_rt_sigpending)
	MOVD const_dataPending(R19), R9
	AND R21, R9, R9
	CBZ R9, spawned
	MOVD $-4, R9
	MOVD R9, const_frameX0(R20)
	MOVD R22, const_framePC(R20)
spawned:
	POP_R22_R23
	POP_R20_R21
	OUT(const_dataT1)

	MARK
	// thread(data) void *
	PUSH_R19_LR
	MOVD R0, R19
	MOVD $2, R0 // SIG_SETMASK
	DATA(const_dataMask, R1)
	MOVD $0, R2
	MOVD $8, R3
	CALL_KERNEL(SYS_rt_sigprocmask)
	MOVD $15, R0 // PR_SET_NAME
	DATA(const_dataComm, R1)
	CALL_KERNEL(SYS_prctl)
	CCALL(const_fnPthreadSelf)
	CCALL(const_fnPthreadDetach)
	CCALL(const_fnIsInitialized)
	CBNZW R0, python
	STATE(const_stateNoPython)
	JMP linger
python:
	STATE(const_stateWaiting)
	LOOK(const_dataCancel)
	CBNZ R10, declined
	CCALL(const_fnEnsure)
	MOVW R0, const_dataGIL(R19)
	STATE(const_stateRunning)
	LOOK(const_dataCancel)
	CBNZ R10, release
	CCALL(const_fnDictNew)
	MOVD R0, const_dataDict(R19)
	CBZ R0, clear
	CCALL(const_fnGetBuiltins)
	MOVD R0, R2
	MOVD const_dataDict(R19), R0
	MOVD const_dataBltins(R19), R1
	CCALL(const_fnDictSetItem)
	MOVD const_dataSource(R19), R0
	MOVD $const_fileInput, R1
	MOVD const_dataDict(R19), R2
	MOVD R2, R3
	CCALL(const_fnRunString)
	CBZ R0, ran
	CCALL(const_fnDecRef)
ran:
	CCALL(const_fnErrClear)
	MOVD const_dataDict(R19), R0
	MOVD const_dataOutName(R19), R1
	CCALL(const_fnDictGetItem) // borrowed
	CBZ R0, drop
	DATA(const_dataSpare, R1)
	ADD $8, R1, R2
	CCALL(const_fnAsStringAndSize)
	CBNZW R0, drop
	MOVD const_dataSpare(R19), R1
	MOVD (const_dataSpare+8)(R19), R2
	MOVD R2, const_dataOutSize(R19)
	MOVD const_dataOutRoom(R19), R3
	CMP R3, R2
	CSEL LT, R2, R3, R2
	MOVD const_dataOut(R19), R0
copy:
	CBZ R2, drop
	MOVBU.P 1(R1), R3
	MOVBU.P R3, 1(R0)
	SUB $1, R2, R2
	JMP copy
drop:
	MOVD const_dataDict(R19), R0
	CCALL(const_fnDecRef)
clear:
	CCALL(const_fnErrClear)
	MOVW const_dataGIL(R19), R0
	CCALL(const_fnRelease)
	STATE(const_stateDone)
	JMP linger
release:
	MOVW const_dataGIL(R19), R0
	CCALL(const_fnRelease)
declined:
	STATE(const_stateDeclined)
linger:
	MOVD $const_lingerNaps, R9
	MOVD R9, const_dataSpare(R19)
nap:
	LOOK(const_dataAck)
	CBNZ R10, out
	NAP
	MOVD const_dataSpare(R19), R9
	SUB $1, R9, R9
	MOVD R9, const_dataSpare(R19)
	CBNZ R9, nap
out: // not before the borrowed thread has left the code
	LOOK(const_dataT1)
	CBNZ R10, leave
	NAP
	JMP out
leave:
	LEAVE
	MARK
	RET

// func stubAddress() uintptr
TEXT ·stubAddress(SB), NOSPLIT, $0-8
	MOVD $·stub(SB), R0
	MOVD R0, ret+0(FP)
	RET
