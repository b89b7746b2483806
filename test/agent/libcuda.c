// libcuda.so.1 of a GPU whose memory is the host's, for tests of what runs on "cuda": the driver that package alloc/cuda is
// tested with, with memory behind its addresses, and copies.
#define _GNU_SOURCE
#include <sys/mman.h>

#include "../../alloc/cuda/testdata/fakecuda.c"

enum { ADDRESSES = 36 }; // 2^36 bytes, never all touched

__attribute__((constructor)) static void map(void) {
    char *p = mmap(NULL, (1ull << ADDRESSES) + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED) next = ((uint64_t)p + PAGE - 1) / PAGE * PAGE;
}

int cuCtxGetCurrent(void **c) {
    *c = context;
    return OK;
}
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n) {
    CONTEXT;
    memcpy((void *)to, from, n);
    return OK;
}
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n) {
    CONTEXT;
    memcpy(to, (const void *)from, n);
    return OK;
}
