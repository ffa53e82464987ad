// run_graph.h -- for tests: one forward and backward of a single graph on the CPU, with random
// weights, inputs and output gradient. Memory starts as NaN, so that nothing is read before it is
// written.
#ifndef TRIREME_TESTS_RUN_GRAPH_H
#define TRIREME_TESTS_RUN_GRAPH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "graph/execute.h"

#include <stdlib.h>
#include <string.h>

enum { RUN_PARAMS = 8, RUN_CLASSES = 11 };
static const graph_norm LAYER_NORM = {.eps = 1e-5}, RMS_NORM = {.eps = 1e-5, .is_rms = true};

typedef struct run_result {
    double loss;
    char *base[REGIONS]; // owned
    const void *output, *input_grad;
    void *weight[RUN_PARAMS];       // owned
    float *grad[RUN_PARAMS], *rope; // owned
    size_t grad_bytes[RUN_PARAMS];
    bool grad_written[RUN_PARAMS];
} run_result;

static void *run_alloc(size_t bytes)
{
    void *p = aligned_alloc(KERNEL_WORKSPACE_ALIGN, (bytes + 511) / 256 * 256);
    assert_non_null(p);
    memset(p, 0xff, bytes + 64);
    return p;
}

// Numbers of a normal distribution, the same for every graph of equal sizes. They are rounded to
// `rounded`, and `type` holds them.
static void *run_random(int64_t count, dtype rounded, dtype type, uint64_t seed)
{
    float *numbers = run_alloc((size_t)count * sizeof *numbers);
    void *low = run_alloc((size_t)count * sizeof(float));
    void *out = run_alloc((size_t)count * dtype_bytes(type));
    rng_normals(rng_key_make(seed, RNG_MOCK, 0, 0), 0, (size_t)count, numbers);
    dtype_convert(low, rounded, numbers, F32, (size_t)count);
    dtype_convert(out, type, low, rounded, (size_t)count);
    free(numbers);
    free(low);
    return out;
}

// Activations are numbers that every type can hold, so that graphs of different types have the same.
static void *run_activations(const graph_value *v, uint64_t seed)
{
    return run_random(graph_value_count(v), BF16, v->type, seed);
}

static char *run_ids(const graph *g, uint64_t seed)
{
    const int64_t count = g->batch * g->sequences.tokens.seq;
    int32_t *ids = run_alloc((size_t)count * sizeof *ids);
    for (int64_t i = 0; i < count; i++)
        ids[i] = (int32_t)(rng_word(rng_key_make(seed, RNG_MOCK, 0, 0), (uint64_t)i) % RUN_CLASSES);
    return (char *)ids;
}

static void run_inputs(const graph *g, run_result *r)
{
    const graph_value *in = g->input, *ids = g->ids, *labels = g->labels;
    if (in) r->base[REGION_INPUT] = run_activations(in, 1);
    if (ids) r->base[REGION_IDS] = ids->type == I32 ? run_ids(g, 2) : run_activations(ids, 2);
    if (labels)
        r->base[REGION_LABELS] = labels->type == I32 ? run_ids(g, 3) : run_activations(labels, 3);
    if (g->output) r->base[REGION_OUTPUT_GRAD] = run_activations(g->output, 4);
    r->base[REGION_OUTPUT] = run_alloc(g->bytes.output);
    r->base[REGION_INPUT_GRAD] = run_alloc(g->bytes.input);
    r->base[REGION_SAVED] = run_alloc(g->bytes.saved);
    r->base[REGION_SAVED_FOR_WGRAD] = run_alloc(g->bytes.saved_for_wgrad);
    r->base[REGION_WORKSPACE] = run_alloc(g->bytes.workspace);
    for (int i = 0; i < g->params; i++) {
        const int64_t count = g->param[i].dim[0] * graph_param_cols(&g->param[i]);
        const dtype type = g->param[i].type;
        r->weight[i] = run_random(count, type, type, 10 + (uint64_t)i);
        r->grad_bytes[i] = (size_t)count * sizeof(float);
        r->grad[i] = run_alloc(r->grad_bytes[i]);
    }
}

// Between dgrad and wgrad, the memory changes that nobody has saved.
static void run_spoil(const graph *g, const run_result *r)
{
    memset(r->base[REGION_WORKSPACE], 0xff, g->bytes.workspace);
    if (g->output && !g->split.saves_output_grad && !g->input_grad.in_place)
        memset(r->base[REGION_OUTPUT_GRAD], 0xff, graph_value_bytes(g->output));
}

static void run_both_ways(const graph *g, const graph_run *run, const run_result *r)
{
    assert_int_equal(graph_run_forward(run, NULL), OK);
    memset(r->base[REGION_WORKSPACE], 0xff, g->bytes.workspace);
    if (!g->split.on) {
        assert_int_equal(graph_run_backward(run, NULL), OK);
        return;
    }
    assert_int_equal(graph_run_dgrad(run, NULL), OK);
    run_spoil(g, r);
    assert_int_equal(graph_run_wgrad(run, NULL), OK);
}

// Runs both lists on device d. The caller frees the result with run_clear.
static void run_graph_on(const graph *g, device *d, run_result *r)
{
    device_stream *on;
    bool *written[RUN_PARAMS];
    double count = 0;
    *r = (run_result){.loss = 0};
    assert_true(g->params <= RUN_PARAMS);
    assert_int_equal(d->ops->stream_open(d, STREAM_COMPUTE, false, &on, NULL), OK);
    run_inputs(g, r);
    for (int i = 0; i < RUN_PARAMS; i++) written[i] = &r->grad_written[i];
    if (graph_rope_bytes(g)) {
        r->rope = run_alloc(graph_rope_bytes(g));
        assert_int_equal(graph_upload_rope(g, on, r->rope, NULL), OK);
    }
    const kernel_step step = {.step = 3, .loss_scale = 1};
    graph_run run = {.g = g,
                     .stream = on,
                     .weight = r->weight,
                     .gradient = r->grad,
                     .grad_written = written,
                     .rope = r->rope,
                     .loss_sum = &r->loss,
                     .loss_count = &count,
                     .seed = 5,
                     .step = &step,
                     .block = 2};
    memcpy(run.base, r->base, sizeof run.base);
    run_both_ways(g, &run, r);
    assert_int_equal(d->ops->sync(on, NULL), OK);
    r->output = graph_run_ptr(&run, g->output);
    r->input_grad = graph_run_ptr(&run, g->input ? g->input->grad : NULL);
    d->ops->stream_close(on);
}

// The graph must have the needs of run_needs.
static inline void run_graph(const graph *g, run_result *r)
{
    device *d;
    assert_int_equal(device_open("cpu", &(device_options){.threads = 1}, &d, NULL), OK);
    run_graph_on(g, d, r);
    device_close(d);
}

// What the kernels of the cpu device need.
static inline const kernel_needs *run_needs(void)
{
    device_description d;
    assert_int_equal(device_describe("cpu", NULL, &d, NULL), OK);
    return d.needs;
}

static void run_clear(run_result *r)
{
    for (int i = 0; i < REGIONS; i++) free(r->base[i]);
    for (int i = 0; i < RUN_PARAMS; i++) {
        free(r->weight[i]);
        free(r->grad[i]);
    }
    free(r->rope);
}

#endif
