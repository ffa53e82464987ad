// test_attention_torch.c -- causal attention and its gradients equal those of PyTorch and transformers over
// whole sequences (tests/golden/make_attention_golden.py), also with a window, a cap of the scores and
// sinks: on one rank, and with the sequences divided over two and four context-parallel ranks.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "comm/registry.h"
#include "graph/execute.h"
#include "patience.h"
#include "store/safetensors.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 4, MOST_HEADS = 4 };

typedef struct attention_case {
    const char *name;
    int64_t batch, tokens, heads, kv_heads, head_dim;
    float scale, softcap;
    int64_t window;
    const float *qkv, *o, *d_o, *dqkv; // of PyTorch
    const float *sinks, *d_sinks;      // [heads] of PyTorch; NULL: none
} attention_case;

typedef struct rank_run {
    const attention_case *c;
    world *world;
    int ranks, rank;
    double worst; // relative error of the result, and of the gradient
    float d_sinks[MOST_HEADS];
    err error;
    status result;
} rank_run;

// NULL where the file has none.
static const float *find_values(const safetensors *file, const char *name, const char *what)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s", name, what);
    const safetensors_tensor *t = safetensors_find(file, key);
    return t ? t->data : NULL;
}

static const float *values(const safetensors *file, const char *name, const char *what)
{
    const float *found = find_values(file, name, what);
    if (!found) fail_msg("%s.%s is missing", name, what);
    return found;
}

static attention_case case_read(const safetensors *file, const char *name)
{
    const float *size = values(file, name, "sizes");
    return (attention_case){.name = name,
                            .batch = (int64_t)size[0],
                            .tokens = (int64_t)size[1],
                            .heads = (int64_t)size[2],
                            .kv_heads = (int64_t)size[3],
                            .head_dim = (int64_t)size[4],
                            .scale = size[5],
                            .window = (int64_t)size[6],
                            .softcap = size[7],
                            .qkv = values(file, name, "qkv"),
                            .o = values(file, name, "o"),
                            .d_o = values(file, name, "do"),
                            .dqkv = values(file, name, "dqkv"),
                            .sinks = find_values(file, name, "sinks"),
                            .d_sinks = find_values(file, name, "dsinks")};
}

// The row of the whole sequences that is row `r` of this rank, which has chunks `rank` and
// 2 * ranks - 1 - rank of each sequence.
static int64_t whole_row(const rank_run *x, int64_t r)
{
    const int64_t tokens = x->c->tokens / x->ranks, chunk = tokens / 2;
    const int64_t sequence = r / tokens, t = r % tokens;
    if (x->ranks == 1) return r;
    const int64_t number = t < chunk ? x->rank : 2 * x->ranks - 1 - x->rank;
    return sequence * x->c->tokens + number * chunk + t % chunk;
}

static void take_rows(const rank_run *x, const float *whole, int64_t cols, float *out)
{
    for (int64_t r = 0; r < x->c->batch * x->c->tokens / x->ranks; r++)
        memcpy(out + r * cols, whole + whole_row(x, r) * cols, (size_t)cols * sizeof *out);
}

static void compare_rows(rank_run *x, const float *got, const float *whole, int64_t cols)
{
    const int64_t rows = x->c->batch * x->c->tokens / x->ranks;
    float *want = malloc((size_t)(rows * cols) * sizeof *want);
    double apart = 0, size = 0;
    take_rows(x, whole, cols, want);
    for (int64_t i = 0; i < rows * cols; i++) {
        apart += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        size += (double)want[i] * want[i];
    }
    const double error = sqrt(apart / size);
    if (!(error <= x->worst)) x->worst = isnan(error) ? INFINITY : error; // fmax drops NaN
    free(want);
}

// A block that is nothing but attention.
static status open_block(const rank_run *x, graph **out, err *e)
{
    status result = OK;
    const attention_case *c = x->c;
    const graph_options o = {.mode = GRAPH_TRAIN,
                             .type = F32,
                             .batch = c->batch,
                             .seq = c->tokens,
                             .position.mesh.size[AXIS_CP] = x->ranks,
                             .position.coord[AXIS_CP] = x->rank};
    TRY(graph_open(&o, out, e));
    graph_value *qkv = build_input(*out, (c->heads + 2 * c->kv_heads) * c->head_dim), *sinks = NULL;
    if (c->sinks) {
        sinks = build_weight(*out, "sinks", c->heads, 0, INIT_NORMAL, 1);
        build_roles(*out, sinks, ROLE_HEADS, ROLE_NONE);
    }
    build_output(*out, build_attention(*out, qkv,
                                       &(graph_attention){.heads = c->heads,
                                                          .kv_heads = c->kv_heads,
                                                          .head_dim = c->head_dim,
                                                          .scale = c->scale,
                                                          .window = c->window,
                                                          .softcap = c->softcap,
                                                          .sinks = sinks}));
    TRY(graph_finish(*out, RECOMPUTE_NONE, e));
done:
    return result;
}

