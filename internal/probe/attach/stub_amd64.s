#include "go_asm.h"
#include "textflag.h"

// Code that runs in the target. It calls C functions through the table in the data page, keeps the data page's address in
// BX (which C functions preserve), and reaches nothing else. No part keeps anything on the stack but what it has pushed.

// stubMark
#define MARK BYTE $0x66; BYTE $0x2e; BYTE $0x0f; BYTE $0x1f; BYTE $0x84; BYTE $0x00; BYTE $0x4d; BYTE $0x47; BYTE $0x4d; BYTE $0x47

#define SYS_rt_sigprocmask 14
#define SYS_nanosleep 35
#define SYS_getpid 39
#define SYS_munmap 11
#define SYS_rt_sigpending 127
#define SYS_prctl 157
#define SYS_clock_gettime 228

// Bytes, since Go's assembler wants a PUSHQ and a POPQ for every return.
#define PUSH_BX BYTE $0x53
#define POP_BX BYTE $0x5b
#define PUSH_R12_R15 BYTE $0x41; BYTE $0x54; BYTE $0x41; BYTE $0x55; BYTE $0x41; BYTE $0x56; BYTE $0x41; BYTE $0x57
#define POP_R15_R12 BYTE $0x41; BYTE $0x5f; BYTE $0x41; BYTE $0x5e; BYTE $0x41; BYTE $0x5d; BYTE $0x41; BYTE $0x5c

// CLOCK(at) stores CLOCK_MONOTONIC.
#define CLOCK(at) MOVL $SYS_clock_gettime, AX; MOVL $1, DI; LEAQ at(BX), SI; SYSCALL
#define CCALL(fn) MOVQ fn(BX), AX; CALL AX
#define STATE(s) MOVQ $s, AX; XCHGQ AX, const_dataState(BX)
#define NAP MOVL $SYS_nanosleep, AX; LEAQ const_dataNap(BX), DI; XORL SI, SI; SYSCALL
// CREATE starts the thread.
#define CREATE LEAQ const_dataThread(BX), DI; XORL SI, SI; MOVQ const_dataMain(BX), DX; MOVQ BX, CX; CCALL(const_fnPthreadCreate); MOVL AX, const_dataErrno(BX)
// OUT leaves by storing CLOCK_MONOTONIC from a system call instruction outside, which returns 0 to the caller: once the time
// can be read, this thread is no longer in the code, and another one may unmap it.
#define OUT(at) LEAQ at(BX), SI; MOVQ const_fnSyscall(BX), CX; POP_BX; MOVL $1, DI; MOVL $SYS_clock_gettime, AX; JMP CX
// LEAVE unmaps everything, this code too, and returns 0 to the caller: munmap by a system call instruction elsewhere.
#define LEAVE MOVQ const_dataMap(BX), DI; MOVQ const_dataMapSize(BX), SI; MOVQ const_fnSyscall(BX), CX; POP_BX; MOVL $SYS_munmap, AX; JMP CX

// func stub()
TEXT ·stub(SB), NOSPLIT|NOFRAME, $0-0
	MARK
	// spawn(data, last frame, signals, pc after the interrupted call): in a thread that is blocked in a system call, or
	// computes outside the C library.
	PUSH_BX
	PUSH_R12_R15
	MOVQ DI, BX
	MOVQ SI, R12
	MOVQ DX, R13
	MOVQ CX, R14
	CLOCK(const_dataT0)
	CCALL(const_fnErrnoLocation)
	MOVL (AX), R15
	CREATE
	CCALL(const_fnErrnoLocation)
	MOVL R15, (AX)
	MOVL const_dataErrno(BX), AX
	TESTL AX, AX
	JZ made
	STATE(const_stateNoThread)
made:
	// A signal that has come meanwhile ends the call with EINTR where it would have done so without us.
	TESTQ R14, R14
	JZ spawned
	MOVL $SYS_rt_sigpending, AX
	LEAQ const_dataPending(BX), DI
	MOVL $8, SI
	SYSCALL
	MOVQ const_dataPending(BX), AX
	ANDQ R13, AX
	JZ spawned
	MOVQ $-4, AX
	MOVQ AX, const_frameRAX(R12)
	MOVQ R14, const_frameRIP(R12)
