/* Calls of competitors in a loop, so that no time of Python's is in what is measured: each function makes `calls` calls
 * and gives the seconds that they took. Where a row has several sets of operands (so that none is in a cache when its
 * turn comes again), `turn` says whose turn it is, and is left where the next call goes on. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>

#include "clock.h"

typedef int tenon_call(const void *function, const void *const *args, size_t n, void **results, size_t room, size_t *count);
typedef void tenon_free(void *tensor);

/* A function and its arguments a set. Stops at the first call that fails, with a negative time. */
double drive_tenon(tenon_call *call, tenon_free *release, const void *const *functions, const void *const *const *args,
                   size_t n, size_t sets, size_t *turn, int64_t calls) {
    void *results[8];
    size_t count = 0;
    double begun = now();
    for (int64_t i = 0; i < calls; i++) {
        if (call(functions[*turn], args[*turn], n, results, 8, &count)) return -1;
        for (size_t r = 0; r < count; r++) release(results[r]);
        *turn = (*turn + 1) % sets;
    }
    return now() - begun;
}

typedef void cblas_sgemm(int order, int ta, int tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                         const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
typedef int dnnl_sgemm(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                       const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
typedef void rust_sgemm(int64_t m, int64_t n, int64_t k, const float *a, const float *b, int64_t row, int64_t column,
                        float *c, int threads);

/* Products of a [m, k] and b [k, n], or [n, k] where `transposed`. */
double drive_cblas(cblas_sgemm *f, int transposed, int64_t m, int64_t k, int64_t n, const float *a, const float *const *b,
                   float *c, size_t sets, size_t *turn, int64_t calls) {
    double begun = now();
    for (int64_t i = 0; i < calls; i++) {
        f(101, 111, transposed ? 112 : 111, m, n, k, 1, a, k, b[*turn], transposed ? k : n, 0, c, n);
        *turn = (*turn + 1) % sets;
    }
    return now() - begun;
}

double drive_dnnl(dnnl_sgemm *f, int transposed, int64_t m, int64_t k, int64_t n, const float *a, const float *const *b,
                  float *c, size_t sets, size_t *turn, int64_t calls) {
    double begun = now();
    for (int64_t i = 0; i < calls; i++) {
        f('N', transposed ? 'T' : 'N', m, n, k, 1, a, k, b[*turn], transposed ? k : n, 0, c, n);
        *turn = (*turn + 1) % sets;
    }
    return now() - begun;
}

double drive_rust(rust_sgemm *f, int transposed, int64_t m, int64_t k, int64_t n, const float *a, const float *const *b,
                  float *c, int threads, size_t sets, size_t *turn, int64_t calls) {
    double begun = now();
    for (int64_t i = 0; i < calls; i++) {
        f(m, n, k, a, b[*turn], transposed ? 1 : n, transposed ? k : 1, c, threads);
        *turn = (*turn + 1) % sets;
    }
    return now() - begun;
}

typedef void loops(void *const *buffers, const int64_t *dims);

/* The loops of primitives.c. */
double drive_loops(loops *f, void *const *buffers, const int64_t *dims, int64_t calls) {
    double begun = now();
    for (int64_t i = 0; i < calls; i++) f(buffers, dims);
    return now() - begun;
}
