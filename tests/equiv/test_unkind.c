// test_unkind.c -- the life of a trainer on the unkind device: training, evaluation, prediction, a
// checkpoint, a second trainer that resumes from it, and generation. All numbers have the same bits as
// on the cpu device, and no rule of the device is broken. The device's own test has the negative control
// of each rule.
#include "workers.h"

#include "base/file.h"
#include "train/decoder.h"

enum { STEPS = 3, SAMPLES = 3, ON_CPU = -1 };

// ---- A life

typedef struct life {
    double loss[2 * STEPS], norm[2 * STEPS]; // of the first trainer, then of the second one
    double valid_loss, tokens;
    uint64_t predicted, weights, state; // digests
} life;

static void add_bytes(uint64_t *digest, const void *x, size_t bytes)
{
    const unsigned char *byte = x;
    for (size_t i = 0; i < bytes; i++) *digest = (*digest ^ byte[i]) * 0x100000001b3u;
}

static status add_state(trainer *t, trainer_state_kind part, uint64_t *digest, err *e)
{
    status result = OK;
    const model *m = trainer_get_model(t);
    float *x = NULL;
    for (int p = 0; p < m->params; p++) {
        free(x);
        x = calloc((size_t)m->param[p].count, sizeof *x); // only rank 0 receives
        TRY(trainer_read_state(t, part, p, x, e));
        add_bytes(digest, x, (size_t)m->param[p].count * sizeof *x);
    }
done:
    free(x);
    return result;
}

static status run_steps(trainer *t, double *loss, double *norm, err *e)
{
    status result = OK;
    for (int i = 0; i < STEPS; i++) {
        trainer_step_result r = {0};
        TRY(trainer_step(t, false, &r, e));
        loss[i] = r.loss, norm[i] = r.grad_norm;
    }
done:
    return result;
}

static status predict(golden *g, trainer *t, trainer_prediction what, uint64_t *digest, err *e)
{
    status result = OK;
    const dataset_shape *s = &g->data.base.shape;
    const trainer_predict_options o = {.what = what};
    const size_t row = (size_t)s->inputs * 4;
    trainer_prediction_shape shape;
    char *inputs = malloc(SAMPLES * row), *labels = malloc((size_t)s->labels * 4);
    void *out = NULL;
    TRY(trainer_predict_shape(t, &o, &shape, e));
    const size_t bytes = (size_t)(SAMPLES * shape.positions * shape.cols) * 4;
    out = calloc(1, bytes);
    for (int i = 0; i < SAMPLES; i++)
        TRY(g->data.base.read(&g->data.base, (uint64_t)i, inputs + (size_t)i * row, labels, e));
    TRY(trainer_predict(t, &o, inputs, SAMPLES, out, e));
    add_bytes(digest, out, bytes);
done:
    free(inputs);
    free(labels);
    free(out);
    return result;
}

typedef struct lives {
    life life;       // of rank 0
    char folder[64]; // of the run
    char *saved;     // the checkpoint
} lives;

static status train_and_save(worker_group *all, int rank, golden *g, trainer *t, err *e)
{
    status result = OK;
    lives *given = all->given;
    life other = {.tokens = 0}, *out = rank == 0 ? &given->life : &other;
    const trainer_save_options save = {.out = given->folder, .config_json = "{}"};
    TRY(run_steps(t, out->loss, out->norm, e));
    TRY(trainer_check_replicas(t, e));
    TRY(trainer_evaluate(t, 0, &out->valid_loss, &out->tokens, e));
    if (g->config.family != FAMILY_MLP || g->data.base.shape.label_type == I32) {
        TRY(predict(g, t, PREDICT_LOGITS, &out->predicted, e));
        TRY(predict(g, t, PREDICT_CLASSES, &out->predicted, e));
    }
    TRY(predict(g, t, PREDICT_VECTORS, &out->predicted, e));
    TRY(trainer_save(t, &save, rank == 0 ? &given->saved : NULL, e));
    TRY(add_state(t, STATE_GRADIENT, &out->state, e));
done:
    return result;
}

static status resume(worker_group *all, int rank, golden *g, trainer *t, err *e)
{
    status result = OK;
    lives *given = all->given;
    life other = {.tokens = 0}, *out = rank == 0 ? &given->life : &other;
    (void)g;
    TRY(trainer_resume(t, given->saved, e));
    TRY(run_steps(t, out->loss + STEPS, out->norm + STEPS, e));
    TRY(add_state(t, STATE_WEIGHT, &out->weights, e));
    TRY(add_state(t, STATE_M, &out->state, e));
    TRY(add_state(t, STATE_V, &out->state, e));
done:
    return result;
}

static life live(const char *name, scenario s, int order)
{
    lives all = {.folder = "/tmp/trireme-unkind.XXXXXX"};
    s.unkind = order != ON_CPU;
    s.late_order = order;
    s.evaluates = true;
    assert_non_null(mkdtemp(all.folder));
    workers_run(name, &s, false, train_and_save, &all);
    workers_run(name, &s, false, resume, &all);
    CHECK(file_remove_tree(all.folder, e));
    free(all.saved);
    return all.life;
}

static void assert_same(const char *name, int order, const life *got, const life *want)
{
    if (memcmp(got, want, sizeof *got) == 0) return;
    for (int i = 0; i < 2 * STEPS; i++)
        print_error("step %d: loss %.17g and %.17g, norm %.17g and %.17g\n", i, got->loss[i],
                    want->loss[i], got->norm[i], want->norm[i]);
    fail_msg("%s, order %d: on the unkind device valid loss %.17g, predictions %llx, weights %llx, "
             "state %llx; on cpu %.17g, %llx, %llx, %llx",
             name, order, got->valid_loss, (unsigned long long)got->predicted,
             (unsigned long long)got->weights, (unsigned long long)got->state, want->valid_loss,
             (unsigned long long)want->predicted, (unsigned long long)want->weights,
             (unsigned long long)want->state);
}

