// The C stack of this thread, by the call frame information of each module (.eh_frame with its sorted table,
// .eh_frame_hdr), else by frame pointers. The compiler's unwinder takes locks of the linker and allocates; this one reads
// through peek, keeps what it has found for each place in the code, and needs no room on the stack: the sampled thread may
// be in a signal handler with a small one.
// DWARF 4, 6.4 and 7.23; Linux Standard Base, Exception Frames.
#include "native.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { REGS = 17, SP = 7, FP = 6, RA = 16 };
static const uint8_t kept[] = {3, 6, 12, 13, 14, 15, RA}; // that a function gives back as they were, and the return
#elif defined(__aarch64__)
enum { REGS = 32, SP = 31, FP = 29, RA = 30 };
static const uint8_t kept[] = {19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, RA};
#else
#error "x86-64 and aarch64 only"
#endif
enum { KEPT = sizeof kept };

struct registers {
	uint64_t r[REGS], pc;
};

// A rule says how the caller's registers are found from those at a place in the code.
enum { SAME, AT_CFA, AT_FP, GONE };
struct rule {
	uint64_t pc;      // 0 for none
	uint64_t start;   // of the function
	uint64_t formula; // of the CFA, where it is an expression
	int32_t cfa;      // register + offset
	uint8_t reg, how; // how: HOW_*
	uint8_t kind[KEPT];
	int32_t off[KEPT];
};
enum { HOW_RULE, HOW_FRAME_POINTER };

enum { RULES = 4096, MODULES = 1024 };
static struct rule rules[RULES];
static struct module {
	uint64_t low, high, bias, table; // table: .eh_frame_hdr in memory
	uint64_t inode;
} modules[MODULES];
static int unloaded; // some module, since the maps were read
static uint32_t module_count;
static uint64_t next_look; // ns: no sooner are the maps read again

// ---- modules

struct line {
	uint64_t low, high, offset, inode;
	char exec;
	const char *path;
};

static const char *hex(const char *s, uint64_t *v) {
	*v = 0;
	for (;; s++) {
		int d = *s >= '0' && *s <= '9' ? *s - '0' : *s >= 'a' && *s <= 'f' ? *s - 'a' + 10 : -1;
		if (d < 0)
			return s;
		*v = *v << 4 | (unsigned)d;
	}
}

// "55d0-55e0 r-xp 00001000 fe:01 1234   /usr/lib/x.so"
static bool parse(const char *s, struct line *l) {
	uint64_t device;
	s = hex(s, &l->low);
	if (*s++ != '-')
		return false;
	s = hex(s, &l->high);
	if (strlen(s) < 6)
		return false;
	l->exec = s[3];
	s = hex(s + 6, &l->offset);
	if (*s++ != ' ')
		return false;
	s = hex(s, &device);
	if (*s++ != ':')
		return false;
	s = hex(s, &device);
	for (l->inode = 0, s++; *s >= '0' && *s <= '9'; s++)
		l->inode = l->inode * 10 + (unsigned)(*s - '0');
	while (*s == ' ')
		s++;
	l->path = s;
	return true;
}

static bool known(const struct module *m) {
	for (uint32_t i = module_count; i-- > 0;)
		if (modules[i].low == m->low)
			return modules[i].high == m->high && modules[i].inode == m->inode;
	return false;
}

// read_elf finds a module's table by the headers that are mapped with it.
static bool read_elf(struct module *m) {
	Elf64_Ehdr e;
	Elf64_Phdr p;
	if (!mg_peek(m->low, &e, sizeof e) || memcmp(e.e_ident, ELFMAG, 4) || e.e_phentsize != sizeof p)
		return false;
	uint64_t first = UINT64_MAX, table = 0;
	for (int i = 0; i < e.e_phnum && i < 64; i++) {
		if (!mg_peek(m->low + e.e_phoff + (uint64_t)i * sizeof p, &p, sizeof p))
			return false;
		if (p.p_type == PT_LOAD && p.p_vaddr < first)
			first = p.p_vaddr;
		if (p.p_type == PT_GNU_EH_FRAME)
			table = p.p_vaddr;
	}
	if (first == UINT64_MAX)
		return false;
	m->bias = m->low - (first & ~(uint64_t)4095);
	m->table = table ? table + m->bias : 0;
	return true;
}

