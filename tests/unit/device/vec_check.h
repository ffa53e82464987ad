// vec_check.h -- compares every vector form of a kernel with the reference. A test describes one
// call by a function that takes its arrays from a `space`. The call is made by the reference, and
// then at every level of this machine with one and with two threads, each time on new copies.
// Arrays start at odd addresses and lie between fences, so that a write outside an array is found.
#ifndef TRIREME_TESTS_DEVICE_VEC_CHECK_H
#define TRIREME_TESTS_DEVICE_VEC_CHECK_H

#include "harness.h"

// The tolerances of F32 outputs: the error of a vector form against the reference, relative to the
// absolute value of the element plus the root mean square of its array. 16-bit outputs may differ
// by the rounding of the last bit, in every kernel.
static const double vec_tolerance_f32[KERNELS] = {
    [K_BIAS_GRAD] = 2e-6,
    [K_EMBEDDING] = 2e-7,
    [K_EMBEDDING_GRAD] = 2e-6,
    [K_NORM] = 2e-6,
    [K_NORM_GRAD] = 5e-6,
    [K_QK_NORM] = 2e-6,
    [K_QK_NORM_SUMS] = 2e-6,
    [K_QK_NORM_GRAD] = 5e-6,
    [K_VALUE_NORM] = 2e-6,
    [K_VALUE_NORM_GRAD] = 5e-6,
    [K_ROPE] = 5e-7,
    [K_ATTENTION] = 5e-6,
    [K_ATTENTION_GRAD] = 1e-5,
    [K_CAUSAL_CONV] = 2e-6,
    [K_CAUSAL_CONV_GRAD] = 5e-6,
    [K_DELTA_GATES] = 2e-6,
    [K_DELTA_GATES_GRAD] = 5e-6,
    [K_DELTA_RULE] = 1e-5,
    [K_DELTA_RULE_GRAD] = 3e-5,
    [K_GATE] = 2e-6,
    [K_GATE_GRAD] = 5e-6,
    [K_ACTIVATION] = 5e-7,
    [K_ACTIVATION_GRAD] = 1e-6,
    [K_GLU] = 5e-7,
    [K_GLU_GRAD] = 1e-6,
    [K_XIELU] = 1e-6,
    [K_XIELU_GRAD] = 1e-5,
    [K_ADD] = 2e-7,
    [K_DROPOUT] = 2e-7,
    [K_INIT] = 0,
    [K_CROSS_ENTROPY] = 2e-6,
    [K_CROSS_ENTROPY_STATS] = 2e-6,
    [K_SQUARE_ERROR] = 2e-7,
    [K_UPDATE] = 1e-6,
    [K_CONVERT] = 0,
    [K_UNPACK_NF4] = 0,
    [K_FILL] = 0,
    [K_ORTHOGONALIZE] = 1e-6,
};
static const double vec_tolerance_bf16 = 0.0079; // 2^-7: one last bit
static const double vec_tolerance_f16 = 0.00098; // 2^-10: one last bit
static const double vec_tolerance_f64 = 2e-7;    // sums that kernels give in F64

enum { SPACE_ARRAYS = 16, FENCE = 64, FENCE_BYTE = 0xa5 };

typedef struct space_array {
    unsigned char *memory, *data;
    int64_t count;
    dtype type;
    bool output;
    const char *name;
} space_array;

typedef struct space {
    space_array array[SPACE_ARRAYS];
    int used;
} space;

// The contexts of a test program, opened and closed by its group.
static cpu_context vec_one, vec_two;

static inline int vec_open(void **state)
{
    (void)state;
    vec_one = harness_open(1);
    vec_two = harness_open(2);
    return 0;
}

static inline int vec_close(void **state)
{
    (void)state;
    cpu_context_close(&vec_one);
    cpu_context_close(&vec_two);
    return 0;
}

// Describes one call over arrays of `s`. `shape` is the description of the test.
typedef kernel_call (*describe_fn)(space *s, const void *shape);

static inline void *space_array_of(space *s, int64_t count, dtype type, const char *name)
{
    assert_true(s->used < SPACE_ARRAYS);
    size_t bytes = dtype_bytes(type) * (size_t)count;
    space_array *a = &s->array[s->used++];
    *a = (space_array){.count = count, .type = type, .output = name != NULL, .name = name};
    a->memory = malloc(bytes + dtype_bytes(type) + 2 * FENCE);
    assert_non_null(a->memory);
    memset(a->memory, FENCE_BYTE, bytes + dtype_bytes(type) + 2 * FENCE);
    a->data = a->memory + FENCE + dtype_bytes(type);
    return a->data;
}

// An array of uniform numbers of mean 0 and variance 1, times `scale`. With a name it is an output,
// and outputs are compared.
static inline void *space_random(space *s, int64_t count, dtype type, float scale, const char *name)
{
    void *data = space_array_of(s, count, type, name);
    float *numbers = harness_random(count, (uint64_t)s->used);
    for (int64_t i = 0; i < count; i++) numbers[i] *= scale;
    dtype_convert(data, type, numbers, F32, (size_t)count);
    free(numbers);
    return data;
}

