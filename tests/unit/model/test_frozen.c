// test_frozen.c -- a model with frozen parameters: the other parameters get the bits of a model that
// freezes none, blocks share graphs where they freeze the same, and blocks below the first that trains
// have no backward.
#include "rig.h"

// Which tensors are frozen: those whose name contains a word of `words`, and all tensors of the first
// `layers` layers.
typedef struct frozen_set {
    const char *words[9]; // ends with NULL
    int layers;
} frozen_set;

static int layer_of(const char *tensor)
{
    const char *dot = strpbrk(tensor, "0123456789");
    return dot && dot > tensor && dot[-1] == '.' ? atoi(dot) : INT32_MAX;
}

static bool is_frozen(const void *arg, const char *tensor)
{
    const frozen_set *f = arg;
    for (int i = 0; f->words[i]; i++)
        if (strstr(tensor, f->words[i])) return true;
    return layer_of(tensor) < f->layers;
}

static void freeze(rig_options *o, const frozen_set *f)
{
    o->model.is_frozen = is_frozen, o->model.tensor_arg = f;
}

static model *open_frozen(rig_options o, const frozen_set *f)
{
    model *m;
    err e;
    freeze(&o, f);
    if (model_open(o.config.family, &o.config, &o.model, &m, &e) != OK) fail_msg("%s", e.text);
    return m;
}

static rig_options config_of(int i)
{
    rig_options o = i == 0 ? rig_gpt2() : rig_llama();
    if (i == 2) o.config.tie_embeddings = true;
    return o;
}

// Bit i of `mask` freezes part i of every layer, or the tables of tokens and positions.
static frozen_set frozen_parts(unsigned mask)
{
    static const char *const parts[][2] = {
        {"attn", NULL}, {"mlp", NULL}, {"norm.weight", "ln_"}, {"bias", NULL}, {"embed", "wte"}};
    frozen_set f = {.layers = 0};
    int count = 0;
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 2 && mask >> i & 1; k++)
            if (parts[i][k]) f.words[count++] = parts[i][k];
    if (mask >> 4 & 1) f.words[count++] = "wpe";
    return f;
}
enum { FROZEN_BIASES = 8, FROZEN_PARTS = 32 };

// ---- Bits

static void check_same(const rig_result *all, const rig_result *some, const char *what)
{
    int trained = 0;
    assert_true(all->loss == some->loss);
    assert_int_equal(all->params, some->params);
    for (int p = 0; p < all->params; p++) {
        const size_t bytes = (size_t)all->size[p] * sizeof(float);
        trained += !some->frozen[p];
        if (!some->frozen[p] && memcmp(all->grad[p], some->grad[p], bytes) != 0)
            fail_msg("%s: the gradient of %s differs by %.3g", what, all->name[p],
                     rig_distance(all, some, p));
        for (int64_t i = 0; i < all->size[p] && some->frozen[p]; i++)
            if (some->grad[p][i] != 0) fail_msg("%s: %s has a gradient", what, all->name[p]);
    }
    assert_true(trained > 0);
}

static void compare(rig_options o, const rig_result *all, const frozen_set *f, unsigned mask)
{
    static const rig_backward ways[] = {RIG_ONE_CALL, RIG_WGRAD_DELAYED};
    for (int i = 0; i < 2; i++) {
        char what[128];
        rig_result some;
        o.backward = ways[i];
        snprintf(what, sizeof what, "%s, %d ranks%s, recompute %d, frozen %x, backward %d",
                 o.config.family->name, o.ranks,
                 o.model.position.sequence_parallel ? ", sequence" : "", o.model.recompute, mask,
                 i);
        freeze(&o, f);
        rig(&o, &some);
        check_same(all, &some, what);
        rig_clear(&some);
    }
}

static void compare_all_parts(rig_options o)
{
    rig_result all;
    rig(&o, &all);
    for (unsigned mask = 1; mask < FROZEN_PARTS; mask++) {
        const frozen_set f = frozen_parts(mask);
        // Where the head is tied, all parts together leave nothing to train. Every bias belongs to a
        // layer or a norm.
        if ((mask | FROZEN_BIASES) == FROZEN_PARTS - 1 && o.config.tie_embeddings) continue;
        compare(o, &all, &f, mask);
    }
    const frozen_set half = {.words = {"embed", "wte", "wpe"}, .layers = 1};
    compare(o, &all, &half, FROZEN_PARTS);
    rig_clear(&all);
}

