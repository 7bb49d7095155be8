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

/* Each limit ends a call with a fault, and the next call is none the worse. */
static void limits(void) {
    const char *text = "fn grow(k: i64) -> f32[3] {\n    var y = ones[3]\n    for i in k { y = y + 1.0 }\n    y\n}\n"
                       "fn big<n>(x: f32[n]) -> f32[n, n] {\n    let y = x[:, newaxis] + x[newaxis]\n    y * y\n}\n";
    tenon_module *module = NULL;
    tenon_function *grow = NULL, *big = NULL;
    tenon_flag *flag = NULL;
    want(tenon_load("limits.tn", text, &module) == TENON_OK, "the text is loaded");
    want(tenon_function_of(module, "grow", &grow) == TENON_OK, "a loop is compiled");
    want(tenon_function_of(module, "big", &big) == TENON_OK, "a large result is compiled");
    tenon_module_free(module);
    want(tenon_flag_new(&flag) == TENON_OK, "a flag is made");

    const int64_t rounds = 1000000000000, few = 10, thousand = 1000;
    static float zeros[1000];
    tenon_tensor *forever = NULL, *short_ = NULL, *y = NULL;
    want(tenon_tensor_new("i64", NULL, 0, &rounds, 8, &forever) == TENON_OK, "a number is made");
    want(tenon_tensor_new("i64", NULL, 0, &few, 8, &short_) == TENON_OK, "a number is made");
    tenon_tensor *x = floats(&thousand, 1, zeros, 1000);
    const tenon_tensor *endless[] = {forever}, *brief[] = {short_}, *wide[] = {x};
    size_t count = 0;

    tenon_limits within = {0, 0, 0, NULL};
    within.seconds = 0.05;
    want(tenon_call_within(grow, &within, endless, 1, &y, 1, &count) == TENON_FAULT, "a deadline ends it");
    want(strstr(tenon_last_error(), "deadline") != NULL, "it says so");
    want(tenon_call_within(grow, &within, brief, 1, &y, 1, &count) == TENON_OK, "a short call keeps the deadline");
    tenon_tensor_free(y);
    within.seconds = 0;
    within.fuel = 1000;
    want(tenon_call_within(grow, &within, endless, 1, &y, 1, &count) == TENON_FAULT, "fuel ends it");
    want(strstr(tenon_last_error(), "steps") != NULL, "it says so");
    within.fuel = 0;
    within.cancel = flag;
    want(tenon_flag_raise(flag) == TENON_OK, "the flag is raised");
    want(tenon_call_within(grow, &within, endless, 1, &y, 1, &count) == TENON_FAULT, "a flag ends it");
    want(strstr(tenon_last_error(), "cancelled") != NULL, "it says so");
    want(tenon_flag_lower(flag) == TENON_OK, "the flag is lowered");
    want(tenon_call_within(grow, &within, brief, 1, &y, 1, &count) == TENON_OK, "a call under a lowered flag");
    tenon_tensor_free(y);
    within.cancel = NULL;
    within.memory = 1000000;
    want(tenon_call_within(big, &within, wide, 1, &y, 1, &count) == TENON_FAULT, "a budget of memory ends it");
    want(strstr(tenon_last_error(), "memory") != NULL, "it says so");
    want(tenon_call_within(big, NULL, wide, 1, &y, 1, &count) == TENON_OK, "without limits it passes");
    tenon_tensor_free(y);
    want(tenon_trim(big) == TENON_OK && tenon_trim(NULL) == TENON_NULL, "memory is given back");
    want(tenon_call(big, wide, 1, &y, 1, &count) == TENON_OK, "it runs again");
    tenon_tensor_free(y);
    within.seconds = -1;
    want(tenon_call_within(grow, &within, brief, 1, &y, 1, &count) == TENON_ARGUMENT, "no time");
    want(tenon_flag_new(NULL) == TENON_NULL && tenon_flag_raise(NULL) == TENON_NULL, "no flag");

    tenon_flag_free(flag);
    tenon_flag_free(NULL);
    tenon_tensor_free(forever);
    tenon_tensor_free(short_);
    tenon_tensor_free(x);
    tenon_function_free(grow);
    tenon_function_free(big);
}

