// test_frozen.c -- a graph with frozen parameters computes only the gradients that something needs.
// Those have the bits of a graph in which every parameter trains, and the graph saves no more than
// that one does.
#include "run_graph.h"
#include "unit/graph_sent.h"

#include <string.h>

// ---- Blocks: each op that has parameters, and what lies between them

static graph_value *weight(graph *g, int64_t rows, int64_t cols)
{
    return build_weight(g, "w", rows, cols, INIT_NORMAL, 0.02);
}

static graph_value *linear(graph *g, graph_value *x, int64_t out)
{
    graph_value *w = weight(g, out, graph_value_cols(x));
    return build_linear(g, x, w, weight(g, out, 0));
}

static graph_value *layer_norm(graph *g, graph_value *x)
{
    graph_value *gain = weight(g, graph_value_cols(x), 0);
    return build_norm(g, x, gain, weight(g, graph_value_cols(x), 0), &LAYER_NORM);
}

static void linear_block(graph *g)
{
    graph_value *x = build_residual(g, 8);
    build_output(g, build_add(g, x, linear(g, x, 8), 1, 1));
}

static void norm_block(graph *g)
{
    graph_value *x = build_residual(g, 8);
    build_output(g, build_add(g, x, layer_norm(g, x), 0.5, 2));
}

static void embedding_block(graph *g)
{
    graph_value *ids = build_ids(g), *tokens = weight(g, RUN_CLASSES, 8);
    graph_value *y = build_embedding(g, ids, tokens, weight(g, 6, 8), 1.5);
    build_output(g, build_dropout(g, y, 0.2));
}

static void attention_block(graph *g)
{
    static const double frequency[2] = {1, 0.1};
    const graph_rope table = {.rows = 6, .pairs = 2, .frequency = frequency, .scale = 1};
    graph_value *x = build_residual(g, 8);
    graph_value *h = linear(g, layer_norm(g, x), 24);
    h = build_attention(g, build_rope(g, h, 4, 4, &table, false),
                        &(graph_attention){2, 2, 4, .scale = 0.5, .dropout = 0.1});
    build_output(g, build_add(g, x, build_dropout(g, linear(g, h, 8), 0.2), 1, 1));
}

static void sinks_block(graph *g)
{
    graph_value *x = build_residual(g, 8), *sinks = weight(g, 2, 0);
    graph_value *h = build_attention(g, linear(g, x, 24),
                                     &(graph_attention){.heads = 2,
                                                        .kv_heads = 2,
                                                        .head_dim = 4,
                                                        .scale = 0.5,
                                                        .window = 3,
                                                        .softcap = 2,
                                                        .sinks = sinks});
    build_output(g, build_add(g, x, h, 1, 1));
}

static void mlp_block(graph *g)
{
    graph_value *x = build_residual(g, 8);
    graph_value *h = build_norm(g, x, weight(g, 8, 0), NULL, &RMS_NORM);
    h = build_glu(g, linear(g, h, 24), ACT_SILU);
    h = build_activation(g, linear(g, h, 12), ACT_GELU);
    build_output(g, build_add(g, x, build_linear(g, h, weight(g, 8, 12), NULL), 1, 1));
}

static void features_block(graph *g)
{
    graph_value *h = build_activation(g, linear(g, build_features(g, 8), 12), ACT_RELU);
    build_output(g, build_as_residual(g, linear(g, h, 8)));
}

static void cross_entropy_block(graph *g)
{
    graph_value *x = layer_norm(g, build_residual(g, 8)), *w = weight(g, RUN_CLASSES, 8);
    build_linear_cross_entropy(g, x, w, weight(g, RUN_CLASSES, 0), 0.5, 0);
}

static void square_error_block(graph *g)
{
    graph_value *x = build_input(g, 8), *w = weight(g, 3, 8);
    build_linear_square_error(g, x, w, weight(g, 3, 0));
}

typedef void (*block_fn)(graph *g);
static const block_fn BLOCKS[] = {linear_block,        norm_block,         embedding_block,
                                  attention_block,     mlp_block,          features_block,
                                  cross_entropy_block, square_error_block, sinks_block};
enum { BLOCK_COUNT = sizeof BLOCKS / sizeof *BLOCKS };

typedef struct frozen_case {
    block_fn block;
    dtype type;
    recompute_mode recompute;
    bool splits_backward, input_needs_no_grad;
    unsigned frozen; // bit i: parameter i
} frozen_case;

