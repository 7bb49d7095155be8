/* Tenon from C: load a program, bind its weights, call it with tensors; open a language model, and let it answer.
 *
 *     tenon_module *module;
 *     tenon_function *layer;
 *     if (tenon_open("layer.tn", &module) || tenon_function_of(module, "layer", &layer))
 *         puts(tenon_last_error());
 *
 * Every call answers 0 or one of the codes below; tenon_last_error() then says what it was, in words, for the thread
 * that made the call. Outputs are written only where the answer is 0. Whatever a call hands out is freed by its own
 * tenon_*_free, in any order; a free of NULL does nothing. A module and a function may be used by many threads at once;
 * a tensor is not changed once it was made. No panic and no signal of a fault in a program crosses this border.
 *
 * The bits of a row may depend on how many rows a call has, unless the program marks the function #[invariant].
 *
 * Link with the shared library: cc program.c -I capi/include -L target/release -lcapi
 */
#ifndef TENON_H
#define TENON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TENON_OK = 0,
    TENON_NULL = 1,     /* an argument is NULL that may not be */
    TENON_ARGUMENT = 2, /* an argument means nothing: no UTF-8, an unknown element type, a wrong number of bytes */
    TENON_FAULT = 3,    /* a diagnostic: the program, its data or the run is at fault */
    TENON_BUG = 4       /* a bug of tenon's own */
};

typedef struct tenon_module tenon_module;
typedef struct tenon_function tenon_function;
typedef struct tenon_tensor tenon_tensor;
typedef struct tenon_flag tenon_flag;
typedef struct tenon_model tenon_model;

/* What one call may use up: of 0 and NULL as much as it likes. A call that is ended by a limit answers TENON_FAULT, and
 * the function can be called again. */
typedef struct {
    uint64_t memory;          /* bytes held at once */
    uint64_t fuel;            /* steps: rounds of loops, calls, kernels */
    double seconds;           /* time, from the beginning of the call */
    const tenon_flag *cancel; /* raised by any thread, it ends the call */
} tenon_limits;

/* What went wrong in the last call of this thread that did not answer 0; "" before any. Valid until the next such call. */
const char *tenon_last_error(void);

/* A program from a file: a text (.tn, with the files it uses) or a compiled program (.tnx). */
int tenon_open(const char *path, tenon_module **out);
/* A program from its text; `name` stands for a file in diagnostics. */
int tenon_load(const char *name, const char *text, tenon_module **out);
void tenon_module_free(tenon_module *module);

/* A function of a program, compiled for every shape; NULL for a name: `main`, or else the first. It outlives the module. */
int tenon_function_of(const tenon_module *module, const char *name, tenon_function **out);
/* Gives a parameter its value for all calls to come. Not while another thread uses the function. */
int tenon_bind(tenon_function *function, const char *name, const tenon_tensor *value);
/* Gives a record those of its parts that are not bound yet, from a .safetensors file or a folder of them; where all are
 * bound, nothing is read. Not while another thread uses the function. */
int tenon_bind_weights(tenon_function *function, const char *record, const char *path);
/* Calls it with the parameters that are not bound, in their order. `results` has room for `room` tensors; `count` is how
 * many there are. Too little room is TENON_ARGUMENT, and `count` is then written all the same. */
int tenon_call(const tenon_function *function, const tenon_tensor *const *args, size_t n, tenon_tensor **results,
               size_t room, size_t *count);
/* The same within limits; NULL for none. */
int tenon_call_within(const tenon_function *function, const tenon_limits *limits, const tenon_tensor *const *args,
                      size_t n, tenon_tensor **results, size_t room, size_t *count);
/* The same, and gives the call those arguments for which `given` is not 0: what the program consumes (`own`) is then updated
 * in place, so that a cache goes in and comes out as it is. Each is freed and its place in `args` NULL when the call begins to
 * run, whether or not it ends well; before that all stay as they are. */
int tenon_call_giving(const tenon_function *function, const tenon_limits *limits, tenon_tensor **args,
                      const unsigned char *given, size_t n, tenon_tensor **results, size_t room, size_t *count);
/* Frees the memory that calls which have ended left for calls to come. */
int tenon_trim(const tenon_function *function);
void tenon_function_free(tenon_function *function);

/* A flag by which any thread ends the calls that were given it, within about a millisecond; it is lowered when made. */
int tenon_flag_new(tenon_flag **out);
int tenon_flag_raise(const tenon_flag *flag);
int tenon_flag_lower(const tenon_flag *flag);
void tenon_flag_free(tenon_flag *flag);

/* A tensor with a copy of `bytes` bytes: elements row-major, little endian. `dtype` is the language's name: "f32", "i64";
 * a byte of a "bool" is 0 or 1. */
int tenon_tensor_new(const char *dtype, const int64_t *shape, size_t rank, const void *data, size_t bytes,
                     tenon_tensor **out);
