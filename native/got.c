// Leads the calls of a process that runs already to the functions of hooks.c, and back. Where an object calls another's
// function, it takes the address from a slot (its global offset table, or a pointer in its data) that the linker has
// filled by the object's relocations. We read those, and exchange the addresses that are malloc's, and so on, for ours. A
// slot is one aligned word and ours call the real function: a thread finds the one or the other, and either is right.
//
// All of it is done without stopping anybody:
//  - while the linker's list of objects is held (dl_iterate_phdr), so that no object goes; for some milliseconds at once;
//  - only in objects whose dlopen is over: the linker may still write into others, and protect what it has written. Once
//    one has been unloaded since we know that, others may lie where it did: then the walk begins again;
//  - everything is read with process_vm_readv(2), and must lie in what the object has loaded: headers that are damaged give
//    an error and no signal;
//  - a slot is written only if it holds what it should, and in memory that can be written; pages that the linker has
//    protected (RELRO) are made writable for that moment.
// Nothing is remembered of where slots are: to lead calls back is the same walk the other way round, so no object can be
// mistaken for one that is gone.
#include "native.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { SLOT_CALL = R_X86_64_JUMP_SLOT, SLOT_ADDRESS = R_X86_64_GLOB_DAT, SLOT_DATA = R_X86_64_64 };
#else
enum { SLOT_CALL = R_AARCH64_JUMP_SLOT, SLOT_ADDRESS = R_AARCH64_GLOB_DAT, SLOT_DATA = R_AARCH64_ABS64 };
#endif

#define VISIBLE __attribute__((visibility("default")))

// What is led here. Those of the heap belong together: what one gives out another takes back.
static struct call {
	const char *name;
	void *ours, *next; // next: where ours finds the real one
	bool heap;
	uintptr_t real;
	uintptr_t stand_in; // a program that is linked to a fixed place gives all others this address of a function
} calls[] = {
	{"malloc", mg_malloc, &mg_next.malloc, true, 0, 0},
	{"free", mg_free, &mg_next.free, true, 0, 0},
	{"calloc", mg_calloc, &mg_next.calloc, true, 0, 0},
	{"realloc", mg_realloc, &mg_next.realloc, true, 0, 0},
	{"memalign", mg_memalign, &mg_next.memalign, true, 0, 0},
	{"aligned_alloc", mg_aligned_alloc, &mg_next.aligned_alloc, true, 0, 0},
	{"posix_memalign", mg_posix_memalign, &mg_next.posix_memalign, true, 0, 0},
	{"valloc", mg_valloc, NULL, true, 0, 0},
	{"mmap", mg_mmap, &mg_next.mmap, false, 0, 0},
	{"mmap64", mg_mmap64, NULL, false, 0, 0},
	{"munmap", mg_munmap, &mg_next.munmap, false, 0, 0},
	{"mremap", mg_mremap, &mg_next.mremap, false, 0, 0},
	{"brk", mg_brk, &mg_next.brk, false, 0, 0},
	{"sbrk", mg_sbrk, &mg_next.sbrk, false, 0, 0},
	{"syscall", mg_syscall, &mg_next_syscall, false, 0, 0},
	{"ffi_call", mg_ffi_call, &mg_next.ffi_call, false, 0, 0},
};
enum { CALLS = sizeof calls / sizeof *calls, INDISPENSABLE = 4, LONGEST_NAME = 16 };

// An object is known by where it lies and where its headers do.
enum { FRESH, WHOLE, DONE }; // whole: its dlopen is over
static struct object {
	uint64_t at, headers;
	uint32_t state, seen;
} objects[4096];
static uint32_t object_count, round_number;
static unsigned long long adds, subs; // of the linker, at the last look

enum { AWAY, HERE };
static int direction;    // HERE: slots get our functions; AWAY: they get the real ones back
static int attached;     // 1: calls are led here
static int busy;         // a walk is under way, and no fork may copy the linker's lock: 1 taken
static int asked;        // somebody is in one of the functions at the end of this file
static bool unloaded;    // an object, since the walk noted what there is
static enum { FINE, NO_MEMORY, UNREADABLE, PROTECTED } failed;
static uint64_t changed, foreign; // slots; objects whose calls somebody else has
static uintptr_t heap_home; // the object that has malloc
static bool heap_is_libc;