static graph *open_case(const frozen_case *c)
{
    const graph_options o = {.mode = GRAPH_TRAIN,
                             .needs = run_needs(),
                             .type = c->type,
                             .batch = 2,
                             .seq = 6,
                             .splits_backward = c->splits_backward,
                             .input_needs_no_grad = c->input_needs_no_grad};
    graph *g = NULL;
    err e;
    assert_int_equal(graph_open(&o, &g, NULL), OK);
    c->block(g);
    for (int i = 0; i < g->params; i++) g->param[i].frozen = c->frozen >> i & 1;
    if (graph_finish(g, c->recompute, &e) != OK) fail_msg("%s", e.text);
    return g;
}

// ---- Bits and bytes of every case

static size_t all_bytes(const graph *g)
{
    return g->bytes.saved + g->bytes.saved_for_wgrad + g->bytes.workspace;
}

static void check_bytes(const graph *all, const graph *g)
{
    assert_true(g->bytes.saved <= all->bytes.saved);
    assert_true(g->bytes.saved_for_wgrad <= all->bytes.saved_for_wgrad);
    // A value that is no longer saved is scratch.
    assert_true(all_bytes(g) <= all_bytes(all));
    assert_true(g->flops.forward <= all->flops.forward);
    assert_true(g->flops.backward <= all->flops.backward);
}

static void check_case(const frozen_case *c, const graph *all, const run_result *want)
{
    graph *g = open_case(c);
    run_result have;
    check_bytes(all, g);
    run_graph(g, &have);
    assert_true(want->loss == have.loss);
    if (g->output) assert_memory_equal(want->output, have.output, graph_value_bytes(g->output));
    assert_int_equal(g->input_grad.unused, !g->input || c->input_needs_no_grad);
    assert_int_equal(!g->input || !g->input->grad, g->input_grad.unused);
    if (!g->input_grad.unused)
        assert_memory_equal(want->input_grad, have.input_grad, graph_value_bytes(g->input->grad));
    for (int i = 0; i < g->params; i++) {
        const bool trains = !g->param[i].frozen;
        assert_int_equal(graph_gives_gradient(g, i), trains);
        assert_int_equal(have.grad_written[i], trains);
        if (trains && memcmp(want->grad[i], have.grad[i], have.grad_bytes[i]) != 0)
            fail_msg("frozen %x: the gradient of parameter %d differs", c->frozen, i);
    }
    run_clear(&have);
    graph_close(g);
}

static void test_trained_parameters_get_the_bits_of_a_graph_that_freezes_none(void **state)
{
    (void)state;
    for (int b = 0; b < BLOCK_COUNT; b++)
        for (int v = 0; v < 4 * RECOMPUTES; v++) {
            frozen_case c = {.block = BLOCKS[b],
                             .type = v & 1 ? BF16 : F32,
                             .recompute = (recompute_mode)(v / 4),
                             .splits_backward = v & 2};
            graph *all = open_case(&c);
            run_result want;
            run_graph(all, &want);
            for (c.frozen = 0; c.frozen < 1u << all->params; c.frozen++)
                for (int i = 0; i < 2; i++) {
                    c.input_needs_no_grad = i;
                    check_case(&c, all, &want);
                }
            run_clear(&want);
            graph_close(all);
        }
}

static void test_a_block_without_anything_to_train_has_no_backward(void **state)
{
    (void)state;
    for (int b = 0; b < BLOCK_COUNT; b++)
        for (int split = 0; split < 2; split++) {
            const frozen_case c = {.block = BLOCKS[b],
                                   .splits_backward = split,
                                   .input_needs_no_grad = true,
                                   .frozen = ~0u};
            graph *g = open_case(&c);
            assert_false(graph_has_backward(g));
            assert_true(g->input_grad.unused);
            assert_int_equal(g->bytes.saved, 0);
            assert_int_equal(g->bytes.saved_for_wgrad, 0);
            assert_true(g->flops.backward == 0);
            if (g->output) assert_null(g->output->grad);
            graph_close(g);
        }
}

// ---- Single nodes

// The ops of the backward list, in order.
static void assert_backward(const graph *g, int count, const graph_op *ops)
{
    assert_int_equal(g->backward.count, count);
    for (int i = 0; i < count; i++) assert_int_equal(g->backward.node[i]->op, ops[i]);
}

