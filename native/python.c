// Reads the Python stack of this thread from the interpreter's own structures: no GIL, no allocation, no Python code. A
// thread's frames are its own, also while another thread has the GIL, so they don't change while we look. All pointers
// are followed through peek.
#include "native.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// Where things lie, in bytes, by the headers of each version: Include/cpython/pystate.h, Include/cpython/frameobject.h,
// Include/internal/pycore_frame.h, Include/cpython/code.h, Include/cpython/unicodeobject.h. TestOffsets compiles a
// program with the headers of each Python that is here and compares. From 3.13 on the interpreter says it itself
// (_Py_DebugOffsets).
struct offsets {
	uint16_t thread_frame;   // PyThreadState: the frame (3.8 to 3.10), the cframe (3.11, 3.12), the interpreter frame
	uint16_t cframe_current; // _PyCFrame.current_frame
	uint16_t frame_code, frame_back, frame_at; // frame_at: f_lasti, prev_instr or instr_ptr
	uint16_t code_filename, code_name, code_linetable, code_firstline, code_start;
	uint16_t ascii, compact; // sizes of PyASCIIObject and PyCompactUnicodeObject: the characters follow
};
static const struct offsets known[] = {
	[8] = {24, 0, 32, 24, 104, 104, 112, 120, 40, 0, 48, 72},
	[9] = {24, 0, 32, 24, 104, 104, 112, 120, 40, 0, 48, 72},
	[10] = {24, 0, 32, 24, 96, 104, 112, 120, 40, 0, 48, 72},
	[11] = {56, 8, 32, 48, 56, 112, 120, 136, 72, 184, 48, 72},
	[12] = {56, 0, 0, 8, 56, 112, 120, 136, 68, 192, 40, 56},
};

// Places of the fields in _Py_DebugOffsets, in words behind its cookie; Include/internal/pycore_debug_offsets.h.
static const struct {
	uint8_t thread_frame, back, executable, instr_ptr, filename, name, linetable, firstline, start;
} debug_words[] = {
	[13] = {22, 28, 29, 30, 34, 35, 37, 38, 42},
	[14] = {25, 31, 32, 33, 39, 40, 42, 43, 47},
	[15] = {25, 39, 40, 41, 47, 48, 50, 51, 55},
};

static struct offsets at;
static int minor; // of Python 3; 0: there is none that we know
static uint32_t version;
static uint64_t code_type, eval;
static void *(*this_thread)(void);
static int (*finalizing)(void);

uint32_t mg_python_version(void) { return version; }
uint64_t mg_python_eval(void) { return eval; }
bool mg_python_here(void) { return version != 0; }

// The interpreter has begun to go: what is freed from now on says nothing about what the program kept.
bool mg_python_ends(void) { return finalizing && finalizing(); }

static bool debug_offsets(const char *runtime) {
	uint64_t w[60];
	if (!runtime || memcmp(runtime, "xdebugpy", 8) || minor >= (int)(sizeof debug_words / sizeof *debug_words))
		return false;
	memcpy(w, runtime + 8, sizeof w);
	if (w[0] >> 16 != version >> 16 || w[1]) // a free-threaded Python has other objects: it is left with the C stack
		return false;
	const uint8_t *f = (const uint8_t *)&debug_words[minor];
	uint16_t *to[] = {&at.thread_frame, &at.frame_back, &at.frame_code, &at.frame_at, &at.code_filename, &at.code_name,
		&at.code_linetable, &at.code_firstline, &at.code_start};
	for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
		if (w[f[i]] > 4096)
			return false;
		*to[i] = (uint16_t)w[f[i]];
	}
	at.ascii = 40;
	at.compact = 56;
	return true;
}

static uint32_t ask_version(void) {
	const unsigned long *number = dlsym(RTLD_DEFAULT, "Py_Version"); // since 3.11
	if (number)
		return (uint32_t)*number;
	const char *(*text)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "Py_GetVersion"); // "3.9.18 (main, …"
	if (!text)
		return 0;
	const char *s = text();
	if (!s || s[0] != '3' || s[1] != '.')
		return 0;
	return 3u << 24 | (uint32_t)strtoul(s + 2, NULL, 10) << 16;
}

