// test_context_parallel.c -- the loss of models under context parallelism, and every gradient summed
// over its ranks, equal those of one rank.
#include "rig.h"
#include "unit/graph_sent.h"

// The models of the rig, and the windows below.
enum { WINDOWED = 2 + RIG_FAMILIES, CONFIGS, SEQ = 16, WINDOWS = 2 };

// A family whose attention has windows: one that reaches the chunk before a token's, and one that reaches two. On four
// ranks, they reach two and four.
static int windows_blocks(const void *config)
{
    (void)config;
    return 2 + WINDOWS;
}

static int windows_key(const void *config, int block)
{
    (void)config;
    return block;
}

static void windows_trace(graph *g, const void *config, int block)
{
    static const int64_t window[WINDOWS] = {4, 7};
    (void)config;
    if (block == 0) {
        graph_value *table = build_weight(g, "tokens", 37, 16, INIT_NORMAL, 1);
        build_roles(g, table, ROLE_VOCAB, ROLE_EMBED);
        build_output(g, build_embedding(g, build_ids(g), table, NULL, 1));
        return;
    }
    graph_value *x = build_residual(g, 16);
    if (block == 1 + WINDOWS) {
        graph_value *w = build_weight(g, "head", 37, 16, INIT_NORMAL, 1);
        build_roles(g, w, ROLE_VOCAB, ROLE_EMBED);
        build_linear_cross_entropy(g, x, w, NULL, 1, 0);
        return;
    }
    graph_value *w = build_weight(g, block == 1 ? "qkv 1" : "qkv 2", 8 * 4, 16, INIT_NORMAL, 1);
    graph_value *o = build_weight(g, block == 1 ? "o 1" : "o 2", 16, 16, INIT_NORMAL, 1);
    graph_value *sinks = build_weight(g, block == 1 ? "sinks 1" : "sinks 2", 4, 0, INIT_NORMAL, 1);
    build_roles(g, w, ROLE_HEADS, ROLE_EMBED);
    build_roles(g, o, ROLE_EMBED, ROLE_HEADS);
    build_roles(g, sinks, ROLE_HEADS, ROLE_NONE);
    graph_value *h = build_attention(g, build_linear(g, x, w, NULL),
                                     &(graph_attention){.heads = 4,
                                                        .kv_heads = 2,
                                                        .head_dim = 4,
                                                        .scale = 2,
                                                        .dropout = 0.2,
                                                        .window = window[block - 1],
                                                        .softcap = 1.5,
                                                        .sinks = sinks});
    build_output(g, build_add(g, x, build_linear(g, h, o, NULL), 1, 1));
}

static const model_family windows_family = {.name = "windows",
                                            .blocks = windows_blocks,
                                            .key = windows_key,
                                            .trace = windows_trace,
                                            .layer = windows_key};

static rig_options config_of(int i)
{
    // llama: shared key-value heads
    rig_options o = i == 0 ? rig_gpt2() : i == 1 || i == WINDOWED ? rig_llama() : rig_family(i - 2);
    o.config.max_seq = SEQ;
    if (i == WINDOWED) {
        o.config.family = &windows_family;
        o.config.vocab = 37;
    } else {
        rig_finish(&o);
    }
    o.model.batch = 3, o.model.seq = SEQ;
    return o;
}

static void check_equal(const char *what, const rig_result *one, const rig_result *cp,
                        double tolerance)
{
    if (!(fabs(one->loss - cp->loss) <= tolerance * fabs(one->loss)))
        fail_msg("%s: loss %.9g, one rank %.9g", what, cp->loss, one->loss);
    assert_true(one->count == cp->count);
    for (int p = 0; p < one->params; p++) {
        double d = rig_distance(one, cp, p);
        // The summands of the gradient of one number cancel each other out.
        if (strstr(one->name[p], "act_fn")) d /= 10;
        // Key biases have a true gradient of zero; what is left is rounding noise.
        if (!(d <= tolerance) && !strstr(one->name[p], "qkv.bias"))
            fail_msg("%s: %s differs by %.3g", what, one->name[p], d);
    }
}

static void compare(rig_options o, int cp, int tp, double tolerance)
{
    char what[96];
    rig_result one, many;
    const bool sequence = o.model.position.sequence_parallel;
    const rig_backward backward = o.backward;
    o.model.position.sequence_parallel = false, o.backward = RIG_ONE_CALL;
    rig(&o, &one);
    o.model.position.sequence_parallel = sequence, o.backward = backward, o.ranks = tp, o.cp = cp;
    snprintf(what, sizeof what, "%s, cp %d, tp %d%s, recompute %d, backward %d",
             o.config.family->name, cp, tp, sequence ? ", sequence" : "", o.model.recompute,
             o.backward);
    rig(&o, &many);
    check_equal(what, &one, &many, tolerance);
    rig_clear(&one);
    rig_clear(&many);
}

