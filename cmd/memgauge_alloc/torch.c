// The functions that PyTorch's pluggable allocator calls. Those but alloc and free are set one by one on the object that
// torch._C._cuda_customAllocator returns (torch/csrc/cuda/CUDAPluggableAllocator.h); what is not set does nothing there, silently:
// a block that another stream uses is then reused at once.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "memgauge_alloc.h"
#include "shim.h"

// PyTorch's devices: opened at the first allocation, then found without a lock.
#define MAX_DEVICES 64
static atomic_int devices[MAX_DEVICES];
static _Atomic double fractions[MAX_DEVICES]; // set before the device is opened

static int opened(int device) {
    return device < 0 || device >= MAX_DEVICES ? 0 : atomic_load_explicit(&devices[device], memory_order_acquire);
}

static int torch_device(int device) {
    if (device < 0 || device >= MAX_DEVICES) {
        memgauge_fail(strdup("memgauge: device out of range"));
        return 0;
    }
    int a = opened(device);
    if (a != 0) return a;
    const char *driver = getenv("MEMGAUGE_ALLOC_DRIVER");
    a = memgauge_open(driver != NULL && *driver ? driver : "cuda", device, NULL);
    double fraction = atomic_load(&fractions[device]);
    if (a != 0 && fraction > 0) memgauge_set_fraction(a, fraction);
    atomic_store_explicit(&devices[device], a, memory_order_release);
    return a;
}

// std::function of libstdc++, as PyTorch passes it: what it holds, what manages that, what calls it (bits/std_function.h).
typedef struct function {
    void *held[2];
    int (*manage)(void *to, const void *from, int what); // 2 copies, 3 destroys
    int (*invoke)(const void *held, void **stream);      // of bool(cudaStream_t); bool is in the low byte
} function;

// routes say which allocations go to a private pool: those of streams that pass a filter (torch 2.2 and newer), or of one stream.
#define MAX_ROUTES 64
typedef struct route {
    int used, device, filtered;
    uint64_t high, low;
    uint32_t pool;
    function filter;
    void *stream;
} route;
static pthread_mutex_t routing = PTHREAD_MUTEX_INITIALIZER;
static route routes[MAX_ROUTES];
static atomic_int routed; // routes in use

static uint32_t pool_of(int device, void *stream) {
    uint32_t pool = 0;
    pthread_mutex_lock(&routing);
    for (int i = 0; i < MAX_ROUTES && pool == 0; i++) {
        route *r = &routes[i];
        if (!r->used || r->device != device) continue;
        void *s = stream;
        if (r->filtered ? (r->filter.invoke(&r->filter, &s) & 0xff) != 0 : r->stream == stream) pool = r->pool;
    }
    pthread_mutex_unlock(&routing);
    return pool;
}

static void misused(char *why) {
    if (why == NULL) return;
    free(why);
    memgauge_misused();
}

static void begin(int device, uint64_t high, uint64_t low, const function *filter, void *stream) {
    int a = memgauge_enter() ? torch_device(device) : 0, at = -1;
    uint32_t pool = 0;
    if (a == 0) return;
    misused(mgPool(a, high, low, 'b', &pool));
    pthread_mutex_lock(&routing);
    for (int i = 0; i < MAX_ROUTES && at < 0; i++)
        if (!routes[i].used) at = i;
    if (at >= 0) {
        route *r = &routes[at];
        *r = (route){1, device, filter != NULL, high, low, pool, {{0}, 0, 0}, stream};
        if (filter != NULL && filter->manage != NULL) {
            filter->manage(&r->filter, filter, 2);
            r->filter.manage = filter->manage, r->filter.invoke = filter->invoke;
            atomic_fetch_add(&routed, 1);
        } else if (filter != NULL) { // an empty function: nothing passes it
            r->used = 0;
        } else {
            atomic_fetch_add(&routed, 1);
        }
    }
    pthread_mutex_unlock(&routing);
    if (at < 0) memgauge_misused();
}

