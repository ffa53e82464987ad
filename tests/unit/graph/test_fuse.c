// test_fuse.c -- a dropout and the sum that reads it become one node, which has the bits of the two and
// leaves the random numbers of later nodes as they are. Where something else reads the dropout, or the
// sum has factors, the two stay. A sum and the norm that follows it become one node too, and so do a linear
// layer and an activation, and the gradients of both.
#include "run_graph.h"

#include "base/recompute.h"

enum { ROWS = 12, COLS = 4 };

// How the sum of a block takes the dropout: as a residual connection; with a factor; with a result that
// is read again.
typedef enum use { USE_ONCE, USE_SCALED, USE_TWICE, USES } use;

// Two residual connections with a dropout each.
static void trace(graph *g, use how)
{
    graph_value *x = build_residual(g, COLS);
    graph_value *w = build_weight(g, "first.{}", COLS, COLS, INIT_NORMAL, 0.02);
    graph_value *v = build_weight(g, "second.{}", COLS, COLS, INIT_NORMAL, 0.02);
    graph_value *gain = build_weight(g, "gain.{}", COLS, 0, INIT_ONES, 0);
    graph_value *h =
        build_dropout(g, build_linear(g, build_norm(g, x, gain, NULL, &RMS_NORM), w, NULL), 0.4);
    graph_value *y = build_add(g, x, h, 1, how == USE_SCALED ? 2 : 1);
    if (how == USE_TWICE) y = build_add(g, y, h, 1, 1);
    h = build_linear(g, build_norm(g, y, gain, NULL, &RMS_NORM), v, NULL);
    build_output(g, build_add(g, y, build_dropout(g, h, 0.4), 1, 1));
}

static graph *open_block(use how, dtype type, recompute_mode recompute)
{
    const graph_options o = {
        .mode = GRAPH_TRAIN, .needs = run_needs(), .type = type, .batch = 2, .seq = ROWS / 2};
    graph *g = NULL;
    err e;
    assert_int_equal(graph_open(&o, &g, NULL), OK);
    trace(g, how);
    if (graph_finish(g, recompute, &e) != OK) fail_msg("%s", e.text);
    return g;
}

static int count_ops(const graph_node_list *l, graph_op op)
{
    int count = 0;
    for (int i = 0; i < l->count; i++) count += l->node[i]->op == op;
    return count;
}

static void a_dropout_and_its_sum_are_one_node(void **state)
{
    (void)state;
    for (int how = 0; how < USES; how++) {
        graph *g = open_block((use)how, BF16, RECOMPUTE_NONE);
        assert_int_equal(count_ops(&g->forward, OP_DROPOUT_ADD), how == USE_ONCE ? 2 : 1);
        assert_int_equal(count_ops(&g->forward, OP_DROPOUT), how == USE_ONCE ? 0 : 1);
        // The sum that the second norm reads is joined with it, unless it is one with the dropout.
        assert_int_equal(count_ops(&g->forward, OP_ADD), how == USE_TWICE);
        assert_int_equal(count_ops(&g->forward, OP_ADD_NORM), how != USE_ONCE);
        graph_close(g);
    }
}

static const graph_node *find_last(const graph_node_list *l, graph_op op)
{
    for (int i = l->count - 1; i >= 0; i--)
        if (l->node[i]->op == op) return l->node[i];
    fail_msg("the list has no such op");
    return NULL;
}

static void numbers_are_those_of_the_ops_that_a_family_wrote(void **state)
{
    (void)state;
    graph *once = open_block(USE_ONCE, F32, RECOMPUTE_NONE),
          *scaled = open_block(USE_SCALED, F32, RECOMPUTE_NONE);
    assert_int_equal(once->forward.node[2]->op, OP_DROPOUT_ADD);
    assert_int_equal(scaled->forward.node[2]->op, OP_DROPOUT);
    assert_int_equal(once->forward.node[2]->number, scaled->forward.node[2]->number);
    assert_int_equal(find_last(&once->forward, OP_DROPOUT_ADD)->number,
                     find_last(&scaled->forward, OP_DROPOUT_ADD)->number);
    // The mask of the backward is that of the forward.
    assert_int_equal(find_last(&once->backward, OP_DROPOUT)->number, once->forward.node[2]->number);
    graph_close(once);
    graph_close(scaled);
}

