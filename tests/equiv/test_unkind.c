// test_unkind.c -- the life of a trainer on the unkind device: training, evaluation, prediction, a
// checkpoint, a second trainer that resumes from it, and generation. All numbers have the same bits as
// on the cpu device, and no rule of the device is broken. The device's own test has the negative control
// of each rule.
#include "lives.h"

#include "infer/decoder.h"
#include "sanitized.h"

#include <math.h>

enum { ON_CPU = -1 };

static life live(const char *name, scenario s, int order)
{
    s.unkind = order != ON_CPU;
    s.late_order = order;
    s.evaluates = true;
    return life_live(name, &s);
}

// Where the host keeps state, the device with a memory of its own has another layout, in whose order the
// squares of the norm are added: the last bits of the norm may differ.
static void take_close_norms(life *got, const life *want)
{
    for (int i = 0; i < 2 * LIFE_STEPS; i++)
        if (fabs(got->norm[i] - want->norm[i]) <= 1e-14 * want->norm[i])
            got->norm[i] = want->norm[i];
}

static void assert_same(const char *name, int order, const life *got, const life *want)
{
    if (memcmp(got, want, sizeof *got) == 0) return;
    for (int i = 0; i < 2 * LIFE_STEPS; i++)
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
        life want = {.tokens = 0};
        if (!SANITIZED_THREAD) want = live(all[i].name, all[i].s, ON_CPU);
        for (int order = LATE_OTHERS_FIRST; order <= LATE_OTHERS_LAST; order++) {
            if (!workers_take(i, order)) continue;
            life got = live(all[i].name, all[i].s, order);
            if (SANITIZED_THREAD) continue;
            if (all[i].s.optimizer == TIER_HOST) take_close_norms(&got, &want);
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
    CHECK(decoder_open(on, g.config.family, &g.config, precision, g.weights, NULL, prompt->dim[0],
                       &d, e));
    for (int64_t offset = 0, count; offset < prompt->dim[0]; offset += count) {
        const float *logits;
        count = offset == 0 ? 3 : 1;
        CHECK(decoder_feed(d, (const int32_t *)prompt->data + offset, count, &logits, e));
        life_add_bytes(&digest, logits, (size_t)decoder_vocab(d) * sizeof *logits);
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
