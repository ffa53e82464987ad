// test_param_types.c -- a graph whose parameters have another type than its activations: an op computes
// in the type of its weight, and its result is rounded to the type of the activations.
#include "run_graph.h"

#include <string.h>

static graph_value *weight(graph *g, int64_t rows, int64_t cols)
{
    return build_weight(g, "w", rows, cols, INIT_NORMAL, 0.02);
}

static void linear_block(graph *g)
{
    graph_value *x = build_input(g, 8), *w = weight(g, 24, 8);
    build_output(g, build_linear(g, x, w, weight(g, 24, 0)));
}

static void layer_norm_block(graph *g)
{
    graph_value *x = build_residual(g, 8), *gain = weight(g, 8, 0);
    build_output(g, build_norm(g, x, gain, weight(g, 8, 0), &LAYER_NORM));
}

static void rms_norm_block(graph *g)
{
    graph_value *x = build_input(g, 8);
    build_output(g, build_norm(g, x, weight(g, 8, 0), NULL, &RMS_NORM));
}

static void embedding_block(graph *g)
{
    graph_value *ids = build_ids(g), *tokens = weight(g, RUN_CLASSES, 8);
    build_output(g, build_embedding(g, ids, tokens, weight(g, 6, 8), 1));
}

static void cross_entropy_block(graph *g)
{
    graph_value *x = build_input(g, 8), *w = weight(g, RUN_CLASSES, 8);
    build_linear_cross_entropy(g, x, w, weight(g, RUN_CLASSES, 0), 0.5, 0);
}

static void square_error_block(graph *g)
{
    graph_value *x = build_input(g, 8), *w = weight(g, 3, 8);
    build_linear_square_error(g, x, w, weight(g, 3, 0));
}

static void layer_block(graph *g)
{
    graph_value *x = build_residual(g, 8), *gain = weight(g, 8, 0), *qkv = weight(g, 24, 8);
    graph_value *h = build_linear(g, build_norm(g, x, gain, NULL, &RMS_NORM), qkv, NULL);
    h = build_attention(g, h, &(graph_attention){2, 2, 4, .scale = 0.5, .dropout = 0.1});
    h = build_dropout(g, build_linear(g, h, weight(g, 8, 8), NULL), 0.2);
    build_output(g, build_add(g, x, h, 1, 1));
}

typedef void (*block_fn)(graph *g);

// `types` are those of the parameters, in their order; the rest have the graph's type.
static graph *open_types(block_fn block, dtype type, int count, const dtype *types,
                         recompute_mode recompute)
{
    const graph_options o = {
        .mode = GRAPH_TRAIN, .needs = run_needs(), .type = type, .batch = 2, .seq = 6};
    graph *g = NULL;
    err e;
    assert_int_equal(graph_open(&o, &g, NULL), OK);
    block(g);
    for (int i = 0; i < count && i < g->params; i++) g->param[i].type = types[i];
    if (graph_finish(g, recompute, &e) != OK) fail_msg("%s", e.text);
    return g;
}

static const dtype ALL_F32[RUN_PARAMS] = {F32};

// Has `have` the numbers of `want`, rounded to its own type?
static void assert_rounded(const graph_value *a, const void *want, const graph_value *b,
                           const void *have)
{
    const size_t count = (size_t)graph_value_count(a);
    void *rounded = run_alloc(count * sizeof(float));
    dtype_convert(rounded, b->type, want, a->type, count);
    assert_memory_equal(rounded, have, count * dtype_bytes(b->type));
    free(rounded);
}

// With fp32 parameters, a block of one op computes what the fp32 block computes. What it hands on is
// rounded.
static void test_an_op_with_fp32_parameters_computes_in_fp32(void **state)
{
    (void)state;
    static const block_fn blocks[] = {linear_block,    layer_norm_block,    rms_norm_block,
                                      embedding_block, cross_entropy_block, square_error_block};
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
        for (int recompute = 0; recompute < RECOMPUTES; recompute++) {
            graph *full = open_types(blocks[b], F32, 0, NULL, (recompute_mode)recompute);
            graph *mixed =
                open_types(blocks[b], BF16, RUN_PARAMS, ALL_F32, (recompute_mode)recompute);
            graph *low = open_types(blocks[b], BF16, 0, NULL, (recompute_mode)recompute);
            run_result want, have, other;
            run_graph(full, &want);
            run_graph(mixed, &have);
            run_graph(low, &other);
            assert_true(want.loss == have.loss);
            if (full->output) assert_rounded(full->output, want.output, mixed->output, have.output);
            if (full->input)
                assert_rounded(full->input->grad, want.input_grad, mixed->input->grad,
                               have.input_grad);
            for (int i = 0; i < full->params; i++)
                assert_memory_equal(want.grad[i], have.grad[i], want.grad_bytes[i]);
            // The negative control: bf16 parameters give another result.
            assert_true(low->output
                            ? memcmp(other.output, have.output, graph_value_bytes(low->output)) != 0
                            : other.loss != have.loss);
            run_clear(&want);
            run_clear(&have);
            run_clear(&other);
            graph_close(full);
            graph_close(mixed);
            graph_close(low);
        }
}