// ---- reading

enum { PAGE = 4096, PAGES = 64, RANGES = 1 << 17, MAX_LOADS = 64, MAX_SLOTS = 2048 };
struct range {
	uint64_t low, high;
	uint32_t rights; // PROT_*
};
static struct scratch {
	uint64_t at[PAGES];
	unsigned char page[PAGES][PAGE], text[16 * PAGE];
	Elf64_Rela relocations[1024];
	struct slot {
		uint64_t at;
		uint32_t call, kind;
	} slots[MAX_SLOTS];
	struct range ranges[RANGES];
} *scratch; // mapped while a walk is under way
static uint32_t range_count;
static int memory; // /proc/self/mem, where process_vm_readv(2) is forbidden
static bool forbidden;

static bool read_fresh(uint64_t at, void *to, size_t n) {
	if (at < PAGE || at + n < at)
		return false;
	if (!forbidden) {
		struct iovec here = {to, n}, there = {(void *)at, n};
		long got = syscall(SYS_process_vm_readv, syscall(SYS_getpid), &here, 1L, &there, 1L, 0L);
		if (got >= 0 || (errno != ENOSYS && errno != EPERM))
			return got == (long)n;
		forbidden = true;
	}
	if (memory < 0)
		memory = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC, 0);
	return memory >= 0 && syscall(SYS_pread64, memory, to, n, at) == (long)n;
}

static bool get(uint64_t at, void *to, size_t n) {
	while (n > 0) {
		uint64_t in = at % PAGE, page = at - in, i = page / PAGE % PAGES;
		size_t part = PAGE - in < n ? PAGE - in : n;
		if (scratch->at[i] != page) {
			scratch->at[i] = 0;
			if (!read_fresh(page, scratch->page[i], PAGE))
				return false;
			scratch->at[i] = page;
		}
		memcpy(to, scratch->page[i] + in, part);
		to = (char *)to + part;
		at += part;
		n -= part;
	}
	return true;
}

static const char *hex(const char *s, uint64_t *v) {
	for (*v = 0;; s++) {
		int d = *s >= '0' && *s <= '9' ? *s - '0' : *s >= 'a' && *s <= 'f' ? *s - 'a' + 10 : -1;
		if (d < 0)
			return s;
		*v = *v << 4 | (unsigned)d;
	}
}

static bool add_range(const char *line) {
	struct range r;
	line = hex(line, &r.low);
	if (*line++ != '-')
		return false;
	line = hex(line, &r.high);
	if (*line++ != ' ' || range_count == RANGES)
		return false;
	r.rights = (line[0] == 'r' ? PROT_READ : 0) | (line[1] == 'w' ? PROT_WRITE : 0) | (line[2] == 'x' ? PROT_EXEC : 0);
	scratch->ranges[range_count++] = r;
	return true;
}

// read_rights reads what may be done with which memory, as it is now.
static bool read_rights(void) {
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	char *text = (char *)scratch->text;
	size_t have = 0;
	bool ok = fd >= 0;
	range_count = 0;
	while (ok) {
		long n = syscall(SYS_read, fd, text + have, sizeof scratch->text - 1 - have);
		if (n <= 0) {
			ok = n == 0;
			break;
		}
		have += (size_t)n;
		text[have] = 0;
		char *line = text, *end;
		for (; ok && (end = strchr(line, '\n')); line = end + 1)
			ok = add_range(line);
		have -= (size_t)(line - text);
		memmove(text, line, have);
		ok = ok && have < sizeof scratch->text - 1;
	}
	if (fd >= 0)
		syscall(SYS_close, fd);
	return ok && range_count > 0;
}

static uint32_t rights(uint64_t at) {
	uint32_t low = 0, high = range_count;
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		if (scratch->ranges[mid].high <= at)
			low = mid + 1;
		else
			high = mid;
	}
	return low < range_count && scratch->ranges[low].low <= at ? scratch->ranges[low].rights : 0;
}

