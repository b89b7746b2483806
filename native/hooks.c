// The functions of malloc(3) and mmap(2), wrapped. Each calls the next library's, so an allocator that the user preloads
// stays in use. A thread counts bytes down from a random number; the block that ends the countdown is sampled. That is a
// Poisson process over all bytes: a block of s bytes is sampled with probability 1 - exp(-s/interval).
#include "native.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default"))) HOT
#define CALLER ((uintptr_t)__builtin_return_address(0)) // of a wrapper

__thread struct thread mg_thread __attribute__((tls_model("initial-exec")));

// Every thread begins with an empty countdown, so its first block comes to draw. One that must not sample has a countdown
// that never ends.
#define NEVER (UINT64_MAX / 2)

static void *first_malloc(size_t);
static void *first_calloc(size_t, size_t);
static void *first_realloc(void *, size_t);
static void *first_memalign(size_t, size_t);
static int first_posix_memalign(void **, size_t, size_t);
static void first_free(void *);

static struct {
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
} next = {.malloc = first_malloc, .calloc = first_calloc, .realloc = first_realloc, .memalign = first_memalign,
	.aligned_alloc = first_memalign, .posix_memalign = first_posix_memalign, .free = first_free};

// What dlsym itself allocates while we look for the next malloc comes from here, and is never given back: glibc's needs
// some hundred bytes.
static char boot[16 << 10] __attribute__((aligned(16)));
static size_t boot_used;
static bool looking;

// An allocator that is not the C library's maps memory itself; what it maps is in its blocks already.
static uintptr_t allocator_low, allocator_high;

static bool from_boot(const void *p) { return (const char *)p >= boot && (const char *)p < boot + sizeof boot; }

static void *boot_alloc(size_t n) {
	size_t need = (n + 31) & ~(size_t)15; // the size lies in front, for realloc
	if (need > sizeof boot - boot_used) {
		errno = ENOMEM;
		return NULL;
	}
	char *p = boot + boot_used;
	boot_used += need;
	*(size_t *)p = n;
	p += 16;
	uint32_t h = mg_hash(p); // so that free notices it
	__atomic_fetch_or(&mg_filter[h >> 6], 1ull << (h & 63), __ATOMIC_RELAXED);
	return p;
}

static void find_allocator(void) {
	Dl_info info;
	if (!dladdr((void *)next.malloc, &info) || !info.dli_fbase || !info.dli_fname || strstr(info.dli_fname, "/libc.so") ||
		strstr(info.dli_fname, "/libc-2."))
		return;
	const ElfW(Ehdr) *e = info.dli_fbase;
	const ElfW(Phdr) *ph = (const void *)((const char *)e + e->e_phoff);
	allocator_low = (uintptr_t)e;
	for (int i = 0; i < e->e_phnum; i++)
		if (ph[i].p_type == PT_LOAD && allocator_high < (uintptr_t)e + ph[i].p_vaddr + ph[i].p_memsz)
			allocator_high = (uintptr_t)e + ph[i].p_vaddr + ph[i].p_memsz;
}

// look finds the next functions, at the process's first allocation: it has one thread then.
static COLD void look(void) {
	looking = true;
	void *found[] = {dlsym(RTLD_NEXT, "malloc"), dlsym(RTLD_NEXT, "calloc"), dlsym(RTLD_NEXT, "realloc"),
		dlsym(RTLD_NEXT, "memalign"), dlsym(RTLD_NEXT, "aligned_alloc"), dlsym(RTLD_NEXT, "posix_memalign"),
		dlsym(RTLD_NEXT, "free"), dlsym(RTLD_NEXT, "mmap"), dlsym(RTLD_NEXT, "munmap"), dlsym(RTLD_NEXT, "mremap")};
	memcpy(&next, found, sizeof next);
	find_allocator();
	looking = false;
}

