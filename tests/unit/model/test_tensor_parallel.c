// test_tensor_parallel.c -- the loss and every gradient of models under tensor parallelism equal those
// of the unsharded model.
#include "rig.h"
#include "sinks_family.h"

enum { CONFIGS = 4 + RIG_FAMILIES };

static rig_options config_of(int i)
{
    if (i >= 4) return rig_family(i - 4);
    rig_options o = i == 0 ? rig_gpt2() : rig_llama();
    if (i == 2) { // tied, and without biases
        o.config.tie_embeddings = true;
        o.config.attention_bias = o.config.mlp_bias = false;
    }
    if (i == 3) {
        o.config.family = &sinks_family;
        o.config.vocab = 37;
    } else {
        rig_finish(&o);
    }
    return o;
}

static void check_equal(const char *what, const rig_result *full, const rig_result *sharded,
                        double tolerance)
{
    if (!(fabs(full->loss - sharded->loss) <= tolerance * fabs(full->loss)))
        fail_msg("%s: loss %.9g, full %.9g", what, sharded->loss, full->loss);
    assert_true(full->count == sharded->count);
    for (int p = 0; p < full->params; p++) {
        double d = rig_distance(full, sharded, p);
        // Key biases have a true gradient of zero; what is left is rounding noise.
        if (!(d <= tolerance) && !strstr(full->name[p], "qkv.bias"))
            fail_msg("%s: %s differs by %.3g", what, full->name[p], d);
    }
}

static void compare(rig_options o, int ranks, bool sequence, double tolerance)
{
    char what[96];
    rig_result full, sharded;
    rig(&o, &full);
    o.ranks = ranks, o.model.position.sequence_parallel = sequence;
    snprintf(what, sizeof what, "%s, %d ranks%s, recompute %d", o.config.family->name, ranks,
             sequence ? ", sequence" : "", o.model.recompute);
    rig(&o, &sharded);
    check_equal(what, &full, &sharded, tolerance);
    rig_clear(&full);
    rig_clear(&sharded);
}

static void compare_all(bool sequence)
{
    for (int i = 0; i < CONFIGS; i++)
        for (int recompute = 0; recompute < RECOMPUTES; recompute++) {
            rig_options o = config_of(i);
            o.model.recompute = (recompute_mode)recompute;
            compare(o, 2, sequence, 1e-5);
        }
}

static void test_two_ranks_equal_one(void **state)
{
    (void)state;
    compare_all(false);
}

static void test_two_ranks_with_sequence_parallelism_equal_one(void **state)
{
    (void)state;
    compare_all(true);
}

static void test_four_ranks_equal_one(void **state)
{
    (void)state;
    compare(rig_gpt2(), 4, false, 1e-5);
    compare(rig_gpt2(), 4, true, 1e-5);
}

static rig_options few_kv_heads(const char *family, int64_t kv_heads)
{
    rig_options o = rig_llama();
    model_config_defaults(model_family_find(family), &o.config);
    o.config.layers = 2, o.config.hidden = 16, o.config.heads = 4, o.config.kv_heads = kv_heads;
    o.config.head_dim = 6, o.config.ffn = 24, o.config.vocab = 41, o.config.max_seq = 16;
    if (strcmp(family, "llama") == 0) o.config.attention_bias = o.config.mlp_bias = true;
    o.config.dropout.attention = 0.2;
    rig_finish(&o);
    return o;
}

// Adjacent ranks then have the same head of keys and values. qwen3 norms queries and keys per head.
static void test_more_ranks_than_key_value_heads_equal_one(void **state)
{
    (void)state;
    static const char *const families[] = {"llama", "qwen3"};
    for (int i = 0; i < 2; i++)
        for (int recompute = 0; recompute < RECOMPUTES; recompute++)
            for (int sequence = 0; sequence < 2; sequence++) {
                rig_options o = few_kv_heads(families[i], 2);
                o.model.recompute = (recompute_mode)recompute;
                compare(o, 4, sequence, 1e-5);
                o = few_kv_heads(families[i], 1);
                o.model.recompute = (recompute_mode)recompute;
                compare(o, 2, sequence, 1e-5);
                compare(o, 4, sequence, 1e-5);
            }
}

static void test_bf16_and_fp16_are_near(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        for (int f16 = 0; f16 < 2; f16++) {
            rig_options o = config_of(i);
            o.model.type = f16 ? F16 : BF16;
            compare(o, 2, f16, f16 ? 1e-2 : 5e-2);
        }
}

static void test_evaluation_has_the_same_loss(void **state)
{
    (void)state;
    for (int i = 0; i < CONFIGS; i++) {
        rig_options o = config_of(i);
        o.model.mode = GRAPH_EVAL;
        compare(o, 2, false, 1e-6);
        compare(o, 2, true, 1e-6);
    }
}