// ---- an object

static struct {
	uint64_t base;
	unsigned loads;
	struct {
		uint64_t low, high;
		bool exec;
	} load[MAX_LOADS];
	uint64_t symbols, names, names_size;
	struct {
		uint64_t at, size;
	} table[2]; // of relocations: those of calls, and all others
	uint32_t slots;
	bool is_home;
} o;

static bool inside(uint64_t at, uint64_t n) {
	for (unsigned i = 0; i < o.loads; i++)
		if (at >= o.load[i].low && at <= o.load[i].high && n <= o.load[i].high - at)
			return true;
	return false;
}

// The linker has added the object's place to most addresses in its dynamic section, where it could write there.
static uint64_t address(uint64_t v) { return v < o.base ? v + o.base : v; }

static bool read_dynamic(uint64_t at, uint64_t size) {
	Elf64_Dyn d;
	uint64_t each = sizeof(Elf64_Rela), symbol = sizeof(Elf64_Sym), kind = DT_RELA, skip = 0;
	for (unsigned i = 0; i < 1024 && (i + 1) * sizeof d <= size; i++) {
		if (!get(at + i * sizeof d, &d, sizeof d))
			return false;
		switch (d.d_tag) {
		case DT_NULL: i = 1024; break;
		case DT_SYMTAB: o.symbols = address(d.d_un.d_ptr); break;
		case DT_STRTAB: o.names = address(d.d_un.d_ptr); break;
		case DT_STRSZ: o.names_size = d.d_un.d_val; break;
		case DT_JMPREL: o.table[0].at = address(d.d_un.d_ptr); break;
		case DT_PLTRELSZ: o.table[0].size = d.d_un.d_val; break;
		case DT_PLTREL: kind = d.d_un.d_val; break;
		case DT_RELA: o.table[1].at = address(d.d_un.d_ptr); break;
		case DT_RELASZ: o.table[1].size = d.d_un.d_val; break;
		case DT_RELACOUNT: skip = d.d_un.d_val; break; // so many at the beginning have no symbol
		case DT_RELAENT: each = d.d_un.d_val; break;
		case DT_SYMENT: symbol = d.d_un.d_val; break;
		}
	}
	if (each != sizeof(Elf64_Rela) || symbol != sizeof(Elf64_Sym) || kind != DT_RELA)
		return false;
	for (int i = 0; i < 2; i++)
		if (o.table[i].size && (o.table[i].size % each || !inside(o.table[i].at, o.table[i].size)))
			return false;
	if (skip <= o.table[1].size / each) {
		o.table[1].at += skip * each;
		o.table[1].size -= skip * each;
	}
	return o.symbols && inside(o.symbols, symbol) && o.names && inside(o.names, o.names_size);
}

// read_headers reads what is loaded where. false: it is none that we can do anything with.
static bool read_headers(const struct dl_phdr_info *info) {
	Elf64_Phdr p;
	uint64_t dynamic = 0, size = 0;
	memset(&o, 0, sizeof o);
	o.base = info->dlpi_addr;
	if (info->dlpi_phnum > MAX_LOADS)
		return false;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		if (!get((uint64_t)(uintptr_t)info->dlpi_phdr + i * sizeof p, &p, sizeof p))
			return false;
		uint64_t low = o.base + p.p_vaddr, high = low + p.p_memsz;
		if (high < low)
			return false;
		if (p.p_type == PT_LOAD) {
			o.load[o.loads].low = low;
			o.load[o.loads].high = high;
			o.load[o.loads++].exec = p.p_flags & PF_X;
		} else if (p.p_type == PT_DYNAMIC) {
			dynamic = low;
			size = p.p_memsz;
		}
	}
	return dynamic && inside(dynamic, size) && read_dynamic(dynamic, size);
}

static int call_named(const char *name) {
	for (int i = 0; i < CALLS; i++)
		if (calls[i].real && strcmp(calls[i].name, name) == 0)
			return i;
	return -1;
}