static void end(int device, int named, uint64_t high, uint64_t low, void *stream) {
    int a = memgauge_enter() ? opened(device) : 0;
    uint32_t pool = 0;
    if (a == 0) return;
    pthread_mutex_lock(&routing);
    for (int i = 0; i < MAX_ROUTES; i++) {
        route *r = &routes[i];
        if (!r->used || r->device != device || (named ? r->high != high || r->low != low : r->stream != stream)) continue;
        high = r->high, low = r->low;
        if (r->filtered) r->filter.manage(&r->filter, &r->filter, 3);
        r->used = 0;
        atomic_fetch_sub(&routed, 1);
        break;
    }
    pthread_mutex_unlock(&routing);
    misused(mgPool(a, high, low, 'e', &pool));
}

void *memgauge_torch_alloc(ptrdiff_t size, int device, void *stream) {
    if (size == 0) return NULL;
    void *p = NULL;
    if (memgauge_enter()) {
        int a = torch_device(device);
        uint32_t pool = a != 0 && atomic_load_explicit(&routed, memory_order_relaxed) > 0 ? pool_of(device, stream) : 0;
        if (a != 0) p = memgauge_alloc_in(a, (size_t)size, stream, 0, pool);
    }
    if (p == NULL) memgauge_throw(memgauge_error() != NULL ? memgauge_error() : "memgauge: allocation failed",
                                   memgauge_error_code());
    return p;
}

void memgauge_torch_free(void *p, ptrdiff_t size, int device, void *stream) {
    (void)size, (void)stream;
    if (p == NULL || device < 0 || device >= MAX_DEVICES || memgauge_forked()) return;
    int a = opened(device);
    if (a == 0 || memgauge_free(a, p) != 0) memgauge_misused();
}

void memgauge_torch_init(int count) { (void)count; } // devices are opened when they are first used

// PyTorch does not say the device: only one has the address.
void memgauge_torch_record_stream(void *p, void *stream) {
    if (p == NULL || memgauge_forked()) return;
    for (int d = 0; d < MAX_DEVICES; d++) {
        int a = opened(d);
        if (a != 0 && memgauge_base(a, p, NULL) != NULL) {
            if (memgauge_record_stream(a, p, stream) != 0) memgauge_misused();
            return;
        }
    }
    memgauge_misused();
}

void memgauge_torch_reset(void) {
    for (int d = 0; d < MAX_DEVICES; d++)
        if (opened(d) != 0 && !memgauge_forked()) memgauge_empty_cache(opened(d));
}

void memgauge_torch_fraction(double fraction, int device) {
    if (device < 0 || device >= MAX_DEVICES || memgauge_forked()) return;
    atomic_store(&fractions[device], fraction);
    if (opened(device) != 0 && memgauge_set_fraction(opened(device), fraction) != 0) memgauge_misused();
}

void *memgauge_torch_base(void *p, size_t *size) {
    for (int d = 0; d < MAX_DEVICES && !memgauge_forked(); d++) {
        void *base = opened(d) != 0 ? memgauge_base(opened(d), p, size) : NULL;
        if (base != NULL) return base;
    }
    return p;
}

// A MempoolId_t, two words, is passed in registers; a std::function, which has a destructor, by its address.
void memgauge_torch_begin_pool(int device, uint64_t high, uint64_t low, void *filter) { begin(device, high, low, filter, NULL); }
void memgauge_torch_end_pool(int device, uint64_t high, uint64_t low) { end(device, 1, high, low, NULL); }
void memgauge_torch_begin_pool_stream(int device, void *stream, uint64_t high, uint64_t low) { begin(device, high, low, NULL, stream); }
void memgauge_torch_end_pool_stream(int device, void *stream) { end(device, 0, 0, 0, stream); }

void memgauge_torch_release_pool(int device, uint64_t high, uint64_t low) {
    uint32_t pool = 0;
    int a = memgauge_enter() ? opened(device) : 0;
    if (a != 0) misused(mgPool(a, high, low, 'r', &pool));
}
