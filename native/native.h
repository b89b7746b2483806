// What the parts of libmemgauge_native.so share. docs/native.md says what it does, docs/formats/native.md what it writes.
//
// hooks.c    the functions that it wraps, and the countdown that decides which blocks are sampled
// pace.c     which of those are recorded, so that the cost is bounded
// table.c    the samples, in a mapped file and in an index of this process; forks
// unwind.c   the C stack, by .eh_frame; which files are mapped where
// python.c   the Python stack
// peek.c     reads memory that may not be there
// got.c      leads the calls of a process that runs already to the functions of hooks.c, and back
#ifndef MEMGAUGE_NATIVE_H
#define MEMGAUGE_NATIVE_H

#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HOT __attribute__((hot))
#define COLD __attribute__((cold, noinline))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

// thread is what a thread needs to decide. It lies in the static TLS block, so no access allocates, and it goes with its
// thread without a destructor.
struct thread {
	uint64_t left;   // bytes until the next sample
	double interval; // bytes, that left was drawn with
	uint64_t random; // state of the generator; 0 before the first draw
	bool inside;     // this thread is in the table: what it allocates is nobody's leak
};
extern __thread struct thread mg_thread __attribute__((tls_model("initial-exec")));

// The filter has a bit set for the address of every live sample, so that free knows others at once. 2^19 bits are 64 KiB:
// of 1,000 live samples (0.5 GB at 512 KiB) one free in 500 looks further for nothing.
enum { FILTER_BITS = 19 };
extern uint64_t mg_filter[1 << (FILTER_BITS - 6)];

static inline uint32_t mg_hash(const void *p) {
	return (uint32_t)((((uintptr_t)p >> 4) * 0x9E3779B97F4A7C15ull) >> (64 - FILTER_BITS));
}

static inline bool mg_maybe(const void *p) {
	uint32_t h = mg_hash(p);
	return __atomic_load_n(&mg_filter[h >> 6], __ATOMIC_RELAXED) >> (h & 63) & 1;
}

// Kinds of samples.
enum { KIND_HEAP, KIND_MAP };

// functions are those that ours stand for, as the next library has them.
struct functions {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void *(*memalign)(size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	int (*posix_memalign)(void **, size_t, size_t);
	void (*free)(void *);
	void *(*mmap)(void *, size_t, int, int, int, off_t);
	int (*munmap)(void *, size_t);
	void *(*mremap)(void *, size_t, size_t, int, ...);
	// only where calls were led here
	int (*brk)(void *);
	void *(*sbrk)(intptr_t);
	void (*ffi_call)(void *, void *, void *, void **);
};
extern struct functions mg_next;
extern long (*mg_next_syscall)(long, ...);

// hooks.c
void *mg_malloc(size_t);
void *mg_calloc(size_t, size_t);
void *mg_realloc(void *, size_t);
void *mg_memalign(size_t, size_t);
void *mg_aligned_alloc(size_t, size_t);
int mg_posix_memalign(void **, size_t, size_t);
void *mg_valloc(size_t);
void mg_free(void *);
void *mg_mmap(void *, size_t, int, int, int, off_t);
void *mg_mmap64(void *, size_t, int, int, int, off_t);
int mg_munmap(void *, size_t);
void *mg_mremap(void *, size_t, size_t, int, ...);
int mg_brk(void *);
void *mg_sbrk(intptr_t);
long mg_syscall(long, ...);
void mg_ffi_call(void *, void *, void *, void **);
void mg_find_allocator(void);

// got.c
void mg_got_before_fork(void);
void mg_got_after_fork(void);
void mg_got_in_child(void);
void *mg_instead(void *function); // ours for one that calls are led from; itself for any other

// saved is a sample that was taken out of the table and may come back.
struct saved {
	uint64_t size, time;
	double interval;
	uint32_t stack, kind, site;
};

// pace.c
void mg_pace_init(double bytes);
double mg_interval(void);
double mg_floor(void);
void mg_raise_floor(void);
uint64_t mg_random(uint64_t *state);
bool mg_survives(uint64_t *random, uint64_t size, double drawn, double wanted);
double mg_wanted(uint64_t size, double drawn, uint64_t caller, uint32_t *site);
void mg_site_holds(uint32_t site, int sign, uint64_t size, double drawn);
void mg_sites_reset(void);
double mg_pace(uint64_t measured, uint64_t now); // under the table's lock

// table.c
void mg_init(void);
const char *mg_open(const char *to, double bytes); // NULL, or why not
void mg_switch_on(void);
void mg_close(void);
size_t mg_own_bytes(void);
bool mg_on(void);
int mg_pid(void);
void mg_record(void *p, size_t size, double interval, int kind, uint32_t site);
bool mg_forget(void *p, struct saved *was);
void mg_put_back(void *p, const struct saved *was);
bool mg_allocate(uint64_t from, uint64_t to); // bytes of the file
void mg_lock(void);
bool mg_is_lock(uint64_t address);
void mg_unlock(void);
uint64_t mg_now(void);
char *mg_put_number(char *to, uint64_t v); // with a 0 behind it; returns the place of that
uint64_t mg_cpu_time(void);

// frames of a stack, innermost first
enum { MAX_PYTHON = 96, MAX_C = 48 };
struct stack {
	uint32_t python, c;
	uint32_t waits; // Python's frames are those of the main thread, which waits
	struct {
		uint64_t code;
		uint32_t lasti, record;
	} py[MAX_PYTHON];
	uint64_t pc[MAX_C];
};

// peek.c: all under the table's lock
void mg_peek_begin(void);
void mg_peek_end(void);
bool mg_peek(uint64_t at, void *to, size_t n);
bool mg_peek_fresh(uint64_t at, void *to, size_t n); // not from a page that was read before in this sample
void mg_peek_each(const uint64_t *at, unsigned count, unsigned char *to, size_t size); // of at most MAX_PYTHON

// unwind.c
void mg_unwind(struct stack *s);
void mg_unwind_reset(void);
void mg_unloaded(void);

// python.c
void mg_python_init(void);
void mg_python_forked(void);
bool mg_python_here(void);
bool mg_python_ends(void);
uint32_t mg_python_version(void);
uint64_t mg_python_eval(void);
uint64_t mg_python_spot(void);
void mg_python_frames(struct stack *s);

// a code object as it was read
struct code {
	uint64_t object, filename, name, linetable;
	uint32_t firstline;
};
struct code mg_python_code(const struct stack *s, uint32_t frame); // of the stack that was read last
// The bytes of a text or of a bytes object, cut at most; kind is 1, 2 or 4 bytes a character.
uint32_t mg_python_text(uint64_t object, void *to, uint32_t most, uint8_t *kind);
uint32_t mg_python_bytes(uint64_t object, void *to, uint32_t most);

// areas of the file; each is a stream of records, 8 bytes aligned, whose first 8 bytes are none
enum area { AREA_STACKS, AREA_CODES, AREA_MODULES, AREAS };
void *mg_area_room(enum area a, uint32_t size, uint32_t *at); // NULL when it is full
void mg_area_publish(enum area a, uint32_t size);

#endif