static void add_module(struct module *m, const char *path) {
	if (module_count == MODULES || !read_elf(m))
		return;
	uint32_t length = (uint32_t)strlen(path), at;
	char *record = mg_area_room(AREA_MODULES, 32 + length, &at);
	if (!record)
		return;
	memcpy(record, m, 24);
	memcpy(record + 24, &length, 4);
	memcpy(record + 32, path, length);
	mg_area_publish(AREA_MODULES, 32 + length);
	modules[module_count++] = *m;
}

// A module is the maps of one file that follow on each other, the first of them with the ELF header.
static struct {
	struct module m;
	bool exec;
	uint64_t inode;
	char path[1024];
} building;

static void finish_module(void) {
	if (building.m.low && building.exec && !known(&building.m))
		add_module(&building.m, building.path);
	building.m.low = 0;
}

static void one_line(const char *text) {
	struct line l;
	if (!parse(text, &l))
		return;
	if (building.m.low && l.inode == building.inode && l.offset) {
		building.m.high = l.high;
		building.exec |= l.exec == 'x';
		return;
	}
	if (building.m.low && l.inode == 0 && l.path[0] == 0) // .bss, or a hole
		return;
	finish_module();
	if (l.path[0] != '/' || l.offset || strlen(l.path) >= sizeof building.path)
		return;
	building.m = (struct module){.low = l.low, .high = l.high, .inode = l.inode};
	building.exec = l.exec == 'x';
	building.inode = l.inode;
	strcpy(building.path, l.path);
}

// Libraries are loaded while the program imports. A place that is in none of them is looked for again after so many times
// what the look before took (0.1 ms in a small process, 2 ms in a large one).
#define LOOK_SHARE 100

static bool read_modules(void) {
	static char buffer[8192];
	uint64_t begin = mg_cpu_time();
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return false;
	uint32_t before = module_count;
	size_t have = 0;
	for (;;) {
		long n = syscall(SYS_read, fd, buffer + have, sizeof buffer - 1 - have);
		if (n <= 0)
			break;
		have += (size_t)n;
		buffer[have] = 0;
		char *from = buffer, *end;
		while ((end = memchr(from, '\n', have - (size_t)(from - buffer)))) {
			*end = 0;
			one_line(from);
			from = end + 1;
		}
		have -= (size_t)(from - buffer);
		if (have == sizeof buffer - 1)
			have = 0; // no path is that long
		memmove(buffer, from, have);
	}
	finish_module();
	syscall(SYS_close, fd);
	next_look = mg_now() + LOOK_SHARE * (mg_cpu_time() - begin);
	return module_count > before;
}

// Code that is made at run time is in no file: each place that was looked for in vain waits twice as long every time. Other
// places don't wait for it: a library that was loaded meanwhile is found at the next look.
#define LOOK_OFTEN 50000000ull     // ns, at first
#define LOOK_SELDOM 60000000000ull // ns, at most
enum { MISSED = 256, MISSED_BITS = 16 }; // 16 MiB of such code
static struct missed {
	uint64_t place, next, pause;
} missed[MISSED];

static bool look_for(uint64_t pc) {
	uint64_t now = mg_now(), place = pc >> MISSED_BITS;
	struct missed *m = &missed[place % MISSED];
	if (m->place != place)
		*m = (struct missed){.place = place, .pause = LOOK_OFTEN};
	if (now < next_look || now < m->next)
		return false;
	m->next = now + m->pause;
	if (m->pause < LOOK_SELDOM)
		m->pause *= 2;
	return read_modules();
}

// The newest counts where two have had the same place.
static const struct module *module_of(uint64_t pc) {
	for (int again = 0; again < 2; again++) {
		for (uint32_t i = module_count; i-- > 0;)
			if (pc >= modules[i].low && pc < modules[i].high)
				return &modules[i];
		if (!look_for(pc))
			break;
	}
	return NULL;
}

// ---- reading the tables

struct cursor {
	uint64_t at;
	bool bad;
};

static uint64_t take(struct cursor *c, size_t n) {
	uint64_t v = 0;
	if (!c->bad && !mg_peek(c->at, &v, n))
		c->bad = true;
	c->at += n;
	return v;
}

static uint64_t uleb(struct cursor *c) {
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint64_t b = take(c, 1);
		v |= (b & 0x7F) << shift;
		if (!(b & 0x80) || c->bad)
			return v;
	}
	c->bad = true;
	return 0;
}

