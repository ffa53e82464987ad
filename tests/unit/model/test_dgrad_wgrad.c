// test_dgrad_wgrad.c -- a backward that runs as dgrad and wgrad has the bits of one that runs in one
// call, whatever memory changes between the two.
#include "rig.h"

enum { CONFIGS = 3 + RIG_FAMILIES };

static rig_options config_of(int i)
{
    if (i >= 3) return rig_family(i - 3);
    rig_options o = i == 0 ? rig_gpt2() : rig_llama();
    if (i == 2) o.config.tie_embeddings = true;
    return o;
}

static void compare(rig_options o)
{
    rig_result one_call, two_calls;
    rig(&o, &one_call);
    for (int how = RIG_DGRAD_WGRAD; how <= RIG_WGRAD_DELAYED; how++) {
        o.backward = (rig_backward)how;
        rig(&o, &two_calls);
        if (!rig_same_bits(&one_call, &two_calls))
            fail_msg("%s, recompute %d, %s: differs by %.3g", o.config.family->name,
                     o.model.recompute,
                     how == RIG_DGRAD_WGRAD ? "one block at a time" : "all blocks",
                     rig_worst(&one_call, &two_calls));
        rig_clear(&two_calls);
    }
    rig_clear(&one_call);
}

static void test_dgrad_and_wgrad_give_the_bits_of_backward(void **state)
{
    (void)state;
    for (int i = 0; i < CONFIGS; i++)
        for (int recompute = 0; recompute < RECOMPUTES; recompute++) {
            rig_options o = config_of(i);
            o.model.recompute = (recompute_mode)recompute;
            compare(o);
            o.model.type = BF16;
            compare(o);
        }
}

static void test_dgrad_and_wgrad_of_a_sharded_graph_give_its_bits(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        for (int sequence = 0; sequence < 2; sequence++)
            for (int recompute = 0; recompute < RECOMPUTES; recompute++) {
                rig_options o = config_of(i);
                o.ranks = 2, o.model.position.sequence_parallel = sequence;
                o.model.recompute = (recompute_mode)recompute;
                compare(o);
            }
}

// The negative control of the tests above.
static void test_wgrad_reads_what_is_saved_for_it(void **state)
{
    (void)state;
    rig_options o = rig_llama();
    rig_result one_call, two_calls;
    rig(&o, &one_call);
    o.backward = RIG_WGRAD_DELAYED, o.spoil_saved = true;
    rig(&o, &two_calls);
    assert_true(rig_worst(&one_call, &two_calls) > 1e-2);
    rig_clear(&one_call);
    rig_clear(&two_calls);
}

static bool is_param_grad(const graph_node *n)
{
    return n->op == OP_LINEAR_GRAD_WEIGHT || n->op == OP_EMBEDDING_GRAD;
}

static void test_wgrad_computes_gradients_of_parameters_only(void **state)
{
    (void)state;
    for (int recompute = 0; recompute < RECOMPUTES; recompute++) {
        rig_options o = rig_llama();
        model *m;
        err e;
        o.model.recompute = (recompute_mode)recompute, o.model.splits_backward = true;
        assert_int_equal(model_open(model_family_find("llama"), &o.config, &o.model, &m, &e), OK);
        assert_int_equal(m->block[0].g->split.dgrad_nodes,
                         0); // the first block has no input gradient
        const graph *g = m->block[1].g;
        assert_true(g->bytes.saved_for_wgrad > 0);
        assert_true(g->split.saves_output_grad && !g->input_grad.in_place);
        int weights = 0;
        for (int i = 0; i < g->backward.count; i++) {
            weights += is_param_grad(g->backward.node[i]);
            if (is_param_grad(g->backward.node[i])) assert_true(i >= g->split.dgrad_nodes);
        }
        assert_int_equal(weights, 4);
        for (int i = g->split.dgrad_nodes; i < g->backward.count; i++)
            assert_true(is_param_grad(g->backward.node[i]) || g->backward.node[i]->recomputed);
        model_close(m);
    }
}

static void test_a_graph_that_is_not_split_saves_nothing_for_wgrad(void **state)
{
    (void)state;
    rig_options o = rig_llama();
    model *m;
    err e;
    assert_int_equal(model_open(model_family_find("llama"), &o.config, &o.model, &m, &e), OK);
    assert_int_equal(m->block[1].g->bytes.saved_for_wgrad, 0);
    assert_false(m->block[1].g->split.saves_output_grad);
    model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dgrad_and_wgrad_give_the_bits_of_backward),
        cmocka_unit_test(test_dgrad_and_wgrad_of_a_sharded_graph_give_its_bits),
        cmocka_unit_test(test_wgrad_reads_what_is_saved_for_it),
        cmocka_unit_test(test_wgrad_computes_gradients_of_parameters_only),
        cmocka_unit_test(test_a_graph_that_is_not_split_saves_nothing_for_wgrad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