// call_of tells which of the calls a symbol is; -1 for none.
static int call_of(uint64_t index) {
	Elf64_Sym s;
	char name[LONGEST_NAME];
	if (!inside(o.symbols, (index + 1) * sizeof s) || !get(o.symbols + index * sizeof s, &s, sizeof s) ||
		s.st_name >= o.names_size || (s.st_shndx != SHN_UNDEF && !o.is_home))
		return -1;
	size_t n = o.names_size - s.st_name < sizeof name ? o.names_size - s.st_name : sizeof name;
	if (!get(o.names + s.st_name, name, n) || !memchr(name, 0, n))
		return -1;
	return call_named(name);
}

static void find_slots(uint64_t at, uint64_t size) {
	uint64_t last = UINT64_MAX;
	int call = -1;
	while (size) {
		uint64_t n = size < sizeof scratch->relocations ? size : sizeof scratch->relocations;
		if (!read_fresh(at, scratch->relocations, n))
			return;
		for (const Elf64_Rela *r = scratch->relocations; (const char *)r < (char *)scratch->relocations + n; r++) {
			uint64_t kind = ELF64_R_TYPE(r->r_info), place = o.base + r->r_offset;
			if ((kind != SLOT_CALL && kind != SLOT_ADDRESS && (kind != SLOT_DATA || r->r_addend)) || place % 8 ||
				o.slots == MAX_SLOTS)
				continue;
			if (last != ELF64_R_SYM(r->r_info)) {
				last = ELF64_R_SYM(r->r_info);
				call = call_of(last);
			}
			if (call >= 0 && inside(place, 8))
				scratch->slots[o.slots++] = (struct slot){place, (uint32_t)call, (uint32_t)kind};
		}
		at += n;
		size -= n;
	}
}

// ---- slots

enum { REAL, OURS, UNBOUND, OTHER };

// state_of tells what a slot holds. One that is not bound leads to the object's own code, which calls the linker.
static int state_of(const struct slot *s, uint64_t value) {
	const struct call *c = &calls[s->call];
	if (value == c->real || (c->stand_in && value == c->stand_in))
		return REAL;
	if (value == (uint64_t)(uintptr_t)c->ours)
		return OURS;
	for (unsigned i = 0; i < o.loads; i++)
		if (s->kind == SLOT_CALL && o.load[i].exec && value >= o.load[i].low && value < o.load[i].high)
			return UNBOUND;
	return OTHER;
}

// heap_bound tells whether the object's calls of the heap are all led to the one that we know: RTLD_DEEPBIND, or another
// tool, may have led them elsewhere. Where none was bound yet, we can't know.
static bool heap_bound(void) {
	bool bound = false, any = false;
	for (uint32_t i = 0; i < o.slots; i++) {
		uint64_t value;
		if (!calls[scratch->slots[i].call].heap)
			continue;
		any = true;
		if (!read_fresh(scratch->slots[i].at, &value, 8))
			return false;
		int state = state_of(&scratch->slots[i], value);
		if (state == OTHER) {
			foreign++;
			return false;
		}
		bound |= state != UNBOUND;
	}
	return bound || !any;
}

// wanted tells what is to come into a slot that holds something; 0: that stays.
static uint64_t wanted(const struct slot *s, uint64_t value) {
	const struct call *c = &calls[s->call];
	int state = state_of(s, value);
	if (direction == HERE && state == UNBOUND && c->ours == mg_ffi_call)
		return 0; // of which libffi, nobody knows yet
	if (direction == HERE)
		return state == REAL || state == UNBOUND ? (uint64_t)(uintptr_t)c->ours : 0;
	if (state != OURS)
		return 0;
	return s->kind != SLOT_CALL && c->stand_in ? c->stand_in : c->real;
}

