// test_build.c -- the graphs that the build functions make under tensor parallelism and with a split
// backward, and the misuse that they refuse. The graphs are such as no family of Trireme has.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/graph.h"

#include <string.h>

static graph *open_graph(int ranks, bool sequence, bool splits_backward)
{
    const graph_options o = {.mode = GRAPH_TRAIN,
                             .type = F32,
                             .batch = 2,
                             .seq = 6,
                             .position.mesh.size[AXIS_TP] = ranks,
                             .position.coord[AXIS_TP] = ranks - 1,
                             .position.sequence_parallel = sequence,
                             .splits_backward = splits_backward};
    graph *g = NULL;
    assert_int_equal(graph_open(&o, &g, NULL), OK);
    return g;
}

static graph_value *weight(graph *g, int64_t out, int64_t in, graph_role rows, graph_role cols)
{
    graph_value *w = build_weight(g, "w.{}", out, in, INIT_NORMAL, 0.02);
    build_roles(g, w, rows, cols);
    return w;
}

static void finish(graph *g)
{
    err e;
    if (graph_finish(g, RECOMPUTE_NONE, &e) != OK) fail_msg("%s", e.text);
}

static void refused(graph *g, const char *line)
{
    err e = {0};
    assert_int_equal(graph_finish(g, RECOMPUTE_NONE, &e), E_USAGE);
    assert_string_equal(e.text, line);
    graph_close(g);
}

static int count_of(const graph_node_list *l, graph_op kind)
{
    int count = 0;
    for (int i = 0; i < l->count; i++) count += l->node[i]->op == kind;
    return count;
}

static graph_value *two_branches(graph *g, graph_value *x)
{
    graph_value *a = build_linear(g, x, weight(g, 8, 4, ROLE_MLP, ROLE_EMBED), NULL);
    graph_value *b = build_linear(g, x, weight(g, 8, 4, ROLE_MLP, ROLE_EMBED), NULL);
    graph_value *y = build_add(g, build_activation(g, a, ACT_SILU), b, 1, 1);
    return build_linear(g, y, weight(g, 4, 8, ROLE_EMBED, ROLE_MLP), NULL);
}

static void test_two_branches_share_one_copy_to_tp(void **state)
{
    (void)state;
    for (int sequence = 0; sequence < 2; sequence++) {
        graph *g = open_graph(2, sequence, false);
        graph_value *x = build_residual(g, 4);
        build_output(g, build_add(g, x, two_branches(g, x), 1, 1));
        finish(g);
        assert_int_equal(graph_value_rows(g->input), sequence ? 6 : 12);
        assert_int_equal(count_of(&g->forward, OP_COPY_TO_TP), !sequence);
        assert_int_equal(count_of(&g->forward, OP_REDUCE_FROM_TP), !sequence);
        assert_int_equal(count_of(&g->forward, OP_GATHER_FROM_SP), sequence);
        assert_int_equal(count_of(&g->forward, OP_SCATTER_TO_SP), sequence);
        assert_int_equal(count_of(&g->backward, OP_REDUCE_FROM_TP), !sequence);
        assert_int_equal(count_of(&g->backward, OP_SCATTER_TO_SP), sequence);
        graph_close(g);
    }
}

static void test_copy_to_tp_and_reduce_from_tp_work_in_place(void **state)
{
    (void)state;
    graph *g = open_graph(2, false, false);
    graph_value *x = build_residual(g, 4);
    build_output(g, build_add(g, x, two_branches(g, x), 1, 1));
    finish(g);
    for (int i = 0; i < g->forward.count; i++) {
        const graph_node *n = g->forward.node[i];
        if (n->op == OP_COPY_TO_TP) assert_ptr_equal(n->out[0]->root, n->in[0]->root);
        if (n->op == OP_REDUCE_FROM_TP) assert_ptr_equal(n->out[0]->root, n->in[0]->root);
    }
    graph_close(g);
}

static void test_an_unsharded_graph_has_no_collectives(void **state)
{
    (void)state;
    graph *g = open_graph(1, true, false);
    graph_value *x = build_residual(g, 4);
    build_output(g, build_add(g, x, two_branches(g, x), 1, 1));
    finish(g);
    assert_int_equal(graph_value_rows(g->input), 12);
    for (int i = 0; i < g->forward.count; i++) assert_true(g->forward.node[i]->number == i);
    assert_int_equal(
        count_of(&g->forward, OP_COPY_TO_TP) + count_of(&g->forward, OP_GATHER_FROM_SP), 0);
    assert_int_equal(
        count_of(&g->backward, OP_REDUCE_FROM_TP) + count_of(&g->backward, OP_SCATTER_TO_SP), 0);
    graph_close(g);
}

