/* A libcuda of one GPU without a GPU: it keeps books and checks its arguments. FAKECUDA_BYTES is the GPU's memory. What a
   real driver would refuse is refused with CUDA_ERROR_INVALID_VALUE, so that the test sees it. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NO_CONTEXT = 201, NOT_READY = 600, PAGE = 2 << 20, MAX = 1 << 16 };

typedef struct { int type, handles, where, id; void *win32; unsigned char compression, rdma; unsigned short usage; unsigned char rest[4]; } prop;
typedef struct { int where, id, flags; } access_desc;
typedef struct { uint64_t at, size, handle; int kind, access; } range; /* kind 1: memory, 2: addresses, 3: page, 4: handle */
typedef struct { void *stream; int used; } event;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static range ranges[MAX];
static event events[MAX];
static uint64_t next = 0x7f0000000000, next_handle = 1, total, used;
static int held; /* fakecuda_hold: events are not passed */
static __thread void *context;
static int the_context;

#define LOCK pthread_mutex_lock(&mu)
#define RETURN(x) do { int r_ = (x); pthread_mutex_unlock(&mu); return r_; } while (0)
#define CONTEXT if (context != &the_context) return NO_CONTEXT

void fakecuda_hold(int on) { held = on; }
uint64_t fakecuda_used(void) { return used; }

static range *find(int kind, uint64_t at) {
  for (int i = 0; i < MAX; i++) if (ranges[i].kind == kind && ranges[i].at == at) return &ranges[i];
  return NULL;
}
static range *put(int kind, uint64_t at, uint64_t size) {
  range *r = NULL;
  for (int i = 0; i < MAX && !r; i++) if (!ranges[i].kind) r = &ranges[i];
  *r = (range){at, size, 0, kind, 0};
  return r;
}
static uint64_t place(uint64_t size) { uint64_t p = next; next += (size + PAGE - 1) / PAGE * PAGE; return p; }

int cuInit(unsigned flags) { const char *s = getenv("FAKECUDA_BYTES"); total = s ? strtoull(s, NULL, 10) : 1ull << 30; return flags ? INVALID : OK; }
int cuDeviceGetCount(int *n) { *n = 1; return OK; }
int cuDeviceGet(int *d, int n) { *d = n; return n ? INVALID : OK; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = &the_context; return d ? INVALID : OK; }
int cuDevicePrimaryCtxRelease_v2(int d) { return d ? INVALID : OK; }
int cuCtxSetCurrent(void *c) { context = c; return OK; }
int cuCtxSynchronize(void) { CONTEXT; return OK; }
int cuMemGetInfo_v2(size_t *f, size_t *t) { CONTEXT; *f = total - used; *t = total; return OK; }
int cuMemAlloc_v2(uint64_t *p, size_t n) {
  CONTEXT; LOCK;
  if (!n) RETURN(INVALID);
  if (n > total - used) RETURN(NO_MEMORY);
  *p = place(n); put(1, *p, n); used += n; RETURN(OK);
}
int cuMemFree_v2(uint64_t p) {
  CONTEXT; LOCK; range *r = find(1, p);
  if (!r) RETURN(INVALID);
  used -= r->size; r->kind = 0; RETURN(OK);
}
static int bad(const prop *p) { return sizeof *p != 32 || p->type != 1 || p->handles || p->where != 1 || p->id || p->win32; }
int cuMemGetAllocationGranularity(size_t *n, const prop *p, int option) { *n = PAGE; return bad(p) || option ? INVALID : OK; }
int cuMemAddressReserve(uint64_t *p, size_t n, size_t align, uint64_t at, unsigned long long flags) {
  CONTEXT; LOCK;
  if (!n || n % PAGE || align || at || flags) RETURN(INVALID);
  *p = place(n); put(2, *p, n); RETURN(OK);
}
int cuMemAddressFree(uint64_t p, size_t n) {
  CONTEXT; LOCK; range *r = find(2, p);
  if (!r || r->size != n) RETURN(INVALID);
  for (int i = 0; i < MAX; i++) if (ranges[i].kind == 3 && ranges[i].at >= p && ranges[i].at < p + n) RETURN(INVALID);
  r->kind = 0; RETURN(OK);
}
int cuMemCreate(uint64_t *h, size_t n, const prop *p, unsigned long long flags) {
  CONTEXT; LOCK;
  if (!n || n % PAGE || bad(p) || flags) RETURN(INVALID);
  if (n > total - used) RETURN(NO_MEMORY);
  *h = next_handle++; put(4, *h, n)->handle = 1; used += n; RETURN(OK);
}
/* memory goes when it is released and unmapped; handle counts both */
static void drop(range *h) { if (--h->handle == 0) { used -= h->size; h->kind = 0; } }
int cuMemRelease(uint64_t h) {
  CONTEXT; LOCK; range *r = find(4, h);
  if (!r) RETURN(INVALID);
  drop(r); RETURN(OK);
}
int cuMemMap(uint64_t p, size_t n, size_t offset, uint64_t h, unsigned long long flags) {
  CONTEXT; LOCK; range *m = find(4, h), *in = NULL;
  for (int i = 0; i < MAX; i++) if (ranges[i].kind == 2 && p >= ranges[i].at && p + n <= ranges[i].at + ranges[i].size) in = &ranges[i];
  if (!m || m->size != n || offset || flags || p % PAGE || !in || find(3, p)) RETURN(INVALID);
  m->handle++; put(3, p, n)->handle = h; RETURN(OK);
}
int cuMemUnmap(uint64_t p, size_t n) {
  CONTEXT; LOCK;
  for (uint64_t a = p; a < p + n; a += PAGE) if (!find(3, a)) RETURN(INVALID);
  for (uint64_t a = p; a < p + n; a += PAGE) { range *r = find(3, a); drop(find(4, r->handle)); r->kind = 0; }
  RETURN(OK);
}
int cuMemSetAccess(uint64_t p, size_t n, const access_desc *d, size_t count) {
  CONTEXT; LOCK;
  if (count != 1 || d->where != 1 || d->id || d->flags != 3) RETURN(INVALID);
  for (uint64_t a = p; a < p + n; a += PAGE) { range *r = find(3, a); if (!r) RETURN(INVALID); r->access = 1; }
  RETURN(OK);
}
int cuEventCreate(void **e, unsigned flags) {
  CONTEXT; LOCK;
  for (int i = 0; i < MAX; i++) if (!events[i].used) { events[i].used = 1; *e = &events[i]; RETURN(flags == 2 ? OK : INVALID); }
  RETURN(NO_MEMORY);
}
static int known(void *e) { return (event *)e >= events && (event *)e < events + MAX && ((event *)e)->used; }
int cuEventRecord(void *e, void *stream) { CONTEXT; if (!known(e)) return INVALID; ((event *)e)->stream = stream; return OK; }
int cuEventQuery(void *e) { CONTEXT; return !known(e) ? INVALID : held ? NOT_READY : OK; }
int cuEventSynchronize(void *e) { CONTEXT; return known(e) ? OK : INVALID; }
int cuEventDestroy_v2(void *e) { CONTEXT; if (!known(e)) return INVALID; ((event *)e)->used = 0; return OK; }
int cuGetErrorName(int r, const char **s) { *s = r == NO_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : r == NO_CONTEXT ? "CUDA_ERROR_INVALID_CONTEXT" : r == INVALID ? "CUDA_ERROR_INVALID_VALUE" : NULL; return *s ? OK : INVALID; }
int cuGetErrorString(int r, const char **s) { *s = r == NO_MEMORY ? "out of memory" : "invalid argument or context"; return OK; }