static status attend(rank_run *x, device *d, comm *cp, device_stream *on, err *e)
{
    status result = OK;
    const attention_case *c = x->c;
    const int64_t cols = (c->heads + 2 * c->kv_heads) * c->head_dim, width = c->heads * c->head_dim;
    graph *g = NULL;
    void *memory[REGIONS] = {NULL};
    size_t bytes[REGIONS] = {0};
    TRY(open_block(x, &g, e));
    bytes[REGION_INPUT] = bytes[REGION_INPUT_GRAD] = g->bytes.input;
    bytes[REGION_OUTPUT] = bytes[REGION_OUTPUT_GRAD] = g->bytes.output;
    bytes[REGION_SAVED] = g->bytes.saved, bytes[REGION_WORKSPACE] = g->bytes.workspace;
    for (int i = 0; i < REGIONS; i++) {
        if (bytes[i] == 0) continue;
        TRY(comm_alloc(cp, d, bytes[i], &memory[i], e)); // other ranks read keys and values
        memset(memory[i], 0xff, bytes[i]); // NaN: nothing is read before it is written
    }
    void *weight[1] = {(void *)(uintptr_t)c->sinks};
    float *gradient[1] = {x->d_sinks};
    bool written = false, *grad_written[1] = {&written};
    graph_run run = {.g = g,
                     .stream = on,
                     .comm[AXIS_CP] = x->ranks > 1 ? cp : NULL,
                     .weight = weight,
                     .gradient = gradient,
                     .grad_written = grad_written};
    for (int i = 0; i < REGIONS; i++) run.base[i] = memory[i];
    take_rows(x, c->qkv, cols, graph_run_ptr(&run, g->input));
    TRY(graph_run_forward(&run, e));
    TRY(d->ops->sync(on, e));
    compare_rows(x, graph_run_ptr(&run, g->output), c->o, width);
    memset(memory[REGION_WORKSPACE], 0xff, bytes[REGION_WORKSPACE]); // dies with the forward pass
    take_rows(x, c->d_o, width, graph_run_ptr(&run, g->output->grad));
    TRY(graph_run_backward(&run, e));
    TRY(d->ops->sync(on, e));
    compare_rows(x, graph_run_ptr(&run, g->input->grad), c->dqkv, cols);
done:
    for (int i = 0; i < REGIONS; i++)
        if (memory[i]) comm_release(cp, d, memory[i], bytes[i]);
    graph_close(g);
    return result;
}

static void *rank_main(void *arg)
{
    rank_run *x = arg;
    const device_options options = {.threads = 1};
    device *d = NULL;
    comm *cp = NULL;
    device_stream *on = NULL;
    err *e = &x->error;
    status result = OK;
    TRY(device_open("cpu", &options, &d, e));
    TRY(comm_open("auto", test_world_options(x->world, x->rank, d), &cp, e));
    TRY(d->ops->stream_open(d, STREAM_COMPUTE, false, &on, e));
    TRY(attend(x, d, cp, on, e));
done:
    if (result != OK) comm_failure_set(x->world->failure, x->rank, e);
    x->result = result;
    if (on) d->ops->stream_close(on);
    comm_close(cp);
    device_close(d);
    return NULL;
}

// The gradient of the sinks is a sum over the ranks.
static void check_sinks(const attention_case *c, const rank_run *run, int ranks)
{
    double apart = 0, size = 0;
    for (int64_t h = 0; h < c->heads; h++) {
        double sum = 0;
        for (int i = 0; i < ranks; i++) sum += run[i].d_sinks[h];
        apart += pow(sum - c->d_sinks[h], 2), size += pow(c->d_sinks[h], 2);
    }
    if (!(sqrt(apart / size) <= 1e-6))
        fail_msg("%s, %d ranks: the gradient of the sinks has a relative error of %.3g", c->name,
                 ranks, sqrt(apart / size));
}

static void check_case(const attention_case *c, int ranks)
{
    pthread_t thread[MOST_RANKS];
    rank_run run[MOST_RANKS];
    world *w = NULL;
    assert_int_equal(test_world_open(ranks, true, &w, NULL), OK);
    for (int i = 0; i < ranks; i++) {
        run[i] = (rank_run){.c = c, .world = w, .ranks = ranks, .rank = i};
        assert_int_equal(pthread_create(&thread[i], NULL, rank_main, &run[i]), 0);
    }
    for (int i = 0; i < ranks; i++) pthread_join(thread[i], NULL);
    world_close(w);
    for (int i = 0; i < ranks; i++) {
        if (run[i].result != OK) fail_msg("%s, rank %d: %s", c->name, i, run[i].error.text);
        if (!(run[i].worst <= 1e-6))
            fail_msg("%s, rank %d of %d: relative error %.3g", c->name, i, ranks, run[i].worst);
    }
    if (c->sinks) check_sinks(c, run, ranks);
}

static void check_ranks(int ranks)
{
    static const char *const names[] = {"heads", "grouped", "shared", "window", "capped", "sinks"};
    char path[600];
    safetensors *file = NULL;
    snprintf(path, sizeof path, "%s/golden/attention.safetensors", TESTS_DIR);
    assert_int_equal(safetensors_open(path, &file, NULL), OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const attention_case c = case_read(file, names[i]);
        check_case(&c, ranks);
    }
    safetensors_close(file);
}

static void test_one_rank_equals_pytorch(void **state)
{
    (void)state;
    check_ranks(1);
}

static void test_two_ranks_equal_pytorch(void **state)
{
    (void)state;
    check_ranks(2);
}

static void test_four_ranks_equal_pytorch(void **state)
{
    (void)state;
    check_ranks(4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank_equals_pytorch),
        cmocka_unit_test(test_two_ranks_equal_pytorch),
        cmocka_unit_test(test_four_ranks_equal_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
