// test_packed.c -- a model whose frozen weights are packed as NF4 trains with the bits of the model whose weights are what the
// packed ones unpack to, under every policy, tier and schedule, and a checkpoint of it resumes with the bits of a run that
// goes on.
#include "equiv/lives.h"

enum { STEPS = 4, PARAMS_MOST = 64 };

typedef struct outcome {
    float *values[PARAMS_MOST]; // of packed weights, as the first run read them
    bool packs;
    double loss[STEPS], norm[STEPS];
    uint64_t weights; // digest of all of them at the end
    uint64_t bytes;   // of all weights of rank 0
} outcome;

static bool is_packed(const trainer *t, int p)
{
    const plan *x = trainer_get_plan(t);
    return x->group[x->row[p].group].o.storage == STORAGE_NF4;
}

// The packed run reads the values, and the other run takes them.
static status share_values(outcome *out, int rank, trainer *t, err *e)
{
    status result = OK;
    const model *m = trainer_get_model(t);
    assert_true(m->params <= PARAMS_MOST);
    for (int p = 0; p < m->params; p++) {
        if (out->packs && is_packed(t, p)) {
            float *to = rank == 0 ? malloc((size_t)m->param[p].count * sizeof *to) : NULL;
            TRY(trainer_read_state(t, STATE_WEIGHT, p, to, e));
            if (rank == 0) out->values[p] = to;
        } else if (!out->packs && out->values[p]) {
            TRY(trainer_write_state(t, STATE_WEIGHT, p, out->values[p], e));
        }
    }
    if (!out->packs) TRY(trainer_restore(t, 0, e));
done:
    return result;
}

static status train_rank(worker_group *all, int rank, golden *g, trainer *t, err *e)
{
    status result = OK;
    outcome other = {.packs = false}, *given = all->given, *out = rank == 0 ? given : &other;
    (void)g;
    TRY(share_values(given, rank, t, e));
    for (int i = 0; i < STEPS; i++) {
        trainer_step_result r = {0};
        TRY(trainer_step(t, false, &r, e));
        out->loss[i] = r.loss, out->norm[i] = r.grad_norm;
    }
    TRY(trainer_check_replicas(t, e));
    TRY(life_add_state(t, STATE_WEIGHT, &out->weights, e));
    out->bytes = trainer_get_plan(t)->bytes[BYTES_WEIGHTS];
done:
    return result;
}

typedef struct named_case {
    const char *name;
    bool alike; // has the bits of the first case
    scenario s;
} named_case;

static const named_case CASES[] = {
    {"ddp", true, {.replicate = 2}},
    {"zero3", true, {.shard = 2, .inner = "zero3"}},
    {"zero2", true, {.shard = 2, .inner = "zero2"}},
    {"zero3, weights kept", true, {.shard = 2, .inner = "zero3", .reshard = -1}},
    {"zero3, recomputed", true, {.shard = 2, .inner = "zero3", .keep = RECOMPUTE_FULL}},
    {"pipeline of zero3", true, {.pp = 2, .shard = 2, .inner = "zero3"}},
    {"zero-bubble", true, {.pp = 2, .shard = 2, .order = PIPE_ZB}},
    {"weights on the host", true, {.replicate = 2, .weights = TIER_HOST}},
    {"weights in files",
     true,
     {.shard = 2, .inner = "zero3", .weights = TIER_FILE, .optimizer = TIER_FILE}},
    {"unkind devices", true, {.shard = 2, .inner = "zero3", .unkind = true}},
    {"weights on a host apart",
     true,
     {.shard = 2, .inner = "zero3", .weights = TIER_HOST, .optimizer = TIER_HOST, .unkind = true}},
    {"one rank", false, {.pp = 1}},
    {"hybrid", false, {.replicate = 2, .shard = 2, .inner = "zero3"}},
    {"zero3 in groups of 2", false, {.shard = 4, .inner = "zero3", .reshard = 2}},
    {"zero3 on 3", false, {.shard = 3, .inner = "zero3", .global = 6}},
    {"tp", false, {.tp = 2, .shard = 2, .inner = "zero3"}},
    {"cp", false, {.cp = 2, .shard = 2, .inner = "zero3"}},
};

static void compare(const char *name, const outcome *a, const outcome *b)
{
    for (int i = 0; i < STEPS; i++)
        if (a->loss[i] != b->loss[i] || a->norm[i] != b->norm[i])
            fail_msg("%s: step %d has loss %.17g and norm %.17g; expected %.17g and %.17g", name, i,
                     a->loss[i], a->norm[i], b->loss[i], b->norm[i]);
    if (a->weights != b->weights) fail_msg("%s: other weights", name);
}

