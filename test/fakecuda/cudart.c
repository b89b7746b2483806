// A CUDA runtime without a GPU: enough of it for PyTorch's caching allocators to run on a machine that has none. Devices give out
// addresses and no memory, so nothing may be computed on them. What is not here is made by build.sh: it returns 0 and does nothing.
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { devices = 2, outOfMemory = 2, notReady = 600 };
static const size_t total = (size_t)8 << 30;  // bytes of a device
static int current;
static uintptr_t next[devices] = {0x7f0000000000, 0x7e0000000000};
size_t fakecuda_used[devices]; // bytes, of cudaMalloc and of the driver's cuMemCreate
static size_t *used = fakecuda_used;
static struct { void *at; size_t size; int device; } taken[1 << 16];

int cudaGetDeviceCount(int *n) { *n = devices; return 0; }
int cudaGetDevice(int *d) { *d = current; return 0; }
int cudaSetDevice(int d) { current = d; return 0; }

int cudaMalloc(void **p, size_t n) {
	if (used[current] + n > total) return outOfMemory;
	for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
		if (!taken[i].at) {
			*p = taken[i].at = (void *)next[current];
			taken[i].size = n;
			taken[i].device = current;
			next[current] += (n + 0x1fffff) & ~(size_t)0x1fffff;
			used[current] += n;
			return 0;
		}
	return outOfMemory;
}

int cudaFree(void *p) {
	for (size_t i = 0; p && i < sizeof taken / sizeof *taken; i++)
		if (taken[i].at == p) {
			used[taken[i].device] -= taken[i].size;
			taken[i].at = NULL;
			break;
		}
	return 0;
}

int cudaMemGetInfo(size_t *unused, size_t *all) { *unused = total - used[current]; *all = total; return 0; }
int cudaHostAlloc(void **p, size_t n, unsigned flags) { return posix_memalign(p, 4096, n); }
int cudaMallocHost(void **p, size_t n) { return posix_memalign(p, 4096, n); }
int cudaFreeHost(void *p) { free(p); return 0; }
const char *cudaGetErrorString(int e) { return e == outOfMemory ? "out of memory" : "no error"; }
const char *cudaGetErrorName(int e) { return cudaGetErrorString(e); }
int cudaDriverGetVersion(int *v) { *v = 13020; return 0; }
int cudaRuntimeGetVersion(int *v) { *v = 13020; return 0; }
int cudaDeviceGetStreamPriorityRange(int *least, int *most) { *least = 0; *most = -1; return 0; }

int cudaStreamCreateWithPriority(void **s, unsigned flags, int priority) {
	static uintptr_t n = 0x1000;
	*s = (void *)(n += 16);
	return 0;
}

int cudaEventCreateWithFlags(void **e, unsigned flags) { *e = malloc(8); return 0; }
int cudaEventCreate(void **e) { *e = malloc(8); return 0; }
// An event is not over when it is asked for the first time, and every third time.
int cudaEventQuery(void *e) { static int asked; return asked++ % 3 ? 0 : notReady; }
int cudaPointerGetAttributes(void *attributes, const void *p) { memset(attributes, 0, 24); return 0; }
int cudaStreamIsCapturing(void *s, int *status) { *status = 0; return 0; }
int cudaStreamGetCaptureInfo(void *s, int *status) { *status = 0; return 0; }
int cudaDeviceCanAccessPeer(int *can, int a, int b) { *can = 1; return 0; }
int cudaDeviceGetAttribute(int *v, int attribute, int d) { *v = 1; return 0; }

// The first fields of cudaDeviceProp: name[256], uuid[16], luid[8], luidDeviceNodeMask, totalGlobalMem.
int cudaGetDeviceProperties(char *p, int d) {
	memset(p, 0, 1008);
	strcpy(p, "no GPU");
	memcpy(p + 288, &total, sizeof total);
	return 0;
}

int cudaGetDriverEntryPoint(const char *name, void **f, unsigned long flags, int *found) {
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	*f = driver ? dlsym(driver, name) : NULL;
	if (found) *found = *f ? 0 : 1; // cudaDriverEntryPointSuccess, SymbolNotFound
	return 0;
}

int cudaGetDriverEntryPointByVersion(const char *name, void **f, unsigned v, unsigned long flags, int *found) {
	return cudaGetDriverEntryPoint(name, f, flags, found);
}
