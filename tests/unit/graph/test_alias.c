// test_alias.c -- the gradient of an activation overwrites an input that no later node reads, so that
// the backward needs no further array.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/graph.h"

// A block with one activation, which saves nothing but its input. Another layer reads the gated one; the
// gradient of the other comes from a sum.
static graph *open_block(bool gated)
{
    const graph_options o = {.mode = GRAPH_TRAIN, .type = F32, .batch = 2, .seq = 6};
    graph *g = NULL;
    err e;
    assert_int_equal(graph_open(&o, &g, NULL), OK);
    graph_value *x = build_residual(g, 4);
    graph_value *up = build_weight(g, "up.{}", gated ? 16 : 4, 4, INIT_NORMAL, 0.02);
    graph_value *y = build_linear(g, x, up, NULL);
    if (gated) {
        graph_value *down = build_weight(g, "down.{}", 4, 8, INIT_NORMAL, 0.02);
        y = build_linear(g, build_glu(g, y, ACT_SILU), down, NULL);
    } else {
        y = build_activation(g, y, ACT_SILU);
    }
    build_output(g, build_add(g, x, y, 1, 2));
    if (graph_finish(g, RECOMPUTE_FULL, &e) != OK) fail_msg("%s", e.text);
    return g;
}

static const graph_node *find_backward(const graph *g, graph_op kind)
{
    for (int i = 0; i < g->backward.count; i++)
        if (g->backward.node[i]->op == kind) return g->backward.node[i];
    fail_msg("the backward list has no such op");
    return NULL;
}

static void test_the_gradient_of_a_gated_activation_overwrites_its_input(void **state)
{
    (void)state;
    graph *g = open_block(true);
    const graph_node *n = find_backward(g, OP_GLU_GRAD);
    assert_ptr_equal(n->out[0]->root, n->in[1]->root);
    assert_ptr_not_equal(n->out[0]->root, n->in[0]->root);
    graph_close(g);
}

static void test_the_gradient_of_an_activation_overwrites_the_output_gradient(void **state)
{
    (void)state;
    graph *g = open_block(false);
    const graph_node *n = find_backward(g, OP_ACTIVATION_GRAD);
    assert_ptr_equal(n->out[0]->root, n->in[0]->root);
    graph_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_gradient_of_a_gated_activation_overwrites_its_input),
        cmocka_unit_test(test_the_gradient_of_an_activation_overwrites_the_output_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