static int64_t sleb(struct cursor *c) {
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 64;) {
		uint64_t b = take(c, 1);
		v |= (b & 0x7F) << shift;
		shift += 7;
		if (!(b & 0x80) || c->bad)
			return (int64_t)(shift < 64 && b & 0x40 ? v | ~0ull << shift : v);
	}
	c->bad = true;
	return 0;
}

// A pointer in one of the encodings of DW_EH_PE.
static uint64_t pointer(struct cursor *c, uint8_t enc, uint64_t data) {
	uint64_t base = 0, v, here = c->at;
	if (enc == 0xFF)
		return 0;
	switch (enc & 0x0F) {
	case 0x00: case 0x04: case 0x0C: v = take(c, 8); break;
	case 0x01: v = uleb(c); break;
	case 0x02: v = take(c, 2); break;
	case 0x03: v = take(c, 4); break;
	case 0x09: v = (uint64_t)sleb(c); break;
	case 0x0A: v = (uint64_t)(int64_t)(int16_t)take(c, 2); break;
	case 0x0B: v = (uint64_t)(int64_t)(int32_t)take(c, 4); break;
	default: c->bad = true; return 0;
	}
	switch (enc & 0x70) {
	case 0x00: break;
	case 0x10: base = here; break;
	case 0x30: base = data; break;
	default: c->bad = true; return 0;
	}
	return v ? base + v : 0;
}

struct cie {
	uint64_t code_align, start, end; // start, end: of the first instructions
	int64_t data_align;
	uint8_t pointers;
	bool augmented;
};

static bool read_cie(uint64_t at, struct cie *e) {
	struct cursor c = {at, false};
	uint32_t length = (uint32_t)take(&c, 4);
	e->end = c.at + length;
	if (c.bad || length == 0 || length == UINT32_MAX || take(&c, 4) != 0)
		return false;
	uint8_t v = (uint8_t)take(&c, 1);
	char aug[9] = {0};
	for (unsigned i = 0;; i++) {
		char b = (char)take(&c, 1);
		if (c.bad || i == sizeof aug - 1)
			return false;
		if (!b)
			break;
		aug[i] = b;
	}
	e->code_align = uleb(&c);
	e->data_align = sleb(&c);
	if (v == 1)
		take(&c, 1);
	else
		uleb(&c);
	e->pointers = 0;
	e->augmented = aug[0] == 'z';
	if (e->augmented) {
		uint64_t size = uleb(&c), end = c.at + size;
		for (const char *a = aug + 1; *a && !c.bad; a++) {
			if (*a == 'R') {
				e->pointers = (uint8_t)take(&c, 1);
			} else if (*a == 'L') {
				take(&c, 1);
			} else if (*a == 'P') {
				uint8_t enc = (uint8_t)take(&c, 1);
				pointer(&c, enc, 0);
			}
		}
		c.at = end;
	}
	e->start = c.at;
	return !c.bad;
}

// find_fde searches the module's sorted table, in which places and descriptions are offsets from the table.
static uint64_t find_fde(const struct module *m, uint64_t pc) {
	unsigned char head[4];
	struct cursor c = {m->table, false};
	if (!m->table || !mg_peek(m->table, head, 4) || head[0] != 1 || head[3] != 0x3B)
		return 0;
	c.at += 4;
	pointer(&c, head[1], m->table);
	uint64_t n = pointer(&c, head[2], m->table), entries = c.at;
	if (c.bad || n == 0 || n > 1 << 24)
		return 0;
	int64_t want = (int64_t)(pc - m->table);
	uint64_t low = 0, high = n;
	while (high - low > 1) {
		uint64_t mid = low + (high - low) / 2;
		int32_t at;
		// far jumps read 4 bytes; the last steps share a page
		if (!(high - low > 1024 ? mg_peek_fresh(entries + 8 * mid, &at, 4) : mg_peek(entries + 8 * mid, &at, 4)))
			return 0;
		if (at <= want)
			low = mid;
		else
			high = mid;
	}
	int32_t pair[2];
	if (!mg_peek(entries + 8 * low, pair, 8) || pair[0] > want)
		return 0;
	return m->table + (uint64_t)(int64_t)pair[1];
}

static int place_of(uint64_t reg) {
	for (int i = 0; i < KEPT; i++)
		if (kept[i] == reg)
			return i;
	return -1;
}

