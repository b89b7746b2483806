// A library that is opened after calls were led to ours: what it keeps is known, what it mixes stays whole.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// keep holds n blocks, one in three of each function.
void keep(int n, size_t size) {
	for (int i = 0; i < n; i++) {
		void *p = i % 3 == 0 ? malloc(size) : i % 3 == 1 ? calloc(2, size / 2) : realloc(malloc(16), size);
		memset(p, 1, size);
	}
}

// share maps memory that has no path, by its descriptor.
int share(size_t size) {
	int fd = (int)syscall(SYS_memfd_create, "shared", 0);
	return fd < 0 || ftruncate(fd, (off_t)size) ||
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED || close(fd);
}

// mix allocates, moves and frees, and says how many blocks had other bytes than it wrote.
int mix(unsigned seed, int rounds) {
	unsigned char *held[64] = {0};
	size_t size[64] = {0};
	int wrong = 0;
	for (int i = 0; i < rounds; i++) {
		seed = seed * 1103515245u + 12345u;
		unsigned k = seed >> 8 & 63, n = 16 + (seed >> 14 & 0x3FFF);
		for (size_t at = 0; at < size[k]; at += 509)
			wrong += held[k][at] != (unsigned char)k;
		switch (seed >> 28 & 3) {
		case 0:
			held[k] = realloc(held[k], n);
			break;
		case 1:
			free(held[k]);
			held[k] = calloc(n, 1);
			break;
		default:
			free(held[k]);
			if (posix_memalign((void **)&held[k], 64, n))
				return -1;
		}
		memset(held[k], (int)k, size[k] = n);
	}
	for (int k = 0; k < 64; k++)
		free(held[k]);
	void *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED || munmap(p, 1 << 20) ? -1 : wrong;
}