/* What is given away is updated where it lies; what is wrong before the call begins takes nothing. */
static void giving(void) {
    const char *text = "fn grow<n>(own kv: f32[n], x: f32[1]) -> f32[n] {\n    var y = kv\n    y[0..1] = x\n    y\n}\n";
    tenon_module *module = NULL;
    tenon_function *f = NULL;
    want(tenon_load("giving.tn", text, &module) == TENON_OK, "a program that consumes is loaded");
    want(tenon_function_of(module, "grow", &f) == TENON_OK, "it is compiled");
    tenon_module_free(module);
    static float many[100000], one[1] = {5};
    const int64_t n = 100000, single = 1;
    tenon_tensor *x = floats(&single, 1, one, 1), *args[] = {floats(&n, 1, many, 100000), x}, *y = NULL;
    const unsigned char given[] = {1, 0}, both[] = {1, 1};
    size_t count = 0;
    want(tenon_call_giving(f, NULL, args, given, 2, &y, 0, &count) == TENON_ARGUMENT && count == 1, "no room");
    want(args[0] != NULL, "nothing was taken");
    const void *before = tenon_tensor_data(args[0]);
    want(tenon_call_giving(f, NULL, args, given, 2, &y, 1, &count) == TENON_OK && count == 1, "it is called");
    want(args[0] == NULL && args[1] == x, "what is given is gone, the other is not");
    want(tenon_tensor_data(y) == before, "it was updated where it lay");
    want(((const float *)tenon_tensor_data(y))[0] == 5.0f, "its first element");
    tenon_tensor *twice[] = {y, y};
    want(tenon_call_giving(f, NULL, twice, both, 2, &y, 1, &count) == TENON_ARGUMENT, "one tensor is given twice");
    want(twice[0] == y, "nothing was taken");
    args[0] = y;
    args[1] = y;
    want(tenon_call_giving(f, NULL, args, given, 2, &y, 1, &count) == TENON_ARGUMENT, "one is given and lent");
    tenon_tensor *wrong[] = {x, y};
    want(tenon_call_giving(f, NULL, wrong, both, 2, &y, 1, &count) == TENON_FAULT, "100000 are not 1");
    want(wrong[0] == NULL && wrong[1] == NULL, "a call that began has taken them");
    tenon_function_free(f);
}

/* Parts of a record that are bound by hand stay, and a whole that is bound needs no file. */
static void weights(void) {
    const char *text = "record Layer<n> { w: f32[n], b: f32[n] }\n"
                       "fn f<n>(l: Layer<n>, x: f32[n]) -> f32[n] { l.w * x + l.b }\n";
    tenon_module *module = NULL;
    tenon_function *f = NULL;
    tenon_tensor *y = NULL, *bools = NULL;
    want(tenon_load("weights.tn", text, &module) == TENON_OK, "a record is loaded");
    want(tenon_function_of(module, "f", &f) == TENON_OK, "it is compiled");
    tenon_module_free(module);
    const int64_t two[] = {2};
    const float data[] = {2, 3};
    tenon_tensor *t = floats(two, 1, data, 2);
    want(tenon_bind(f, "l.w", t) == TENON_OK, "a part is bound");
    want(tenon_bind_weights(f, "l", "none.safetensors") == TENON_FAULT, "the other part needs the file");
    want(tenon_bind(f, "l.b", t) == TENON_OK, "the other is bound");
    want(tenon_bind_weights(f, "l", "none.safetensors") == TENON_OK, "nothing is left to be read");
    want(tenon_bind_weights(f, "m", "none.safetensors") == TENON_FAULT, "there is no such record");
    const tenon_tensor *args[] = {t};
    size_t count = 0;
    want(tenon_call(f, args, 1, &y, 1, &count) == TENON_OK, "it is called");
    want(((const float *)tenon_tensor_data(y))[1] == 12.0f, "its second element");
    tenon_tensor_free(y);
    tenon_tensor_free(t);
    tenon_function_free(f);

    const unsigned char good[] = {1, 0}, bad[] = {1, 2};
    want(tenon_tensor_new("bool", two, 1, bad, 2, &bools) == TENON_ARGUMENT, "a bool that is neither 0 nor 1");
    want(strstr(tenon_last_error(), "element 1") != NULL && bools == NULL, "it says which");
    want(tenon_tensor_new("bool", two, 1, good, 2, &bools) == TENON_OK, "bools");
    tenon_tensor_free(bools);
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

    limits();
    giving();
    weights();
    tenon_module_free(NULL);
    tenon_function_free(NULL);
    tenon_tensor_free(NULL);
    want(tenon_tensor_data(NULL) == NULL && tenon_tensor_rank(NULL) == 0, "nothing of nothing");
    return failed;
}
