// test_param_types.c -- a bf16 model of which some parameters are fp32: which graphs its blocks share,
// and that neither tensor parallelism, a split backward nor evaluation changes what it computes.
#include "rig.h"

// The tensors whose names contain one of two words are fp32; the others are bf16.
typedef struct fp32_words {
    const char *word[2];
} fp32_words;

static dtype type_of(const void *arg, const char *tensor)
{
    const fp32_words *f = arg;
    return (f->word[0] && strstr(tensor, f->word[0])) || (f->word[1] && strstr(tensor, f->word[1]))
               ? F32
               : BF16;
}

static rig_options with_types(rig_options o, const fp32_words *f)
{
    o.model.type = BF16;
    o.model.type_of = type_of, o.model.tensor_arg = f;
    return o;
}

static const fp32_words NORMS_AND_HEAD = {{"norm", "lm_head"}}, ATTENTION = {{"attn", "ln_"}},
                        BIASES = {{"bias"}}, ALL = {{""}}, NONE = {{NULL}};

static model *open_types(const rig_options *o)
{
    model *m;
    err e;
    if (model_open(o->config.family, &o->config, &o->model, &m, &e) != OK) fail_msg("%s", e.text);
    return m;
}

static void test_every_parameter_has_the_type_of_its_tensors(void **state)
{
    (void)state;
    const rig_options o = with_types(rig_llama(), &ATTENTION);
    model *m = open_types(&o);
    for (int p = 0; p < m->params; p++)
        assert_int_equal(m->param[p].type, type_of(&ATTENTION, m->param[p].name));
    assert_int_equal(m->graphs, 3);
    model_close(m);
    const fp32_words one_layer = {{"layers.1.", NULL}};
    const rig_options other = with_types(rig_llama(), &one_layer);
    m = open_types(&other);
    assert_int_equal(m->graphs, 4);
    model_close(m);
}

static void test_pieces_of_two_types_are_named(void **state)
{
    (void)state;
    const fp32_words f = {{"layers.1.self_attn.k_proj.weight", NULL}};
    const rig_options o = with_types(rig_llama(), &f);
    model *m;
    err e = {0};
    assert_int_equal(model_open(model_family_find("llama"), &o.config, &o.model, &m, &e), E_USAGE);
    assert_string_equal(e.text, "groups: model.layers.1.self_attn.q_proj.weight is bf16, "
                                "model.layers.1.self_attn.k_proj.weight is fp32, but they are one "
                                "parameter; valid: one precision for both");
}

static const fp32_words *const SETS[] = {&NORMS_AND_HEAD, &ATTENTION, &BIASES, &ALL};
enum { SET_COUNT = sizeof SETS / sizeof *SETS };

static void test_a_split_backward_gives_the_same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * SET_COUNT; i++)
        for (int recompute = 0; recompute < RECOMPUTES; recompute++) {
            rig_options o = with_types(i % 2 ? rig_gpt2() : rig_llama(), SETS[i / 2]);
            rig_result one_call, two_calls;
            o.model.recompute = (recompute_mode)recompute;
            rig(&o, &one_call);
            o.backward = RIG_WGRAD_DELAYED;
            rig(&o, &two_calls);
            assert_true(rig_same_bits(&one_call, &two_calls));
            rig_clear(&one_call);
            rig_clear(&two_calls);
        }
}

static void test_two_ranks_are_near_one(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * SET_COUNT; i++)
        for (int sequence = 0; sequence < 2; sequence++) {
            rig_options o = with_types(i % 2 ? rig_gpt2() : rig_llama(), SETS[i / 2]);
            rig_result one, two;
            rig(&o, &one);
            o.ranks = 2, o.model.position.sequence_parallel = sequence;
            rig(&o, &two);
            assert_true(fabs(one.loss - two.loss) <= 5e-3 * fabs(one.loss));
            for (int p = 0; p < one.params; p++)
                // Key biases have a true gradient of zero; what is left is rounding noise.
                if (rig_distance(&one, &two, p) > 5e-2 && !strstr(one.name[p], "qkv.bias"))
                    fail_msg("set %d: %s differs by %.3g", i, one.name[p],
                             rig_distance(&one, &two, p));
            rig_clear(&one);
            rig_clear(&two);
        }
}

// More fp32 parameters bring the loss and the gradients nearer to those of the fp32 model.
static void test_fp32_parameters_bring_the_gradients_nearer_to_fp32(void **state)
{
    (void)state;
    rig_options o = rig_llama(), low = with_types(o, &NONE), all = with_types(o, &ALL);
    rig_result want, far, near;
    rig(&o, &want);
    rig(&low, &far);
    rig(&all, &near);
    double sum_far = 0, sum_near = 0;
    for (int p = 0; p < want.params; p++) {
        sum_far += rig_distance(&want, &far, p);
        sum_near += rig_distance(&want, &near, p);
    }
    assert_true(sum_near < sum_far);
    rig_clear(&want);
    rig_clear(&far);
    rig_clear(&near);
}

static void test_evaluation_has_the_loss_of_training(void **state)
{
    (void)state;
    for (int i = 0; i < SET_COUNT; i++) {
        rig_options o = with_types(rig_llama(), SETS[i]);
        rig_result train, eval;
        o.config.dropout.attention = 0;
        rig(&o, &train);
        o.model.mode = GRAPH_EVAL;
        rig(&o, &eval);
        assert_true(train.loss == eval.loss);
        rig_clear(&train);
        rig_clear(&eval);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_parameter_has_the_type_of_its_tensors),
        cmocka_unit_test(test_pieces_of_two_types_are_named),
        cmocka_unit_test(test_a_split_backward_gives_the_same_bits),
        cmocka_unit_test(test_two_ranks_are_near_one),
        cmocka_unit_test(test_fp32_parameters_bring_the_gradients_nearer_to_fp32),
        cmocka_unit_test(test_evaluation_has_the_loss_of_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