static void *first_malloc(size_t n) {
	if (looking)
		return boot_alloc(n);
	look();
	return next.malloc(n);
}
static void *first_calloc(size_t n, size_t each) {
	if (looking)
		return boot_alloc(n * each); // of a few bytes, and zero from the start
	look();
	return next.calloc(n, each);
}
static void *first_realloc(void *p, size_t n) {
	if (looking) {
		void *q = boot_alloc(n);
		if (q && p)
			memcpy(q, p, ((size_t *)p)[-2] < n ? ((size_t *)p)[-2] : n);
		return q;
	}
	look();
	return next.realloc(p, n);
}
static void *first_memalign(size_t a, size_t n) {
	if (looking) {
		errno = ENOMEM;
		return NULL;
	}
	look();
	return next.memalign(a, n);
}
static int first_posix_memalign(void **p, size_t a, size_t n) {
	if (looking)
		return ENOMEM;
	look();
	return next.posix_memalign(p, a, n);
}
static void first_free(void *p) {
	if (looking)
		return;
	look();
	next.free(p);
}

// log of x in (0, 1], without libm: every process of the job would load it. The error is below 1e-7.
static double logarithm(double x) {
	uint64_t bits;
	memcpy(&bits, &x, 8);
	int e = (int)(bits >> 52 & 0x7FF) - 1023;
	bits = (bits & 0xFFFFFFFFFFFFFull) | 0x3FFull << 52;
	memcpy(&x, &bits, 8);
	double s = (x - 1) / (x + 1), q = s * s;
	return e * 0.6931471805599453 + 2 * s * (1 + q * (1. / 3 + q * (1. / 5 + q * (1. / 7 + q * (1. / 9 + q / 11)))));
}

// draw begins a countdown.
static void draw(struct thread *t) {
	double u = ((double)(mg_random(&t->random) >> 11) + 1) * 0x1p-53;
	t->interval = mg_interval();
	t->left = (uint64_t)(-logarithm(u) * t->interval);
}

// ended is called for the block that ended a countdown, and for a thread's first.
static COLD void ended(struct thread *t, void *p, size_t n, int kind, uintptr_t caller) {
	if (t->inside || !mg_on()) {
		if (!t->inside)
			t->left = NEVER;
		return;
	}
	if (t->random == 0) {
		struct timespec now;
		clock_gettime(CLOCK_MONOTONIC, &now);
		t->random = ((uint64_t)(uintptr_t)t * 0x9E3779B97F4A7C15ull ^ (uint64_t)now.tv_nsec << 20 ^ (uint64_t)now.tv_sec) | 1;
		draw(t);
		if (n <= t->left) {
			t->left -= n;
			return;
		}
	}
	double interval = t->interval;
	draw(t);
	uint32_t site;
	double wanted = mg_wanted(n, interval, caller, &site);
	if (mg_survives(&t->random, n, interval, wanted))
		mg_record(p, n, wanted > interval ? wanted : interval, kind, site);
}

static inline void count(void *p, size_t n, int kind, uintptr_t caller) {
	struct thread *t = &mg_thread;
	if (LIKELY(n <= t->left))
		t->left -= n;
	else if (p)
		ended(t, p, n, kind, caller);
}

static COLD void *sampled_malloc(size_t n, uintptr_t caller) {
	void *p = next.malloc(n);
	if (p)
		ended(&mg_thread, p, n, KIND_HEAP, caller);
	return p;
}

EXPORT void *malloc(size_t n) {
	struct thread *t = &mg_thread;
	if (UNLIKELY(n > t->left))
		return sampled_malloc(n, CALLER);
	t->left -= n;
	return next.malloc(n);
}

EXPORT void *calloc(size_t n, size_t each) {
	void *p = next.calloc(n, each);
	size_t size;
	if (LIKELY(!__builtin_mul_overflow(n, each, &size)))
		count(p, size, KIND_HEAP, CALLER);
	return p;
}

static COLD void free_sampled(void *p) {
	if (from_boot(p))
		return;
	mg_forget(p, NULL);
	next.free(p);
}

EXPORT void free(void *p) {
	if (UNLIKELY(mg_maybe(p))) {
		free_sampled(p);
		return;
	}
	next.free(p);
}