static void check_precision(dtype precision)
{
    outcome first = {.packs = false};
    for (size_t k = 0; k < sizeof CASES / sizeof *CASES; k++) {
        outcome packed = {.packs = true}, unpacked = {.packs = false};
        scenario s = CASES[k].s;
        s.wide = true, s.precision = precision, s.match = "*_proj*", s.freezes = true;
        s.storage = STORAGE_NF4;
        workers_run(CASES[k].name, &s, false, train_rank, &packed);
        memcpy(unpacked.values, packed.values, sizeof unpacked.values);
        s.storage = STORAGE_COMPUTE;
        workers_run(CASES[k].name, &s, false, train_rank, &unpacked);
        compare(CASES[k].name, &packed, &unpacked);
        if (k == 0) first = packed;
        for (int i = 0; CASES[k].alike && i < STEPS; i++)
            assert_true(packed.loss[i] == first.loss[i]);
        if (CASES[k].alike) assert_true(packed.weights == first.weights);
        if (s.weights == TIER_DEVICE && packed.bytes >= unpacked.bytes)
            fail_msg("%s: %llu bytes of packed weights, %llu of others", CASES[k].name,
                     (unsigned long long)packed.bytes, (unsigned long long)unpacked.bytes);
        for (int p = 0; p < PARAMS_MOST; p++) free(packed.values[p]);
    }
}

static void test_packed_weights_train_as_what_they_unpack_to(void **state)
{
    (void)state;
    check_precision(F32);
    check_precision(BF16);
}

// The weights of a checkpoint are unpacked, and packing them again would give others.
static void test_a_checkpoint_resumes_with_equal_bits(void **state)
{
    (void)state;
    scenario s = {.wide = true,
                  .precision = BF16,
                  .replicate = 2,
                  .match = "*_proj*",
                  .freezes = true,
                  .storage = STORAGE_NF4,
                  .evaluates = true};
    const life whole = life_live("replicated", &s);
    s.replicate = 0, s.shard = 2, s.inner = "zero3";
    const life sharded = life_live("sharded", &s);
    assert_memory_equal(whole.loss, sharded.loss, sizeof whole.loss);
    assert_true(whole.weights == sharded.weights && whole.predicted == sharded.predicted);
    s.storage = STORAGE_COMPUTE;
    const life other = life_live("not packed", &s); // what is packed does differ
    assert_true(whole.loss[LIFE_STEPS] != other.loss[LIFE_STEPS]);
}

// Resumes a checkpoint of packed weights on another base.
static status resume_elsewhere(worker_group *all, int rank, golden *g, trainer *t, err *e)
{
    status result = OK;
    lives *given = all->given;
    err why = {.code = OK};
    float *x = NULL;
    (void)g, (void)rank;
    const model *m = trainer_get_model(t);
    int p = 0;
    while (!is_packed(t, p)) p++;
    x = calloc((size_t)m->param[p].count, sizeof *x);
    TRY(trainer_write_state(t, STATE_WEIGHT, p, x, e));
    if (trainer_resume(t, given->saved, &why) != E_USAGE ||
        !strstr(why.text, "is not what the NF4 weights of this job's base give"))
        result = err_set(e, E_INTERNAL, "resumed: %s", why.text);
done:
    free(x);
    return result;
}

static void test_another_base_is_refused(void **state)
{
    (void)state;
    const scenario s = {.wide = true,
                        .precision = BF16,
                        .match = "*_proj*",
                        .freezes = true,
                        .storage = STORAGE_NF4,
                        .evaluates = true};
    lives all = {.folder = "/tmp/trireme-packed.XXXXXX"};
    assert_non_null(mkdtemp(all.folder));
    workers_run("saves", &s, false, life_train_and_save, &all);
    workers_run("resumes", &s, false, resume_elsewhere, &all);
    CHECK(file_remove_tree(all.folder, e));
    free(all.saved);
}

// A rank's rows must be whole blocks.
static void test_a_block_is_not_divided(void **state)
{
    (void)state;
    golden g = {0};
    err e = {0};
    param_group group[2];
    plan *p = NULL;
    schedule made = {0};
    uint64_t params;
    double flops;
    const scenario s = {
        .tp = 4, .wide = true, .match = "*_proj*", .freezes = true, .storage = STORAGE_NF4};
    golden_open(&g, "llama_gqa", 1);
    g.config.hidden = g.config.ffn = 128, g.config.head_dim = 32;
    trainer_options o = workers_options(&g, &s, "", group);
    assert_int_equal(trainer_plan(&o, &p, &made, &params, &flops, &e), E_USAGE);
    assert_string_equal(
        e.text, "model.storage: nf4 keeps blocks of 64 elements together, but a rank has rows "
                "of 32 of model.layers.0.self_attn.o_proj.weight; valid: auto, or a "
                "parallel.tp that divides the rows into blocks");
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed_weights_train_as_what_they_unpack_to),
        cmocka_unit_test(test_a_checkpoint_resumes_with_equal_bits),
        cmocka_unit_test(test_another_base_is_refused),
        cmocka_unit_test(test_a_block_is_not_divided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