static void test_trained_parameters_get_the_bits_of_a_model_that_freezes_none(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        for (int recompute = 0; recompute < RECOMPUTES; recompute++) {
            rig_options o = config_of(i);
            o.model.recompute = (recompute_mode)recompute;
            compare_all_parts(o);
            o.model.type = BF16;
            if (recompute == RECOMPUTE_NONE) compare_all_parts(o);
        }
}

static void test_trained_parameters_of_a_sharded_model_get_its_bits(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        for (int recompute = 0; recompute < RECOMPUTES; recompute++)
            for (int sequence = 0; sequence < 2; sequence++) {
                rig_options o = config_of(i);
                o.model.recompute = (recompute_mode)recompute;
                o.ranks = 2, o.model.position.sequence_parallel = sequence;
                compare_all_parts(o);
            }
}

// ---- Graphs that blocks share

static rig_options four_layers(void)
{
    rig_options o = rig_llama();
    o.config.layers = 4;
    return o;
}

static void test_blocks_share_a_graph_where_they_freeze_the_same(void **state)
{
    (void)state;
    // Block 0 is the embedding, blocks 1 … 4 are the layers, block 5 is the head.
    model *m = open_frozen(four_layers(), &(frozen_set){.layers = 0});
    assert_int_equal(m->graphs, 3);
    assert_int_equal(m->first_backward, 0);
    model_close(m);

    // Two layers without a backward, one without an input gradient, and one with.
    m = open_frozen(four_layers(), &(frozen_set){.words = {"embed", "norm"}, .layers = 2});
    assert_int_equal(m->graphs, 5);
    assert_int_equal(m->first_backward, 3);
    assert_ptr_equal(m->block[1].g, m->block[2].g);
    assert_ptr_not_equal(m->block[3].g, m->block[4].g);
    for (int b = 0; b < m->blocks; b++) {
        const graph *g = m->block[b].g;
        assert_int_equal(graph_has_backward(g), b >= 3);
        assert_int_equal(g->input_grad.unused, b <= 3);
        // The head computes its products in the forward.
        assert_int_equal(g->flops.backward > 0, b == 3 || b == 4);
        if (b < 3) assert_int_equal(g->bytes.saved, 0);
    }
    // Block 3 has no dgrad of queries, keys and values, because its first norm is frozen.
    const double dgrad = 2.0 * 40 * 16 * 48;
    assert_true(model_block_flops(m, 3) == model_block_flops(m, 4) - dgrad);
    model_close(m);

    // The embedding trains, so the frozen layers hand the gradient on.
    m = open_frozen(four_layers(), &(frozen_set){.layers = 2});
    assert_int_equal(m->graphs, 4);
    assert_int_equal(m->first_backward, 0);
    assert_ptr_equal(m->block[1].g, m->block[2].g);
    assert_ptr_equal(m->block[3].g, m->block[4].g);
    assert_true(graph_has_backward(m->block[1].g));
    model_close(m);
}

static void test_a_tied_weight_trains_at_both_uses(void **state)
{
    (void)state;
    rig_options o = four_layers();
    o.config.tie_embeddings = true;
    // Only the tied table trains: the backward runs through every layer.
    model *m = open_frozen(o, &(frozen_set){.words = {"layernorm", "norm."}, .layers = 4});
    assert_int_equal(m->first_backward, 0);
    assert_int_equal(m->graphs, 3);
    model_close(m);
    // All but the last norm: nothing below the head has a backward.
    m = open_frozen(o, &(frozen_set){.words = {"embed"}, .layers = 4});
    assert_int_equal(m->first_backward, 5);
    for (int b = 0; b < 5; b++) assert_false(graph_has_backward(m->block[b].g));
    model_close(m);
}

