// The part of the driver that PyTorch looks for at its start. Expandable segments do not work on it yet.
#include <stddef.h>

typedef unsigned long long address;
static address next = 0x300000000000ULL, handles = 1;

int cuMemAddressReserve(address *p, size_t n, size_t align, address hint, address flags) { *p = next; next += (n + 0x3fffffffULL) & ~0x3fffffffULL; return 0; }
int cuMemCreate(address *handle, size_t n, void *properties, address flags) { *handle = handles++; return 0; }
int cuMemGetAllocationGranularity(size_t *n, void *properties, int option) { *n = 2 << 20; return 0; }
int cuDeviceGetAttribute(int *v, int attribute, int d) { *v = 1; return 0; }
int cuDeviceGet(int *v, int d) { *v = d; return 0; }
int cuGetErrorString(int e, const char **text) { *text = "no error"; return 0; }
int cuDriverGetVersion(int *v) { *v = 13020; return 0; }
int cuDevicePrimaryCtxGetState(int d, unsigned *flags, int *active) { *flags = 0; *active = 1; return 0; }
int cuCtxGetCurrent(void **context) { *context = (void *)8; return 0; }