// The negative control: other dropout masks, or the shards of another rank, give other gradients.
static void test_other_masks_and_other_shards_differ(void **state)
{
    (void)state;
    rig_options o = rig_gpt2();
    rig_result full, sharded;
    rig(&o, &full);
    o.ranks = 2;
    o.seed = 12;
    rig(&o, &sharded);
    assert_true(rig_worst(&full, &sharded) > 1e-2);
    rig_clear(&sharded);
    o.seed = 11, o.take_shard_0 = true;
    rig(&o, &sharded);
    assert_true(rig_worst(&full, &sharded) > 1e-2);
    rig_clear(&sharded);
    rig_clear(&full);
}

static void test_the_loss_scale_multiplies_every_gradient(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        rig_options o = rig_llama();
        rig_result one, scaled;
        o.ranks = ranks;
        rig(&o, &one);
        o.loss_scale = 1024;
        rig(&o, &scaled);
        assert_true(one.loss == scaled.loss);
        for (int p = 0; p < one.params; p++)
            for (int64_t i = 0; i < one.size[p]; i++) one.grad[p][i] *= 1024;
        assert_true(rig_same_bits(&one, &scaled));
        rig_clear(&one);
        rig_clear(&scaled);
    }
}

static model *open_rank(rig_options o, int ranks, int rank)
{
    model *m;
    err e;
    o.model.position.mesh.size[AXIS_TP] = ranks, o.model.position.coord[AXIS_TP] = rank;
    if (model_open(o.config.family, &o.config, &o.model, &m, &e) != OK) fail_msg("%s", e.text);
    return m;
}

static void test_shards_hold_the_elements_of_the_full_parameter(void **state)
{
    (void)state;
    device *d;
    device_stream *on;
    assert_int_equal(device_open("cpu", &(device_options){.threads = 1}, &d, NULL), OK);
    assert_int_equal(d->ops->stream_open(d, STREAM_COMPUTE, false, &on, NULL), OK);
    for (int i = 0; i < CONFIGS; i++) {
        model *m = open_rank(config_of(i), 2, 1);
        for (int p = 0; p < m->params; p++) {
            size_t bytes = (size_t)m->param[p].count * sizeof(float);
            float *full = malloc(bytes), *shard = malloc(bytes), *drawn = malloc(bytes),
                  *back = calloc(1, bytes);
            int64_t elements = 0;
            model_param_init(m, p, 9, 0, m->param[p].count, on, full);
            for (int rank = 0; rank < 2; rank++) {
                const int coord[AXES] = {[AXIS_TP] = rank};
                int64_t count =
                    model_param_shard_rows(m, p, coord) * model_param_shard_cols(m, p, coord);
                model_param_take_shard(m, p, coord, full, shard);
                for (int64_t first = 0; first < count; first += 5)
                    model_param_init_shard(m, p, coord, 9, first,
                                           count - first < 5 ? count - first : 5, on,
                                           drawn + first);
                assert_memory_equal(shard, drawn, (size_t)count * sizeof(float));
                model_param_put_shard(m, p, coord, shard, back);
                elements += count;
            }
            assert_memory_equal(full, back, bytes);
            assert_int_equal(elements,
                             m->param[p].sharded ? m->param[p].count : 2 * m->param[p].count);
            assert_int_equal(m->param[p].shard_rows,
                             model_param_shard_rows(m, p, m->position.coord));
            free(full);
            free(shard);
            free(drawn);
            free(back);
        }
        model_close(m);
    }
    d->ops->stream_close(on);
    device_close(d);
}

// Rows: queries 4 x 6, keys and values 2 x 6 each. Rank 2 of 4 has query head 2 and head 1 of the others, as rank 3.
static void test_adjacent_ranks_have_the_same_key_value_head(void **state)
{
    (void)state;
    model *m = open_rank(few_kv_heads("llama", 2), 4, 2);
    for (int p = 0; p < m->params; p++) {
        if (!strstr(m->param[p].name, "qkv.bias")) continue;
        float full[48], back[48] = {0}, shard[18];
        for (int i = 0; i < 48; i++) full[i] = (float)(i + 1);
        for (int rank = 0; rank < 4; rank++) {
            const int coord[AXES] = {[AXIS_TP] = rank};
            assert_int_equal(model_param_shard_rows(m, p, coord), 18);
            model_param_take_shard(m, p, coord, full, shard);
            for (int i = 0; i < 18; i++) {
                const int section = i / 6, head = section ? rank / 2 : rank;
                const int first = section == 0 ? 0 : section == 1 ? 24 : 36;
                assert_true(shard[i] == full[first + 6 * head + i % 6]);
                assert_int_equal(model_param_writes_row(m, p, coord, i),
                                 section == 0 || rank % 2 == 0);
            }
            model_param_put_shard(m, p, coord, shard, back);
        }
        assert_memory_equal(full, back, sizeof full);
        assert_int_equal(m->param[p].shared.first_row, 6);
        assert_int_equal(m->param[p].shared.ranks, 2);
    }
    model_close(m);
}