// A dense layer multiplies three times in training: forward, dgrad and wgrad. The attention's FLOPs
// have no parameters.
static void test_flops_leave_out_what_is_frozen(void **state)
{
    (void)state;
    const frozen_set none = {.layers = 0}, linears = {.words = {"proj"}}, mlp = {.words = {"mlp."}};
    const rig_options o = rig_llama();
    const double rows = 40, mlp_product = 2 * rows * 16 * 22 * 3;
    const double attention_product = 2 * rows * (16 * 8 * 6 + 4 * 6 * 16);
    model *all = open_frozen(o, &none), *no_linears = open_frozen(o, &linears),
          *no_mlp = open_frozen(o, &mlp);
    const double want = model_block_flops(all, 1);
    assert_true(model_block_flops(no_mlp, 1) == want - mlp_product);
    assert_true(model_block_flops(no_linears, 1) == want - mlp_product - attention_product);
    assert_true(model_block_flops(no_mlp, 0) == model_block_flops(all, 0));
    model_close(all);
    model_close(no_linears);
    model_close(no_mlp);
}

// ---- What a model says of its parameters

static void test_frozen_parameters_are_known_and_not_called_unused(void **state)
{
    (void)state;
    const frozen_set f = {.words = {"wte", "ln_1.bias"}};
    model *m = open_frozen(rig_gpt2(), &f);
    text names = {0};
    for (int p = 0; p < m->params; p++)
        assert_int_equal(m->param[p].frozen, is_frozen(&f, m->param[p].name));
    assert_int_equal(model_unused_params(m, &names), 0);
    text_clear(&names);
    model_close(m);
    // Under sequence parallelism the ranks would have to sum the gradient of a norm.
    rig_options o = rig_gpt2();
    o.model.position.mesh.size[AXIS_TP] = 2, o.model.position.sequence_parallel = true;
    m = open_frozen(o, &f);
    for (int p = 0; p < m->params; p++)
        if (strstr(m->param[p].name, "ln_1"))
            assert_int_equal(m->param[p].partial, m->param[p].frozen ? 0 : MESH_AXIS(AXIS_TP));
    model_close(m);
}

static void test_evaluation_and_decoding_ignore_what_is_frozen(void **state)
{
    (void)state;
    for (int mode = GRAPH_EVAL; mode <= GRAPH_DECODE; mode++) {
        rig_options o = four_layers();
        o.model.mode = (graph_mode)mode;
        if (mode == GRAPH_DECODE) o.model.batch = 1, o.model.seq = 1;
        model *m = open_frozen(o, &(frozen_set){.words = {""}});
        assert_int_equal(m->graphs, 3);
        for (int p = 0; p < m->params; p++) assert_false(m->param[p].frozen);
        model_close(m);
    }
}

static void refused(rig_options o, const frozen_set *f, const char *line)
{
    model *m;
    err e = {0};
    freeze(&o, f);
    assert_int_equal(model_open(o.config.family, &o.config, &o.model, &m, &e), E_USAGE);
    assert_string_equal(e.text, line);
}

static void test_pieces_that_disagree_are_named(void **state)
{
    (void)state;
    refused(rig_llama(), &(frozen_set){.words = {"layers.1.self_attn.q_proj.weight"}},
            "groups: model.layers.1.self_attn.q_proj.weight is frozen, "
            "model.layers.1.self_attn.k_proj.weight is not, but they are one parameter; valid: "
            "both frozen, or neither");
    refused(rig_llama(), &(frozen_set){.words = {"up_proj.bias"}},
            "groups: model.layers.0.mlp.up_proj.bias is frozen, model.layers.0.mlp.gate_proj.bias "
            "is not, but they are one parameter; valid: both frozen, or neither");
}

static void test_a_model_with_nothing_to_train_is_refused(void **state)
{
    (void)state;
    refused(rig_gpt2(), &(frozen_set){.words = {""}},
            "groups: every parameter is frozen; valid: at least one that is not");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trained_parameters_get_the_bits_of_a_model_that_freezes_none),
        cmocka_unit_test(test_trained_parameters_of_a_sharded_model_get_its_bits),
        cmocka_unit_test(test_blocks_share_a_graph_where_they_freeze_the_same),
        cmocka_unit_test(test_a_tied_weight_trains_at_both_uses),
        cmocka_unit_test(test_flops_leave_out_what_is_frozen),
        cmocka_unit_test(test_frozen_parameters_are_known_and_not_called_unused),
        cmocka_unit_test(test_evaluation_and_decoding_ignore_what_is_frozen),
        cmocka_unit_test(test_pieces_that_disagree_are_named),
        cmocka_unit_test(test_a_model_with_nothing_to_train_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
