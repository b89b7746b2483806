// A fork beside an allocator that maps memory under its own lock, as jemalloc does: its handler of forks takes that lock.
// Compiled twice: with MODULE it is the allocator, which is preloaded behind the library, so that its handler is called
// after the library's. Prints ok. The three symbols have the library take the program for a Python.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef MODULE
static pthread_mutex_t arena = PTHREAD_MUTEX_INITIALIZER;
static int forking;
int arena_held;

static void prepare(void) {
	__atomic_store_n(&forking, 1, __ATOMIC_SEQ_CST);
	pthread_mutex_lock(&arena);
}

static void released(void) { pthread_mutex_unlock(&arena); }

__attribute__((constructor)) static void begin(void) { pthread_atfork(prepare, released, released); }

// grow_arena maps memory while another thread is about to fork.
void *grow_arena(void *nothing) {
	pthread_mutex_lock(&arena);
	__atomic_store_n(&arena_held, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&forking, __ATOMIC_SEQ_CST))
		sched_yield();
	for (int i = 0; i < 20; i++)
		munmap(mmap(NULL, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 16 << 20);
	pthread_mutex_unlock(&arena);
	return nothing;
}
#else
char PyCode_Type[8];
void *PyGILState_GetThisThreadState(void) { return NULL; }
unsigned long Py_Version = 0x030b00f0;

int main(void) {
	pthread_t thread;
	int status, *held = dlsym(RTLD_DEFAULT, "arena_held");
	void *(*grow)(void *) = (void *(*)(void *))dlsym(RTLD_DEFAULT, "grow_arena");
	if (!held || !grow || pthread_create(&thread, NULL, grow, NULL))
		return 1;
	while (!__atomic_load_n(held, __ATOMIC_SEQ_CST))
		sched_yield();
	pid_t child = fork();
	if (child == 0) {
		void *volatile p;
		for (int i = 0; i < 100; i++) {
			p = malloc(100000);
			free(p);
		}
		_exit(0);
	}
	pthread_join(thread, NULL);
	if (waitpid(child, &status, 0) != child || status)
		return 2;
	puts("ok");
	return 0;
}
#endif
