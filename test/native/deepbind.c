// A module that is loaded with RTLD_DEEPBIND, so its malloc and free are the C library's own.
#include <stdlib.h>

void *make(size_t n) { return malloc(n); }
void drop(void *p) { free(p); }
