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
static __thread int code;      // of the error
static __thread int exhausted; // Go is about to return the text of an error of that kind
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
    code = text == NULL ? MEMGAUGE_OK : exhausted ? MEMGAUGE_OUT_OF_MEMORY : MEMGAUGE_FAILED;
    exhausted = 0;
}

// enter says whether Go may be called.
static int enter(void) {
    if (error != NULL) fail(NULL);
    if (!atomic_load_explicit(&forked, memory_order_relaxed)) return 1;
    fail(strdup("memgauge: a forked child can't use its parent's allocator; start workers with spawn"));
    return 0;
}

const char *memgauge_error(void) { return error; }
int memgauge_error_code(void) { return code; }
int memgauge_exhausted(void) { return exhausted = 1; }
int64_t memgauge_misuses(void) { return atomic_load(&misuses); }

void memgauge_text_free(char *text) { free(text); }

int memgauge_enter(void) { return enter(); }
void memgauge_fail(char *text) { fail(text); }
int memgauge_forked(void) { return atomic_load_explicit(&forked, memory_order_relaxed); }
void memgauge_misused(void) { atomic_fetch_add(&misuses, 1); }

// The environment's settings, the one that wins first. They are read with getenv, here and now: Go's copy of the environment is of
// the process's start, and knows nothing of os.environ[...] = in Python.
static const char *variables[] = {"MEMGAUGE_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "GENESIS_CUDA_ALLOC_CONF"};

static _Atomic(char *) configured;

int memgauge_configure(const char *conf) {
    if (!enter()) return -1;
    char *why = mgCheck((char *)conf);
    if (why == NULL) atomic_store(&configured, strdup(conf)); // who opens a device may still read the old one: it stays
    fail(why);
    return why == NULL ? 0 : -1;
}

int memgauge_open(const char *driver, int device, const char *conf) {
    char *why = NULL;
    const char *source = "settings";
    if (!enter()) return 0;
    if (conf == NULL) conf = atomic_load(&configured);
    for (size_t i = 0; conf == NULL && i < sizeof variables / sizeof *variables; i++) {
        const char *set = getenv(variables[i]);
        if (set != NULL && *set) conf = set, source = variables[i];
    }
    int a = mgOpen((char *)driver, device, (char *)(conf != NULL ? conf : ""), (char *)source, &why);
    fail(why);
    return a;
}

void *memgauge_alloc_in(int a, size_t size, void *stream, uint32_t stack, uint32_t pool) {
    char *why = NULL;
    if (!enter()) return NULL;
    uintptr_t p = mgAlloc(a, size, (uintptr_t)stream, this_thread(), stack, pool, &why);
    if (why != NULL) fail(why);
    return (void *)p;
}

void *memgauge_alloc(int a, size_t size, void *stream, uint32_t stack) { return memgauge_alloc_in(a, size, stream, stack, 0); }

// A child's free does nothing: the memory is its parent's, or the copy of it that ends with the child.
int memgauge_free_at(int a, void *p, uint32_t stack) {
    if (atomic_load_explicit(&forked, memory_order_relaxed)) return 0;
    if (error != NULL) fail(NULL);
    char *why = mgFree(a, (uintptr_t)p, this_thread(), stack);
    if (why != NULL) fail(why);
    return why == NULL ? 0 : -1;
}

int memgauge_free(int a, void *p) { return memgauge_free_at(a, p, 0); }

// done is the result of a call that gave an error or NULL.
static int done(char *why) {
    fail(why);
    return why == NULL ? 0 : -1;
}

int memgauge_retain(int a, void *p) { return enter() ? done(mgRetain(a, (uintptr_t)p)) : -1; }
int memgauge_record_stream(int a, void *p, void *s) { return enter() ? done(mgRecordStream(a, (uintptr_t)p, (uintptr_t)s)) : -1; }

int64_t memgauge_release_cached(int a) {
    int64_t released = 0;
    return enter() && done(mgEmptyCache(a, &released)) == 0 ? released : -1;
}

int memgauge_empty_cache(int a) { return memgauge_release_cached(a) < 0 ? -1 : 0; }

void *memgauge_base(int a, void *p, size_t *size) {
    uint64_t n = 0;
    uintptr_t base = enter() ? mgBase(a, (uintptr_t)p, &n) : 0;
    if (size != NULL) *size = n;
    return (void *)base;
}

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

int memgauge_copy_cuda(int device, void *to, const void *from, size_t n, int direction) {
    return enter() ? done(memgauge_copy_cuda_text(device, to, from, n, direction)) : -1;
}

uint32_t memgauge_stack(int a, const char *lines) { return enter() ? mgStack(a, (char *)lines) : 0; }