static void test_two_ranks_equal_one(void **state)
{
    (void)state;
    for (int i = 0; i < CONFIGS; i++)
        for (int recompute = 0; recompute < RECOMPUTES; recompute++) {
            rig_options o = config_of(i);
            o.model.recompute = (recompute_mode)recompute;
            compare(o, 2, 1, 1e-5);
        }
}

static void test_four_ranks_equal_one(void **state)
{
    (void)state;
    for (int i = 0; i < CONFIGS; i++) compare(config_of(i), 4, 1, 1e-5);
}

static void test_tensor_parallel_ranks_equal_one(void **state)
{
    (void)state;
    for (int i = 0; i < CONFIGS; i++)
        for (int sequence = 0; sequence < 2; sequence++)
            for (int recompute = 0; recompute < RECOMPUTES; recompute++) {
                rig_options o = config_of(i);
                o.model.position.sequence_parallel = sequence;
                o.model.recompute = (recompute_mode)recompute;
                compare(o, 2, 2, 1e-5);
            }
}

static void test_a_split_backward_equals_one_rank(void **state)
{
    (void)state;
    for (int i = 0; i < CONFIGS; i++)
        for (int way = RIG_DGRAD_WGRAD; way <= RIG_WGRAD_DELAYED; way++) {
            rig_options o = config_of(i);
            o.backward = (rig_backward)way;
            compare(o, 2, 1, 1e-5);
        }
}

static void test_16_bit_types_are_near(void **state)
{
    (void)state;
    for (int i = 0; i < CONFIGS; i++) {
        rig_options o = config_of(i);
        o.model.type = BF16;
        compare(o, 2, 1, 5e-2);
        o.model.type = F16;
        compare(o, 4, 1, 1e-2);
    }
}

static void test_evaluation_has_the_same_loss(void **state)
{
    (void)state;
    for (int i = 0; i < CONFIGS; i++) {
        rig_options o = config_of(i);
        o.model.mode = GRAPH_EVAL;
        compare(o, 2, 1, 1e-6);
        compare(o, 2, 2, 1e-6);
    }
}

// The negative control: other dropout masks, or the tokens of another rank, give other gradients.
static void test_other_masks_and_other_tokens_differ(void **state)
{
    (void)state;
    rig_options o = config_of(0);
    rig_result one, many;
    rig(&o, &one);
    o.cp = 2, o.seed = 12;
    rig(&o, &many);
    assert_true(rig_worst(&one, &many) > 1e-2);
    rig_clear(&many);
    o.seed = 11, o.take_other_tokens = true;
    rig(&o, &many);
    assert_true(rig_worst(&one, &many) > 1e-2);
    rig_clear(&many);
    rig_clear(&one);
    o = config_of(2);
    rig(&o, &one);
    o.cp = 2, o.take_other_tokens = true;
    rig(&o, &many);
    assert_true(rig_worst(&one, &many) > 1e-2);
    rig_clear(&many);
    rig_clear(&one);
}

static model *open_rank(rig_options o, int ranks, int rank)
{
    model *m;
    err e;
    o.model.position.mesh.size[AXIS_CP] = ranks, o.model.position.coord[AXIS_CP] = rank;
    if (model_open(o.config.family, &o.config, &o.model, &m, &e) != OK) fail_msg("%s", e.text);
    return m;
}

static void test_every_token_has_one_rank_and_early_ones_are_paired_with_late_ones(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++) {
        int owners[24] = {0};
        for (int rank = 0; rank < ranks; rank++) {
            const kernel_tokens t = graph_tokens(24, ranks, rank);
            int64_t work = 0;
            assert_int_equal(t.seq, 24 / ranks);
            for (int64_t i = 0; i < t.seq; i++) {
                const int64_t position = kernel_token_position(&t, i);
                owners[position]++, work += position + 1;
                assert_int_equal(kernel_logical_row(&t, t.seq + i), 24 + position);
            }
            assert_int_equal(work * ranks, 24 * 25 / 2);
        }
        for (int i = 0; i < 24; i++) assert_int_equal(owners[i], 1);
    }
}

// Saved activations are 1/ranks of one rank's. The workspace has at most the gathered keys and values
// and their gradients besides 1/ranks of one rank's.
static void test_memory_and_flops_have_a_closed_form(void **state)
{
    (void)state;
    rig_options o = config_of(1);
    o.model.batch = 8, o.model.seq = 256, o.config.max_seq = 256;
    const int64_t kv = 2 * o.config.kv_heads * o.config.head_dim;
    const size_t gathered = (size_t)(o.model.batch * o.model.seq * kv) * sizeof(float);
    for (int recompute = 0; recompute < RECOMPUTES; recompute++) {
        o.model.recompute = (recompute_mode)recompute;
        model *one = open_rank(o, 1, 0);
        for (int ranks = 2; ranks <= 4; ranks += 2) {
            model *m = open_rank(o, ranks, ranks - 1);
            for (int b = 0; b < m->blocks; b++) {
                const graph_bytes *x = &m->block[b].g->bytes, *y = &one->block[b].g->bytes;
                assert_true(x->input * (size_t)ranks == y->input);
                assert_true(x->output * (size_t)ranks == y->output);
                if (b < m->blocks - 1) assert_true(x->saved * (size_t)ranks == y->saved);
                const bool attends = b > 0 && b < m->blocks - 1;
                const size_t extra = attends ? 2 * gathered : 0;
                assert_true(x->workspace <= y->workspace / (size_t)ranks + extra);
                // With selective recompute the backward of attention needs the most.
                if (recompute == RECOMPUTE_SELECTIVE || !attends)
                    assert_int_equal(x->workspace, y->workspace / (size_t)ranks + extra);
            }
            assert_true(fabs(model_flops(m) * ranks / model_flops(one) - 1) < 1e-12);
            model_close(m);
        }
        model_close(one);
    }
}

