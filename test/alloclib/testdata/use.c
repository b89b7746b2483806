// Uses libmemgauge_alloc.so as a C program does. Every check that fails is printed; the exit code is their number.
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "memgauge_alloc.h"

static int wrong;
static volatile int stop;

#define CHECK(what)                                                                            \
    do {                                                                                       \
        if (!(what)) {                                                                         \
            wrong++;                                                                           \
            printf("line %d: %s; error: %s\n", __LINE__, #what, memgauge_error() ? memgauge_error() : "none"); \
        }                                                                                      \
    } while (0)

static int error_has(const char *text) { return memgauge_error() != NULL && strstr(memgauge_error(), text) != NULL; }

static void *churn(void *a) {
    void *held[64] = {0};
    unsigned x = (unsigned)(size_t)&held;
    while (!stop) {
        x = x * 1664525 + 1013904223;
        int i = x >> 26;
        if (memgauge_free(*(int *)a, held[i]) != 0) break;
        held[i] = memgauge_alloc(*(int *)a, 512 + (x & 0xfffff), NULL, 0);
    }
    for (int i = 0; i < 64; i++) memgauge_free(*(int *)a, held[i]);
    return NULL;
}

static void basics(int a) {
    char *p = memgauge_alloc(a, 1000, NULL, 0);
    CHECK(p != NULL && memgauge_error() == NULL);
    CHECK(memgauge_retain(a, p) == 0);
    CHECK(memgauge_free(a, p) == 0 && memgauge_free(a, p) == 0);
    CHECK(memgauge_free(a, p) == -1 && error_has("double free"));
    CHECK(memgauge_free(a, &wrong) == -1 && error_has("unknown pointer"));
    p = memgauge_alloc(a, 1 << 20, (void *)7, 0);
    CHECK(memgauge_free(a, p + 512) == -1 && error_has("pointer into a block"));
    CHECK(memgauge_record_stream(a, p, (void *)9) == 0 && memgauge_free(a, p) == 0);
    CHECK(memgauge_alloc(a, 0, NULL, 0) == NULL && memgauge_error() == NULL);
    CHECK(memgauge_alloc(a, (size_t)1 << 50, NULL, 0) == NULL && error_has("CUDA OOM") && error_has("CUDA out of memory"));
    CHECK(memgauge_free(a, NULL) == 0 && memgauge_error() == NULL);
    CHECK(memgauge_open("fake", 0, "policy:vmm") == a);
    CHECK(memgauge_open("disk", 0, NULL) == 0 && error_has("not one of cuda, host, fake"));
    CHECK(memgauge_open("fake", 9, "polcy:vmm") == 0 && error_has("polcy"));
    CHECK(memgauge_alloc(99, 1, NULL, 0) == NULL && error_has("no such allocator"));
}

static void texts(int a, const char *folder) {
    char path[4096];
    char *t = memgauge_stats(a, 0, "torch");
    CHECK(t != NULL && strstr(t, "\"allocated_bytes.all.current\":0") != NULL);
    memgauge_text_free(t);
    CHECK(memgauge_stats(a, 0, "nonsense") == NULL && error_has("not one of genesis"));
    int w = memgauge_window(a);
    CHECK(memgauge_free(a, memgauge_alloc(a, 100, NULL, memgauge_stack(a, "a.py:3:f\nb.py:5:g"))) == 0);
    t = memgauge_stats(a, w, "genesis");
    CHECK(t != NULL && strstr(t, "\"num_allocations\":1,") != NULL);
    memgauge_text_free(t);
    CHECK(memgauge_window_close(a, w) == 0 && memgauge_window_close(a, w) == -1);
    t = memgauge_events(a, 1);
    CHECK(t != NULL && strstr(t, "free_completed") != NULL);
    memgauge_text_free(t);
    snprintf(path, sizeof path, "%s/s.pickle", folder);
    CHECK(memgauge_snapshot(a, path, "pickle") == 0 && access(path, R_OK) == 0);
    CHECK(memgauge_snapshot(a, "/nowhere/s.pickle", "pickle") == -1 && error_has("/nowhere"));
    CHECK(memgauge_empty_cache(a) == 0 && memgauge_reset_stats(a, 1, 1) == 0);
}

// A child, forked while other threads allocate, frees what it inherited and ends. None may hang.
static int forks(int a, int count) {
    int fine = 0;
    for (int i = 0; i < count; i++) {
        void *p = memgauge_alloc(a, 4096, NULL, 0);
        pid_t child = fork();
        if (child == 0) {
            alarm(30);
            int ok = memgauge_free(a, p) == 0 && memgauge_alloc(a, 10, NULL, 0) == NULL && error_has("forked child");
            memgauge_torch_free(p, 4096, 0, NULL);
            exit(ok ? 7 : 1);
        }
        int status;
        waitpid(child, &status, 0);
        fine += WIFEXITED(status) && WEXITSTATUS(status) == 7;
        memgauge_free(a, p);
    }
    return fine;
}

static int threads_now(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    while (readdir(d) != NULL) n++;
    closedir(d);
    return n - 2;
}

static double pair_ns(int a, int n) {
    static void *held[1000];
    static size_t sizes[4096];
    unsigned long x = 1;
    for (int i = 0; i < 4096; i++) {
        x = x * 6364136223846793005ul + 1442695040888963407ul;
        sizes[i] = (size_t)512 << (x >> 33) % 17;
        sizes[i] += (x >> 20) % sizes[i];
    }
    for (int i = 0; i < 1000; i++) held[i] = memgauge_alloc(a, sizes[i], NULL, 0);
    struct timespec t0, t1;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t0);
    for (int i = 0; i < n; i++) {
        x = x * 6364136223846793005ul + 1442695040888963407ul;
        int k = (x >> 33) % 1000;
        memgauge_free(a, held[k]);
        held[k] = memgauge_alloc(a, sizes[i & 4095], NULL, 0);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t1);
    for (int i = 0; i < 1000; i++) memgauge_free(a, held[i]);
    return ((t1.tv_sec - t0.tv_sec) * 1e9 + (t1.tv_nsec - t0.tv_nsec)) / n;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "bench") == 0) {
        int a = memgauge_open("fake", 0, "events:0");
        for (int i = 0; i < 5; i++) printf("%.0f\n", pair_ns(a, atoi(argv[2])));
        return 0;
    }
    int a = memgauge_open("fake", 0, "");
    CHECK(a > 0);
    basics(a);
    texts(a, argv[1]);
    pthread_t t[4];
    for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, churn, &a);
    int count = atoi(argv[2]), fine = forks(a, count);
    stop = 1;
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    printf("forks: %d of %d\n", fine, count);
    CHECK(fine == count);
    char *left = memgauge_stats(a, 0, "torch");
    CHECK(left != NULL && strstr(left, "\"allocated_bytes.all.current\":0") != NULL);
    memgauge_text_free(left);
    CHECK(threads_now() < 64);
    return wrong;
}