// mg_python_init runs while the process has one thread: dlsym takes the linker's lock, which a sample must never do.
void mg_python_init(void) {
	eval = (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
	this_thread = (void *(*)(void))dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
	code_type = (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "PyCode_Type");
	if (!this_thread || !code_type)
		return;
	version = ask_version();
	finalizing = (int (*)(void))dlsym(RTLD_DEFAULT, "Py_IsFinalizing");
	if (!finalizing)
		finalizing = (int (*)(void))dlsym(RTLD_DEFAULT, "_Py_IsFinalizing");
	minor = version >> 24 == 3 ? version >> 16 & 0xFF : 0;
	if (minor >= 8 && minor <= 12)
		at = known[minor];
	else if (minor < 13 || !debug_offsets(dlsym(RTLD_DEFAULT, "_PyRuntime")))
		minor = 0;
}

static uint64_t word(uint64_t from) {
	uint64_t v = 0;
	return mg_peek(from, &v, 8) ? v : 0;
}

// Samples whose frames were all found, each through peek: from some on the places of the fields are known to be right.
static int proven;
enum { PROOFS = 8 };

// mg_python_spot tells where Python is, by a number: its frame, and the place in its code. It runs for blocks that are
// not sampled in the end, so nothing is peeked at: a call of the system would cost more than all else. What it reads
// belongs to this thread, which is in a call of that frame.
uint64_t mg_python_spot(void) {
	if (!minor || __atomic_load_n(&proven, __ATOMIC_RELAXED) < PROOFS || mg_python_ends())
		return 0;
	uint64_t thread = (uint64_t)(uintptr_t)this_thread(), here = (uint64_t)(uintptr_t)&thread;
	if (!thread)
		return 0;
	uint64_t frame = *(const uint64_t *)(thread + at.thread_frame);
	if (frame && (minor == 11 || minor == 12)) { // the cframe is in the thread's state, or further up this stack
		if (frame - thread > 4096 && frame - here > 1 << 20)
			return frame;
		frame = *(const uint64_t *)(frame + at.cframe_current);
	}
	if (!frame)
		return 0;
	uint64_t place = minor <= 10 ? *(const uint32_t *)(frame + at.frame_at) : *(const uint64_t *)(frame + at.frame_at);
	return frame * 0x9E3779B97F4A7C15ull ^ place * 0xC2B2AE3D27D4EB4Full;
}

static uint64_t main_state; // of the main thread, once a sample has come from it

// blocked says that the main thread waits in a call of C, for something else than us and without an end: a wait for the
// interpreter's lock has one. Where the kernel doesn't tell, it does not.
static bool blocked(void) {
	char path[40] = "/proc/self/task/", text[256], *end = mg_put_number(path + 16, (uint64_t)mg_pid());
	strcpy(end, "/syscall"); // "202 0x7f… 0x89 0x0 0x0 …": the number and the arguments of the call that it is in
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	long n = fd < 0 ? -1 : syscall(SYS_read, fd, text, sizeof text - 1);
	if (fd >= 0)
		syscall(SYS_close, fd);
	if (n <= 0)
		return false;
	text[n] = 0;
	char *s = text;
	if (strtol(s, &s, 10) != SYS_futex || mg_is_lock(strtoul(s, &s, 16)))
		return false;
	strtoul(s, &s, 16);
	strtoul(s, &s, 16);
	return strtoul(s, &s, 16) == 0; // the timeout
}

// mg_python_forked: the thread that forked is the main one of the child.
void mg_python_forked(void) { main_state = 0; }

static uint64_t innermost(uint64_t thread) {
	if (!thread)
		return 0;
	uint64_t frame = word(thread + at.thread_frame);
	if (frame && (minor == 11 || minor == 12))
		frame = word(frame + at.cframe_current);
	return frame;
}

// The place in a function's bytecode, in bytes; before 3.10 that is what f_lasti counts.
static bool place(uint64_t frame, uint64_t code, uint32_t *lasti) {
	if (minor <= 10) {
		int32_t last;
		if (!mg_peek(frame + at.frame_at, &last, 4))
			return false;
		*lasti = last < 0 ? 0 : (uint32_t)last * (minor == 10 ? 2 : 1);
		return true;
	}
	uint64_t instr = word(frame + at.frame_at), start = code + at.code_start;
	*lasti = instr >= start && instr - start < 1 << 28 ? (uint32_t)(instr - start) : 0;
	return instr != 0;
}

// The first bytes of the code objects of the stack that was read last: the fields that we need, of every version.
enum { CODE_BYTES = 160 };
static unsigned char codes[MAX_PYTHON][CODE_BYTES];

// read_codes reads them with one call, and leaves out what is no code object: entries into the interpreter have frames
// of their own, with another object or none.
static void read_codes(struct stack *s) {
	static uint64_t places[MAX_PYTHON];
	uint32_t n = 0;
	for (uint32_t i = 0; i < s->python; i++)
		places[i] = s->py[i].code;
	mg_peek_each(places, s->python, codes[0], CODE_BYTES);
	for (uint32_t i = 0; i < s->python; i++) {
		if (memcmp(codes[i] + 8, &code_type, 8))
			continue;
		s->py[n] = s->py[i];
		memmove(codes[n++], codes[i], CODE_BYTES);
	}
	s->python = n;
}

// mg_python_frames reads the frames of this thread; of one that runs no Python those of the main thread, where that
// waits.
void mg_python_frames(struct stack *s) {
	s->python = s->waits = 0;
	if (!minor)
		return;
	uint64_t thread = (uint64_t)(uintptr_t)this_thread();
	if (!thread && main_state && syscall(SYS_gettid) != mg_pid() && blocked()) {
		thread = main_state;
		s->waits = 1;
	} else if (thread && !main_state && syscall(SYS_gettid) == mg_pid()) {
		main_state = thread;
	}
	uint64_t frame = innermost(thread);
	for (int i = 0; frame && i < 2 * MAX_PYTHON && s->python < MAX_PYTHON; i++) {
		uint64_t code = word(frame + at.frame_code) & ~(uint64_t)7; // 3.14 tags references
		uint32_t lasti;
		if (code && place(frame, code, &lasti)) {
			s->py[s->python].code = code;
			s->py[s->python++].lasti = lasti;
		}
		uint64_t back = word(frame + at.frame_back);
		if (back == frame)
			break;
		frame = back;
	}
	uint32_t before = s->python;
	read_codes(s);
	if (s->python && proven < PROOFS)
		__atomic_store_n(&proven, proven + 1, __ATOMIC_RELAXED);
	else if (before && !s->python)
		__atomic_store_n(&proven, -1000, __ATOMIC_RELAXED); // these are no frames
}

struct code mg_python_code(const struct stack *s, uint32_t frame) {
	const unsigned char *raw = codes[frame];
	struct code c = {.object = s->py[frame].code};
	memcpy(&c.filename, raw + at.code_filename, 8);
	memcpy(&c.name, raw + at.code_name, 8);
	memcpy(&c.linetable, raw + at.code_linetable, 8);
	memcpy(&c.firstline, raw + at.code_firstline, 4);
	return c;
}

uint32_t mg_python_text(uint64_t object, void *to, uint32_t most, uint8_t *kind) {
	int64_t length;
	uint32_t state;
	*kind = 1;
	if (!mg_peek(object + 16, &length, 8) || !mg_peek(object + 32, &state, 4) || length <= 0)
		return 0;
	unsigned k = state >> 2 & 7, compact = state >> 5 & 1, ascii = state >> 6 & 1; // behind two bits of interned
	if (!compact || (k != 1 && k != 2 && k != 4))
		return 0;
	*kind = (uint8_t)k;
	uint64_t data = object + (ascii ? at.ascii : at.compact), bytes = (uint64_t)length * k;
	if (bytes > most) { // the end of a path says more than its beginning
		most -= most % k;
		data += bytes - most;
		bytes = most;
	}
	return mg_peek(data, to, bytes) ? (uint32_t)bytes : 0;
}

uint32_t mg_python_bytes(uint64_t object, void *to, uint32_t most) {
	int64_t size;
	if (!mg_peek(object + 16, &size, 8) || size <= 0)
		return 0;
	uint32_t n = size < most ? (uint32_t)size : most;
	return mg_peek(object + 32, to, n) ? n : 0; // PyBytesObject.ob_sval
}
