// test_workspace.c -- each kernel of a graph gets the workspace that the device asks for, in memory that no
// live value has. A device that needs some computes the bits of one that needs none.
#include "run_graph.h"

#include "unit/spy_device.h"

#include <math.h>

enum { ROWS = 24, COLS = 32 };

// A block with every kind of kernel that a layer of GPT-2 has.
static void trace_layer(graph *g)
{
    graph_value *x = build_residual(g, COLS);
    graph_value *gain = build_weight(g, "gain.{}", COLS, 0, INIT_ONES, 0),
                *shift = build_weight(g, "shift.{}", COLS, 0, INIT_ZEROS, 0),
                *qkv = build_weight(g, "qkv.{}", 3 * COLS, COLS, INIT_NORMAL, 0.02),
                *bias = build_weight(g, "bias.{}", 3 * COLS, 0, INIT_ZEROS, 0),
                *out = build_weight(g, "out.{}", COLS, COLS, INIT_NORMAL, 0.02);
    graph_value *h = build_norm(g, x, gain, shift, &LAYER_NORM);
    h = build_attention(g, build_linear(g, h, qkv, bias),
                        &(graph_attention){4, 4, COLS / 4, .scale = 0.3, .dropout = 0.1});
    h = build_dropout(g, build_linear(g, h, out, NULL), 0.1);
    build_output(g, build_add(g, x, build_activation(g, h, ACT_GELU), 1, 1));
}

static void trace_embedding(graph *g)
{
    graph_value *tokens = build_weight(g, "tokens", RUN_CLASSES, COLS, INIT_NORMAL, 0.02);
    build_output(g, build_embedding(g, build_ids(g), tokens, NULL, 1));
}

static void trace_head(graph *g)
{
    graph_value *x = build_residual(g, COLS);
    graph_value *w = build_weight(g, "head", RUN_CLASSES, COLS, INIT_NORMAL, 0.02);
    build_linear_cross_entropy(g, x, w, NULL, 1, 0);
}

static graph *open_block(void (*trace)(graph *), const kernel_needs *needs, dtype type,
                         recompute_mode recompute, bool splits)
{
    const graph_options o = {.mode = GRAPH_TRAIN,
                             .type = type,
                             .batch = 2,
                             .seq = ROWS / 2,
                             .splits_backward = splits,
                             .needs = needs};
    graph *g = NULL;
    err e;
    assert_int_equal(graph_open(&o, &g, NULL), OK);
    trace(g);
    if (graph_finish(g, recompute, &e) != OK) fail_msg("%s", e.text);
    return g;
}

static int64_t sum(const int64_t counts[KERNELS])
{
    int64_t all = 0;
    for (int k = 0; k < KERNELS; k++) all += counts[k];
    return all;
}

static void check_block(void (*trace)(graph *), dtype type, recompute_mode recompute, bool splits)
{
    device *d;
    run_result want, have;
    graph *plain = open_block(trace, run_needs(), type, recompute, splits),
          *spied = open_block(trace, &SPY_NEEDS, type, recompute, splits);
    run_graph(plain, &want);
    assert_int_equal(device_open("cpu", &(device_options){.threads = 1}, &d, NULL), OK);
    spy_watch(d);
    assert_int_equal(graph_prepare(spied, d, NULL), OK);
    run_graph_on(spied, d, &have);
    assert_int_equal(the_spy.too_small, 0);
    assert_int_equal(the_spy.unaligned, 0);
    // What is prepared is what is launched; copies between equal lists are no kernels.
    assert_int_equal(sum(the_spy.launches), sum(the_spy.prepared));
    device_close(d);
    assert_true(spied->bytes.workspace > plain->bytes.workspace);
    assert_true(want.loss == have.loss);
    if (plain->output)
        assert_memory_equal(want.output, have.output, graph_value_bytes(plain->output));
    if (plain->input)
        assert_memory_equal(want.input_grad, have.input_grad, graph_value_bytes(plain->input));
    for (int i = 0; i < plain->params; i++)
        assert_memory_equal(want.grad[i], have.grad[i], want.grad_bytes[i]);
    run_clear(&want);
    run_clear(&have);
    graph_close(plain);
    graph_close(spied);
}

