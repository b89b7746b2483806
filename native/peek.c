// Reads memory of this process that may not be mapped: a pointer that is wrong gives an error and no signal. Pages that a
// sample has read are kept until its end. All of it runs under the table's lock.
#include "native.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 32 };

static struct {
	uint64_t at[PAGES]; // 0 for none
	unsigned char data[PAGES][PAGE];
} pages;

static int memory = -1; // /proc/self/mem, where process_vm_readv(2) is forbidden (seccomp)
static bool forbidden;

void mg_peek_begin(void) { memset(pages.at, 0, sizeof pages.at); }

void mg_peek_end(void) {
	if (memory >= 0)
		syscall(SYS_close, memory);
	memory = -1;
}

bool mg_peek_fresh(uint64_t at, void *to, size_t n) {
	if (at < PAGE || at + n < at || at >> 56) // aarch64 uses up to 52 bits; tags are none of ours
		return false;
	if (!forbidden) {
		struct iovec here = {to, n}, there = {(void *)at, n};
		long got = syscall(SYS_process_vm_readv, (long)mg_pid(), &here, 1L, &there, 1L, 0L);
		if (got >= 0 || (errno != ENOSYS && errno != EPERM))
			return got == (long)n;
		forbidden = true;
	}
	if (memory < 0)
		memory = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC, 0);
	return memory >= 0 && syscall(SYS_pread64, memory, to, n, at) == (long)n;
}

static const unsigned char *page(uint64_t at) {
	unsigned i = (unsigned)(at / PAGE % PAGES);
	if (pages.at[i] != at) {
		pages.at[i] = 0;
		if (!mg_peek_fresh(at, pages.data[i], PAGE))
			return NULL;
		pages.at[i] = at;
	}
	return pages.data[i];
}

// mg_peek_each reads size bytes from each of many places: with one call of the system where all of them are there. What is
// not there is zero.
void mg_peek_each(const uint64_t *at, unsigned count, unsigned char *to, size_t size) {
	struct iovec there[MAX_PYTHON];
	for (unsigned i = 0; i < count; i++)
		there[i] = (struct iovec){(void *)at[i], size};
	for (unsigned i = 0; i < count; i++) {
		struct iovec here = {to + i * size, (count - i) * size};
		long left = (long)(count - i), got = -1;
		if (!forbidden)
			got = syscall(SYS_process_vm_readv, (long)mg_pid(), &here, 1L, there + i, left, 0L);
		i += got > 0 ? (unsigned)((size_t)got / size) : 0; // it ends before the first that is not there
		if (i < count && !mg_peek_fresh(at[i], to + i * size, size))
			memset(to + i * size, 0, size);
	}
}

bool mg_peek(uint64_t at, void *to, size_t n) {
	while (n > 0) {
		uint64_t in = at % PAGE;
		size_t part = PAGE - in < n ? PAGE - in : n;
		const unsigned char *p = at < PAGE ? NULL : page(at - in);
		if (!p)
			return false;
		memcpy(to, p + in, part);
		to = (char *)to + part;
		at += part;
		n -= part;
	}
	return true;
}