// The sum stands right after the dropout, and is joined with it, or another op stands between the two.
// The numbers of the dropout and all results are the same.
static graph *open_order(bool apart, dtype type, recompute_mode recompute)
{
    const graph_options o = {
        .mode = GRAPH_TRAIN, .needs = run_needs(), .type = type, .batch = 2, .seq = ROWS / 2};
    graph *g = NULL;
    err e;
    assert_int_equal(graph_open(&o, &g, NULL), OK);
    graph_value *x = build_residual(g, COLS), *y, *z;
    graph_value *w = build_weight(g, "first.{}", COLS, COLS, INIT_NORMAL, 0.02);
    graph_value *h = build_dropout(g, build_linear(g, x, w, NULL), 0.4);
    if (apart) z = build_activation(g, x, ACT_TANH);
    y = build_add(g, x, h, 1, 1);
    if (!apart) z = build_activation(g, x, ACT_TANH);
    build_output(g, build_add(g, y, z, 1, 1));
    if (graph_finish(g, recompute, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(count_ops(&g->forward, OP_DROPOUT_ADD), !apart);
    return g;
}

static void one_node_has_the_bits_of_two(void **state)
{
    (void)state;
    const dtype types[] = {F32, BF16, F16};
    for (int i = 0; i < 3 * RECOMPUTES; i++) {
        graph *two = open_order(true, types[i % 3], (recompute_mode)(i / 3)),
              *one = open_order(false, types[i % 3], (recompute_mode)(i / 3));
        run_result want, have;
        run_graph(two, &want);
        run_graph(one, &have);
        assert_memory_equal(want.output, have.output, graph_value_bytes(one->output));
        assert_memory_equal(want.input_grad, have.input_grad, graph_value_bytes(one->input));
        assert_memory_equal(want.grad[0], have.grad[0], want.grad_bytes[0]);
        run_clear(&want);
        run_clear(&have);
        graph_close(one);
        graph_close(two);
    }
}

// A residual connection, and a norm of it, which another op may keep apart. Everything else is the same.
static graph *open_norms(bool apart, dtype type, recompute_mode recompute, bool splits)
{
    const graph_options o = {.mode = GRAPH_TRAIN,
                             .needs = run_needs(),
                             .type = type,
                             .batch = 2,
                             .seq = ROWS / 2,
                             .splits_backward = splits};
    graph *g = NULL;
    err e;
    assert_int_equal(graph_open(&o, &g, NULL), OK);
    graph_value *x = build_residual(g, COLS), *z;
    graph_value *w = build_weight(g, "first.{}", COLS, COLS, INIT_NORMAL, 0.02);
    graph_value *v = build_weight(g, "second.{}", COLS, COLS, INIT_NORMAL, 0.02);
    graph_value *gain = build_weight(g, "gain.{}", COLS, 0, INIT_ONES, 0);
    graph_value *bias = build_weight(g, "bias.{}", COLS, 0, INIT_NORMAL, 0.5);
    graph_value *h = build_linear(g, build_norm(g, x, gain, bias, &LAYER_NORM), w, NULL);
    graph_value *y = build_add(g, x, h, 0.75, 1.5);
    if (apart) z = build_activation(g, h, ACT_TANH);
    graph_value *normed = build_norm(g, y, gain, bias, &LAYER_NORM);
    if (!apart) z = build_activation(g, h, ACT_TANH);
    h = build_add(g, build_linear(g, normed, v, NULL), z, 1, 1);
    build_output(g, build_add(g, y, h, 1, 1));
    if (graph_finish(g, recompute, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(count_ops(&g->forward, OP_ADD_NORM), !apart);
    assert_int_equal(count_ops(&g->forward, OP_NORM), apart ? 2 : 1);
    return g;
}

// Results are equal, and so is what is saved.
static void a_sum_and_its_norm_have_the_bits_of_two(void **state)
{
    (void)state;
    const dtype types[] = {F32, BF16, F16};
    for (int i = 0; i < 6 * RECOMPUTES; i++) {
        graph *two = open_norms(true, types[i % 3], (recompute_mode)(i / 6), i % 6 > 2),
              *one = open_norms(false, types[i % 3], (recompute_mode)(i / 6), i % 6 > 2);
        assert_int_equal(one->bytes.saved, two->bytes.saved);
        assert_int_equal(one->bytes.saved_for_wgrad, two->bytes.saved_for_wgrad);
        run_result want, have;
        run_graph(two, &want);
        run_graph(one, &have);
        assert_memory_equal(want.output, have.output, graph_value_bytes(one->output));
        assert_memory_equal(want.input_grad, have.input_grad, graph_value_bytes(one->input));
        for (int p = 0; p < one->params; p++)
            assert_memory_equal(want.grad[p], have.grad[p], want.grad_bytes[p]);
        run_clear(&want);
        run_clear(&have);
        graph_close(one);
        graph_close(two);
    }
}

// An MLP of two layers. Apart: another op stands between the first layer and its activation, and the result
// of the activation is read once more, by a sum that adds nothing. Everything else is the same.
static graph *open_mlp(bool apart, const graph_options *o, recompute_mode recompute)
{
    graph *g = NULL;
    err e;
    assert_int_equal(graph_open(o, &g, NULL), OK);
    graph_value *x = build_residual(g, COLS), *z;
    graph_value *w = build_weight(g, "first.{}", COLS, COLS, INIT_NORMAL, 0.02);
    graph_value *v = build_weight(g, "second.{}", COLS, COLS, INIT_NORMAL, 0.02);
    graph_value *gain = build_weight(g, "gain.{}", COLS, 0, INIT_ONES, 0);
    graph_value *bias = build_weight(g, "bias.{}", COLS, 0, INIT_NORMAL, 0.5);
    graph_value *h = build_linear(g, build_norm(g, x, gain, NULL, &RMS_NORM), w, bias);
    if (apart) z = build_activation(g, x, ACT_TANH);
    graph_value *y = build_activation(g, h, ACT_GELU_TANH);
    if (!apart) z = build_activation(g, x, ACT_TANH);
    h = build_linear(g, y, v, bias);
    if (apart) h = build_add(g, h, y, 1, 0);
    build_output(g, build_add(g, build_add(g, x, h, 1, 1), z, 1, 1));
    if (graph_finish(g, recompute, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(count_ops(&g->forward, OP_LINEAR_ACTIVATION), !apart);
    return g;
}

static void assert_equal_runs(const graph *one, const graph *two)
{
    run_result want, have;
    run_graph(two, &want);
    run_graph(one, &have);
    assert_memory_equal(want.output, have.output, graph_value_bytes(one->output));
    assert_memory_equal(want.input_grad, have.input_grad, graph_value_bytes(one->input));
    for (int p = 0; p < one->params; p++)
        assert_memory_equal(want.grad[p], have.grad[p], want.grad_bytes[p]);
    run_clear(&want);
    run_clear(&have);
}

// Results are equal, and so is what is saved. Under full recompute the layer runs again with its activation.
static void a_layer_and_its_activation_have_the_bits_of_two(void **state)
{
    (void)state;
    const dtype types[] = {F32, BF16, F16};
    for (int i = 0; i < 6 * RECOMPUTES; i++) {
        const graph_options o = {.mode = GRAPH_TRAIN,
                                 .needs = run_needs(),
                                 .type = types[i % 3],
                                 .batch = 2,
                                 .seq = ROWS / 2,
                                 .splits_backward = i % 6 > 2};
        const recompute_mode recompute = (recompute_mode)(i / 6);
        graph *two = open_mlp(true, &o, recompute), *one = open_mlp(false, &o, recompute);
        assert_int_equal(count_ops(&two->backward, OP_ACTIVATION_GRAD), 2);
        assert_int_equal(count_ops(&one->backward, OP_ACTIVATION_GRAD), 1); // of the tanh
        assert_int_equal(count_ops(&one->backward, OP_LINEAR_ACTIVATION),
                         recompute == RECOMPUTE_FULL);
        assert_int_equal(count_ops(&one->backward, OP_ACTIVATION), recompute != RECOMPUTE_FULL);
        assert_int_equal(one->bytes.saved, two->bytes.saved);
        assert_true(one->bytes.saved_for_wgrad <= two->bytes.saved_for_wgrad);
        assert_true(one->flops.forward == two->flops.forward);
        assert_true(one->flops.backward == two->flops.backward);
        assert_equal_runs(one, two);
        graph_close(one);
        graph_close(two);
    }
}

static void the_sums_are_written_where_something_reads_them(void **state)
{
    (void)state;
    graph_options o = {.mode = GRAPH_EVAL, .needs = run_needs(), .batch = 2, .seq = ROWS / 2};
    graph *g = open_mlp(false, &o, RECOMPUTE_NONE);
    assert_null(find_last(&g->forward, OP_LINEAR_ACTIVATION)->out[1]);
    graph_close(g);
    o.mode = GRAPH_TRAIN;
    g = open_mlp(false, &o, RECOMPUTE_FULL);
    assert_non_null(find_last(&g->forward, OP_LINEAR_ACTIVATION)->out[1]);
    graph_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dropout_and_its_sum_are_one_node),
        cmocka_unit_test(numbers_are_those_of_the_ops_that_a_family_wrote),
        cmocka_unit_test(one_node_has_the_bits_of_two),
        cmocka_unit_test(a_sum_and_its_norm_have_the_bits_of_two),
        cmocka_unit_test(a_layer_and_its_activation_have_the_bits_of_two),
        cmocka_unit_test(the_sums_are_written_where_something_reads_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