static void test_a_replicated_weight_on_sharded_rows_has_partial_gradients(void **state)
{
    (void)state;
    for (int sequence = 0; sequence < 2; sequence++) {
        graph *g = open_graph(2, sequence, false);
        graph_value *x = build_residual(g, 4);
        graph_value *h = build_linear(g, x, weight(g, 4, 4, ROLE_NONE, ROLE_EMBED), NULL);
        build_output(g, build_add(g, x, two_branches(g, h), 1, 1));
        finish(g);
        const mesh_axes tp = MESH_AXIS(AXIS_TP);
        assert_int_equal(g->param[0].grad_partial, sequence ? tp : 0);
        assert_int_equal(g->param[0].grad_full & tp, sequence ? 0 : tp);
        const mesh_axes over[][2] = {{0, 0}, {tp, 0}, {0, 0}, {0, tp}};
        for (int p = 0; p < 4; p++)
            for (int dim = 0; dim < 2 && p != 2; dim++)
                assert_int_equal(graph_param_sharding(&g->position.mesh, &g->param[p], dim),
                                 over[p][dim]);
        graph_close(g);
    }
}

// Here the output gradient is also the input gradient, and wgrad reads it for a weight. So dgrad
// copies it.
static void test_wgrad_does_not_read_the_input_gradient(void **state)
{
    (void)state;
    graph *g = open_graph(1, false, true);
    graph_value *x = build_residual(g, 4), *f = build_features(g, 8);
    graph_value *h = build_linear(g, f, weight(g, 4, 8, ROLE_NONE, ROLE_NONE), NULL);
    build_output(g, build_add(g, x, h, 1, 1));
    finish(g);
    assert_int_equal(g->split.dgrad_nodes, 1);
    assert_int_equal(g->backward.node[0]->op, OP_ADD);
    assert_int_equal(g->backward.node[1]->op, OP_LINEAR_GRAD_WEIGHT);
    assert_true(g->split.saves_output_grad && !g->input_grad.in_place);
    assert_int_equal(g->input->grad->region, REGION_INPUT_GRAD);
    graph_close(g);
}

// The loss computes the gradient in the forward. It must last until the backward of the block before.
static void test_an_input_gradient_computed_by_the_loss_is_saved(void **state)
{
    (void)state;
    graph *g = open_graph(1, false, false);
    graph_value *x = build_residual(g, 4);
    build_linear_cross_entropy(g, x, weight(g, 8, 4, ROLE_NONE, ROLE_NONE), NULL, 1, 0);
    finish(g);
    assert_int_equal(g->input->grad->region, REGION_SAVED);
    assert_true(g->bytes.saved >= 12 * 4 * sizeof(float));
    graph_close(g);
}

static void test_sharded_values_are_refused_where_full_ones_are_needed(void **state)
{
    (void)state;
    graph *g = open_graph(2, false, false);
    graph_value *x = build_residual(g, 4);
    graph_value *h = build_linear(g, x, weight(g, 8, 4, ROLE_MLP, ROLE_EMBED), NULL);
    build_output(g, h);
    refused(
        g,
        "model graph: the output of a block must have been reduced over the tensor-parallel ranks");

    g = open_graph(2, false, false);
    h = build_linear(g, build_residual(g, 4), weight(g, 8, 4, ROLE_MLP, ROLE_EMBED), NULL);
    build_dropout(g, h, 0.1);
    refused(g, "model graph: dropout: the columns of x are sharded over the tensor-parallel ranks");

    g = open_graph(2, false, false);
    h = build_linear(g, build_residual(g, 4), weight(g, 8, 4, ROLE_MLP, ROLE_EMBED), NULL);
    build_norm(g, h, build_weight(g, "gain", 4, 0, INIT_ONES, 0), NULL,
               &(graph_norm){.is_rms = true});
    refused(g, "model graph: norm: the columns of x are sharded over the tensor-parallel ranks");

    g = open_graph(2, false, false);
    h = build_linear(g, build_residual(g, 4), weight(g, 8, 4, ROLE_MLP, ROLE_EMBED), NULL);
    build_linear(g, h, weight(g, 4, 4, ROLE_NONE, ROLE_NONE), NULL);
    refused(g, "model graph: linear: the columns of x are sharded over the tensor-parallel ranks, "
               "those of the weight are not");

    g = open_graph(2, false, false);
    weight(g, 8, 8, ROLE_MLP, ROLE_HEADS);
    refused(g,
            "model graph: w.{}: both dimensions would be sharded over the tensor-parallel ranks");

    g = open_graph(2, true, false);
    build_attention(g, build_input(g, 12), &(graph_attention){1, 1, 4, .scale = 1});
    refused(g,
            "model graph: attention: the rows of qkv are sharded over the tensor-parallel ranks");
}

