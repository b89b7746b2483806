// What the C and the Go side of libmemgauge_alloc.so call of each other.
#ifndef SHIM_H
#define SHIM_H

#include <stddef.h>
#include <stdint.h>

// Of Go (exports.go). A char * that is returned or stored is an error's text, the caller's to free, or NULL.
extern int mgOpen(char *driver, int device, char *conf, char **why);
extern uintptr_t mgAlloc(int a, int64_t size, uintptr_t stream, uint32_t thread, uint32_t stack, char **why);
extern char *mgFree(int a, uintptr_t p, uint32_t thread);
extern char *mgRetain(int a, uintptr_t p);
extern char *mgRecordStream(int a, uintptr_t p, uintptr_t stream);
extern char *mgEmptyCache(int a);
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

// Of copy.c: an error's text or NULL.
char *memgauge_copy_text(int a, void *to, const void *from, size_t n, int direction);

// Of throw.c.
void memgauge_throw(const char *text);

#endif
