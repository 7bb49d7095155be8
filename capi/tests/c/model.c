/* Opens a language model, generates with it, and provokes errors. Ends with 0 if all is as it should be. */
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

struct heard {
    size_t count;
    size_t most;
    int64_t ids[64];
};

static int hear(void *user, int64_t token, const char *text) {
    struct heard *h = user;
    want(text != NULL, "there is a text, or an empty one");
    if (token >= 0 && h->count < 64)
        h->ids[h->count++] = token;
    return h->count == h->most;
}

int main(int argc, char **argv) {
    tenon_model *model = NULL;
    want(argc == 2, "the path of a model is given");
    tenon_model_options options = {0};
    options.context = 64;
    options.memory = 1000;
    want(tenon_model_open(argv[1], &options, &model) == TENON_FAULT && model == NULL, "too little memory");
    want(strstr(tenon_last_error(), "1000 are allowed") != NULL, "it says how much");
    options.memory = 1u << 30;
    options.config = "no value";
    want(tenon_model_open(argv[1], &options, &model) == TENON_ARGUMENT, "a config that says nothing");
    options.config = NULL;
    options.quant = "q9";
    want(tenon_model_open(argv[1], &options, &model) == TENON_FAULT, "no such way of storage");
    options.quant = "bf16";
    want(tenon_model_open("nowhere", &options, &model) == TENON_FAULT, "no such model");
    want(tenon_model_open(argv[1], &options, &model) == TENON_OK, "it opens");

    char value[32];
    size_t count = 0;
    want(tenon_model_config(model, "layers", value, 32, &count) == TENON_OK && strlen(value) + 1 == count, "a config's value");
    want(tenon_model_config(model, "layers", value, 0, &count) == TENON_ARGUMENT && count > 1, "no room for it");
    want(tenon_model_config(model, "levels", value, 32, &count) == TENON_ARGUMENT, "no such value");
    want(strstr(tenon_last_error(), "layers") != NULL, "it says which there are");
    uint32_t ids[3] = {1, 2, 3};
    want(tenon_model_tokens(model, "hello", ids, 3, &count) == TENON_FAULT, "there is no vocabulary");

    struct heard first = {0}, second = {0};
    tenon_request request = {0};
    tenon_generated made;
    request.max_tokens = 5;
    request.ignore_end = 1;
    want(tenon_model_generate(model, ids, 3, &request, hear, &first, &made) == TENON_OK, "it generates");
    want(made.tokens == 5 && first.count == 5 && made.prompt_tokens == 3 && made.finish == TENON_LENGTH, "as asked");
    second.most = 2;
    want(tenon_model_generate(model, ids, 3, &request, hear, &second, &made) == TENON_OK, "it generates again");
    want(second.count == 2 && made.finish == TENON_CANCELLED, "until it is told to end");
    want(memcmp(first.ids, second.ids, 2 * sizeof(int64_t)) == 0, "the same tokens");
    request.temperature = -1;
    want(tenon_model_generate(model, ids, 3, &request, NULL, NULL, NULL) == TENON_ARGUMENT, "no temperature");
    request.temperature = 0;
    tenon_flag *flag = NULL;
    want(tenon_flag_new(&flag) == TENON_OK && tenon_flag_raise(flag) == TENON_OK, "a flag is up");
    request.cancel = flag;
    want(tenon_model_generate(model, ids, 3, &request, NULL, NULL, NULL) == TENON_FAULT, "it is not begun");
    tenon_flag_free(flag);
    const uint32_t none[] = {1, 4000000000u};
    want(tenon_model_generate(model, none, 2, NULL, NULL, NULL, NULL) == TENON_FAULT, "no such token");
    want(strstr(tenon_last_error(), "4000000000") != NULL, "it says which");

    tenon_tensor *logits = NULL;
    want(tenon_model_logits(model, ids, 3, &logits) == TENON_OK, "there are logits");
    want(tenon_tensor_rank(logits) == 2 && tenon_tensor_shape(logits)[0] == 3, "of each token");
    const float *row = (const float *)tenon_tensor_data(logits) + 2 * tenon_tensor_shape(logits)[1];
    int64_t best = 0;
    for (int64_t i = 0; i < tenon_tensor_shape(logits)[1]; i++)
        best = row[i] > row[best] ? i : best;
    want(best == first.ids[0], "the likeliest is what came");
    tenon_tensor_free(logits);

    tenon_statistics s;
    want(tenon_model_statistics(model, &s) == TENON_OK, "there are statistics");
    want(s.decoded == 5 && s.prefilled >= 9 && s.steps >= 8 && s.failed >= 1, "of what it did");
    want(s.weights > 0 && s.state > 0 && s.code > 0 && s.kernels > 0 && s.pages > 0, "of what it holds");
    want(s.compilations == 0 && s.sequences == 0, "of what is left");
    tenon_model_free(model);
    tenon_model_free(NULL);
    return failed;
}
