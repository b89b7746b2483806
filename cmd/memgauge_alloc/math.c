// Arithmetic on host memory, for memgauge's small tensors. It is as fast as it takes for the examples not to bore, no more.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "memgauge_alloc.h"

// A tile of MR × NR results is kept in registers; KB rows of a panel fit in the first cache.
enum { MR = 6, NR = 16, KB = 256, MB = 96, NB = 2048 };
typedef float v8 __attribute__((vector_size(32), aligned(4)));

// TILE adds a panel's product to c, of which mr × nr are valid. It is a macro because GCC takes vectors apart before it
// inlines: a function for one machine can't share its body with one for another.
#define TILE(name, machine)                                                                                       \
    machine static void name(int64_t kb, const float *a, const float *b, float *c, int64_t ldc, int mr, int nr) { \
        v8 acc[MR][2] = {{{0}}};                                                                                  \
        for (int64_t k = 0; k < kb; k++, a += MR, b += NR) {                                                      \
            v8 b0 = *(const v8 *)b, b1 = *(const v8 *)(b + 8);                                                    \
            for (int i = 0; i < MR; i++) {                                                                        \
                acc[i][0] += a[i] * b0;                                                                           \
                acc[i][1] += a[i] * b1;                                                                           \
            }                                                                                                     \
        }                                                                                                         \
        for (int i = 0; i < mr; i++)                                                                              \
            for (int j = 0; j < nr; j++) c[i * ldc + j] += acc[i][j / 8][j % 8];                                  \
    }

typedef void tile_fn(int64_t, const float *, const float *, float *, int64_t, int, int);

TILE(tile_plain, )
#if defined(__x86_64__)
TILE(tile_avx2, __attribute__((target("avx2,fma"))))
static tile_fn *best_tile(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? tile_avx2 : tile_plain;
}
#else
static tile_fn *best_tile(void) { return tile_plain; }
#endif

static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

// pack lays n columns of a k × n matrix out in strips of `strip` columns, the last padded with zeros.
static void pack(float *to, const float *x, int64_t k, int64_t n, int64_t row, int64_t column, int strip) {
    for (int64_t j = 0; j < n; j += strip)
        for (int64_t p = 0; p < k; p++)
            for (int q = 0; q < strip; q++) *to++ = j + q < n ? x[p * row + (j + q) * column] : 0;
}

void memgauge_matmul_f32(float *c, const float *a, const float *b, int64_t m, int64_t n, int64_t k, int64_t ai, int64_t ak,
                         int64_t bk, int64_t bj) {
    tile_fn *tile = best_tile();
    memset(c, 0, sizeof(float) * m * n);
    float *pa = malloc(sizeof(float) * KB * (MB + MR)), *pb = malloc(sizeof(float) * KB * (NB + NR));
    if (pa == NULL || pb == NULL) { // 2 MiB: then slowly
        for (int64_t i = 0; i < m; i++)
            for (int64_t p = 0; p < k; p++)
                for (int64_t j = 0; j < n; j++) c[i * n + j] += a[i * ai + p * ak] * b[p * bk + j * bj];
        free(pa), free(pb);
        return;
    }
    for (int64_t j0 = 0; j0 < n; j0 += NB)
        for (int64_t p0 = 0; p0 < k; p0 += KB) {
            int64_t nb = least(NB, n - j0), kb = least(KB, k - p0);
            pack(pb, b + p0 * bk + j0 * bj, kb, nb, bk, bj, NR);
            for (int64_t i0 = 0; i0 < m; i0 += MB) {
                int64_t mb = least(MB, m - i0);
                pack(pa, a + i0 * ai + p0 * ak, kb, mb, ak, ai, MR);
                for (int64_t j = 0; j < nb; j += NR)
                    for (int64_t i = 0; i < mb; i += MR)
                        tile(kb, pa + i * kb, pb + j * kb, c + (i0 + i) * n + j0 + j, n, (int)least(MR, mb - i), (int)least(NR, nb - j));
            }
        }
    free(pa);
    free(pb);
}

void memgauge_fill_f32(float *to, int64_t n, float v) {
    for (int64_t i = 0; i < n; i++) to[i] = v;
}

// splitmix64, of which the upper 24 bits make a float.
void memgauge_rand_f32(float *to, int64_t n, uint64_t *state) {
    for (int64_t i = 0; i < n; i++) {
        uint64_t z = (*state += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        to[i] = (float)((z ^ (z >> 31)) >> 40) * 0x1p-24f;
    }
}

void memgauge_binary_f32(float *to, const float *x, const float *y, int64_t n, int op) {
    switch (op) {
    case '+':
        for (int64_t i = 0; i < n; i++) to[i] = x[i] + y[i];
        break;
    case '-':
        for (int64_t i = 0; i < n; i++) to[i] = x[i] - y[i];
        break;
    case '*':
        for (int64_t i = 0; i < n; i++) to[i] = x[i] * y[i];
        break;
    case '/':
        for (int64_t i = 0; i < n; i++) to[i] = x[i] / y[i];
        break;
    }
}
