/* What this machine can do, by loops that do nothing else: dot products that stay in registers, and memory that is
 * read, copied or written past the caches. Each function runs for a while on one or two threads and gives the rate: operations
 * or bytes a second. The threads begin at a barrier and are timed from there to the last one's end. */
#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "clock.h"

#if defined(__AVX512F__)
enum { WIDTH = 64 };
#else
enum { WIDTH = 32 };
#endif
typedef float vec __attribute__((vector_size(WIDTH)));
enum { CHAINS = 12, MOST_THREADS = 64 };

typedef struct work {
    void (*body)(const struct work *);
    char *from, *other, *to;
    size_t bytes;
    int64_t rounds;
    atomic_int *waiting;
    double begun, ended;
} work;

static void *begin(void *p) {
    work *w = p;
    atomic_fetch_sub(w->waiting, 1);
    while (atomic_load(w->waiting) > 0) _mm_pause();
    w->begun = now();
    w->body(w);
    w->ended = now();
    return NULL;
}

/* Seconds that `threads` runs of a body take side by side, each on its own part of the memory. */
static double together(work all, int threads) {
    work each[MOST_THREADS];
    pthread_t ids[MOST_THREADS];
    atomic_int waiting = threads;
    size_t part = all.bytes / threads / 4096 * 4096;
    for (int i = 0; i < threads; i++) {
        each[i] = all;
        each[i].waiting = &waiting;
        each[i].bytes = part;
        if (all.from) each[i].from += i * part;
        if (all.other) each[i].other += i * part;
        if (all.to) each[i].to += i * part;
    }
    for (int i = 1; i < threads; i++) pthread_create(&ids[i], NULL, begin, &each[i]);
    begin(&each[0]);
    for (int i = 1; i < threads; i++) pthread_join(ids[i], NULL);
    double from = each[0].begun, to = each[0].ended;
    for (int i = 1; i < threads; i++) {
        if (each[i].begun < from) from = each[i].begun;
        if (each[i].ended > to) to = each[i].ended;
    }
    return to - from;
}

/* Keeps a register's value unknown to the compiler, at no cost. */
#define OPAQUE(x) __asm__ volatile("" : "+v"(x))

static void fma_body(const work *w) {
    vec acc[CHAINS], a, b;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    memset(acc, 0, sizeof acc);
    OPAQUE(a);
    OPAQUE(b);
    for (int64_t i = 0; i < w->rounds; i++)
        for (int c = 0; c < CHAINS; c++) acc[c] = __builtin_elementwise_fma(a, b, acc[c]);
    for (int c = 0; c < CHAINS; c++) OPAQUE(acc[c]);
}

double peak_f32(int threads, int64_t rounds) {
    work w = {.body = fma_body, .rounds = rounds};
    return 2.0 * (WIDTH / 4) * CHAINS * rounds * threads / together(w, threads);
}

#ifdef __AVX512BF16__
static void bf16_body(const work *w) {
    __m512 acc[CHAINS];
    __m512i a = _mm512_setzero_si512(), b = a;
    memset(acc, 0, sizeof acc);
    OPAQUE(a);
    OPAQUE(b);
    for (int64_t i = 0; i < w->rounds; i++)
        for (int c = 0; c < CHAINS; c++) acc[c] = _mm512_dpbf16_ps(acc[c], (__m512bh)a, (__m512bh)b);
    for (int c = 0; c < CHAINS; c++) OPAQUE(acc[c]);
}

double peak_bf16(int threads, int64_t rounds) {
    work w = {.body = bf16_body, .rounds = rounds};
    return 64.0 * CHAINS * rounds * threads / together(w, threads);
}
#else
double peak_bf16(int threads, int64_t rounds) { return peak_f32(threads, rounds); }
#endif

#ifdef __AVX512VNNI__
static void int8_body(const work *w) {
    __m512i acc[CHAINS], a = _mm512_setzero_si512(), b = a;
    memset(acc, 0, sizeof acc);
    OPAQUE(a);
    OPAQUE(b);
    for (int64_t i = 0; i < w->rounds; i++)
        for (int c = 0; c < CHAINS; c++) acc[c] = _mm512_dpbusd_epi32(acc[c], a, b);
    for (int c = 0; c < CHAINS; c++) OPAQUE(acc[c]);
}

double peak_int8(int threads, int64_t rounds) {
    work w = {.body = int8_body, .rounds = rounds};
    return 128.0 * CHAINS * rounds * threads / together(w, threads);
}
#else
double peak_int8(int threads, int64_t rounds) { return peak_f32(threads, rounds); }
#endif

/* Three buffers in huge pages where the system gives them, touched once. */
enum { BYTES = 128 << 20 };
static char *buffers[3];

static char *buffer(int which) {
    if (!buffers[which]) {
        char *p = mmap(NULL, BYTES + (2 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) abort();
        p = (char *)(((uintptr_t)p + (2 << 20) - 1) & -(uintptr_t)(2 << 20));
        madvise(p, BYTES, MADV_HUGEPAGE);
        memset(p, which + 1, BYTES);
        buffers[which] = p;
    }
    return buffers[which];
}

/* Four streams at once keep more prefetches going than one. */
static void read_body(const work *w) {
    vec acc[8];
    memset(acc, 0, sizeof acc);
    size_t part = w->bytes / 4;
    for (size_t i = 0; i < part; i += 2 * WIDTH)
        for (int s = 0; s < 4; s++) {
            acc[2 * s] += *(const vec *)(w->from + s * part + i);
            acc[2 * s + 1] += *(const vec *)(w->from + s * part + i + WIDTH);
        }
    for (int c = 0; c < 8; c++) OPAQUE(acc[c]);
}

double read_rate(int threads) {
    work w = {.body = read_body, .from = buffer(0), .bytes = BYTES};
    return BYTES / together(w, threads);
}

static void copy_body(const work *w) {
    for (size_t i = 0; i < w->bytes; i += WIDTH)
        __builtin_nontemporal_store(*(const vec *)(w->from + i), (vec *)(w->to + i));
    _mm_sfence();
}

double copy_rate(int threads) {
    work w = {.body = copy_body, .from = buffer(0), .to = buffer(2), .bytes = BYTES};
    return 2.0 * BYTES / together(w, threads);
}

static void triad_body(const work *w) {
    vec s;
    memset(&s, 0, sizeof s);
    OPAQUE(s);
    for (size_t i = 0; i < w->bytes; i += WIDTH) {
        vec v = __builtin_elementwise_fma(s, *(const vec *)(w->other + i), *(const vec *)(w->from + i));
        __builtin_nontemporal_store(v, (vec *)(w->to + i));
    }
    _mm_sfence();
}

double triad_rate(int threads) {
    work w = {.body = triad_body, .from = buffer(0), .other = buffer(1), .to = buffer(2), .bytes = BYTES};
    return 3.0 * BYTES / together(w, threads);
}