typedef struct lived {
    const char *name;
    scenario s;
} lived;

static const lived ONE_RANK[] = {
    {"fp32", {.micro = 1}},
    {"llama", {.model = "llama_llama3", .micro = 2}},
    {"classes", {.model = "mlp_classes", .micro = 2}},
    {"values", {.model = "mlp_values"}},
    {"bf16", {.precision = BF16}},
    {"fp16", {.precision = F16, .model = "llama_gqa"}},
    {"zero3", {.inner = "zero3"}},
    {"zero3, bf16, recomputed", {.inner = "zero3", .precision = BF16, .keep = RECOMPUTE_FULL}},
    {"selective", {.model = "gpt2_variants", .keep = RECOMPUTE_SELECTIVE}},
    {"groups", {.match = "*.mlp.*", .match_inner = "zero3"}},
    {"frozen", {.match = "*.mlp.*", .freezes = true}},
    {"optimizer state on the host", {.optimizer = TIER_HOST}},
    {"zero3 on the host",
     {.inner = "zero3",
      .precision = BF16,
      .weights = TIER_HOST,
      .gradients = TIER_HOST,
      .optimizer = TIER_HOST}},
    {"zero3 in files",
     {.inner = "zero3", .weights = TIER_FILE, .gradients = TIER_FILE, .optimizer = TIER_FILE}},
    {"gradients in files, optimizer state on the host",
     {.gradients = TIER_FILE, .optimizer = TIER_HOST, .micro = 2}},
};

static const lived SEVERAL_RANKS[] = {
    {"ddp", {.shard = 2}},
    {"zero3 in bf16", {.shard = 2, .inner = "zero3", .precision = BF16}},
    {"hybrid", {.replicate = 2, .shard = 2, .inner = "zero3"}},
    {"pipeline", {.pp = 2, .shard = 2, .inner = "zero1"}},
    {"tensors and sequences", {.tp = 2, .cp = 2, .sequence = true}},
    {"low-rank gradients", {.shard = 2, .hook = HOOK_POWERSGD, .feedback = true}},
    {"bf16 gradients", {.shard = 2, .reduce = BF16}},
    {"zero3 on the host",
     {.shard = 2,
      .inner = "zero3",
      .weights = TIER_HOST,
      .gradients = TIER_HOST,
      .optimizer = TIER_HOST}},
    {"zero3 in files",
     {.shard = 2,
      .inner = "zero3",
      .weights = TIER_FILE,
      .gradients = TIER_FILE,
      .optimizer = TIER_FILE}},
};

static void check_all(const lived *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const life want = live(all[i].name, all[i].s, ON_CPU);
        for (int order = LATE_OTHERS_FIRST; order <= LATE_OTHERS_LAST; order++) {
            const life got = live(all[i].name, all[i].s, order);
            assert_same(all[i].name, order, &got, &want);
        }
    }
}

static void test_one_rank_has_the_same_bits(void **state)
{
    (void)state;
    check_all(ONE_RANK, sizeof ONE_RANK / sizeof *ONE_RANK);
}

static void test_several_ranks_have_the_same_bits(void **state)
{
    (void)state;
    check_all(SEVERAL_RANKS, sizeof SEVERAL_RANKS / sizeof *SEVERAL_RANKS);
}

// ---- Generation

static device *open_device(int order)
{
    device *d = NULL;
    const device_options cpu = {.threads = 1};
    if (order == ON_CPU)
        CHECK(device_open("cpu", &cpu, &d, e));
    else
        CHECK(unkind_device_open(&(unkind_options){.order = (late_order)order}, &d, e));
    return d;
}

static void close_device(const char *name, int order, device *d)
{
    const char *broken = order == ON_CPU ? NULL : unkind_broken(d);
    if (broken) fail_msg("%s, order %d: %s", name, order, broken);
    device_close(d);
}

static uint64_t generate(const char *name, dtype precision, int order)
{
    golden g = {0};
    decoder *d = NULL;
    uint64_t digest = 0;
    golden_open(&g, name, 1);
    const safetensors_tensor *prompt = golden_tensor(&g, "prompt");
    device *on = open_device(order);
    CHECK(decoder_open(on, model_family_find(g.config.family), &g.config, precision, g.weights,
                       prompt->dim[0], &d, e));
    for (int64_t offset = 0, count; offset < prompt->dim[0]; offset += count) {
        const float *logits;
        count = offset == 0 ? 3 : 1;
        CHECK(decoder_feed(d, (const int32_t *)prompt->data + offset, count, &logits, e));
        add_bytes(&digest, logits, (size_t)decoder_vocab(d) * sizeof *logits);
    }
    decoder_close(d);
    close_device(name, order, on);
    golden_close(&g);
    return digest;
}

static void test_generation_has_the_same_bits(void **state)
{
    (void)state;
    static const char *const models[] = {"gpt2_new", "llama_llama3"};
    static const dtype types[] = {F32, BF16};
    for (int m = 0; m < 2; m++)
        for (int k = 0; k < 2; k++)
            for (int order = LATE_OTHERS_FIRST; order <= LATE_OTHERS_LAST; order++)
                assert_true(generate(models[m], types[k], order) ==
                            generate(models[m], types[k], ON_CPU));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank_has_the_same_bits),
        cmocka_unit_test(test_several_ranks_have_the_same_bits),
        cmocka_unit_test(test_generation_has_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