static void put(struct rule *r, uint64_t reg, uint8_t kind, int64_t off) {
	int i = place_of(reg);
	if (i >= 0) {
		r->kind[i] = kind;
		r->off[i] = (int32_t)off;
	}
}

// An expression for where a register lies: only "frame pointer + offset" occurs, in functions that realign the stack.
static void put_expression(struct cursor *c, struct rule *r, uint64_t reg) {
	uint64_t length = uleb(c), end = c->at + length;
	if (take(c, 1) == 0x70 + FP)
		put(r, reg, AT_FP, sleb(c));
	else
		put(r, reg, GONE, 0);
	c->at = end;
}

enum { MAX_REMEMBERED = 4 };
struct machine {
	struct rule *r, first, remembered[MAX_REMEMBERED];
	const struct cie *cie;
	uint64_t at, pc;
	int depth;
};
static struct machine machine; // under the lock: it is large for a small stack

static void cfa(struct rule *r, uint64_t reg, int64_t off) {
	r->reg = (uint8_t)reg;
	r->cfa = (int32_t)off;
	r->formula = 0;
}

// One instruction; false when the rule for pc is complete, or can't be had.
static bool instruction(struct machine *m, struct cursor *c) {
	struct rule *r = m->r;
	uint8_t op = (uint8_t)take(c, 1);
	uint64_t a;
	int i;
	switch (op >> 6) {
	case 1: // advance_loc
		m->at += (op & 0x3F) * m->cie->code_align;
		return m->at <= m->pc;
	case 2: // offset
		put(r, op & 0x3F, AT_CFA, (int64_t)uleb(c) * m->cie->data_align);
		return true;
	case 3: // restore
		if ((i = place_of(op & 0x3F)) >= 0) {
			r->kind[i] = m->first.kind[i];
			r->off[i] = m->first.off[i];
		}
		return true;
	}
	switch (op) {
	case 0x00: return true;                                                              // nop
	case 0x01: m->at = pointer(c, m->cie->pointers, 0); return m->at <= m->pc;            // set_loc
	case 0x02: m->at += take(c, 1) * m->cie->code_align; return m->at <= m->pc;           // advance_loc1
	case 0x03: m->at += take(c, 2) * m->cie->code_align; return m->at <= m->pc;           // advance_loc2
	case 0x04: m->at += take(c, 4) * m->cie->code_align; return m->at <= m->pc;           // advance_loc4
	case 0x05: a = uleb(c); put(r, a, AT_CFA, (int64_t)uleb(c) * m->cie->data_align); return true; // offset_extended
	case 0x06:                                                                           // restore_extended
		if ((i = place_of(uleb(c))) >= 0) {
			r->kind[i] = m->first.kind[i];
			r->off[i] = m->first.off[i];
		}
		return true;
	case 0x07: put(r, uleb(c), GONE, 0); return true;                                     // undefined
	case 0x08: put(r, uleb(c), SAME, 0); return true;                                     // same_value
	case 0x09: a = uleb(c); uleb(c); put(r, a, GONE, 0); return true;                     // register
	case 0x0A:                                                                           // remember_state
		if (m->depth == MAX_REMEMBERED)
			c->bad = true;
		else
			m->remembered[m->depth++] = *r;
		return !c->bad;
	case 0x0B: // restore_state
		if (m->depth == 0) {
			c->bad = true;
			return false;
		}
		m->depth--;
		memcpy(r->kind, m->remembered[m->depth].kind, sizeof r->kind);
		memcpy(r->off, m->remembered[m->depth].off, sizeof r->off);
		r->cfa = m->remembered[m->depth].cfa;
		r->reg = m->remembered[m->depth].reg;
		r->formula = m->remembered[m->depth].formula;
		return true;
	case 0x0C: a = uleb(c); cfa(r, a, (int64_t)uleb(c)); return true;                      // def_cfa
	case 0x0D: r->reg = (uint8_t)uleb(c); return true;                                    // def_cfa_register
	case 0x0E: r->cfa = (int32_t)uleb(c); return true;                                    // def_cfa_offset
	case 0x0F: r->formula = c->at; a = uleb(c); c->at += a; return true;                   // def_cfa_expression
	case 0x10: put_expression(c, r, uleb(c)); return true;                                // expression
	case 0x11: a = uleb(c); put(r, a, AT_CFA, sleb(c) * m->cie->data_align); return true;  // offset_extended_sf
	case 0x12: a = uleb(c); cfa(r, a, sleb(c) * m->cie->data_align); return true;          // def_cfa_sf
	case 0x13: r->cfa = (int32_t)(sleb(c) * m->cie->data_align); return true;              // def_cfa_offset_sf
	case 0x2D: return true;                                                              // AARCH64_negate_ra_state
	case 0x2E: uleb(c); return true;                                                     // GNU_args_size
	}
	c->bad = true;
	return false;
}

