// The C side: what must not be Go. It refuses to enter Go in a forked child, whose other threads, Go's among them, are gone;
// keeps errors by thread; and throws C++ exceptions with what is linked into the process that expects them.
#define _GNU_SOURCE
#include "memgauge_alloc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim.h"

static atomic_int forked;
static atomic_llong misuses;
static __thread char *error;
static __thread uint32_t thread;

static void in_child(void) { atomic_store(&forked, 1); }

__attribute__((constructor)) static void loaded(void) { pthread_atfork(NULL, NULL, in_child); }

static uint32_t this_thread(void) {
    if (thread == 0) thread = (uint32_t)syscall(SYS_gettid);
    return thread;
}

// fail keeps text, which it owns, as the thread's error.
static void fail(char *text) {
    if (error != NULL) free(error);
    error = text;
}

// enter says whether Go may be called.
static int enter(void) {
    if (error != NULL) fail(NULL);
    if (!atomic_load_explicit(&forked, memory_order_relaxed)) return 1;
    fail(strdup("memgauge: a forked child can't use its parent's allocator; start workers with spawn"));
    return 0;
}

const char *memgauge_error(void) { return error; }
int64_t memgauge_misuses(void) { return atomic_load(&misuses); }

void memgauge_text_free(char *text) { free(text); }

int memgauge_open(const char *driver, int device, const char *conf) {
    char *why = NULL;
    if (!enter()) return 0;
    int a = mgOpen((char *)driver, device, (char *)conf, &why);
    fail(why);
    return a;
}

void *memgauge_alloc(int a, size_t size, void *stream, uint32_t stack) {
    char *why = NULL;
    if (!enter()) return NULL;
    uintptr_t p = mgAlloc(a, (int64_t)size, (uintptr_t)stream, this_thread(), stack, &why);
    if (why != NULL) fail(why);
    return (void *)p;
}

// A child's free does nothing: the memory is its parent's, or the copy of it that ends with the child.
int memgauge_free(int a, void *p) {
    if (atomic_load_explicit(&forked, memory_order_relaxed)) return 0;
    if (error != NULL) fail(NULL);
    char *why = mgFree(a, (uintptr_t)p, this_thread());
    if (why != NULL) fail(why);
    return why == NULL ? 0 : -1;
}

// done is the result of a call that gave an error or NULL.
static int done(char *why) {
    fail(why);
    return why == NULL ? 0 : -1;
}

int memgauge_retain(int a, void *p) { return enter() ? done(mgRetain(a, (uintptr_t)p)) : -1; }
int memgauge_record_stream(int a, void *p, void *s) { return enter() ? done(mgRecordStream(a, (uintptr_t)p, (uintptr_t)s)) : -1; }
int memgauge_empty_cache(int a) { return enter() ? done(mgEmptyCache(a)) : -1; }
int memgauge_reset_stats(int a, int peaks, int sums) { return enter() ? done(mgReset(a, peaks, sums)) : -1; }
int memgauge_set_fraction(int a, double f) { return enter() ? done(mgSetFraction(a, f)) : -1; }
int memgauge_set_debug(int a, int on) { return enter() ? done(mgSetDebug(a, on)) : -1; }
int memgauge_window_close(int a, int w) { return enter() ? done(mgWindowClose(a, w)) : -1; }

int memgauge_window(int a) {
    char *why = NULL;
    if (!enter()) return 0;
    int w = mgWindow(a, &why);
    fail(why);
    return w;
}

char *memgauge_stats(int a, int window, const char *what) {
    char *why = NULL;
    if (!enter()) return NULL;
    char *text = mgStats(a, window, (char *)what, &why);
    fail(why);
    return text;
}

char *memgauge_events(int a, int n) {
    char *why = NULL;
    if (!enter()) return NULL;
    char *text = mgEvents(a, n, &why);
    fail(why);
    return text;
}

int memgauge_snapshot(int a, const char *path, const char *format) {
    return enter() ? done(mgSnapshot(a, (char *)path, (char *)format)) : -1;
}

int memgauge_copy(int a, void *to, const void *from, size_t n, int direction) {
    return enter() ? done(memgauge_copy_text(a, to, from, n, direction)) : -1;
}

uint32_t memgauge_stack(int a, const char *lines) { return enter() ? mgStack(a, (char *)lines) : 0; }

// PyTorch's devices: opened at the first allocation, then found without a lock.
#define MAX_DEVICES 64
static atomic_int devices[MAX_DEVICES];

static int torch_device(int device) {
    if (device < 0 || device >= MAX_DEVICES) {
        fail(strdup("memgauge: device out of range"));
        return 0;
    }
    int a = atomic_load_explicit(&devices[device], memory_order_acquire);
    if (a != 0) return a;
    const char *driver = getenv("MEMGAUGE_ALLOC_DRIVER");
    a = memgauge_open(driver != NULL && *driver ? driver : "cuda", device, NULL);
    atomic_store_explicit(&devices[device], a, memory_order_release);
    return a;
}

void *memgauge_torch_alloc(ptrdiff_t size, int device, void *stream) {
    if (size == 0) return NULL;
    void *p = NULL;
    if (enter()) {
        int a = torch_device(device);
        if (a != 0) p = memgauge_alloc(a, (size_t)size, stream, 0);
    }
    if (p == NULL) memgauge_throw(error != NULL ? error : "memgauge: allocation failed");
    return p;
}

void memgauge_torch_free(void *p, ptrdiff_t size, int device, void *stream) {
    (void)size, (void)stream;
    if (p == NULL || device < 0 || device >= MAX_DEVICES || atomic_load_explicit(&forked, memory_order_relaxed)) return;
    int a = atomic_load_explicit(&devices[device], memory_order_acquire);
    if (a == 0 || memgauge_free(a, p) != 0) atomic_fetch_add(&misuses, 1);
}
