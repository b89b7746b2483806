// What the C and the Go side of libmemgauge_alloc.so call of each other.
#ifndef SHIM_H
#define SHIM_H

#include <stddef.h>
#include <stdint.h>

// Of Go (exports.go). A char * that is returned or stored is an error's text, the caller's to free, or NULL.
extern int mgOpen(char *driver, int device, char *conf, char *source, char **why);
extern char *mgCheck(char *conf);
extern uintptr_t mgAlloc(int a, uint64_t size, uintptr_t stream, uint32_t thread, uint32_t stack, uint32_t pool, char **why);
extern char *mgFree(int a, uintptr_t p, uint32_t thread, uint32_t stack);
extern char *mgRetain(int a, uintptr_t p);
extern char *mgRecordStream(int a, uintptr_t p, uintptr_t stream);
extern char *mgEmptyCache(int a, int64_t *released);
extern char *mgReset(int a, int peaks, int sums);
extern char *mgSetFraction(int a, double fraction);
extern char *mgSetDebug(int a, int on);
extern int mgWindow(int a, char **why);
extern char *mgWindowClose(int a, int window);
extern char *mgStats(int a, int window, char *what, char **why);
extern char *mgEvents(int a, int n, char **why);
extern char *mgSnapshot(int a, char *path, char *format);
extern uint32_t mgStack(int a, char *lines);
extern int mgDriver(int a, int *number); // 'c'uda, 'h'ost, 'f'ake; 0: no such allocator
// what is 'b'egin, 'e'nd or 'r'elease of a private pool, or 0; pool gets its number.
extern char *mgPool(int a, uint64_t high, uint64_t low, int what, uint32_t *pool);
extern uintptr_t mgBase(int a, uintptr_t p, uint64_t *size);

// Of shim.c. enter says whether Go may be called, and fails with the reason where not; fail keeps a text, which it owns, as the
// thread's error.
int memgauge_enter(void);
int memgauge_exhausted(void); // the next error of this thread is that there is no memory
void memgauge_fail(char *text);
void *memgauge_alloc_in(int a, size_t size, void *stream, uint32_t stack, uint32_t pool);
int memgauge_forked(void);
void memgauge_misused(void);

// Of copy.c: an error's text or NULL.
char *memgauge_copy_cuda_text(int device, void *to, const void *from, size_t n, int direction);
char *memgauge_copy_text(int a, void *to, const void *from, size_t n, int direction);

// Of throw.c.
void memgauge_throw(const char *text, int code);

#endif
