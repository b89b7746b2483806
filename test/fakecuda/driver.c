// The driver's virtual memory, on which PyTorch's expandable segments stand: addresses are reserved, memory is made by
// the page and mapped there. Only the sums are kept, and a device runs out of memory as one of cudart.c does.
#include <stddef.h>

typedef unsigned long long address;
enum { outOfMemory = 2, pages = 1 << 16 };
static const size_t total = (size_t)8 << 30; // bytes of a device, as in cudart.c
extern size_t fakecuda_used[];               // of cudart.c, which is preloaded
static address next = 0x300000000000ULL;
static struct { size_t size; int device; } made[pages]; // by handle

int cuMemAddressReserve(address *p, size_t n, size_t align, address hint, address flags) {
	*p = next;
	next += (n + 0x3fffffffULL) & ~0x3fffffffULL;
	return 0;
}

// The first fields of CUmemAllocationProp: type, requestedHandleTypes, location.type, location.id.
int cuMemCreate(address *handle, size_t n, const int *properties, address flags) {
	int device = properties[3];
	if (fakecuda_used[device] + n > total) return outOfMemory;
	for (address h = 1; h < pages; h++)
		if (!made[h].size) {
			made[h].size = n;
			made[h].device = device;
			fakecuda_used[device] += n;
			*handle = h;
			return 0;
		}
	return outOfMemory;
}

int cuMemRelease(address handle) {
	fakecuda_used[made[handle].device] -= made[handle].size;
	made[handle].size = 0;
	return 0;
}

int cuMemGetAllocationGranularity(size_t *n, void *properties, int option) { *n = 2 << 20; return 0; }
int cuDeviceGetAttribute(int *v, int attribute, int d) { *v = 1; return 0; }
int cuDeviceGet(int *v, int d) { *v = d; return 0; }
int cuGetErrorString(int e, const char **text) { *text = e ? "out of memory" : "no error"; return 0; }
int cuDriverGetVersion(int *v) { *v = 13020; return 0; }
int cuDevicePrimaryCtxGetState(int d, unsigned *flags, int *active) { *flags = 0; *active = 1; return 0; }
int cuCtxGetCurrent(void **context) { *context = (void *)8; return 0; }