spawned:
	POP_R15_R12
	OUT(const_dataT1)

	MARK
	// thread(data) void *
	PUSH_BX
	MOVQ DI, BX
	MOVL $SYS_rt_sigprocmask, AX
	MOVL $2, DI // SIG_SETMASK
	LEAQ const_dataMask(BX), SI
	XORL DX, DX
	MOVL $8, R10
	SYSCALL
	MOVL $SYS_prctl, AX
	MOVL $15, DI // PR_SET_NAME
	LEAQ const_dataComm(BX), SI
	SYSCALL
	CCALL(const_fnPthreadSelf)
	MOVQ AX, DI
	CCALL(const_fnPthreadDetach)
	CCALL(const_fnIsInitialized)
	TESTL AX, AX
	JNZ python
	STATE(const_stateNoPython)
	JMP linger
python:
	STATE(const_stateWaiting)
	CMPQ const_dataCancel(BX), $0
	JNE declined
	CCALL(const_fnEnsure)
	MOVL AX, const_dataGIL(BX)
	STATE(const_stateRunning)
	CMPQ const_dataCancel(BX), $0
	JNE release
	CCALL(const_fnDictNew)
	MOVQ AX, const_dataDict(BX)
	TESTQ AX, AX
	JZ clear
	CCALL(const_fnGetBuiltins)
	MOVQ const_dataDict(BX), DI
	MOVQ const_dataBltins(BX), SI
	MOVQ AX, DX
	CCALL(const_fnDictSetItem)
	MOVQ const_dataSource(BX), DI
	MOVL $const_fileInput, SI
	MOVQ const_dataDict(BX), DX
	MOVQ DX, CX
	CCALL(const_fnRunString)
	TESTQ AX, AX
	JZ ran
	MOVQ AX, DI
	CCALL(const_fnDecRef)
ran:
	CCALL(const_fnErrClear)
	MOVQ const_dataDict(BX), DI
	MOVQ const_dataOutName(BX), SI
	CCALL(const_fnDictGetItem) // borrowed
	TESTQ AX, AX
	JZ drop
	MOVQ AX, DI
	LEAQ const_dataSpare(BX), SI
	LEAQ (const_dataSpare+8)(BX), DX
	CCALL(const_fnAsStringAndSize)
	TESTL AX, AX
	JNZ drop
	MOVQ const_dataSpare(BX), SI
	MOVQ (const_dataSpare+8)(BX), CX
	MOVQ CX, const_dataOutSize(BX)
	CMPQ CX, const_dataOutRoom(BX)
	JLE fits
	MOVQ const_dataOutRoom(BX), CX
fits:
	MOVQ const_dataOut(BX), DI
	CLD
	REP; MOVSB
drop:
	MOVQ const_dataDict(BX), DI
	CCALL(const_fnDecRef)
clear:
	CCALL(const_fnErrClear)
	MOVL const_dataGIL(BX), DI
	CCALL(const_fnRelease)
	STATE(const_stateDone)
	JMP linger
release:
	MOVL const_dataGIL(BX), DI
	CCALL(const_fnRelease)
declined:
	STATE(const_stateDeclined)
linger:
	MOVQ $const_lingerNaps, AX
	MOVQ AX, const_dataSpare(BX)
nap:
	CMPQ const_dataAck(BX), $0
	JNE out
	NAP
	DECQ const_dataSpare(BX)
	JNZ nap
out: // not before the borrowed thread has left the code
	CMPQ const_dataT1(BX), $0
	JNE leave
	NAP
	JMP out
leave:
	LEAVE
	MARK
	RET

// func stubAddress() uintptr
TEXT ·stubAddress(SB), NOSPLIT, $0-8
	LEAQ ·stub(SB), AX
	MOVQ AX, ret+0(FP)
	RET