static void every_kernel_gets_its_workspace(void **state)
{
    (void)state;
    void (*const traces[])(graph *) = {trace_layer, trace_embedding, trace_head};
    for (int i = 0; i < 3; i++)
        for (int recompute = 0; recompute < RECOMPUTES; recompute++)
            for (int splits = 0; splits < 2; splits++) {
                check_block(traces[i], F32, (recompute_mode)recompute, splits);
                check_block(traces[i], BF16, (recompute_mode)recompute, splits);
            }
}

// A head with a bias, on a device that pads the rows of logits or wants as many of them at once.
static void run_head(const kernel_needs *needs, dtype type, run_result *out, int64_t *chunk,
                     int64_t *cols)
{
    const graph_options o = {
        .mode = GRAPH_TRAIN, .type = type, .batch = 2, .seq = ROWS / 2, .needs = needs};
    graph *g = NULL;
    err e;
    assert_int_equal(graph_open(&o, &g, NULL), OK);
    graph_value *x = build_residual(g, COLS);
    graph_value *w = build_weight(g, "head", RUN_CLASSES, COLS, INIT_NORMAL, 0.02);
    build_linear_cross_entropy(g, x, w, build_weight(g, "bias", RUN_CLASSES, 0, INIT_ZEROS, 0), 1,
                               0);
    if (graph_finish(g, RECOMPUTE_NONE, &e) != OK) fail_msg("%s", e.text);
    const graph_value *logits = g->forward.node[g->forward.count - 1]->out[1];
    *chunk = logits->dim[0], *cols = logits->dim[1];
    run_graph(g, out);
    graph_close(g);
}

static void padded_logits_have_the_same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        kernel_needs padded = *run_needs();
        padded.logits_align = 16;
        run_result want, have;
        int64_t chunk, cols;
        run_head(run_needs(), i ? BF16 : F32, &want, &chunk, &cols);
        assert_int_equal(cols, RUN_CLASSES);
        run_head(&padded, i ? BF16 : F32, &have, &chunk, &cols);
        assert_int_equal(cols, 16);
        assert_true(want.loss == have.loss && want.loss > 0);
        for (int p = 0; p < 2; p++)
            assert_memory_equal(want.grad[p], have.grad[p], want.grad_bytes[p]);
        run_clear(&want);
        run_clear(&have);
    }
}

static void a_device_may_ask_for_larger_chunks_of_the_loss(void **state)
{
    (void)state;
    run_result want, have;
    int64_t chunk, cols;
    kernel_needs larger = *run_needs();
    run_head(&larger, F32, &want, &chunk, &cols);
    assert_int_equal(chunk, 16); // two chunks
    larger.loss_rows = 100;
    run_head(&larger, F32, &have, &chunk, &cols);
    assert_int_equal(chunk, 32); // one, of all 24 rows
    assert_true(fabs(want.loss - have.loss) <= 1e-6 * want.loss);
    for (int p = 0; p < 2; p++)
        for (size_t i = 0; i < want.grad_bytes[p] / sizeof(float); i++)
            assert_true(fabsf(want.grad[p][i] - have.grad[p][i]) <= 1e-4f);
    run_clear(&want);
    run_clear(&have);
}

// The negative control: a graph that was planned for another device.
static void a_workspace_that_was_not_planned_is_noticed(void **state)
{
    (void)state;
    device *d;
    run_result r;
    graph *g = open_block(trace_layer, run_needs(), F32, RECOMPUTE_NONE, false);
    assert_int_equal(device_open("cpu", &(device_options){.threads = 1}, &d, NULL), OK);
    spy_watch(d);
    run_graph_on(g, d, &r);
    assert_true(the_spy.too_small > 0);
    run_clear(&r);
    device_close(d);
    graph_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_gets_its_workspace),
        cmocka_unit_test(padded_logits_have_the_same_bits),
        cmocka_unit_test(a_device_may_ask_for_larger_chunks_of_the_loss),
        cmocka_unit_test(a_workspace_that_was_not_planned_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