static void exchange(const struct slot *s, uint64_t value) {
	for (uint64_t to; (to = wanted(s, value));) // the linker may bind it meanwhile
		if (__atomic_compare_exchange_n((uint64_t *)s->at, &value, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
			changed++;
			return;
		}
}

static uint64_t page_size(void) {
	uint64_t n = getauxval(AT_PAGESZ);
	return n ? n : PAGE;
}

// exchange_all exchanges the slots of the object; those in one page that is protected at once.
static void exchange_all(bool heap) {
	uint64_t page = page_size(), open = 0, value;
	for (uint32_t i = 0; i < o.slots; i++) {
		const struct slot *s = &scratch->slots[i];
		uint64_t at = s->at & ~(page - 1);
		uint32_t may = rights(s->at);
		if ((calls[s->call].heap && !heap) || !(may & PROT_READ) || may & PROT_EXEC || !read_fresh(s->at, &value, 8) ||
			!wanted(s, value))
			continue;
		if (open && open != at) {
			mprotect((void *)open, page, PROT_READ);
			open = 0;
		}
		if (!(may & PROT_WRITE) && !open) {
			if (mprotect((void *)at, page, PROT_READ | PROT_WRITE)) {
				failed = PROTECTED;
				break;
			}
			open = at;
		}
		exchange(s, value);
	}
	if (open)
		mprotect((void *)open, page, PROT_READ);
}

static bool holds(uintptr_t at) {
	for (unsigned i = 0; i < o.loads; i++)
		if (at >= o.load[i].low && at < o.load[i].high)
			return true;
	return false;
}

// do_object says whether all is done with it for good.
static bool do_object(const struct dl_phdr_info *info) {
	if (!read_headers(info))
		return true;
	uintptr_t linker = getauxval(AT_BASE), kernels = getauxval(AT_SYSINFO_EHDR);
	o.is_home = holds(heap_home);
	if (holds((uintptr_t)&do_object) || (linker && holds(linker)) || (kernels && holds(kernels)) ||
		(o.is_home && !heap_is_libc))
		return true;
	for (int i = 0; i < 2; i++)
		find_slots(o.table[i].at, o.table[i].size);
	bool heap = direction == AWAY || heap_bound();
	exchange_all(heap);
	return heap;
}

// ---- the walk

static struct object *object_at(const struct dl_phdr_info *info) {
	for (uint32_t i = 0; i < object_count; i++)
		if (objects[i].at == info->dlpi_addr && objects[i].headers == (uint64_t)(uintptr_t)info->dlpi_phdr)
			return &objects[i];
	return NULL;
}

static int note(struct dl_phdr_info *info, size_t size, void *unused) {
	(void)unused;
	struct object *known = object_at(info);
	if (!known && object_count < sizeof objects / sizeof *objects) {
		known = &objects[object_count++];
		*known = (struct object){.at = info->dlpi_addr, .headers = (uint64_t)(uintptr_t)info->dlpi_phdr};
	}
	if (known)
		known->seen = round_number;
	if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
		adds = info->dlpi_adds;
		subs = info->dlpi_subs;
	}
	return 0;
}

static int only_count(struct dl_phdr_info *info, size_t size, void *news) {
	*(bool *)news = size < offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs ||
		adds != info->dlpi_adds || subs != info->dlpi_subs;
	return 1;
}

struct pass {
	uint64_t until; // ns
	bool begun, more;
};

static int do_one(struct dl_phdr_info *info, size_t size, void *data) {
	struct pass *p = data;
	if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs && info->dlpi_subs != subs) {
		unloaded = true;
		return 1;
	}
	struct object *known = object_at(info);
	if (!known || known->state != WHOLE || known->seen != round_number)
		return 0;
	if (!p->begun && !read_rights()) {
		failed = UNREADABLE;
		return 1;
	}
	if (p->begun && mg_now() > p->until) {
		p->more = true;
		return 1;
	}
	p->begun = true;
	bool done = do_object(info);
	known->state = done ? DONE : FRESH;
	return failed && direction == HERE; // to lead back goes on: the others can be
}

static void turn(int *word) {
	while (__atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE))
		syscall(SYS_sched_yield);
}

static void take(void) { turn(&busy); }

static void give(void) { __atomic_store_n(&busy, 0, __ATOMIC_RELEASE); }

