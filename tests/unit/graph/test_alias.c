// test_alias.c -- gradients of activations take over the memory of what they read last, so that
// backward needs no array more.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/graph.h"

// A block with one activation, of which nothing but the input is kept.
static graph *open_block(bool gated)
{
    const graph_options o = {.mode = GRAPH_TRAIN, .type = F32, .batch = 2, .seq = 6};
    graph *g = NULL;
    err e;
    assert_int_equal(graph_open(&o, &g, NULL), OK);
    graph_value *x = build_residual(g, 4);
    graph_value *up = build_weight(g, "up.{}", gated ? 16 : 8, 4, INIT_NORMAL, 0.02);
    graph_value *down = build_weight(g, "down.{}", 4, 8, INIT_NORMAL, 0.02);
    graph_value *y = build_linear(g, x, up, NULL);
    y = gated ? build_glu(g, y, ACT_SILU) : build_activation(g, y, ACT_SILU);
    build_output(g, build_add(g, x, build_linear(g, y, down, NULL), 1, 1));
    if (graph_finish(g, RECOMPUTE_FULL, &e) != OK) fail_msg("%s", e.text);
    return g;
}

static const graph_node *gradient_of(const graph *g, graph_op kind)
{
    for (int i = 0; i < g->backward.count; i++)
        if (g->backward.node[i]->op == kind) return g->backward.node[i];
    fail_msg("no such op in backward");
    return NULL;
}

static void test_the_gradient_of_a_gate_lies_where_its_input_was(void **state)
{
    (void)state;
    graph *g = open_block(true);
    const graph_node *n = gradient_of(g, OP_GLU_GRAD);
    assert_ptr_equal(n->out[0]->root, n->in[1]->root);
    assert_ptr_not_equal(n->out[0]->root, n->in[0]->root);
    graph_close(g);
}

static void test_the_gradient_of_an_activation_lies_where_that_of_its_output_was(void **state)
{
    (void)state;
    graph *g = open_block(false);
    const graph_node *n = gradient_of(g, OP_ACTIVATION_GRAD);
    assert_ptr_equal(n->out[0]->root, n->in[0]->root);
    graph_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_gradient_of_a_gate_lies_where_its_input_was),
        cmocka_unit_test(test_the_gradient_of_an_activation_lies_where_that_of_its_output_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