static int count_recomputed(const graph *g)
{
    int count = 0;
    for (int i = 0; i < g->backward.count; i++) count += g->backward.node[i]->recomputed;
    return count;
}

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static void test_a_linear_layer_computes_each_gradient_by_itself(void **state)
{
    (void)state;
    enum { W = 1, BIAS = 2 };
    const double product = 2.0 * 12 * 8 * 8; // FLOPs
    frozen_case c = {.block = linear_block, .recompute = RECOMPUTE_NONE, .frozen = W};
    graph *g = open_case(&c);
    assert_backward(g, 2, (graph_op[]){OP_LINEAR_GRAD_INPUT, OP_LINEAR_GRAD_WEIGHT});
    assert_null(g->backward.node[1]->in[1]); // the gradient of the bias reads no x
    assert_true(g->flops.backward == product);
    graph_close(g);

    c.frozen = W | BIAS;
    g = open_case(&c);
    assert_backward(g, 1, (graph_op[]){OP_LINEAR_GRAD_INPUT});
    assert_true(g->flops.backward == product);
    graph_close(g);

    c.frozen = BIAS, c.input_needs_no_grad = true;
    g = open_case(&c);
    assert_backward(g, 1, (graph_op[]){OP_LINEAR_GRAD_WEIGHT});
    assert_int_equal(g->backward.node[0]->param[1], -1);
    assert_true(g->flops.backward == product);
    graph_close(g);
}

static void test_a_norm_computes_each_gradient_by_itself(void **state)
{
    (void)state;
    enum { GAIN = 1, BIAS = 2 };
    frozen_case c = {.block = norm_block, .frozen = GAIN, .input_needs_no_grad = true};
    graph *g = open_case(&c);
    const graph_node *n = g->backward.node[g->backward.count - 1];
    assert_int_equal(n->op, OP_NORM_GRAD);
    assert_null(n->out[0]);
    assert_true(!n->in[1] && !n->in[3] && !n->in[4]);
    assert_int_equal(count_recomputed(g), 0);
    graph_close(g);

    c.frozen = BIAS;
    g = open_case(&c);
    n = g->backward.node[g->backward.count - 1];
    assert_null(n->out[0]);
    assert_true(n->in[1] == g->input && n->in[3] && n->in[4]);
    assert_int_equal(count_recomputed(g), 1); // for rstd and mean
    graph_close(g);
}

static void test_an_embedding_computes_each_gradient_by_itself(void **state)
{
    (void)state;
    for (int table = 0; table < 2; table++) {
        const frozen_case c = {.block = embedding_block, .frozen = 1u << table};
        graph *g = open_case(&c);
        assert_backward(g, 2, (graph_op[]){OP_DROPOUT, OP_EMBEDDING_GRAD});
        assert_int_equal(g->backward.node[1]->param[table], -1);
        assert_int_equal(g->backward.node[1]->param[!table], !table);
        graph_close(g);
    }
}

static void test_a_loss_computes_each_gradient_by_itself(void **state)
{
    (void)state;
    enum { W = 1, BIAS = 2 };
    const double product = 2.0 * 12 * 8 * 3; // FLOPs
    for (unsigned frozen = 0; frozen < 4; frozen++)
        for (int no_input = 0; no_input < 2; no_input++) {
            const frozen_case c = {
                .block = square_error_block, .frozen = frozen, .input_needs_no_grad = no_input};
            graph *g = open_case(&c);
            const graph_node *loss = g->forward.node[g->forward.count - 1];
            assert_int_equal(loss->param[0], frozen & W ? -1 : 0);
            assert_int_equal(loss->param[1], frozen & BIAS ? -1 : 1);
            assert_int_equal(!loss->out[0], no_input);
            assert_true(g->flops.forward == (1 + !no_input + !(frozen & W)) * product);
            assert_int_equal(g->bytes.saved, no_input ? 0 : aligned(12 * 8 * sizeof(float)));
            graph_close(g);
        }
}

// Only the last layer of the MLP trains: the backward stops there. Saved is the input of the activation
// before it, which is recomputed.
static void test_the_backward_stops_where_nothing_below_trains(void **state)
{
    (void)state;
    frozen_case c = {.block = mlp_block, .frozen = 31, .input_needs_no_grad = true};
    graph *g = open_case(&c);
    assert_backward(g, 2, (graph_op[]){OP_ACTIVATION, OP_LINEAR_GRAD_WEIGHT});
    assert_int_equal(g->bytes.saved, aligned(12 * 12 * sizeof(float)));
    for (int i = 0; i < g->forward.count - 2; i++) assert_null(g->forward.node[i]->out[0]->grad);
    graph_close(g);

    c.input_needs_no_grad = false;
    g = open_case(&c);
    assert_int_equal(g->backward.node[2]->op, OP_LINEAR_GRAD_INPUT);
    assert_int_equal(g->backward.node[g->backward.count - 1]->op, OP_NORM_GRAD);
    assert_non_null(g->input->grad);
    graph_close(g);
}

// ---- Tensor parallelism: the all-reduce of copy_to_tp is a gradient's

