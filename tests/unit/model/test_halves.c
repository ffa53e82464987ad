// test_halves.c -- the backward in two halves against the undivided one: bit for bit, whatever
// happens between the halves.
#include "rig.h"

static rig_options config_of(int i)
{
    rig_options o = i == 0 ? rig_gpt2() : rig_llama();
    if (i == 2) o.config.tie_embeddings = true;
    return o;
}

static void compare(rig_options o)
{
    rig_result undivided, halves;
    rig(&o, &undivided);
    for (int how = RIG_HALVES; how <= RIG_HALVES_DELAYED; how++) {
        o.backward = (rig_backward)how;
        rig(&o, &halves);
        if (!rig_same_bits(&undivided, &halves))
            fail_msg("%s, recompute %d, %s: differs by %.3g", family_name(o.config.family),
                     o.model.keep, how == RIG_HALVES ? "one block at a time" : "all blocks",
                     rig_worst(&undivided, &halves));
        rig_clear(&halves);
    }
    rig_clear(&undivided);
}

static void test_two_halves_give_the_bits_of_one_backward(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        for (int keep = 0; keep < RECOMPUTES; keep++) {
            rig_options o = config_of(i);
            o.model.keep = (graph_recompute)keep;
            compare(o);
            o.model.type = BF16;
            compare(o);
        }
}

static void test_halves_of_a_cut_graph_give_its_bits(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        for (int sequence = 0; sequence < 2; sequence++)
            for (int keep = 0; keep < RECOMPUTES; keep++) {
                rig_options o = config_of(i);
                o.ranks = 2, o.model.cut.sequence = sequence;
                o.model.keep = (graph_recompute)keep;
                compare(o);
            }
}

// The control of the tests above: what is held is read, and spoiling is seen.
static void test_what_is_held_is_needed(void **state)
{
    (void)state;
    rig_options o = rig_llama();
    rig_result undivided, halves;
    rig(&o, &undivided);
    o.backward = RIG_HALVES_DELAYED, o.spoil_held = true;
    rig(&o, &halves);
    assert_true(rig_worst(&undivided, &halves) > 1e-2);
    rig_clear(&undivided);
    rig_clear(&halves);
}

static bool gives_parameters_only(const graph_node *n)
{
    return n->op == OP_LINEAR_GRAD_WEIGHT || n->op == OP_EMBEDDING_GRAD;
}

static void test_the_first_half_gives_the_input_and_the_second_the_rest(void **state)
{
    (void)state;
    for (int keep = 0; keep < RECOMPUTES; keep++) {
        rig_options o = rig_llama();
        model *m;
        err e;
        o.model.keep = (graph_recompute)keep, o.model.halves = true;
        assert_int_equal(model_open(&llama_family, &o.config, &o.model, &m, &e), OK);
        assert_int_equal(m->block[0].g->dgrad_nodes, 0); // no input, no gradient of it
        const graph *g = m->block[1].g;
        assert_true(g->saved_for_wgrad_bytes > 0);
        assert_true(g->output_grad_saved && !g->input_grad_in_place);
        int weights = 0;
        for (int i = 0; i < g->backward.count; i++) {
            weights += gives_parameters_only(g->backward.node[i]);
            if (gives_parameters_only(g->backward.node[i])) assert_true(i >= g->dgrad_nodes);
        }
        assert_int_equal(weights, 4);
        for (int i = g->dgrad_nodes; i < g->backward.count; i++)
            assert_true(gives_parameters_only(g->backward.node[i]) ||
                        g->backward.node[i]->recomputed);
        model_close(m);
    }
}

static void test_an_undivided_graph_holds_nothing(void **state)
{
    (void)state;
    rig_options o = rig_llama();
    model *m;
    err e;
    assert_int_equal(model_open(&llama_family, &o.config, &o.model, &m, &e), OK);
    assert_int_equal(m->block[1].g->saved_for_wgrad_bytes, 0);
    assert_false(m->block[1].g->output_grad_saved);
    model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_halves_give_the_bits_of_one_backward),
        cmocka_unit_test(test_halves_of_a_cut_graph_give_its_bits),
        cmocka_unit_test(test_what_is_held_is_needed),
        cmocka_unit_test(test_the_first_half_gives_the_input_and_the_second_the_rest),
        cmocka_unit_test(test_an_undivided_graph_holds_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
