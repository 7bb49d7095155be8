/* A product of ggml's, x [m, k] by weights [n, k] in blocks, as llama.cpp makes it: weights lie in the layout that the CPU
 * backend prefers, x is quantized by each call. */
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <stdlib.h>
#include <string.h>

#include "../native/clock.h"

typedef struct {
    ggml_backend_t backend;
    struct ggml_tensor **y;
    struct ggml_cgraph **graphs;
    struct ggml_context *context;
    ggml_backend_buffer_t *buffers;
    size_t buffers_made;
    size_t sets, turn;
} peer;

static ggml_backend_buffer_type_t preferred(void) {
    ggml_backend_reg_t reg = ggml_backend_cpu_reg();
    ggml_backend_dev_get_extra_bufts_t get =
        (ggml_backend_dev_get_extra_bufts_t)ggml_backend_reg_get_proc_address(reg, "ggml_backend_dev_get_extra_bufts");
    ggml_backend_buffer_type_t *types = get ? get(ggml_backend_reg_dev_get(reg, 0)) : NULL;
    return types ? types[0] : NULL;
}

static void place(peer *p, struct ggml_tensor *t, ggml_backend_buffer_type_t type) {
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(type, ggml_backend_buft_get_alloc_size(type, t) + 256);
    p->buffers[p->buffers_made++] = buffer;
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_backend_tensor_alloc(buffer, t, ggml_backend_buffer_get_base(buffer));
}

static void quiet(enum ggml_log_level level, const char *text, void *data) {
    (void)level, (void)text, (void)data;
}

/* `q4` tells q4_0 from q8_0; `weights` are the blocks of each set. They are copied. */
peer *ggml_peer_new(int q4, int64_t m, int64_t k, int64_t n, const float *x, const void *const *weights, size_t sets, int threads) {
    peer *p = calloc(1, sizeof *p);
    ggml_log_set(quiet, NULL);
    p->backend = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(p->backend, threads);
    p->sets = sets;
    p->y = calloc(sets, sizeof *p->y);
    p->graphs = calloc(sets, sizeof *p->graphs);
    struct ggml_init_params params = {.mem_size = (sets + 1) * (ggml_tensor_overhead() * 8 + ggml_graph_overhead_custom(8, false)), .no_alloc = true};
    struct ggml_context *context = p->context = ggml_init(params);
    p->buffers = calloc(3 * sets + 1, sizeof *p->buffers);
    ggml_backend_buffer_type_t plain = ggml_backend_get_default_buffer_type(p->backend), best = preferred();
    struct ggml_tensor *in = ggml_new_tensor_2d(context, GGML_TYPE_F32, k, m);
    place(p, in, plain);
    ggml_backend_tensor_set(in, x, 0, ggml_nbytes(in));
    for (size_t i = 0; i < sets; i++) {
        struct ggml_tensor *w = ggml_new_tensor_2d(context, q4 ? GGML_TYPE_Q4_0 : GGML_TYPE_Q8_0, k, n);
        struct ggml_tensor *y = ggml_mul_mat(context, w, in);
        /* What the layout does not serve it refuses, once the weights lie in it. */
        if (best) place(p, w, best);
        if (!best || !ggml_backend_supports_op(p->backend, y)) {
            w = ggml_new_tensor_2d(context, w->type, k, n);
            place(p, w, plain);
            y = ggml_mul_mat(context, w, in);
        }
        ggml_backend_tensor_set(w, weights[i], 0, ggml_nbytes(w));
        place(p, y, plain);
        p->y[i] = y;
        p->graphs[i] = ggml_new_graph_custom(context, 8, false);
        ggml_build_forward_expand(p->graphs[i], y);
    }
    return p;
}

double ggml_peer_run(peer *p, int64_t calls) {
    double begun = now();
    for (int64_t i = 0; i < calls; i++) {
        ggml_backend_graph_compute(p->backend, p->graphs[p->turn]);
        p->turn = (p->turn + 1) % p->sets;
    }
    return now() - begun;
}

/* What the first set gives. */
void ggml_peer_result(peer *p, float *out) {
    ggml_backend_graph_compute(p->backend, p->graphs[0]);
    ggml_backend_tensor_get(p->y[0], out, 0, ggml_nbytes(p->y[0]));
}

void ggml_peer_free(peer *p) {
    for (size_t i = 0; i < p->buffers_made; i++) ggml_backend_buffer_free(p->buffers[i]);
    ggml_free(p->context);
    ggml_backend_free(p->backend);
    free(p->buffers);
    free(p->graphs);
    free(p->y);
    free(p);
}
