package attach

import (
	"encoding/binary"
	"strings"
)

// Layout of what is mapped in the target: a page (of pageSize) of code, then a page of words that the code, the threads
// and we share, then the source and room for its result. Offsets count from the second page; the code takes them from
// here (go_asm.h).
const (
	dataState   = 0  // where the injection is, see state
	dataCancel  = 8  // set by us: a thread that has not begun must not begin
	dataAck     = 16 // set by us: the source's result has been read
	dataErrno   = 24 // of pthread_create
	dataT0      = 64 // CLOCK_MONOTONIC before and after the borrowed thread ran our code
	dataT1      = 80
	dataThread  = 96  // pthread_t
	dataPending = 104 // signals that wait
	dataPID     = 112 // of the target, in its own PID namespace
	dataMap     = 120 // all of it, to be unmapped
	dataMapSize = 128
	dataMask    = 136 // signals that are blocked in the new thread
	dataGIL     = 144 // what PyGILState_Ensure returned
	dataDict    = 152 // the source's globals
	dataOut     = 160 // where the source's result goes, and its bound
	dataOutRoom = 168
	dataOutSize = 176
	dataSource  = 184
	dataBltins  = 192 // "__builtins__"
	dataOutName = 200 // "out"
	dataNap     = 208 // struct timespec
	dataComm    = 224 // the thread's name
	dataMain    = 240 // address of what the new thread runs
	dataSpare   = 256 // scratch, two words

	fnSyscall         = 320
	fnPthreadCreate   = 328
	fnPthreadDetach   = 336
	fnPthreadSelf     = 344
	fnIsInitialized   = 352
	fnEnsure          = 360
	fnRelease         = 368
	fnRunString       = 376
	fnDictNew         = 384
	fnDictSetItem     = 392
	fnDictGetItem     = 400
	fnGetBuiltins     = 408
	fnAsStringAndSize = 416
	fnDecRef          = 424
	fnErrClear        = 432
	fnErrnoLocation   = 448

	dataStrings = 512 // short strings
)

// States of an injection. The target's code writes them.
const (
	stateNone     = 0    // nothing of ours has run
	stateWaiting  = 2    // the thread waits for the GIL
	stateRunning  = 3    // the source runs
	stateDone     = 4    // it has ended, and its result can be read
	stateDeclined = 5    // it was cancelled in time
	stateNoPython = 6    // the interpreter isn't initialised, or has been finalised
	stateNoThread = 7    // pthread_create refused
	fileInput     = 257  // Py_file_input, Include/compile.h
	lingerNaps    = 1500 // of 2 ms that the thread waits for us to read its result, before it cleans up by itself
)

// functions are the symbols that the code calls, by where their addresses stand.
var functions = []struct {
	at   int
	name string
	libc bool
}{
	{fnPthreadCreate, "pthread_create", true},
	{fnPthreadDetach, "pthread_detach", true},
	{fnPthreadSelf, "pthread_self", true},
	{fnErrnoLocation, "__errno_location", true},
	{fnIsInitialized, "Py_IsInitialized", false},
	{fnEnsure, "PyGILState_Ensure", false},
	{fnRelease, "PyGILState_Release", false},
	{fnRunString, "PyRun_String", false},
	{fnDictNew, "PyDict_New", false},
	{fnDictSetItem, "PyDict_SetItemString", false},
	{fnDictGetItem, "PyDict_GetItemString", false},
	{fnGetBuiltins, "PyEval_GetBuiltins", false},
	{fnAsStringAndSize, "PyBytes_AsStringAndSize", false},
	{fnDecRef, "Py_DecRef", false},
	{fnErrClear, "PyErr_Clear", false},
}

// block is the memory of an injection, as it is written into the target.
type block struct {
	code, data []byte
	at         uint64 // address of the code; the data follow
}

// size of the mapping that the source needs.
func blockSize(source string) uint64 {
	return 2*pageSize + roundUp(uint64(len(source))+1) + MaxValue + pageSize
}

func roundUp(n uint64) uint64 { return (n + pageSize - 1) &^ (pageSize - 1) }

// reserved are signals that a C library sends to its own threads.
type reserved struct {
	all   uint64 // bit n-1 for signal n
	setid uint64 // what setuid and similar calls send to every thread
}

// reservedBy knows glibc's: 32 SIGCANCEL and SIGTIMER, 33 SIGSETXID (sysdeps/unix/sysv/linux/internal-signals.h), and
// musl's: 32 SIGTIMER, 33 SIGCANCEL, 34 SIGSYNCCALL (src/internal/pthread_impl.h).
func reservedBy(libc string) reserved {
	if strings.Contains(libc, "musl") {
		return reserved{0b111 << (32 - 1), 1 << (34 - 1)}
	}
	return reserved{0b11 << (32 - 1), 1 << (33 - 1)}
}

// inThread is the mask of the new thread. The kernel knows only credentials of threads, so for a setuid the C library
// signals every thread to change its own. If our thread blocked that signal, the program would wait for ever in setuid,
// with all locks that it holds.
func (r reserved) inThread() uint64 { return ^r.all }

// inChain is the mask of the borrowed thread. It does not block the signal of setuid: pthread_create may wait there for
// the library's list of threads, which a setuid in another thread locks until all threads have handled the signal. A
// cancellation must not unwind our frames, so its signal waits.
func (r reserved) inChain() uint64 { return ^r.setid }

// newBlock fills the block. addr has the address of every function, libc names the C library's files, pid is the
// target's in its own PID namespace.
func newBlock(at uint64, source string, addr map[string]uint64, gadget uint64, libc string, pid int) block {
	code, entry := stubCode()
	b := block{at: at, code: code, data: make([]byte, pageSize+roundUp(uint64(len(source))+1))}
	data := at + pageSize
	put := func(off int, v uint64) { binary.LittleEndian.PutUint64(b.data[off:], v) }
	for _, f := range functions {
		put(f.at, addr[f.name])
	}
	put(fnSyscall, gadget)
	put(dataPID, uint64(pid))
	put(dataMap, at)
	put(dataMapSize, blockSize(source))
	put(dataMask, reservedBy(libc).inThread())
	put(dataOut, data+uint64(len(b.data)))
	put(dataOutRoom, MaxValue)
	put(dataSource, data+pageSize)
	put(dataNap+8, 2_000_000)
	put(dataMain, at+entry.thread)
	copy(b.data[dataComm:], "memgauge")
	text := dataStrings
	for _, s := range []struct {
		at   int
		text string
	}{{dataBltins, "__builtins__"}, {dataOutName, "out"}} {
		put(s.at, data+uint64(text))
		text += copy(b.data[text:], s.text+"\x00")
	}
	copy(b.data[pageSize:], source)
	return b
}
