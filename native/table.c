// The samples that live: in a file that is mapped, so that they outlive the process (docs/formats/native.md), and in an
// index that only this process has. One lock guards all of it, taken at samples and at frees of sampled blocks, with
// signals blocked: a handler can't meet a half-done table, and nothing that is called under the lock allocates.
#include "native.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	PAGE = 4096,
	SLOTS = 1 << 16,       // 8 GiB of live memory at 128 KiB a sample; then the interval doubles
	STACK_INDEX = 1 << 15, // the area has room for as many
	CODE_INDEX = 1 << 15,
	CHUNK = 256 << 10, // the file grows by so much
	MAX_NAME = 512,    // bytes of a function's or file's name
	MAX_LINES = 32 << 10, // bytes of a line table; what a sample lies behind has its function's first line
};
#define STACKS_SIZE ((uint64_t)8 << 20)
#define CODES_SIZE ((uint64_t)8 << 20)
#define MODULES_SIZE ((uint64_t)256 << 10)

enum { STATE_LIVE = 1, STATE_ENDING = 2 }; // ending: nothing changes any more

struct header {
	char magic[8];
	uint32_t format, header_size, pid, python;
	uint64_t start_ticks, clock_wall, clock_mono;
	uint64_t base_interval, interval, state;
	uint64_t slots_used; // highest that was ever used
	uint64_t used[AREAS]; // bytes
	uint64_t samples, lost, cost_ns, frees, changed;
	uint64_t slots_offset, slots_size;
	uint64_t offset[AREAS], size[AREAS];
};

struct slot {
	uint64_t address, size;
	double interval;
	uint64_t time; // ns of CLOCK_MONOTONIC
	uint32_t stack; // place in the stacks area; 0: the slot is free, or is being written
	uint32_t kind;
	uint64_t check;
};

// index is this process's own; a forked child begins with an empty one.
struct index {
	uint32_t heads[SLOTS]; // slot + 1, by the upper bits of the filter's hash
	uint32_t links[SLOTS]; // of a chain, or of the list of free slots
	uint64_t address[SLOTS];
	uint16_t site[SLOTS];
	uint32_t free, used;
	uint32_t stacks[STACK_INDEX], codes[CODE_INDEX]; // places in the areas
	uint64_t stack_hash[STACK_INDEX], code_hash[CODE_INDEX];
	uint32_t stack_count, code_count;
	uint32_t empty; // place of a stack without frames
	uint64_t turn;  // odd while chains change
};

uint64_t mg_filter[1 << (FILTER_BITS - 6)];

static int on;    // samples are taken
static int lock_word;
static pid_t owner;
static char directory[3072], path[3200];
static char *file;
static uint64_t file_size;
static struct header *head;
static struct index *ix;
static uint64_t grown[AREAS + 1]; // bytes of each area that the file has; the last is the slots'
static struct stack *stack;
static double base; // the interval that was asked for, in bytes

// mg_pid is this process, without a call of the system.
int mg_pid(void) { return owner; }

bool mg_on(void) { return __atomic_load_n(&on, __ATOMIC_RELAXED); }

uint64_t mg_now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

// ---- the lock: 0 free, 1 taken, 2 taken and waited for (Drepper, Futexes Are Tricky)

