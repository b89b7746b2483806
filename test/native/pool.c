// A pool's thread, which runs no Python: run waits for it, and start does not.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void *grow(void *count) {
	for (long i = 0; i < (long)count; i++)
		memset(malloc(20000), 1, 20000);
	return NULL;
}

static pthread_t thread;

void start(long count) { pthread_create(&thread, NULL, grow, (void *)count); }

int done(void) { return pthread_tryjoin_np(thread, NULL) == 0; }

void run(long count) {
	start(count);
	pthread_join(thread, NULL);
}