static bool execute(struct machine *m, uint64_t from, uint64_t to) {
	struct cursor c = {from, false};
	for (int n = 0; c.at < to && n < 4096; n++)
		if (!instruction(m, &c) || c.bad)
			break;
	return !c.bad;
}

static bool make_rule(struct rule *r, const struct module *m, uint64_t pc) {
	uint64_t at = m ? find_fde(m, pc) : 0;
	if (!at)
		return false;
	struct cursor c = {at, false};
	uint32_t length = (uint32_t)take(&c, 4);
	uint64_t end = c.at + length, back = c.at;
	struct cie e;
	if (c.bad || length == UINT32_MAX || !read_cie(back - take(&c, 4), &e))
		return false;
	uint64_t start = pointer(&c, e.pointers, 0), size = pointer(&c, e.pointers & 0x0F, 0);
	if (c.bad || pc < start || pc >= start + size)
		return false;
	if (e.augmented) {
		uint64_t skip = uleb(&c);
		c.at += skip;
	}
	machine = (struct machine){.r = r, .cie = &e, .at = start, .pc = pc};
	r->start = start;
	if (!execute(&machine, e.start, e.end))
		return false;
	machine.first = *r;
	return execute(&machine, c.at, end);
}

static const struct rule *rule_of(uint64_t pc) {
	struct rule *r = &rules[(pc * 0x9E3779B97F4A7C15ull) >> 52];
	if (r->pc == pc)
		return r;
	memset(r, 0, sizeof *r);
	const struct module *m = module_of(pc);
	if (!make_rule(r, m, pc)) {
		memset(r, 0, sizeof *r);
		r->how = HOW_FRAME_POINTER; // code without a table: made at run time, or assembler
		if (!m)
			return r; // it may be known the next time
	}
	r->pc = pc;
	return r;
}

// ---- one frame up

// evaluate knows what compilers write for procedure linkage tables and realigned stacks.
static bool evaluate(uint64_t block, const struct registers *g, uint64_t *result) {
	struct cursor c = {block, false};
	uint64_t length = uleb(&c), end = c.at + length, s[8];
	int n = 0;
	while (c.at < end && !c.bad) {
		uint8_t op = (uint8_t)take(&c, 1);
		if (n >= 7)
			return false;
		if (op >= 0x70 && op <= 0x8F) {
			unsigned reg = op - 0x70u;
			int64_t off = sleb(&c);
			s[n++] = (reg == RA && RA == 16 ? g->pc : reg < REGS ? g->r[reg] : 0) + (uint64_t)off;
		} else if (op >= 0x30 && op <= 0x4F) {
			s[n++] = op - 0x30u;
		} else if (op == 0x08) {
			s[n++] = take(&c, 1);
		} else if (op == 0x09) {
			s[n++] = (uint64_t)(int64_t)(int8_t)take(&c, 1);
		} else if (n < 1) {
			return false;
		} else if (op == 0x06) {
			if (!mg_peek(s[n - 1], &s[n - 1], 8))
				return false;
		} else if (op == 0x23) {
			s[n - 1] += uleb(&c);
		} else if (n < 2) {
			return false;
		} else {
			uint64_t b = s[--n], *a = &s[n - 1];
			switch (op) {
			case 0x1A: *a &= b; break;
			case 0x1C: *a -= b; break;
			case 0x22: *a += b; break;
			case 0x24: *a <<= b & 63; break;
			case 0x2A: *a = (int64_t)*a >= (int64_t)b; break;
			default: return false;
			}
		}
	}
	*result = n ? s[n - 1] : 0;
	return n > 0 && !c.bad;
}

