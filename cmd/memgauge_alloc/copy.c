// Copies between host and device memory, for memgauge's tensors. libcuda is loaded when it is first needed; its functions are
// those of cuda.h, CUDA 11 and newer.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memgauge_alloc.h"
#include "shim.h"

static struct {
    int (*init)(unsigned);
    int (*device)(int *, int);
    int (*retain)(void **, int);
    int (*current)(void **);
    int (*set)(void *);
    int (*in)(uint64_t, const void *, size_t);
    int (*out)(void *, uint64_t, size_t);
} cuda;
static pthread_once_t once = PTHREAD_ONCE_INIT;

enum { max_devices = 64 };
static void *contexts[max_devices];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void load(void) {
    void *h = dlopen("libcuda.so.1", RTLD_LAZY);
    if (h == NULL) return;
    *(void **)&cuda.init = dlsym(h, "cuInit");
    *(void **)&cuda.device = dlsym(h, "cuDeviceGet");
    *(void **)&cuda.retain = dlsym(h, "cuDevicePrimaryCtxRetain");
    *(void **)&cuda.current = dlsym(h, "cuCtxGetCurrent");
    *(void **)&cuda.set = dlsym(h, "cuCtxSetCurrent");
    *(void **)&cuda.in = dlsym(h, "cuMemcpyHtoD_v2");
    *(void **)&cuda.out = dlsym(h, "cuMemcpyDtoH_v2");
}

// context is the device's primary context, retained once and for the process's life; NULL if there is none.
static void *context(int device) {
    pthread_once(&once, load);
    if (!cuda.init || !cuda.device || !cuda.retain || !cuda.current || !cuda.set || !cuda.in || !cuda.out) return NULL;
    if (device < 0 || device >= max_devices) return NULL;
    pthread_mutex_lock(&lock);
    int number;
    if (contexts[device] == NULL && cuda.init(0) == 0 && cuda.device(&number, device) == 0 && cuda.retain(&contexts[device], number) != 0)
        contexts[device] = NULL;
    pthread_mutex_unlock(&lock);
    return contexts[device];
}

char *memgauge_copy_cuda_text(int device, void *to, const void *from, size_t n, int direction) {
    void *ours = context(device), *theirs = NULL;
    if (ours == NULL) return strdup("memgauge: copy: libcuda.so.1 can't be loaded, or gives no context");
    cuda.current(&theirs); // the caller's context stays what it was
    int code = cuda.set(ours);
    if (code == 0) code = direction == 1 ? cuda.in((uint64_t)(uintptr_t)to, from, n) : cuda.out(to, (uint64_t)(uintptr_t)from, n);
    if (theirs != ours) cuda.set(theirs);
    if (code == 0) return NULL;
    char *text = malloc(64);
    if (text != NULL) snprintf(text, 64, "memgauge: copy: CUDA error %d", code);
    return text;
}

char *memgauge_copy_text(int a, void *to, const void *from, size_t n, int direction) {
    int device = 0;
    switch (mgDriver(a, &device)) {
    case 'h':
        memcpy(to, from, n);
        return NULL;
    case 'c':
        return memgauge_copy_cuda_text(device, to, from, n, direction);
    case 'f':
        return strdup("memgauge: copy: a fake device has no memory");
    }
    return strdup("memgauge: no such allocator: open it first");
}
