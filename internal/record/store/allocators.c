// What two allocators of this process do with memory that nobody uses any more: DuckDB's, which is jemalloc, and the C
// library's. RLIMIT_DATA counts address space, resident or not.

#include <malloc.h>
#include <stddef.h>

// jemalloc reads this variable last of all its settings (jemalloc.c, obtain_malloc_conf). By default it keeps the
// address space of freed memory for itself: after questions that took what they may, nothing could be allocated any
// more.
const char *duckdb_je_malloc_conf_2_conf_harder = "retain:false";

// Absent where DuckDB is built without jemalloc.
extern int duckdb_je_mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));

// memgauge_give_back returns unused memory to the kernel. 4096 is all arenas together (MALLCTL_ARENAS_ALL).
void memgauge_give_back(void) {
	if (duckdb_je_mallctl) {
		duckdb_je_mallctl("arena.4096.purge", NULL, NULL, NULL, 0);
	}
	malloc_trim(0);
}