static graph *open_sharded(bool sequence, unsigned frozen, bool input_needs_no_grad)
{
    const graph_options o = {.mode = GRAPH_TRAIN,
                             .needs = run_needs(),
                             .type = F32,
                             .batch = 2,
                             .seq = 6,
                             .position.mesh.size[AXIS_TP] = 2,
                             .position.coord[AXIS_TP] = 1,
                             .position.sequence_parallel = sequence,
                             .input_needs_no_grad = input_needs_no_grad};
    graph *g = NULL;
    err e;
    assert_int_equal(graph_open(&o, &g, NULL), OK);
    graph_value *x = build_residual(g, 8), *up = weight(g, 16, 8), *down = weight(g, 8, 16);
    build_roles(g, up, ROLE_MLP, ROLE_EMBED);
    build_roles(g, down, ROLE_EMBED, ROLE_MLP);
    graph_value *h = build_activation(g, build_linear(g, x, up, NULL), ACT_SILU);
    build_output(g, build_add(g, x, build_linear(g, h, down, NULL), 1, 1));
    for (int i = 0; i < g->params; i++) g->param[i].frozen = frozen >> i & 1;
    if (graph_finish(g, RECOMPUTE_NONE, &e) != OK) fail_msg("%s", e.text);
    return g;
}

static double sent_in_backward(bool sequence, unsigned frozen, bool input_needs_no_grad)
{
    graph *g = open_sharded(sequence, frozen, input_needs_no_grad);
    const double bytes = graph_sent_bytes(g, AXIS_TP, &g->backward);
    graph_close(g);
    return bytes;
}

static void test_no_collective_runs_for_a_gradient_that_nothing_needs(void **state)
{
    (void)state;
    enum { UP = 1, DOWN = 2 };
    const double rows = 12 * 8 * sizeof(float);
    // The all-reduce of the gradient of x: 2 (n-1)/n of its bytes.
    assert_true(sent_in_backward(false, 0, false) == rows);
    assert_true(sent_in_backward(false, UP | DOWN, false) == rows);
    assert_true(sent_in_backward(false, 0, true) == 0);
    // The all-gather of the output gradient, the reduce-scatter of the gradient of x, and the
    // all-gather of x once more for the gradient of the first weight. Each sends half of the rows.
    assert_true(sent_in_backward(true, 0, false) == 3 * rows / 2);
    assert_true(sent_in_backward(true, UP | DOWN, false) == rows);
    assert_true(sent_in_backward(true, 0, true) == rows);
    assert_true(sent_in_backward(true, UP, true) == rows / 2);
    assert_true(sent_in_backward(true, UP | DOWN, true) == 0);
}

// ---- Misuse

static void refused(block_fn block, bool input_needs_no_grad, const char *line)
{
    const graph_options o = {.mode = GRAPH_TRAIN,
                             .needs = run_needs(),
                             .type = F32,
                             .batch = 2,
                             .seq = 6,
                             .input_needs_no_grad = input_needs_no_grad};
    graph *g = NULL;
    err e = {0};
    assert_int_equal(graph_open(&o, &g, NULL), OK);
    block(g);
    for (int i = 0; i < g->params; i++) g->param[i].frozen = true;
    assert_int_equal(graph_finish(g, RECOMPUTE_NONE, &e), E_USAGE);
    assert_string_equal(e.text, line);
    graph_close(g);
}

static void block_without_use_of_its_input(graph *g)
{
    build_input(g, 8);
    build_output(g, linear(g, build_features(g, 8), 8));
}

static void block_with_an_unused_result(graph *g)
{
    graph_value *x = build_input(g, 8);
    graph_value *y = linear(g, x, 8);
    linear(g, x, 4);
    build_output(g, y);
}

static void test_values_without_a_use_are_refused_also_where_all_is_frozen(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        refused(block_without_use_of_its_input, i,
                "model graph: the input of a block is never used");
        refused(block_with_an_unused_result, i,
                "model graph: the result of linear (node 1) is never used");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trained_parameters_get_the_bits_of_a_graph_that_freezes_none),
        cmocka_unit_test(test_a_block_without_anything_to_train_has_no_backward),
        cmocka_unit_test(test_a_linear_layer_computes_each_gradient_by_itself),
        cmocka_unit_test(test_a_norm_computes_each_gradient_by_itself),
        cmocka_unit_test(test_an_embedding_computes_each_gradient_by_itself),
        cmocka_unit_test(test_a_loss_computes_each_gradient_by_itself),
        cmocka_unit_test(test_the_backward_stops_where_nothing_below_trains),
        cmocka_unit_test(test_no_collective_runs_for_a_gradient_that_nothing_needs),
        cmocka_unit_test(test_values_without_a_use_are_refused_also_where_all_is_frozen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