static void test_sharded_gate_and_up_must_come_from_one_layer(void **state)
{
    (void)state;
    graph *g = open_graph(2, false, false);
    graph_value *h =
        build_linear(g, build_residual(g, 4), weight(g, 8, 4, ROLE_MLP, ROLE_EMBED), NULL);
    build_glu(g, build_activation(g, h, ACT_SILU), ACT_SILU);
    refused(g,
            "model graph: glu: gate and up must come from one linear layer where they are sharded");
}

static graph_attention sinks_of(graph *g, int64_t count)
{
    return (graph_attention){
        .heads = 2,
        .kv_heads = 1,
        .head_dim = 4,
        .scale = 1,
        .sinks = build_weight(g, "sinks", count, 0, INIT_NORMAL, 1),
    };
}

static void test_a_window_cap_and_sinks_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    graph *g = open_graph(1, false, false);
    graph_attention a = sinks_of(g, 3);
    build_attention(g, build_input(g, 16), &a);
    refused(g, "model graph: attention: 2 heads, 3 sinks");

    g = open_graph(1, false, false);
    a = sinks_of(g, 2);
    a.sinks = build_input(g, 16);
    build_attention(g, a.sinks, &a);
    refused(g, "model graph: attention: sinks must be a parameter");

    g = open_graph(1, false, false);
    a = sinks_of(g, 2);
    a.window = -1;
    build_attention(g, build_input(g, 16), &a);
    refused(g, "model graph: attention: a window of -1 and a cap of 0; valid: 0 or more");
}

static double window_flops(int64_t window)
{
    graph *g = open_graph(1, false, false);
    graph_attention a = {.heads = 2, .kv_heads = 1, .head_dim = 4, .scale = 1, .window = window};
    build_output(g, build_attention(g, build_input(g, 16), &a));
    finish(g);
    const double flops = g->flops.forward;
    graph_close(g);
    return flops;
}

// 6 tokens: 21 pairs of a query and a key that it sees, and 11 with a window of 2. Both products have 4 columns
// of 2 heads, and there are 2 sequences.
static void test_a_window_leaves_the_flops_of_what_it_shows(void **state)
{
    (void)state;
    const double of_a_pair = 2 * 2 * 2 * 4 * 2;
    assert_true(window_flops(0) == 21 * of_a_pair);
    assert_true(window_flops(2) == 11 * of_a_pair);
    assert_true(window_flops(1) == 6 * of_a_pair);
    assert_true(window_flops(6) == 21 * of_a_pair);
    assert_true(window_flops(1000) == 21 * of_a_pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_branches_share_one_copy_to_tp),
        cmocka_unit_test(test_copy_to_tp_and_reduce_from_tp_work_in_place),
        cmocka_unit_test(test_an_unsharded_graph_has_no_collectives),
        cmocka_unit_test(test_a_replicated_weight_on_sharded_rows_has_partial_gradients),
        cmocka_unit_test(test_wgrad_does_not_read_the_input_gradient),
        cmocka_unit_test(test_an_input_gradient_computed_by_the_loss_is_saved),
        cmocka_unit_test(test_sharded_values_are_refused_where_full_ones_are_needed),
        cmocka_unit_test(test_sharded_gate_and_up_must_come_from_one_layer),
        cmocka_unit_test(test_a_window_cap_and_sinks_that_do_not_fit_are_refused),
        cmocka_unit_test(test_a_window_leaves_the_flops_of_what_it_shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