void mg_lock(void) {
	int was = 0;
	if (__atomic_compare_exchange_n(&lock_word, &was, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	if (was != 2)
		was = __atomic_exchange_n(&lock_word, 2, __ATOMIC_ACQUIRE);
	while (was) {
		syscall(SYS_futex, &lock_word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
		was = __atomic_exchange_n(&lock_word, 2, __ATOMIC_ACQUIRE);
	}
}

bool mg_is_lock(uint64_t address) { return address == (uint64_t)(uintptr_t)&lock_word; }

void mg_unlock(void) {
	if (__atomic_exchange_n(&lock_word, 0, __ATOMIC_RELEASE) == 2)
		syscall(SYS_futex, &lock_word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

// Signals that tell of an error of the program itself are left: blocked ones would end it without its handler.
#define FAULTS (1ull << 3 | 1ull << 4 | 1ull << 6 | 1ull << 7 | 1ull << 10) // ILL, TRAP, BUS, FPE, SEGV

// enter takes the lock, in a process that may use the table: one that was made by clone(2) without our handler of forks shares
// its parent's file, and maybe a lock that nobody in it will give back.
static bool enter(uint64_t *signals) {
	if (mg_thread.inside || owner != (pid_t)syscall(SYS_getpid))
		return false;
	uint64_t all = ~FAULTS;
	syscall(SYS_rt_sigprocmask, 0, &all, signals, sizeof all); // SIG_BLOCK
	mg_thread.inside = true;
	mg_lock();
	return true;
}

static void leave(const uint64_t *signals) {
	mg_unlock();
	mg_thread.inside = false;
	syscall(SYS_rt_sigprocmask, 2, signals, NULL, sizeof *signals); // SIG_SETMASK
}

// ---- the file

static uint64_t start_ticks(void) {
	char text[1024];
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/stat", O_RDONLY | O_CLOEXEC, 0);
	long n = fd < 0 ? -1 : syscall(SYS_read, fd, text, sizeof text - 1);
	if (fd >= 0)
		syscall(SYS_close, fd);
	if (n <= 0)
		return 0;
	text[n] = 0;
	char *s = strrchr(text, ')'); // field 22; the name, field 2, may have spaces
	for (int field = 2; s && field < 22; field++)
		s = strchr(s + 1, ' ');
	uint64_t v = 0;
	for (s = s ? s + 1 : text + n; *s >= '0' && *s <= '9'; s++)
		v = v * 10 + (unsigned)(*s - '0');
	return v;
}

static char *put_text(char *to, const char *s) {
	while (*s)
		*to++ = *s++;
	*to = 0;
	return to;
}

char *mg_put_number(char *to, uint64_t v) {
	char digits[24];
	int n = 0;
	do
		digits[n++] = (char)('0' + v % 10);
	while (v /= 10);
	while (n)
		*to++ = digits[--n];
	*to = 0;
	return to;
}

// allowed: what goes beyond the limit of a file's size ends the process by SIGXFSZ.
static bool allowed(uint64_t size) {
	struct {
		uint64_t soft, hard;
	} limit;
	return syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) == 0 && size <= limit.soft;
}

// mg_allocate has the disk's blocks there before anything is written through the map: a full disk must not kill the
// trainer. The file is opened for it each time, since a descriptor of ours could be closed by the program.
bool mg_allocate(uint64_t from, uint64_t to) {
	int fd = allowed(to) ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0) : -1;
	if (fd < 0)
		return false;
	long failed = syscall(SYS_fallocate, fd, 0, from, to - from);
	if (failed && errno == EOPNOTSUPP) {
		static const char zeros[PAGE];
		for (failed = 0; !failed && from < to; from += PAGE)
			failed = syscall(SYS_pwrite64, fd, zeros, sizeof zeros, from) != PAGE;
	}
	syscall(SYS_close, fd);
	return !failed;
}

static bool room(int area, uint64_t offset, uint64_t size, uint64_t need) {
	if (need > size)
		return false;
	while (grown[area] < need) {
		uint64_t to = grown[area] + CHUNK < size ? grown[area] + CHUNK : size;
		if (!mg_allocate(offset + grown[area], offset + to))
			return false;
		grown[area] = to;
	}
	return true;
}

void *mg_area_room(enum area a, uint32_t size, uint32_t *at) {
	size = (size + 7) & ~7u;
	if (!room(a, head->offset[a], head->size[a], head->used[a] + size))
		return NULL;
	*at = (uint32_t)head->used[a];
	return file + head->offset[a] + head->used[a];
}

void mg_area_publish(enum area a, uint32_t size) {
	__atomic_store_n(&head->used[a], head->used[a] + ((size + 7) & ~7u), __ATOMIC_RELEASE);
}

static uint64_t lay_out(struct header *h) {
	static const uint64_t sizes[AREAS] = {STACKS_SIZE, CODES_SIZE, MODULES_SIZE};
	h->slots_offset = PAGE;
	h->slots_size = SLOTS * sizeof(struct slot);
	uint64_t at = PAGE + h->slots_size;
	for (int a = 0; a < AREAS; a++) {
		h->offset[a] = at;
		h->size[a] = sizes[a];
		h->used[a] = 8; // place 0 is none
		at += sizes[a];
	}
	return at;
}

static uint64_t wall(void) {
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static bool map_file(uint64_t size) {
	int fd = allowed(size) ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
	if (fd < 0)
		return false;
	bool ok = syscall(SYS_ftruncate, fd, size) == 0;
	void *p = ok ? (void *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
	syscall(SYS_close, fd);
	if (p != MAP_FAILED) {
		file_size = size;
		file = p;
		if (mg_allocate(0, PAGE))
			return true;
		file = NULL;
		syscall(SYS_munmap, p, size);
	}
	syscall(SYS_unlinkat, AT_FDCWD, path, 0);
	return false;
}

static void *own_memory(size_t size) {
	void *p = (void *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

// open_table makes this process's file, at its first sample: the job's short-lived processes never have one.
static bool open_table(void) {
	struct header h = {.format = 1, .header_size = PAGE, .pid = (uint32_t)owner};
	uint64_t size = lay_out(&h), now = mg_now();
	memcpy(h.magic, "MGNATIV\n", 8);
	h.start_ticks = start_ticks();
	h.python = mg_python_version();
	h.clock_wall = wall();
	h.clock_mono = mg_now();
	h.base_interval = (uint64_t)base;
	char *s = mg_put_number(put_text(put_text(path, directory), "/"), h.pid);
	put_text(mg_put_number(put_text(mg_put_number(put_text(s, "."), h.start_ticks), "."), now), ".native");
	ix = ix ? ix : own_memory(sizeof *ix);
	stack = stack ? stack : own_memory(sizeof *stack);
	if (!ix || !stack || !map_file(size))
		return false;
	ix->used = 0;
	head = (struct header *)file;
	memcpy(head, &h, sizeof h);
	head->state = STATE_LIVE;
	return true;
}

// usable says whether samples may go into the table now.
static bool usable(void) {
	if (!mg_on())
		return false;
	if (head)
		return true;
	mg_unwind_reset();
	if (open_table())
		return true;
	__atomic_store_n(&on, 0, __ATOMIC_RELAXED);
	return false;
}

// ---- the index of samples

static struct slot *slot(uint32_t i) { return (struct slot *)(file + head->slots_offset) + i; }

static uint32_t *bucket(uint32_t hash) { return &ix->heads[hash >> (FILTER_BITS - 16)]; }

// changing surrounds what absent must not see half done.
static void changing(void) {
	__atomic_store_n(&ix->turn, ix->turn + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static void changed(void) { __atomic_store_n(&ix->turn, ix->turn + 1, __ATOMIC_RELEASE); }

// absent says, without the lock, that an address has no sample: of the frees that the filter lets through most are like
// that. false only means that the lock must be taken to know.
static bool absent(const void *p) {
	enum { LONGEST = 64 };
	if (!ix)
		return false;
	uint64_t turn = __atomic_load_n(&ix->turn, __ATOMIC_ACQUIRE);
	uint32_t i = __atomic_load_n(bucket(mg_hash(p)), __ATOMIC_RELAXED);
	for (int n = 0; i; n++) {
		if (n == LONGEST || __atomic_load_n(&ix->address[i - 1], __ATOMIC_RELAXED) == (uint64_t)(uintptr_t)p)
			return false;
		i = __atomic_load_n(&ix->links[i - 1], __ATOMIC_RELAXED);
	}
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return !(turn & 1) && __atomic_load_n(&ix->turn, __ATOMIC_RELAXED) == turn;
}

static void link_slot(uint32_t i, const void *p) {
	uint32_t h = mg_hash(p), *b = bucket(h);
	changing();
	ix->address[i] = (uint64_t)(uintptr_t)p;
	ix->links[i] = *b;
	__atomic_store_n(b, i + 1, __ATOMIC_RELAXED);
	changed();
	__atomic_fetch_or(&mg_filter[h >> 6], 1ull << (h & 63), __ATOMIC_RELAXED);
}

// unlink_slot takes the sample of an address out of its chain, and the bit out of the filter when no other needs it.
static bool unlink_slot(const void *p, uint32_t *found) {
	uint32_t h = mg_hash(p), *at = bucket(h);
	bool shared = false, had = false;
	changing();
	while (*at) {
		uint32_t i = *at - 1;
		if (!had && ix->address[i] == (uint64_t)(uintptr_t)p) {
			had = true;
			*found = i;
			*at = ix->links[i];
			continue;
		}
		shared |= mg_hash((void *)(uintptr_t)ix->address[i]) == h;
		at = &ix->links[i];
	}
	changed();
	if (had && !shared)
		__atomic_fetch_and(&mg_filter[h >> 6], ~(1ull << (h & 63)), __ATOMIC_RELAXED);
	return had;
}

static void release(uint32_t i) {
	mg_site_holds(ix->site[i], -1, slot(i)->size, slot(i)->interval);
	__atomic_store_n(&slot(i)->stack, 0, __ATOMIC_RELEASE);
	changing();
	ix->links[i] = ix->free;
	changed();
	ix->free = i + 1;
}

static bool new_slot(uint32_t *i) {
	if (ix->free) {
		*i = ix->free - 1;
		ix->free = ix->links[*i];
		return true;
	}
	if (ix->used == SLOTS ||
		!room(AREAS, head->slots_offset, head->slots_size, (uint64_t)(ix->used + 1) * sizeof(struct slot)))
		return false;
	*i = ix->used++;
	head->slots_used = ix->used;
	return true;
}

static uint64_t mix(uint64_t h, uint64_t v) {
	h ^= v;
	h *= 0x9E3779B97F4A7C15ull;
	return h ^ h >> 29;
}

static void fill(uint32_t i, const void *p, const struct saved *v) {
	struct slot *s = slot(i);
	uint64_t interval_bits;
	memcpy(&interval_bits, &v->interval, 8);
	s->address = (uint64_t)(uintptr_t)p;
	s->size = v->size;
	s->interval = v->interval;
	s->time = v->time;
	s->kind = v->kind;
	ix->site[i] = (uint16_t)v->site;
	mg_site_holds(v->site, 1, v->size, v->interval);
	s->check = mix(mix(mix(mix(1, s->address), s->size), interval_bits), v->stack);
	__atomic_store_n(&s->stack, v->stack, __ATOMIC_RELEASE);
}

// thin doubles the least interval for good, and drops the samples that would not have been drawn with it.
static void thin(void) {
	static uint64_t random = 88172645463325252ull;
	mg_raise_floor();
	double floor = mg_floor();
	for (uint32_t i = 0; i < ix->used; i++) {
		struct slot *s = slot(i);
		if (!s->stack || s->interval >= floor)
			continue;
		struct saved v = {s->size, s->time, floor, s->stack, s->kind, ix->site[i]};
		void *p = (void *)(uintptr_t)s->address;
		uint32_t found;
		if (mg_survives(&random, s->size, s->interval, floor)) {
			__atomic_store_n(&s->stack, 0, __ATOMIC_RELEASE);
			mg_site_holds(v.site, -1, s->size, s->interval);
			fill(i, p, &v);
		} else if (unlink_slot(p, &found)) {
			release(found);
		}
	}
}

static void insert(const void *p, const struct saved *v) {
	uint32_t i;
	if (unlink_slot(p, &i)) // its free was not seen: by a library that is bound to another malloc
		release(i);
	if (!new_slot(&i)) {
		if (ix->used == SLOTS)
			thin();
		if (!new_slot(&i)) {
			head->lost++;
			return;
		}
	}
	link_slot(i, p);
	fill(i, p, v);
}

// ---- stacks

static bool find(const uint64_t *hashes, const uint32_t *places, uint32_t size, uint64_t hash, uint32_t *at) {
	for (*at = (uint32_t)hash & (size - 1); places[*at]; *at = (*at + 1) & (size - 1))
		if (hashes[*at] == hash)
			return true;
	return false;
}

static uint32_t pad(uint32_t n) { return (n + 7) & ~7u; }

// store_code writes what names the lines of a code object, once.
static uint32_t store_code(const struct code *c) {
	struct {
		uint32_t size, firstline;
		uint16_t file_size, name_size;
		uint8_t file_kind, name_kind, unused[2];
		uint32_t lines_size, unused2;
	} r = {0};
	static char names[2][MAX_NAME];
	static char lines[MAX_LINES];
	r.firstline = c->firstline;
	r.file_size = (uint16_t)mg_python_text(c->filename, names[0], MAX_NAME, &r.file_kind);
	r.name_size = (uint16_t)mg_python_text(c->name, names[1], MAX_NAME, &r.name_kind);
	r.lines_size = mg_python_bytes(c->linetable, lines, MAX_LINES);
	r.size = pad((uint32_t)sizeof r + r.file_size + r.name_size + r.lines_size);
	uint32_t at;
	char *to = mg_area_room(AREA_CODES, r.size, &at);
	if (!to)
		return 0;
	memcpy(to, &r, sizeof r);
	to += sizeof r;
	memcpy(to, names[0], r.file_size);
	memcpy(to + r.file_size, names[1], r.name_size);
	memcpy(to + r.file_size + r.name_size, lines, r.lines_size);
	mg_area_publish(AREA_CODES, r.size);
	return at;
}

// Addresses of code objects that are gone come again: what lies there is compared by what it points to.
static uint32_t code_place(const struct code *c) {
	uint32_t at;
	uint64_t hash = mix(mix(mix(mix(mix(1, c->object), c->filename), c->name), c->linetable), c->firstline);
	if (find(ix->code_hash, ix->codes, CODE_INDEX, hash, &at))
		return ix->codes[at];
	if (ix->code_count >= CODE_INDEX / 4 * 3)
		return 0;
	uint32_t place = store_code(c);
	if (place) {
		ix->codes[at] = place;
		ix->code_hash[at] = hash;
		ix->code_count++;
	}
	return place;
}

static uint32_t store_stack(const struct stack *s) {
	uint32_t size = 16 + 8 * s->python + 8 * s->c, at;
	uint32_t *to = mg_area_room(AREA_STACKS, size, &at);
	if (!to)
		return 0;
	to[0] = s->python;
	to[1] = s->c;
	to[2] = s->waits;
	to[3] = 0;
	for (uint32_t i = 0; i < s->python; i++) {
		to[4 + 2 * i] = s->py[i].record;
		to[5 + 2 * i] = s->py[i].lasti;
	}
	memcpy(to + 4 + 2 * s->python, s->pc, 8 * s->c);
	mg_area_publish(AREA_STACKS, size);
	return at;
}

// take_stack gives the place of the caller's stack; of an empty one where there is no room left.
static uint32_t take_stack(void) {
	stack->python = stack->c = stack->waits = 0;
	mg_peek_begin();
	mg_python_frames(stack);
	for (uint32_t i = 0; i < stack->python; i++) {
		struct code c = mg_python_code(stack, i);
		stack->py[i].record = code_place(&c);
	}
	mg_peek_begin(); // the C stack below has changed since a page of it was read
	mg_unwind(stack);
	mg_peek_end();
	uint64_t hash = 1 + stack->waits;
	for (uint32_t i = 0; i < stack->python; i++)
		hash = mix(hash, (uint64_t)stack->py[i].record << 32 | stack->py[i].lasti);
	for (uint32_t i = 0; i < stack->c; i++)
		hash = mix(hash, stack->pc[i]);
	uint32_t at;
	if (find(ix->stack_hash, ix->stacks, STACK_INDEX, hash, &at))
		return ix->stacks[at];
	uint32_t place = ix->stack_count < STACK_INDEX / 4 * 3 ? store_stack(stack) : 0;
	if (!place)
		return ix->empty; // 0 where not even an empty one was stored: the sample is lost
	ix->stacks[at] = place;
	ix->stack_hash[at] = hash;
	if (ix->stack_count++ == 0) {
		struct stack none = {0};
		ix->empty = store_stack(&none);
	}
	return place;
}

// mg_cpu_time is this thread's: what it waits for, the kernel gave to others.
uint64_t mg_cpu_time(void) {
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

// ---- what the hooks call

// The interpreter is going: the table stays as the program left it.
static bool over(void) {
	if (!mg_python_ends())
		return false;
	if (head)
		head->state = STATE_ENDING;
	__atomic_store_n(&on, 0, __ATOMIC_RELAXED);
	return true;
}

void mg_record(void *p, size_t size, double drawn, int kind, uint32_t site) {
	static uint64_t random = 1181783497276652981ull;
	uint64_t signals;
	int saved_errno = errno;
	if (!enter(&signals))
		return;
	double floor = mg_floor(); // the table may have been thinned since
	if (usable() && !over() && mg_survives(&random, size, drawn, floor)) {
		uint64_t begin = mg_now();
		struct saved v = {size, begin, drawn > floor ? drawn : floor, take_stack(), (uint32_t)kind, site};
		head->samples++;
		if (v.stack)
			insert(p, &v);
		else
			head->lost++;
		head->changed = mg_now();
		head->cost_ns += (uint64_t)mg_pace(head->changed - begin, head->changed);
		head->interval = (uint64_t)mg_interval();
	}
	leave(&signals);
	errno = saved_errno;
}

bool mg_forget(void *p, struct saved *was) {
	uint64_t signals;
	int saved_errno = errno;
	bool had = false;
	if (absent(p) || !enter(&signals))
		return false;
	uint32_t i;
	if (head && usable() && !over() && unlink_slot(p, &i)) {
		struct slot *s = slot(i);
		if (was)
			*was = (struct saved){s->size, s->time, s->interval, s->stack, s->kind, ix->site[i]};
		release(i);
		head->frees++;
		head->changed = mg_now();
		had = true;
	}
	leave(&signals);
	errno = saved_errno;
	return had;
}

void mg_put_back(void *p, const struct saved *was) {
	uint64_t signals;
	int saved_errno = errno;
	if (!enter(&signals))
		return;
	if (head && usable() && was->stack)
		insert(p, was);
	leave(&signals);
	errno = saved_errno;
}

// ---- forks

// The thread that forks does not take the lock. Handlers of forks are called in reverse order, and an allocator's comes after
// ours: it waits for its own lock, whose holder may map memory and so wait for ours. Until the child is told, the thread's
// blocks are let pass, since another thread may have held the lock when the process was copied.
static void before_fork(void) {
	mg_got_before_fork();
	mg_thread.inside = true;
}

static void after_fork(void) {
	mg_got_after_fork();
	mg_thread.inside = false;
}

// drop_table forgets the file with its samples. All that another thread was changing when the process was copied is put
// back to its beginning, here and by mg_unwind_reset.
static void drop_table(void) {
	head = NULL;
	if (file) {
		syscall(SYS_munmap, file, file_size);
		file = NULL;
		memset(mg_filter, 0, sizeof mg_filter);
		mg_sites_reset();
	}
	if (ix)
		syscall(SYS_madvise, ix, sizeof *ix, MADV_DONTNEED);
	memset(grown, 0, sizeof grown);
}

// The child's blocks are copies of its parent's: it begins with a table of its own, which is made at its first sample.
static void in_child(void) {
	lock_word = 0;
	owner = (pid_t)syscall(SYS_getpid);
	mg_peek_end();
	mg_python_forked();
	drop_table();
	mg_got_in_child();
	mg_thread.inside = false;
}

static double read_interval(const char *s) {
	double v = 0;
	for (; s && *s >= '0' && *s <= '9'; s++)
		v = v * 10 + (*s - '0');
	return v;
}

// prepare is what both ways to begin need. Only Pythons are sampled: the shells and compilers of a job are not.
static const char *prepare(const char *dir, double bytes) {
	static bool hooked;
	if (strlen(dir) >= sizeof directory || bytes < 1024)
		return "the directory's name is too long";
	mg_python_init();
	if (!mg_python_here())
		return "the interpreter's symbols are not to be seen";
	strcpy(directory, dir);
	base = bytes;
	owner = (pid_t)syscall(SYS_getpid);
	mg_pace_init(base);
	if (!hooked && pthread_atfork(before_fork, after_fork, in_child))
		return "no room for a handler of forks";
	hooked = true;
	return NULL;
}

// mg_init runs before the program does.
void mg_init(void) {
	const char *dir = getenv("MEMGAUGE_NATIVE_DIR");
	if (!dir || getenv("MEMGAUGE_DISABLE") || prepare(dir, read_interval(getenv("MEMGAUGE_NATIVE"))))
		return;
	mg_thread.left = 0; // blocks before this were let pass
	__atomic_store_n(&on, 1, __ATOMIC_RELAXED);
}

// mg_open makes the table of a process that runs already; samples come when mg_switch_on is called.
const char *mg_open(const char *to, double bytes) {
	uint64_t signals;
	const char *why = prepare(to, bytes);
	if (why)
		return why;
	if (!enter(&signals))
		return "the thread is in a sample";
	drop_table();
	mg_unwind_reset();
	if (!open_table())
		why = "no file for the samples can be made (a full disk, or a limit)";
	leave(&signals);
	return why;
}

void mg_switch_on(void) {
	mg_thread.left = 0;
	__atomic_store_n(&on, 1, __ATOMIC_RELAXED);
}

// mg_close ends it: what the file has stays.
void mg_close(void) {
	uint64_t signals;
	__atomic_store_n(&on, 0, __ATOMIC_RELAXED);
	if (!enter(&signals))
		return;
	if (head)
		head->state = STATE_ENDING;
	drop_table();
	leave(&signals);
}

// mg_own_bytes is what a table takes of this process's own memory, at most.
size_t mg_own_bytes(void) { return sizeof *ix + sizeof *stack; }