// A block that grows is a new one: it is drawn for again with all of its bytes, which keeps the estimate unbiased. The
// sample goes before the block does: another thread may get its address at once.
static COLD void *realloc_sampled(void *p, size_t n, uintptr_t caller) {
	if (from_boot(p)) {
		void *q = malloc(n);
		if (q)
			memcpy(q, p, ((size_t *)p)[-2] < n ? ((size_t *)p)[-2] : n);
		return q;
	}
	struct saved was;
	bool had = mg_forget(p, &was);
	void *q = next.realloc(p, n);
	if (q)
		count(q, n, KIND_HEAP, caller);
	else if (had && n)
		mg_put_back(p, &was);
	return q;
}

EXPORT void *realloc(void *p, size_t n) {
	if (UNLIKELY(p && mg_maybe(p)))
		return realloc_sampled(p, n, CALLER);
	void *q = next.realloc(p, n);
	count(q, n, KIND_HEAP, CALLER);
	return q;
}

EXPORT int posix_memalign(void **p, size_t align, size_t n) {
	int failed = next.posix_memalign(p, align, n);
	if (LIKELY(!failed))
		count(*p, n, KIND_HEAP, CALLER);
	return failed;
}

EXPORT void *aligned_alloc(size_t align, size_t n) {
	void *p = next.aligned_alloc(align, n);
	count(p, n, KIND_HEAP, CALLER);
	return p;
}

EXPORT void *memalign(size_t align, size_t n) {
	void *p = next.memalign(align, n);
	count(p, n, KIND_HEAP, CALLER);
	return p;
}

EXPORT void *valloc(size_t n) { return memalign(4096, n); }

// Maps below this are the heaps' own business; Python's arenas have 256 KiB or 1 MiB.
#define LEAST_MAP ((size_t)64 << 10)

// Only anonymous memory that can be written: files are the page cache's, and a reservation takes nothing.
static void count_map(void *p, size_t n, int prot, int flags, uintptr_t caller) {
	if (n >= LEAST_MAP && (flags & MAP_ANONYMOUS) && (prot & PROT_WRITE) && p != MAP_FAILED &&
		(caller < allocator_low || caller >= allocator_high))
		count(p, n, KIND_MAP, caller);
}

EXPORT void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
	if (UNLIKELY(!next.mmap))
		look();
	void *p = next.mmap(at, n, prot, flags, fd, offset);
	count_map(p, n, prot, flags, CALLER);
	return p;
}

EXPORT void *mmap64(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
	if (UNLIKELY(!next.mmap))
		look();
	void *p = next.mmap(at, n, prot, flags, fd, offset);
	count_map(p, n, prot, flags, CALLER);
	return p;
}

// A sampled map whose head is unmapped goes on behind it; one whose tail is unmapped keeps its size (docs/native.md).
EXPORT int munmap(void *p, size_t n) {
	if (UNLIKELY(!next.munmap))
		look();
	struct saved was;
	bool had = UNLIKELY(mg_maybe(p)) && mg_forget(p, &was);
	int failed = next.munmap(p, n);
	if (UNLIKELY(had)) {
		if (failed) {
			mg_put_back(p, &was);
		} else if (n < was.size) {
			was.size -= n;
			mg_put_back((char *)p + n, &was);
		}
	}
	return failed;
}

EXPORT void *mremap(void *old, size_t old_size, size_t size, int flags, ...) {
	if (UNLIKELY(!next.mremap))
		look();
	va_list ap;
	va_start(ap, flags);
	void *to = flags & MREMAP_FIXED ? va_arg(ap, void *) : NULL;
	va_end(ap);
	struct saved was;
	bool had = UNLIKELY(mg_maybe(old)) && mg_forget(old, &was);
	void *p = next.mremap(old, old_size, size, flags, to);
	if (UNLIKELY(had)) {
		if (p != MAP_FAILED)
			was.size = size;
		mg_put_back(p != MAP_FAILED ? p : old, &was);
	}
	return p;
}

__attribute__((constructor)) static void begin(void) {
	if (next.malloc == first_malloc)
		look();
	mg_init();
}