static void test_bytes_sent_have_a_closed_form(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        rig_options o = config_of(1);
        rig_result r;
        o.cp = ranks;
        rig(&o, &r);
        model *m = open_rank(o, ranks, 0);
        double planned = 0;
        for (int b = 0; b < m->blocks; b++) {
            const graph *g = m->block[b].g;
            planned += graph_sent_bytes(g, AXIS_CP, &g->forward) +
                       graph_sent_bytes(g, AXIS_CP, &g->backward);
            assert_true(graph_sent_bytes(g, AXIS_TP, &g->backward) == 0);
        }
        // A layer gathers keys and values twice, and reduce-scatters their gradients once.
        const double kv = (double)(o.model.batch * SEQ * 2 * o.config.kv_heads * o.config.head_dim *
                                   (int64_t)sizeof(float));
        const double formula = (double)o.config.layers * 3 * kv * (ranks - 1) / ranks;
        assert_true(planned == formula);
        assert_true(r.sent_cp == formula);
        model_close(m);
        rig_clear(&r);
    }
}

// Of two ranks, 0 has chunks 0 and 3, and 1 has 1 and 2. Of the windows of chunks 1 and 3, 3 and 6 tokens lie before
// the chunk; a chunk has 4, and the token before chunk 2 is its own rank's.
static void test_of_a_window_only_tokens_that_are_seen_are_sent(void **state)
{
    (void)state;
    static const double given[2] = {3 + 4, 3 + 4 + 2};
    rig_options o = config_of(WINDOWED);
    rig_result r;
    o.cp = 2;
    rig(&o, &r);
    const double token = 2 * 2 * 4 * sizeof(float), batch = (double)o.model.batch;
    for (int rank = 0; rank < 2; rank++) {
        model *m = open_rank(o, 2, rank);
        double planned = 0;
        for (int b = 0; b < m->blocks; b++) {
            const graph *g = m->block[b].g;
            planned += graph_sent_bytes(g, AXIS_CP, &g->forward) +
                       graph_sent_bytes(g, AXIS_CP, &g->backward);
        }
        // Keys and values are gathered twice, and their gradients go back once.
        assert_true(planned == (2 * given[rank] + given[!rank]) * batch * token);
        if (rank == 0) assert_true(r.sent_cp == planned);
        model_close(m);
    }
    rig_clear(&r);
}

static void refused(rig_options o, int ranks, const char *line)
{
    model *m;
    err e = {0};
    o.model.position.mesh.size[AXIS_CP] = ranks;
    assert_int_equal(model_open(o.config.family, &o.config, &o.model, &m, &e), E_USAGE);
    assert_string_equal(e.text, line);
}

static void test_what_cannot_be_sharded_is_named(void **state)
{
    (void)state;
    rig_options o = config_of(1);
    refused(o, 3,
            "llama: data.seq_len of 16 does not divide over 2 x parallel.cp 3; valid: a multiple "
            "of 6");
    o.model.mode = GRAPH_DECODE, o.model.batch = 1;
    refused(o, 2, "model graph: a decoding graph cannot be sharded over parallel.cp");
    o = rig_mlp();
    o.model.seq = 1;
    refused(o, 2, "mlp: parallel.cp 2: this model has no sequences; valid: 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_token_has_one_rank_and_early_ones_are_paired_with_late_ones),
        cmocka_unit_test(test_two_ranks_equal_one),
        cmocka_unit_test(test_four_ranks_equal_one),
        cmocka_unit_test(test_tensor_parallel_ranks_equal_one),
        cmocka_unit_test(test_a_split_backward_equals_one_rank),
        cmocka_unit_test(test_16_bit_types_are_near),
        cmocka_unit_test(test_evaluation_has_the_same_loss),
        cmocka_unit_test(test_other_masks_and_other_tokens_differ),
        cmocka_unit_test(test_memory_and_flops_have_a_closed_form),
        cmocka_unit_test(test_bytes_sent_have_a_closed_form),
        cmocka_unit_test(test_of_a_window_only_tokens_that_are_seen_are_sent),
        cmocka_unit_test(test_what_cannot_be_sharded_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