static void test_queries_keys_and_values_are_sharded_each_by_itself(void **state)
{
    (void)state;
    model *m = open_rank(rig_gpt2(), 2, 0);
    for (int p = 0; p < m->params; p++) {
        if (strcmp(m->param[p].name, "transformer.h.0.attn.c_attn.bias") != 0) continue;
        float full[48], shard[24];
        for (int i = 0; i < 48; i++) full[i] = (float)i;
        model_param_take_shard(m, p, (const int[AXES]){[AXIS_TP] = 1}, full, shard);
        for (int i = 0; i < 24; i++) assert_true(shard[i] == (float)(i / 8 * 16 + 8 + i % 8));
    }
    const model_limits limits = model_get_limits(m);
    assert_int_equal(limits.tokens, 37);
    assert_int_equal(limits.classes, 37);
    assert_int_equal(limits.positions, 12);
    model_close(m);
}

static void test_a_rank_of_two_computes_half_of_the_flops(void **state)
{
    (void)state;
    model *full = open_rank(rig_llama(), 1, 0), *one_of_two = open_rank(rig_llama(), 2, 0);
    double sum = 0;
    assert_true(fabs(model_flops(one_of_two) / model_flops(full) - 0.5) < 0.01);
    for (int b = 0; b < full->blocks; b++) sum += model_block_flops(full, b);
    assert_true(sum == model_flops(full));
    model_close(full);
    model_close(one_of_two);
}

static void refused(rig_options o, int ranks, const char *line)
{
    model *m;
    err e = {0};
    o.model.position.mesh.size[AXIS_TP] = ranks;
    assert_int_equal(model_open(o.config.family, &o.config, &o.model, &m, &e), E_USAGE);
    assert_string_equal(e.text, line);
}

static void test_sizes_that_do_not_divide_are_named(void **state)
{
    (void)state;
    rig_options o = rig_llama();
    o.config.heads = 12;
    refused(o, 3,
            "llama: 2 key-value heads do not divide over parallel.tp 3; valid: 1, 2, 4, 6, 12");
    o = rig_llama();
    o.config.vocab = 64;
    refused(o, 8, "llama: 4 heads do not divide over parallel.tp 8; valid: 1, 2, 4");
    o = few_kv_heads("olmo2", 2);
    refused(o, 4,
            "olmo2: 2 key-value heads, which are normed together, do not divide over parallel.tp "
            "4; valid: 1, 2");
    o = config_of(3);
    refused(o, 4, "sinks: 2 key-value heads do not divide over parallel.tp 4; valid: 1, 2");
    o = rig_llama();
    refused(rig_gpt2(), 3, "gpt2: 4 heads do not divide over parallel.tp 3; valid: 1, 2, 4");
    o.config.ffn = 21;
    refused(o, 2,
            "llama: an inner width of 21 does not divide over parallel.tp 2; valid: 1, 3, 7, 21");
    o = rig_gpt2();
    o.config.ffn = 21;
    refused(o, 2,
            "gpt2: an inner width of 21 does not divide over parallel.tp 2; valid: 1, 3, 7, 21");
    o = rig_gpt2();
    o.config.vocab = 5;
    refused(o, 4, "gpt2: a vocabulary of 5 has no shard for each of parallel.tp 4");
    o = rig_gpt2();
    o.model.position.sequence_parallel = true, o.model.batch = 1, o.model.seq = 9;
    refused(o, 2,
            "gpt2: with parallel.sequence_parallel the 9 tokens of a micro-batch must divide over "
            "parallel.tp 2");
    o = rig_mlp();
    refused(o, 2, "no parameter of mlp can be sharded over parallel.tp 2; valid: 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_ranks_equal_one),
        cmocka_unit_test(test_two_ranks_with_sequence_parallelism_equal_one),
        cmocka_unit_test(test_four_ranks_equal_one),
        cmocka_unit_test(test_more_ranks_than_key_value_heads_equal_one),
        cmocka_unit_test(test_adjacent_ranks_have_the_same_key_value_head),
        cmocka_unit_test(test_bf16_and_fp16_are_near),
        cmocka_unit_test(test_evaluation_has_the_same_loss),
        cmocka_unit_test(test_other_masks_and_other_shards_differ),
        cmocka_unit_test(test_the_loss_scale_multiplies_every_gradient),
        cmocka_unit_test(test_shards_hold_the_elements_of_the_full_parameter),
        cmocka_unit_test(test_queries_keys_and_values_are_sharded_each_by_itself),
        cmocka_unit_test(test_a_rank_of_two_computes_half_of_the_flops),
        cmocka_unit_test(test_sizes_that_do_not_divide_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