static bool by_frame_pointer(struct registers *g) {
	uint64_t pair[2], fp = g->r[FP];
	if (fp <= g->r[SP] || fp & 7 || !mg_peek(fp, pair, 16))
		return false;
	g->r[SP] = fp + 16;
	g->r[FP] = pair[0];
	g->pc = pair[1];
	return true;
}

static bool step(struct registers *g, const struct rule *r) {
	if (r->how == HOW_FRAME_POINTER)
		return by_frame_pointer(g);
	uint64_t cfa_at;
	if (r->formula) {
		if (!evaluate(r->formula, g, &cfa_at))
			return false;
	} else if (r->reg >= REGS) {
		return false;
	} else {
		cfa_at = g->r[r->reg] + (uint64_t)(int64_t)r->cfa;
	}
	if (cfa_at <= g->r[SP] && cfa_at < g->r[SP]) // stacks grow towards 0
		return false;
	struct registers up = *g;
	bool returns = RA != 16; // the x86-64's return address is always in memory
	for (int i = 0; i < KEPT; i++) {
		uint64_t from = (r->kind[i] == AT_FP ? g->r[FP] : cfa_at) + (uint64_t)(int64_t)r->off[i];
		if (r->kind[i] == SAME)
			continue;
		if (r->kind[i] == GONE) {
			if (kept[i] == RA)
				return false; // the outermost function says so
			continue;
		}
		if (!mg_peek(from, &up.r[kept[i]], 8))
			return false;
		returns |= kept[i] == RA;
	}
	if (!returns)
		return false;
	up.r[SP] = cfa_at;
	up.pc = up.r[RA];
#if defined(__aarch64__)
	up.pc &= 0x0000FFFFFFFFFFFFull; // a signed return address has its code in the upper bits
#endif
	if (up.pc == g->pc && up.r[SP] == g->r[SP])
		return false;
	*g = up;
	return true;
}

#if defined(__x86_64__)
#define HERE(g) \
	__asm__ volatile("movq %%rbx, 24(%0)\n\tmovq %%rbp, 48(%0)\n\tmovq %%rsp, 56(%0)\n\tmovq %%r12, 96(%0)\n\t" \
		"movq %%r13, 104(%0)\n\tmovq %%r14, 112(%0)\n\tmovq %%r15, 120(%0)\n\tleaq 0(%%rip), %%rax\n\tmovq %%rax, 136(%0)" \
		: : "r"((g)->r) : "rax", "memory")
#else
#define HERE(g) \
	__asm__ volatile("stp x19, x20, [%0, #152]\n\tstp x21, x22, [%0, #168]\n\tstp x23, x24, [%0, #184]\n\t" \
		"stp x25, x26, [%0, #200]\n\tstp x27, x28, [%0, #216]\n\tstp x29, x30, [%0, #232]\n\tmov x9, sp\n\t" \
		"str x9, [%0, #248]\n\tadr x9, .\n\tstr x9, [%0, #256]" : : "r"((g)->r) : "x9", "memory")
#endif

// mg_unloaded: another module may lie where one was. From any thread.
void mg_unloaded(void) { __atomic_store_n(&unloaded, 1, __ATOMIC_RELAXED); }

void mg_unwind_reset(void) {
	module_count = 0;
	next_look = 0;
	memset(missed, 0, sizeof missed);
	memset(rules, 0, sizeof rules); // what they were made from must come into the new file too
}

// mg_unwind takes the return addresses above this library, up to the interpreter's own loop: from there on Python's frames
// tell the story.
void mg_unwind(struct stack *s) {
	static struct registers g;
	const struct module *ours = NULL;
	uint64_t stop = s->python ? mg_python_eval() : 0;
	memset(&g, 0, sizeof g);
	HERE(&g);
	s->c = 0;
	if (UNLIKELY(__atomic_exchange_n(&unloaded, 0, __ATOMIC_RELAXED))) {
		memset(rules, 0, sizeof rules);
		read_modules();
	}
	ours = module_of(g.pc);
	uint64_t low = ours ? ours->low : 0, high = ours ? ours->high : 0;
	for (int i = 0; i < MAX_C + 8 && s->c < MAX_C; i++) {
		const struct rule *r = rule_of(i ? g.pc - 1 : g.pc);
		if (i && (g.pc < low || g.pc >= high)) {
			s->pc[s->c++] = g.pc;
			if (stop && r->start == stop)
				return;
		}
		if (!step(&g, r) || g.pc < 4096)
			return;
	}
}