// Whole numbers in [0, below).
static inline int32_t *space_ids(space *s, int64_t count, int32_t below)
{
    int32_t *ids = space_array_of(s, count, I32, NULL);
    rng_key key = rng_key_make(7, RNG_MOCK, 0, 0);
    for (int64_t i = 0; i < count; i++)
        ids[i] = (int32_t)(rng_word(key, (uint64_t)i) % (uint32_t)below);
    return ids;
}

// The starts of packed documents of about `mean` tokens each, for `rows` rows; other ones in each sequence.
static inline const int32_t *space_documents(space *s, const kernel_tokens *t, int64_t rows,
                                             uint32_t mean)
{
    int32_t *start = space_array_of(s, t->first_row + rows, I32, NULL);
    for (int64_t r = 0; r < t->first_row + rows; r++) {
        const rng_key key = rng_key_make(19, RNG_MOCK, (uint64_t)(r / t->seq), mean);
        int64_t first = kernel_token_position(t, r % t->seq);
        while (first > 0 && rng_word(key, (uint64_t)first) % mean != 0) first--;
        start[r] = (int32_t)first;
    }
    return start;
}

static inline void space_free(space *s)
{
    for (int i = 0; i < s->used; i++) {
        const space_array *a = &s->array[i];
        const unsigned char *end = a->data + dtype_bytes(a->type) * (size_t)a->count;
        for (int j = 0; j < FENCE; j++)
            if (end[j] != FENCE_BYTE || a->data[-1 - j] != FENCE_BYTE)
                fail_msg("array %d (%s) was written outside", i, a->name ? a->name : "input");
        free(a->memory);
    }
    s->used = 0;
}

static inline double space_element(const space_array *a, int64_t i)
{
    double value;
    if (a->type == I64) return 0; // compared as bits
    dtype_convert(&value, F64, a->data + dtype_bytes(a->type) * (size_t)i, a->type, 1);
    return value;
}

static inline void compare_arrays(kernel_kind k, const space_array *want, const space_array *have,
                                  const char *what)
{
    double square = 0;
    if (want->type == I64) {
        if (memcmp(want->data, have->data, 8 * (size_t)want->count) != 0)
            fail_msg("%s %s: %s differs", kernel_name(k), what, want->name);
        return;
    }
    for (int64_t i = 0; i < want->count; i++) square += pow(space_element(want, i), 2);
    double typical = want->count > 0 ? sqrt(square / (double)want->count) : 0;
    double tolerance = want->type == F32    ? vec_tolerance_f32[k]
                       : want->type == F64  ? vec_tolerance_f64
                       : want->type == BF16 ? vec_tolerance_bf16
                                            : vec_tolerance_f16;
    for (int64_t i = 0; i < want->count; i++) {
        double w = space_element(want, i), h = space_element(have, i);
        if (fabs(w - h) <= tolerance * (fabs(w) + typical)) continue;
        fail_msg("%s %s: %s[%ld of %ld] is %.9g, reference %.9g (off by %.2g, allowed %.2g)",
                 kernel_name(k), what, want->name, (long)i, (long)want->count, h, w,
                 fabs(w - h) / (fabs(w) + typical), tolerance);
    }
}

static inline void run_on(cpu_context *x, kernel_call *call, cpu_level level)
{
    cpu_kernels table;
    cpu_kernels_fill(&table, level);
    if (level == CPU_GENERIC) ref_kernels_fill(&table);
    harness_run(&table, level, x, call);
}

// Makes the call in every form, and fails unless all agree.
static inline void check_kernel(describe_fn describe, const void *shape, const char *what)
{
    static const char *const level_words[] = {"generic", "avx2", "avx512", "amx"};
    cpu_features features;
    cpu_features_read(&features);
    space want = {.used = 0};
    kernel_call call = describe(&want, shape);
    run_on(&vec_one, &call, CPU_GENERIC);
    for (cpu_level level = CPU_AVX2; level <= features.best && level <= CPU_AVX512; level++) {
        space first = {.used = 0}, second = {.used = 0};
        char text[256];
        snprintf(text, sizeof text, "%s %s", level_words[level], what);
        call = describe(&first, shape);
        run_on(&vec_one, &call, level);
        call = describe(&second, shape);
        run_on(&vec_two, &call, level);
        for (int i = 0; i < want.used; i++) {
            const space_array *a = &first.array[i], *b = &second.array[i];
            if (!a->output) continue;
            compare_arrays(call.kind, &want.array[i], a, text);
            if (memcmp(a->data, b->data, dtype_bytes(a->type) * (size_t)a->count) != 0)
                fail_msg("%s %s: %s differs between 1 and 2 threads", kernel_name(call.kind), text,
                         a->name);
        }
        space_free(&first);
        space_free(&second);
    }
    space_free(&want);
}

#endif