// A fork that copied the linker's lock while a walk has it would leave a child that can load nothing.
void mg_got_before_fork(void) { take(); }
void mg_got_after_fork(void) { give(); }

// A walk that the fork has copied half done is begun again in the child, at its next look.
void mg_got_in_child(void) {
	if (asked) {
		object_count = 0;
		adds = subs = 0;
		asked = 0;
	}
	give();
}

// walk_once does all objects that are there and not done yet.
static void walk_once(void) {
	enum { AT_ONCE = 5000000 }; // ns, that the linker's list is held, and a little more for a large object
	void *p = mmap(NULL, sizeof *scratch, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	failed = p == MAP_FAILED ? NO_MEMORY : FINE;
	if (failed)
		return;
	scratch = p;
	memory = -1;
	foreign = 0;
	unloaded = false;
	round_number++;
	take();
	dl_iterate_phdr(note, NULL);
	give();
	Dl_info any;
	dladdr((void *)(uintptr_t)&walk_once, &any); // waits for a dlopen that is under way: what was there before it is whole then
	uint32_t kept = 0;
	for (uint32_t i = 0; i < object_count; i++) {
		if (objects[i].seen != round_number)
			continue; // it is gone
		objects[kept] = objects[i];
		if (objects[kept].state != DONE)
			objects[kept].state = WHOLE;
		kept++;
	}
	object_count = kept;
	struct pass pass = {.more = true};
	while (pass.more && (!failed || direction == AWAY)) {
		pass = (struct pass){.until = mg_now() + AT_ONCE};
		memset(scratch->at, 0, sizeof scratch->at);
		take();
		dl_iterate_phdr(do_one, &pass);
		give();
	}
	if (memory >= 0)
		syscall(SYS_close, memory);
	munmap(scratch, sizeof *scratch);
	scratch = NULL;
}

// walk walks until no object was unloaded meanwhile. Where one was, all are looked at again: another may lie where it did.
static void walk(void) {
	enum { MOST = 100 };
	for (int i = 0; i < MOST; i++) {
		walk_once();
		if (failed == NO_MEMORY || !unloaded)
			return;
		object_count = 0;
	}
}

static void walk_again(int to) {
	direction = to;
	object_count = 0;
	changed = 0;
	walk();
}

// ---- the real functions

static bool defined(void *p, Dl_info *info) {
	const ElfW(Sym) *s = NULL;
	return p && dladdr1(p, info, (void **)&s, RTLD_DL_SYMENT) && info->dli_fbase && s && s->st_shndx != SHN_UNDEF;
}

static void *in_library(const char *file, const char *name) {
	void *library = dlopen(file, RTLD_LAZY | RTLD_NOLOAD), *p = NULL;
	if (library) {
		p = dlsym(library, name);
		dlclose(library);
	}
	return p;
}

// find_real finds a call's function. A program's stand-in for one is a jump by a slot of its own, which must not be what
// ours call.
static void *find_real(struct call *c, const char *home, Dl_info *info) {
	void *p = dlsym(RTLD_DEFAULT, c->name);
	if (p && defined(p, info))
		return p;
	c->stand_in = (uintptr_t)p;
	const char *others[] = {home, "libc.so.6", "libdl.so.2", "libffi.so.8", "libffi.so.7", "libffi.so.6"};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (others[i] && (p = in_library(others[i], c->name)) && defined(p, info))
			return p;
	return NULL;
}

static bool is_libc(const char *file) { return strstr(file, "/libc.so") || strstr(file, "/libc-2."); }

static const char *find_all(void) {
	static bool found;
	Dl_info info, home = {0};
	if (found)
		return NULL;
	for (int i = 0; i < INDISPENSABLE && !home.dli_fbase; i++) {
		void *p = dlsym(RTLD_DEFAULT, calls[i].name);
		if (defined(p, &info))
			home = info;
	}
	for (int i = 0; i < CALLS; i++) {
		void *p = find_real(&calls[i], home.dli_fname, &info);
		if (p && !home.dli_fbase)
			home = info;
		if (p && strstr(info.dli_fname, "libmemgauge_native.so"))
			return "its native memory is sampled from its start already (run --native)";
		if (p && calls[i].heap && info.dli_fbase != home.dli_fbase)
			p = NULL;
		if (!p && i < INDISPENSABLE)
			return "malloc, calloc, realloc and free are not of one library";
		calls[i].real = (uintptr_t)p;
	}
	for (int i = 0; i < CALLS; i++) {
		bool behind = strcmp(calls[i].name, "valloc") == 0 && !mg_next.memalign;
		if (calls[i].next && calls[i].real)
			memcpy(calls[i].next, &calls[i].real, sizeof calls[i].real);
		else if (calls[i].next || behind)
			calls[i].real = 0;
	}
	heap_home = (uintptr_t)home.dli_fbase;
	heap_is_libc = is_libc(home.dli_fname);
	mg_find_allocator();
	found = true;
	return NULL;
}

void *mg_instead(void *function) {
	for (int i = 0; i < CALLS && mg_on(); i++)
		if (function && (uintptr_t)function == calls[i].real)
			return calls[i].ours;
	return function;
}

// ---- what the agent calls

// memgauge_attach begins to sample a process that runs; NULL, or why not: then nothing has changed.
static const char *attach(const char *directory, double interval) {
	if (attached)
		return "its native memory is sampled already";
	const char *why = mg_on() ? "its native memory is sampled from its start already (run --native)" : find_all();
	if (!why)
		why = mg_open(directory, interval);
	if (!why) {
		walk_again(HERE);
		static const char *const reasons[] = {NULL, "no memory is left to read its libraries in",
			"/proc/self/maps can't be read", "memory that the linker has protected can't be made writable (seccomp?)"};
		why = reasons[failed];
		if (!why && !changed)
			why = "another tool has the calls of malloc (memray, heaptrack)";
		if (why) {
			walk_again(AWAY);
			mg_close();
		}
	}
	if (!why) {
		__atomic_store_n(&attached, 1, __ATOMIC_SEQ_CST);
		mg_switch_on();
	}
	return why;
}

VISIBLE const char *memgauge_attach(const char *directory, double interval) {
	turn(&asked);
	const char *why = attach(directory, interval);
	__atomic_store_n(&asked, 0, __ATOMIC_RELEASE);
	return why;
}

static long look(void) {
	enum { SELDOM = 64 };
	static unsigned calm, pause = 1; // looks without news, and so many until the next walk
	bool news = false;
	if (!attached || !mg_on())
		return 0;
	unsigned long long gone = subs;
	take();
	dl_iterate_phdr(only_count, &news);
	give();
	if (news)
		pause = 1;
	else if (++calm < pause)
		return 0;
	calm = 0;
	pause = pause < SELDOM ? 2 * pause : SELDOM;
	changed = 0;
	direction = HERE;
	walk();
	uint64_t n = changed;
	if (subs != gone) { // another object may lie where one was
		mg_unloaded();
		walk_again(HERE);
		n += changed;
	}
	return (long)n;
}

// memgauge_look leads the calls of objects here that were loaded since. Those that had called nothing yet, and those whose
// calls another tool has, are looked at again: soon, and then ever more seldom. It returns how many slots it has changed.
VISIBLE long memgauge_look(void) {
	turn(&asked);
	long n = look();
	__atomic_store_n(&asked, 0, __ATOMIC_RELEASE);
	return n;
}

// memgauge_detach leads all calls back; 0 where that could be done everywhere.
VISIBLE long memgauge_detach(void) {
	turn(&asked);
	long not_all = 0;
	if (attached) {
		mg_close();
		walk_again(AWAY);
		not_all = failed != FINE || unloaded;
		__atomic_store_n(&attached, 0, __ATOMIC_SEQ_CST);
	}
	__atomic_store_n(&asked, 0, __ATOMIC_RELEASE);
	return not_all;
}

// memgauge_told: 0 slots that lead here since the last walk, 1 objects whose calls others have, 2 bytes of our own.
VISIBLE unsigned long memgauge_told(int what) { return what == 0 ? changed : what == 1 ? foreign : mg_own_bytes(); }
