// The functions of malloc(3) and mmap(2), wrapped. Each calls the next library's, so an allocator that the user preloads
// stays in use. A thread counts bytes down from a random number; the block that ends the countdown is sampled. That is a
// Poisson process over all bytes: a block of s bytes is sampled with probability 1 - exp(-s/interval).
#include "native.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

// A function is ours under a name of our own, by which others are led to it too (got.c), and exported under its real one.
#define EXPORT(name) extern __typeof__(mg_##name) name \
	__attribute__((hot, alias("mg_" #name), visibility("default")))
#define CALLER ((uintptr_t)__builtin_return_address(0)) // of a wrapper

__thread struct thread mg_thread __attribute__((tls_model("initial-exec")));

// Every thread begins with an empty countdown, so its first block comes to draw. While no samples are taken it looks
// again after so many bytes: calls may be led here later (got.c).
#define SOME ((uint64_t)1 << 20)

static void *first_malloc(size_t);
static void *first_calloc(size_t, size_t);
static void *first_realloc(void *, size_t);
static void *first_memalign(size_t, size_t);
static int first_posix_memalign(void **, size_t, size_t);
static void first_free(void *);

struct functions mg_next = {.malloc = first_malloc, .calloc = first_calloc, .realloc = first_realloc,
	.memalign = first_memalign, .aligned_alloc = first_memalign, .posix_memalign = first_posix_memalign, .free = first_free};

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

void mg_find_allocator(void) {
	Dl_info info;
	if (!dladdr((void *)mg_next.malloc, &info) || !info.dli_fbase || !info.dli_fname || strstr(info.dli_fname, "/libc.so") ||
		strstr(info.dli_fname, "/libc-2."))
		return;
	const ElfW(Ehdr) *e = info.dli_fbase;
	const ElfW(Phdr) *ph = (const void *)((const char *)e + e->e_phoff);
	for (int i = 0; i < e->e_phnum; i++)
		if (ph[i].p_type == PT_LOAD && allocator_high < (uintptr_t)e + ph[i].p_vaddr + ph[i].p_memsz)
			allocator_high = (uintptr_t)e + ph[i].p_vaddr + ph[i].p_memsz;
	allocator_low = (uintptr_t)e;
}

// look finds the next functions, at the process's first allocation: it has one thread then.
static COLD void look(void) {
	looking = true;
	void *found[] = {dlsym(RTLD_NEXT, "malloc"), dlsym(RTLD_NEXT, "calloc"), dlsym(RTLD_NEXT, "realloc"),
		dlsym(RTLD_NEXT, "memalign"), dlsym(RTLD_NEXT, "aligned_alloc"), dlsym(RTLD_NEXT, "posix_memalign"),
		dlsym(RTLD_NEXT, "free"), dlsym(RTLD_NEXT, "mmap"), dlsym(RTLD_NEXT, "munmap"), dlsym(RTLD_NEXT, "mremap")};
	memcpy(&mg_next, found, sizeof found);
	mg_find_allocator();
	looking = false;
}

static void *first_malloc(size_t n) {
	if (looking)
		return boot_alloc(n);
	look();
	return mg_next.malloc(n);
}
static void *first_calloc(size_t n, size_t each) {
	if (looking)
		return boot_alloc(n * each); // of a few bytes, and zero from the start
	look();
	return mg_next.calloc(n, each);
}
static void *first_realloc(void *p, size_t n) {
	if (looking) {
		void *q = boot_alloc(n);
		if (q && p)
			memcpy(q, p, ((size_t *)p)[-2] < n ? ((size_t *)p)[-2] : n);
		return q;
	}
	look();
	return mg_next.realloc(p, n);
}
static void *first_memalign(size_t a, size_t n) {
	if (looking) {
		errno = ENOMEM;
		return NULL;
	}
	look();
	return mg_next.memalign(a, n);
}
static int first_posix_memalign(void **p, size_t a, size_t n) {
	if (looking)
		return ENOMEM;
	look();
	return mg_next.posix_memalign(p, a, n);
}
static void first_free(void *p) {
	if (looking)
		return;
	look();
	mg_next.free(p);
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
			t->left = SOME;
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
	void *p = mg_next.malloc(n);
	if (p)
		ended(&mg_thread, p, n, KIND_HEAP, caller);
	return p;
}

HOT void *mg_malloc(size_t n) {
	struct thread *t = &mg_thread;
	if (UNLIKELY(n > t->left))
		return sampled_malloc(n, CALLER);
	t->left -= n;
	return mg_next.malloc(n);
}

HOT void *mg_calloc(size_t n, size_t each) {
	void *p = mg_next.calloc(n, each);
	size_t size;
	if (LIKELY(!__builtin_mul_overflow(n, each, &size)))
		count(p, size, KIND_HEAP, CALLER);
	return p;
}

static COLD void free_sampled(void *p) {
	if (from_boot(p))
		return;
	mg_forget(p, NULL);
	mg_next.free(p);
}

HOT void mg_free(void *p) {
	if (UNLIKELY(mg_maybe(p))) {
		free_sampled(p);
		return;
	}
	mg_next.free(p);
}

// A block that grows is a new one: it is drawn for again with all of its bytes, which keeps the estimate unbiased. The
// sample goes before the block does: another thread may get its address at once.
static COLD void *realloc_sampled(void *p, size_t n, uintptr_t caller) {
	if (from_boot(p)) {
		void *q = mg_malloc(n);
		if (q)
			memcpy(q, p, ((size_t *)p)[-2] < n ? ((size_t *)p)[-2] : n);
		return q;
	}
	struct saved was;
	bool had = mg_forget(p, &was);
	void *q = mg_next.realloc(p, n);
	if (q)
		count(q, n, KIND_HEAP, caller);
	else if (had && n)
		mg_put_back(p, &was);
	return q;
}

HOT void *mg_realloc(void *p, size_t n) {
	if (UNLIKELY(p && mg_maybe(p)))
		return realloc_sampled(p, n, CALLER);
	void *q = mg_next.realloc(p, n);
	count(q, n, KIND_HEAP, CALLER);
	return q;
}

HOT int mg_posix_memalign(void **p, size_t align, size_t n) {
	int failed = mg_next.posix_memalign(p, align, n);
	if (LIKELY(!failed))
		count(*p, n, KIND_HEAP, CALLER);
	return failed;
}

HOT void *mg_aligned_alloc(size_t align, size_t n) {
	void *p = mg_next.aligned_alloc(align, n);
	count(p, n, KIND_HEAP, CALLER);
	return p;
}

HOT void *mg_memalign(size_t align, size_t n) {
	void *p = mg_next.memalign(align, n);
	count(p, n, KIND_HEAP, CALLER);
	return p;
}

HOT void *mg_valloc(size_t n) { return mg_memalign(4096, n); }

// Maps below this are the heaps' own business; Python's arenas have 256 KiB or 1 MiB.
#define LEAST_MAP ((size_t)64 << 10)

// in_memory tells whether a file's pages are memory and nothing else: a memfd, /dev/shm, huge pages.
static bool in_memory(int fd) {
	int was = errno;
	struct statfs s;
	bool is = syscall(SYS_fstatfs, fd, &s) == 0 && (s.f_type == TMPFS_MAGIC || s.f_type == HUGETLBFS_MAGIC);
	errno = was;
	return is;
}

// Only memory that can be written, and not the page cache of files on disks; a reservation takes nothing.
static void count_map(void *p, size_t n, int prot, int flags, int fd, uintptr_t caller) {
	if (n >= LEAST_MAP && (prot & PROT_WRITE) && p != MAP_FAILED &&
		(caller < allocator_low || caller >= allocator_high) &&
		(flags & MAP_ANONYMOUS || (flags & MAP_SHARED && mg_on() && in_memory(fd))))
		count(p, n, KIND_MAP, caller);
}

HOT void *mg_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
	if (UNLIKELY(!mg_next.mmap))
		look();
	void *p = mg_next.mmap(at, n, prot, flags, fd, offset);
	count_map(p, n, prot, flags, fd, CALLER);
	return p;
}

HOT void *mg_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
	if (UNLIKELY(!mg_next.mmap))
		look();
	void *p = mg_next.mmap(at, n, prot, flags, fd, offset);
	count_map(p, n, prot, flags, fd, CALLER);
	return p;
}

// A sampled map whose head is unmapped goes on behind it; one whose tail is unmapped keeps its size (docs/native.md).
HOT int mg_munmap(void *p, size_t n) {
	if (UNLIKELY(!mg_next.munmap))
		look();
	struct saved was;
	bool had = UNLIKELY(mg_maybe(p)) && mg_forget(p, &was);
	int failed = mg_next.munmap(p, n);
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

HOT void *mg_mremap(void *old, size_t old_size, size_t size, int flags, ...) {
	if (UNLIKELY(!mg_next.mremap))
		look();
	va_list ap;
	va_start(ap, flags);
	void *to = flags & MREMAP_FIXED ? va_arg(ap, void *) : NULL;
	va_end(ap);
	struct saved was;
	bool had = UNLIKELY(mg_maybe(old)) && mg_forget(old, &was);
	void *p = mg_next.mremap(old, old_size, size, flags, to);
	if (UNLIKELY(had)) {
		if (p != MAP_FAILED)
			was.size = size;
		mg_put_back(p != MAP_FAILED ? p : old, &was);
	}
	return p;
}

// ---- what calls are led to in a process that runs already, beside those above

HOT void *mg_sbrk(intptr_t n) {
	char *p = mg_next.sbrk(n);
	if (p != (void *)-1 && n >= (intptr_t)LEAST_MAP)
		count(p, (size_t)n, KIND_MAP, CALLER);
	else if (p != (void *)-1 && n < 0 && mg_maybe(p + n)) // what was added last is given back
		mg_forget(p + n, NULL);
	return p;
}

HOT int mg_brk(void *to) {
	char *was = mg_next.sbrk(0);
	int failed = mg_next.brk(to);
	if (!failed && (char *)to >= was + LEAST_MAP)
		count(was, (size_t)((char *)to - was), KIND_MAP, CALLER);
	else if (!failed && (char *)to < was && mg_maybe(to))
		mg_forget(to, NULL);
	return failed;
}

long (*mg_next_syscall)(long, ...);

// mg_syscall_map is syscall(2) for a call about maps. It has that function's arguments, so that mg_syscall, which must not
// touch those of any other call (a clone(2) has a stack of its own), can jump here.
__attribute__((used)) HOT long mg_syscall_map(long number, long a, long b, long c, long d, long e, long f) {
	struct saved was;
	void *p = (void *)a;
	bool had = number != SYS_mmap && UNLIKELY(mg_maybe(p)) && mg_forget(p, &was);
	long r = mg_next_syscall(number, a, b, c, d, e, f);
	if (number == SYS_mmap) {
		count_map((void *)r, (size_t)b, (int)c, (int)d, (int)e, CALLER);
	} else if (UNLIKELY(had)) {
		if (r == -1)
			mg_put_back(p, &was);
		else if (number == SYS_mremap) {
			was.size = (size_t)c;
			mg_put_back((void *)r, &was);
		} else if ((size_t)b < was.size) {
			was.size -= (size_t)b;
			mg_put_back((char *)p + b, &was);
		}
	}
	return r;
}

#define TEXT(x) #x
#define NUMBER(x) TEXT(x)
#if defined(__x86_64__)
__asm__(".text\n.p2align 4\n.globl mg_syscall\n.hidden mg_syscall\n.type mg_syscall, @function\nmg_syscall:\n"
	".cfi_startproc\nendbr64\n"
	"cmpq $" NUMBER(SYS_mmap) ", %rdi\nje mg_syscall_map\ncmpq $" NUMBER(SYS_munmap) ", %rdi\nje mg_syscall_map\n"
	"cmpq $" NUMBER(SYS_mremap) ", %rdi\nje mg_syscall_map\nmovq mg_next_syscall(%rip), %r11\njmp *%r11\n"
	".cfi_endproc\n.size mg_syscall, .-mg_syscall\n");
#else
__asm__(".text\n.p2align 4\n.globl mg_syscall\n.hidden mg_syscall\n.type mg_syscall, %function\nmg_syscall:\n"
	".cfi_startproc\nhint #34\n"
	"cmp x0, #" NUMBER(SYS_mmap) "\nb.eq mg_syscall_map\ncmp x0, #" NUMBER(SYS_munmap) "\nb.eq mg_syscall_map\n"
	"cmp x0, #" NUMBER(SYS_mremap) "\nb.eq mg_syscall_map\nadrp x16, mg_next_syscall\n"
	"ldr x16, [x16, :lo12:mg_next_syscall]\nbr x16\n"
	".cfi_endproc\n.size mg_syscall, .-mg_syscall\n");
#endif

// mg_ffi_call stands for the function by which ctypes calls what it has found by its address, whenever that was.
HOT void mg_ffi_call(void *cif, void *function, void *result, void **arguments) {
	mg_next.ffi_call(cif, mg_instead(function), result, arguments);
}

__attribute__((constructor)) static void begin(void) {
	if (mg_next.malloc == first_malloc)
		look();
	mg_init();
}

EXPORT(malloc);
EXPORT(calloc);
EXPORT(realloc);
EXPORT(memalign);
EXPORT(aligned_alloc);
EXPORT(posix_memalign);
EXPORT(valloc);
EXPORT(free);
EXPORT(mmap);
EXPORT(mmap64);
EXPORT(munmap);
EXPORT(mremap);
