// test_param_files.c -- parameters are read back from a file of HuggingFace's tensors as they were written, whole and in
// ranges, where tensors are transposed pieces, of 32 and of 16 bits, and where they hold rows of two halves in turn.
#include "base/rng.h"
#include "model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PARAMS = 64, UNSET = 0x55 };

#define CHECK(call)                                                                                \
    do {                                                                                           \
        err e_ = {.code = OK}, *e = &e_;                                                           \
        if ((call) != OK) fail_msg("%s: %s", #call, e_.text);                                      \
    } while (0)

typedef struct written {
    model *m;
    dtype type;
    model_param_files files;
    float *value[PARAMS]; // [count] what the file has of each parameter
    safetensors *s;
} written;

static status extract(void *arg, size_t i, uint64_t offset, void *out, size_t bytes, err *e)
{
    const written *w = arg;
    const model_param_file *f = &w->files.file[i];
    const size_t each = dtype_bytes(w->type), count = w->files.info[i].bytes / each;
    float *tensor = malloc(count * sizeof *tensor);
    (void)e;
    model_param_file_extract(w->m, f, w->value[f->param], tensor);
    dtype_convert(out, w->type, tensor + offset / each, F32, bytes / each);
    free(tensor);
    return OK;
}

// ---- A family whose first layer has the queries and the gates of 3 heads of 4 as one tensor, head by head, then 5
// rows of a second tensor, and a bias in which gate and up alternate.

enum { HEADS = 3, DIM = 4, MORE = 5, COLS = 6 };

static int one_block(const void *config)
{
    (void)config;
    return 1;
}

static int block_key(const void *config, int block)
{
    (void)config;
    return block;
}

static void turns_trace(graph *g, const void *config, int block)
{
    (void)config, (void)block;
    const int64_t rows = 2 * HEADS * DIM + MORE;
    graph_value *w = build_weight(g, "w", rows, COLS, INIT_NORMAL, 1);
    build_piece(g, w, "q_proj", 2 * HEADS * DIM);
    build_interleaved(g, w, DIM);
    build_piece(g, w, "k_proj", MORE);
    graph_value *b = build_weight(g, "b", rows - 1, 0, INIT_NORMAL, 1);
    build_interleaved(g, b, 1);
    graph_value *x = build_linear(g, build_features(g, COLS), w, NULL);
    graph_value *head = build_weight(g, "head", rows - 1, rows, INIT_NORMAL, 1);
    build_linear_square_error(g, x, head, b);
}

static const model_family turns_family = {.name = "turns",
                                          .blocks = one_block,
                                          .key = block_key,
                                          .trace = turns_trace,
                                          .layer = block_key};

static model *open_small(const char *family, int layers)
{
    const model_options o = {.mode = GRAPH_TRAIN, .type = F32, .batch = 1, .seq = 8};
    model_config c;
    model *m;
    if (strcmp(family, turns_family.name) == 0) {
        CHECK(model_open(&turns_family, NULL, &o, &m, e));
        return m;
    }
    model_config_defaults(model_family_find(family), &c);
    c.layers = layers, c.hidden = 72, c.heads = 4, c.kv_heads = strcmp(family, "gpt2") ? 2 : 4;
    c.head_dim = 18, c.ffn = 100, c.vocab = 75, c.max_seq = 16;
    CHECK(model_open(c.family, &c, &o, &m, e));
    return m;
}

static void write_model(const char *family, dtype type, written *w)
{
    char path[] = "/tmp/trireme-test-XXXXXX";
    *w = (written){.m = open_small(family, 1), .type = type};
    assert_true(w->m->params <= PARAMS);
    for (int p = 0; p < w->m->params; p++) {
        const size_t count = (size_t)w->m->param[p].count;
        uint16_t *low = malloc(count * sizeof *low);
        w->value[p] = malloc(count * sizeof(float));
        rng_normals(rng_key_make(3, RNG_INIT, (uint64_t)p, 0), 0, count, w->value[p]);
        dtype_convert(low, BF16, w->value[p], F32,
                      count); // so that all types have the values exactly
        dtype_convert(w->value[p], F32, low, BF16, count);
        free(low);
    }
    CHECK(model_param_files_make(w->m, type, &w->files, e));
    close(mkstemp(path));
    CHECK(safetensors_write(path, w->files.info, (size_t)w->files.count, extract, w, NULL, e));
    CHECK(safetensors_open(path, &w->s, e));
    unlink(path);
}

static void clear(written *w)
{
    for (int p = 0; p < w->m->params; p++) free(w->value[p]);
    model_param_files_clear(&w->files);
    safetensors_close(w->s);
    model_close(w->m);
}

// Nothing but elements first … first + count-1 is written.
static void load_range(const written *w, int p, int64_t first, int64_t count)
{
    const size_t bytes = (size_t)count * sizeof(float);
    char *out = malloc(bytes + 1);
    out[bytes] = UNSET;
    CHECK(model_param_load(w->m, p, w->s, first, count, (float *)(void *)out, e));
    if (memcmp(out, w->value[p] + first, bytes) != 0)
        fail_msg("%s: elements %lld to %lld differ", w->m->param[p].name, (long long)first,
                 (long long)(first + count - 1));
    assert_int_equal(out[bytes], UNSET);
    free(out);
}

static void parameters_are_read_as_they_were_written(void **state)
{
    static const char *const family[] = {"gpt2", "llama", "turns"};
    static const dtype type[] = {F32, BF16};
    (void)state;
    for (int i = 0; i < 6; i++) {
        written w;
        write_model(family[i / 2], type[i % 2], &w);
        for (int p = 0; p < w.m->params; p++) {
            const int64_t count = w.m->param[p].count;
            load_range(&w, p, 0, count);
            load_range(&w, p, 0, 0);
            load_range(&w, p, count, 0);
            for (int ranks = 2; ranks <= 7; ranks++)
                for (int r = 0; r < ranks; r++)
                    load_range(&w, p, count * r / ranks,
                               count * (r + 1) / ranks - count * r / ranks);
        }
        clear(&w);
    }
}

// Row 0 of the file is q of head 0, row DIM its gate, and so on; the tensor is put back where it was.
static void a_file_has_the_halves_in_turn(void **state)
{
    (void)state;
    written w;
    write_model("turns", F32, &w);
    const model_param_file *f = &w.files.file[0];
    const float *have = safetensors_find(w.s, "q_proj")->data, *value = w.value[f->param];
    for (int head = 0; head < HEADS; head++)
        for (int gate = 0; gate < 2; gate++)
            assert_memory_equal(have + (head * 2 + gate) * DIM * COLS,
                                value + (gate * HEADS + head) * DIM * COLS,
                                DIM * COLS * sizeof *have);
    float back[(2 * HEADS * DIM + MORE) * COLS] = {0};
    model_param_file_insert(w.m, f, have, back);
    assert_memory_equal(back, value, 2 * HEADS * DIM * COLS * sizeof *back);
    clear(&w);
}

// All ranks must see the same error, also one whose shard has nothing of the tensor.
static void a_tensor_that_is_missing_is_named_for_every_range(void **state)
{
    (void)state;
    written w;
    err why = {.code = OK};
    write_model("llama", F32, &w);
    model *two = open_small("llama", 2);
    int missing = 0;
    for (int p = 0; p < two->params; p++) {
        if (!strstr(two->param[p].name, "layers.1.")) continue;
        missing++;
        assert_int_equal(model_param_load(two, p, w.s, 0, 0, NULL, &why), E_USAGE);
        assert_non_null(strstr(why.text, "is missing"));
    }
    assert_true(missing > 0);
    model_close(two);
    clear(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_read_as_they_were_written),
        cmocka_unit_test(a_file_has_the_halves_in_turn),
        cmocka_unit_test(a_tensor_that_is_missing_is_named_for_every_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