/* Of NULL: NULL or 0. They are valid as long as the tensor is. */
const char *tenon_tensor_dtype(const tenon_tensor *tensor);
size_t tenon_tensor_rank(const tenon_tensor *tensor);
const int64_t *tenon_tensor_shape(const tenon_tensor *tensor);
const void *tenon_tensor_data(const tenon_tensor *tensor);
size_t tenon_tensor_bytes(const tenon_tensor *tensor);
void tenon_tensor_free(tenon_tensor *tensor);

/* How a language model is opened; of 0 and NULL what is usual. */
typedef struct {
    const char *text;   /* a text of one's own for it (.tn) */
    const char *quant;  /* how matrices are stored: "q8_0", "bf16" */
    const char *kv;     /* how keys and values are kept: "f32", "bf16", "f16", "int8" */
    const char *config; /* values that stand before those of the checkpoint: NAME=VALUE, one a line */
    size_t context;     /* the most tokens of all sequences together */
    size_t sequences;   /* the most sequences */
    size_t threads;
    uint64_t memory;    /* the most bytes of weights, of what sequences keep, and of a step */
    int exact;          /* not 0: products are as exact as the text says */
} tenon_model_options;

/* How tokens are chosen, and when a generation ends; of 0 and NULL what is usual: the likeliest token, no end of its own. */
typedef struct {
    size_t max_tokens;
    float temperature;
    float top_p;
    float min_p;
    size_t top_k;
    uint64_t seed;
    int ignore_end;           /* not 0: what usually ends an answer does not */
    const char *const *stops; /* `stop_count` texts that end it */
    size_t stop_count;
    const tenon_flag *cancel; /* raised by any thread, it ends the generation */
} tenon_request;

enum {
    TENON_END = 0,      /* a token that ends an answer */
    TENON_STOP = 1,     /* a text that was said to end it */
    TENON_LENGTH = 2,   /* as many tokens as were asked for, or as there is room for */
    TENON_CANCELLED = 3 /* the flag, or the one who heard */
};

typedef struct {
    size_t prompt_tokens;
    size_t tokens; /* new ones */
    int finish;    /* one of those above */
    double prefill_seconds;
    double decode_seconds;
} tenon_generated;

/* What a model did since it was opened, and what it holds. Bytes where nothing else is said. */
typedef struct {
    uint64_t prefilled; /* tokens of prompts that were computed */
    uint64_t reused;    /* those that an earlier sequence had computed */
    uint64_t decoded;   /* tokens computed one by one */
    uint64_t steps;
    uint64_t failed;    /* steps that ended with an error */
    double seconds;     /* in steps */
    uint64_t sequences; /* that have not ended */
    uint64_t pages;     /* of the part of the state that has the fewest left */
    uint64_t pages_free;
    uint64_t pages_cached; /* held for prompts that begin alike, and given back where they are wanted */
    uint64_t weights;
    uint64_t state;
    uint64_t arena; /* the most that the last step held */
    uint64_t code;
    uint64_t kernels;
    uint64_t compilations; /* kernels that this process has made since: a model needs none */
} tenon_statistics;

/* Told of each token: what was given to tenon_model_generate, the token, and the text that is certain with it, which may be
 * "". The last call may have text alone, and the token -1. An answer that is not 0 ends the generation. It calls nothing
 * with the same model. */
typedef int (*tenon_heard)(void *user, int64_t token, const char *text);

/* A language model: a folder of Hugging Face, a .gguf file, or a text (.tn) beside either. NULL for options: the usual ones.
 * Threads may share it; its calls wait for one another. */
int tenon_model_open(const char *path, const tenon_model_options *options, tenon_model **out);
void tenon_model_free(tenon_model *model);
/* The tokens of a text, with what begins one. `ids` has room for `room`; `count` is how many there are, and is written also
 * where there is too little room, which is TENON_ARGUMENT. */
int tenon_model_tokens(const tenon_model *model, const char *text, uint32_t *ids, size_t room, size_t *count);
/* The same of a conversation, up to where the model answers: who says something ("system", "user", "assistant"), and what. */
int tenon_model_conversation(const tenon_model *model, const char *const *roles, const char *const *contents, size_t turns,
                             uint32_t *ids, size_t room, size_t *count);
/* Goes on behind tokens. `request`, `heard` and `out` may be NULL. */
int tenon_model_generate(const tenon_model *model, const uint32_t *ids, size_t count, const tenon_request *request,
                         tenon_heard heard, void *user, tenon_generated *out);
/* The logits behind each of some tokens: f32[count, vocab]. */
int tenon_model_logits(const tenon_model *model, const uint32_t *ids, size_t count, tenon_tensor **out);
/* A value of the config, by its name in the model's text, as text that ends with a zero; `count` has that counted. */
int tenon_model_config(const tenon_model *model, const char *name, char *value, size_t room, size_t *count);
int tenon_model_statistics(const tenon_model *model, tenon_statistics *out);

#ifdef __cplusplus
}
#endif
#endif
