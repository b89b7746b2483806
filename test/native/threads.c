// 10,000 threads that live at once, with small stacks; each holds a block that is sampled, and frees one. Prints ok. Ends
// with 77 where the system allows fewer. The three symbols have the library take it for a Python.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

char PyCode_Type[8];
void *PyGILState_GetThisThreadState(void) { return NULL; }
unsigned long Py_Version = 0x030b00f0;

enum { THREADS = 10000, STACK = 32 << 10, BLOCK = 20000 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_here = PTHREAD_COND_INITIALIZER;
static int here;
static void *volatile block[THREADS], *volatile freed; // volatile, or the compiler leaves the calls out

static void *work(void *mine) {
	*(void *volatile *)mine = malloc(BLOCK); // it stays: the test adds them up
	void *p = malloc(BLOCK);
	freed = p;
	free(p);
	pthread_mutex_lock(&lock);
	if (++here == THREADS)
		pthread_cond_broadcast(&all_here);
	while (here < THREADS)
		pthread_cond_wait(&all_here, &lock);
	pthread_mutex_unlock(&lock);
	return NULL;
}

int main(void) {
	static pthread_t threads[THREADS];
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, STACK);
	for (int i = 0; i < THREADS; i++) {
		int failed = pthread_create(&threads[i], &small, work, (void *)&block[i]);
		if (failed) {
			printf("thread %d: error %d\n", i, failed);
			return 77;
		}
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	puts("ok");
	return 0;
}
