/* Loads a program, binds, calls it for two shapes, and provokes each kind of error. Ends with 0 if all is as it should be. */
#include <stdio.h>
#include <string.h>

#include "tenon.h"

static int failed = 0;

static void want(int ok, const char *what) {
    if (!ok) {
        printf("FAILED: %s (last error: %s)\n", what, tenon_last_error());
        failed = 1;
    }
}

static tenon_tensor *floats(const int64_t *shape, size_t rank, const float *data, size_t n) {
    tenon_tensor *t = NULL;
    want(tenon_tensor_new("f32", shape, rank, data, n * sizeof(float), &t) == TENON_OK, "a tensor is made");
    return t;
}

int main(int argc, char **argv) {
    const char *text = "fn layer<n, k, m>(x: f32[n, k], w: f32[k, m], b: f32[m]) -> f32[n, m] { relu(x @ w + b) }\n";
    tenon_module *module = NULL;
    tenon_function *layer = NULL;
    want(argc == 2, "the path of a program is given");
    want(strcmp(tenon_last_error(), "") == 0, "there is no error before any call");
    want(tenon_load("layer.tn", text, &module) == TENON_OK, "the text is loaded");
    want(tenon_function_of(module, "layer", &layer) == TENON_OK, "the function is compiled");
    tenon_module_free(module);

    const int64_t square[] = {2, 2}, two[] = {2};
    const float w[] = {1, 2, 3, 4}, b[] = {0.5f, -100};
    tenon_tensor *wt = floats(square, 2, w, 4), *bt = floats(two, 1, b, 2);
    want(tenon_bind(layer, "w", wt) == TENON_OK, "w is bound");
    want(tenon_bind(layer, "b", bt) == TENON_OK, "b is bound");
    tenon_tensor_free(wt);
    tenon_tensor_free(bt);

    for (int64_t n = 1; n <= 3; n += 2) {
        const float ones[] = {1, 1, 1, 1, 1, 1};
        const int64_t shape[] = {n, 2};
        tenon_tensor *x = floats(shape, 2, ones, (size_t)n * 2), *y = NULL;
        const tenon_tensor *args[] = {x};
        size_t count = 0;
        want(tenon_call(layer, args, 1, &y, 1, &count) == TENON_OK && count == 1, "it is called");
        want(tenon_tensor_rank(y) == 2 && tenon_tensor_shape(y)[0] == n && tenon_tensor_shape(y)[1] == 2, "its shape");
        want(strcmp(tenon_tensor_dtype(y), "f32") == 0 && tenon_tensor_bytes(y) == (size_t)n * 8, "its type");
        const float *data = tenon_tensor_data(y);
        for (int64_t i = 0; i < n; i++)
            want(data[2 * i] == 4.5f && data[2 * i + 1] == 0.0f, "its elements");
        tenon_tensor_free(y);
        count = 7;
        want(tenon_call(layer, args, 1, NULL, 0, &count) == TENON_ARGUMENT && count == 1, "too little room");
        want(tenon_call(layer, NULL, 1, &y, 1, &count) == TENON_NULL, "no arguments where there should be one");
        want(tenon_call(NULL, args, 1, &y, 1, &count) == TENON_NULL, "no function");
        want(tenon_call(layer, args, 0, &y, 1, &count) == TENON_FAULT, "too few arguments");
        want(strstr(tenon_last_error(), "x: f32[n, k]") != NULL, "it says what is asked");
        tenon_tensor_free(x);
    }

    tenon_tensor *t = NULL;
    want(tenon_tensor_new("f99", two, 1, b, 8, &t) == TENON_ARGUMENT, "an unknown type");
    want(tenon_tensor_new("f32", two, 1, b, 7, &t) == TENON_ARGUMENT, "a wrong number of bytes");
    want(tenon_tensor_new("f32", NULL, 1, b, 8, &t) == TENON_NULL, "no shape");
    want(t == NULL, "nothing is handed out on an error");
    want(tenon_bind(layer, "nobody", NULL) == TENON_NULL, "no value");
    want(tenon_bind_weights(layer, "w", "none.safetensors") == TENON_FAULT, "no record of that name");
    want(tenon_load("bad.tn", "fn f<n>(x: f32[n]) -> f32[n] { rleu(x) }", &module) == TENON_FAULT, "a wrong program");
    want(strstr(tenon_last_error(), "E0201") != NULL && strstr(tenon_last_error(), "bad.tn:1:32") != NULL, "its place");
    want(tenon_load("bad.tn", "\xff", &module) == TENON_ARGUMENT, "no UTF-8");
    want(tenon_open("no-such-file.tn", &module) == TENON_FAULT, "no file");
    want(tenon_open(NULL, &module) == TENON_NULL && tenon_open("a.tn", NULL) == TENON_NULL, "no path, no place");
    tenon_function_free(layer);

    want(tenon_open(argv[1], &module) == TENON_OK, "a file is loaded");
    want(tenon_function_of(module, "nobody", &layer) == TENON_FAULT, "no such function");
    want(tenon_function_of(module, NULL, &layer) == TENON_OK, "its first function");
    tenon_function_free(layer);
    tenon_module_free(module);
    tenon_module_free(NULL);
    tenon_function_free(NULL);
    tenon_tensor_free(NULL);
    want(tenon_tensor_data(NULL) == NULL && tenon_tensor_rank(NULL) == 0, "nothing of nothing");
    return failed;
}