static void test_a_bias_of_another_type_is_rounded_to_that_of_the_weight(void **state)
{
    (void)state;
    static const dtype bias_f32[2] = {BF16, F32};
    static const block_fn blocks[] = {linear_block, layer_norm_block, embedding_block,
                                      cross_entropy_block};
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
        graph *low = open_types(blocks[b], BF16, 0, NULL, RECOMPUTE_NONE);
        graph *mixed = open_types(blocks[b], BF16, 2, bias_f32, RECOMPUTE_NONE);
        run_result want, have;
        run_graph(low, &want);
        run_graph(mixed, &have);
        assert_true(want.loss == have.loss);
        if (low->output)
            assert_memory_equal(want.output, have.output, graph_value_bytes(low->output));
        for (int i = 0; i < 2; i++)
            assert_memory_equal(want.grad[i], have.grad[i], want.grad_bytes[i]);
        run_clear(&want);
        run_clear(&have);
        graph_close(low);
        graph_close(mixed);
    }
}

// Recomputing more changes no bit, and the conversions move no random number.
static void test_a_layer_with_mixed_types_is_the_same_under_every_recompute(void **state)
{
    (void)state;
    static const dtype types[3] = {F32, BF16, F32};
    graph *low = open_types(layer_block, BF16, 0, NULL, RECOMPUTE_NONE);
    graph *none = open_types(layer_block, BF16, 3, types, RECOMPUTE_NONE);
    run_result want;
    run_graph(none, &want);
    int numbers = 0;
    for (int i = 0; i < none->forward.count; i++) {
        if (none->forward.node[i]->number < 0) continue;
        const graph_node *n = low->forward.node[numbers++];
        assert_int_equal(none->forward.node[i]->number, n->number);
        assert_int_equal(none->forward.node[i]->op, n->op);
    }
    assert_int_equal(numbers, low->forward.count);
    for (int recompute = RECOMPUTE_SELECTIVE; recompute < RECOMPUTES; recompute++) {
        graph *g = open_types(layer_block, BF16, 3, types, (recompute_mode)recompute);
        run_result have;
        run_graph(g, &have);
        assert_memory_equal(want.output, have.output, graph_value_bytes(g->output));
        assert_memory_equal(want.input_grad, have.input_grad, graph_value_bytes(g->input->grad));
        for (int i = 0; i < g->params; i++)
            assert_memory_equal(want.grad[i], have.grad[i], want.grad_bytes[i]);
        run_clear(&have);
        graph_close(g);
    }
    run_clear(&want);
    graph_close(none);
    graph_close(low);
}

// A norm reads the F32 residual as it is, whatever the type of its gain.
static void test_a_norm_of_the_residual_does_not_round_it(void **state)
{
    (void)state;
    static const dtype types[2] = {F16, F16};
    for (int f32 = 0; f32 < 2; f32++) {
        graph *g = open_types(layer_norm_block, f32 ? F32 : BF16, 2, types, RECOMPUTE_NONE);
        assert_int_equal(g->forward.count, 2);
        assert_ptr_equal(g->forward.node[0]->in[0], g->input);
        assert_int_equal(g->forward.node[0]->out[0]->type, F16);
        assert_int_equal(g->forward.node[1]->op, OP_CONVERT);
        assert_ptr_equal(g->forward.node[1]->out[0], g->output);
        graph_close(g);
    }
}

// Under sequence parallelism a conversion has the rows that its input has.
static void test_conversions_keep_the_sharding_of_rows(void **state)
{
    (void)state;
    const graph_options o = {.mode = GRAPH_TRAIN,
                             .needs = run_needs(),
                             .type = BF16,
                             .batch = 2,
                             .seq = 6,
                             .position.mesh.size[AXIS_TP] = 2,
                             .position.sequence_parallel = true};
    graph *g = NULL;
    int conversions = 0;
    assert_int_equal(graph_open(&o, &g, NULL), OK);
    rms_norm_block(g);
    g->param[0].type = F32;
    assert_int_equal(graph_finish(g, RECOMPUTE_NONE, NULL), OK);
    const graph_node_list *const lists[] = {&g->forward, &g->backward};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < lists[k]->count; i++) {
            if (lists[k]->node[i]->op != OP_CONVERT) continue;
            conversions++;
            assert_int_equal(lists[k]->node[i]->in[0]->sharding.rows, MESH_AXIS(AXIS_TP));
            assert_int_equal(lists[k]->node[i]->out[0]->sharding.rows, MESH_AXIS(AXIS_TP));
        }
    // Of x and of y, each in the forward and its gradient; x is recomputed for the gradient of the gain.
    assert_int_equal(conversions, 5);
    graph_close(g);
}

static void test_equal_types_add_no_conversion(void **state)
{
    (void)state;
    static const dtype types[3] = {BF16, BF16, BF16};
    graph *plain = open_types(layer_block, BF16, 0, NULL, RECOMPUTE_NONE);
    graph *g = open_types(layer_block, BF16, 3, types, RECOMPUTE_NONE);
    assert_int_equal(g->forward.count, plain->forward.count);
    assert_int_equal(g->backward.count, plain->backward.count);
    assert_int_equal(g->bytes.saved, plain->bytes.saved);
    graph_close(plain);
    graph_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_op_with_fp32_parameters_computes_in_fp32),
        cmocka_unit_test(test_a_bias_of_another_type_is_rounded_to_that_of_the_weight),
        cmocka_unit_test(test_a_layer_with_mixed_types_is_the_same_under_every_recompute),
        cmocka_unit_test(test_a_norm_of_the_residual_does_not_round_it),
        cmocka_unit_test(test_conversions_keep_the_sharding_of_rows),
        cmocka_unit_test(test_equal_types_add_no_conversion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
