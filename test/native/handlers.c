// Signal handlers that map memory, as they may; malloc(3) may not be called in one. "timer": they come at any place, 5,000
// times a second, while the program allocates. "overflow": one runs behind a stack overflow, on a small stack. Prints ok.
// The three symbols have the library take it for a Python.
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

char PyCode_Type[8];
void *PyGILState_GetThisThreadState(void) { return NULL; }
unsigned long Py_Version = 0x030b00f0;

enum { MAP = 256 << 10, BLOCK = 20000, BLOCKS = 50000, SMALL_STACK = 16 << 10 };
static volatile sig_atomic_t came;
static void *volatile kept;

static void map_some(void) {
	for (int i = 0; i < 10; i++) {
		void *p = mmap(NULL, MAP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED || munmap(p, MAP))
			_exit(3);
	}
}

static void on_timer(int signal) {
	(void)signal;
	map_some();
	came++;
}

static void on_overflow(int signal) {
	(void)signal;
	map_some();
	_exit(write(1, "ok\n", 3) == 3 ? 0 : 4);
}

static int deeper(int n) {
	volatile char room[512];
	room[n % 512] = 1;
	kept = malloc(BLOCK);
	return deeper(n + 1) + room[0];
}

int main(int count, char **args) {
	if (count > 1 && !strcmp(args[1], "overflow")) {
		static char small[SMALL_STACK];
		stack_t other = {.ss_sp = small, .ss_size = sizeof small};
		struct sigaction a = {.sa_handler = on_overflow, .sa_flags = SA_ONSTACK};
		return sigaltstack(&other, NULL) || sigaction(SIGSEGV, &a, NULL) ? 1 : deeper(0);
	}
	struct sigaction a = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
	if (sigaction(SIGALRM, &a, NULL) || setitimer(ITIMER_REAL, &often, NULL))
		return 1;
	for (int i = 0; i < BLOCKS || came < 100; i++) {
		kept = malloc(BLOCK);
		if (i % 4)
			free(kept);
	}
	if (setitimer(ITIMER_REAL, &never, NULL))
		return 1;
	return write(1, "ok\n", 3) == 3 ? 0 : 4;
}
