// test_lives.c -- the life of a trainer on the cuda device of the stand-in: training, evaluation,
// prediction, a checkpoint, a second trainer that resumes from it, and generation. In fp32 the
// losses of six steps are those of the cpu device within 1e-4; cli/training.sh compares twenty.
// Among themselves, two runs have the same bits, and so have recorded and issued steps, and every
// way to keep activations and state.
#include "equiv/lives.h"

#include "infer/decoder.h"

#include <math.h>

// ---- Beside the cpu device

enum { STEPS = 6 };

typedef struct losses {
    double loss[STEPS];
} losses;

static status train(worker_group *all, int rank, golden *g, trainer *t, err *e)
{
    status result = OK;
    losses *out = all->given;
    (void)rank;
    (void)g;
    for (int i = 0; i < STEPS; i++) {
        trainer_step_result r = {0};
        TRY(trainer_step(t, false, &r, e));
        out->loss[i] = r.loss;
    }
done:
    return result;
}

static losses train_on(const char *name, scenario s, bool cuda)
{
    losses out = {.loss = {0}};
    s.cuda = cuda;
    workers_run(name, &s, false, train, &out);
    return out;
}

static void test_losses_are_those_of_the_cpu(void **state)
{
    (void)state;
    static const scenario all[] = {
        {.micro = 2},
        {.model = "llama_llama3", .micro = 2},
        {.model = "gpt2_variants", .micro = 2, .keep = RECOMPUTE_SELECTIVE},
        {.model = "mlp_classes", .micro = 2},
        {.model = "mlp_values", .micro = 2},
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        const char *name = all[k].model ? all[k].model : "gpt2_new";
        const losses want = train_on(name, all[k], false), got = train_on(name, all[k], true);
        for (int i = 0; i < STEPS; i++)
            if (!(fabs(got.loss[i] - want.loss[i]) <= 1e-4 * fmax(1, fabs(want.loss[i]))))
                fail_msg("%s, step %d: loss %.9g, on the cpu %.9g", name, i + 1, got.loss[i],
                         want.loss[i]);
        assert_true(got.loss[STEPS - 1] != got.loss[0]); // the weights have changed
    }
}

// ---- Beside each other

typedef struct lived {
    const char *name;
    scenario s;
} lived;

static life live(const lived *l)
{
    scenario s = l->s;
    s.cuda = s.evaluates = true;
    return life_live(l->name, &s);
}

// The norm adds squares in the order in which a layout stores them, so it may differ.
static void assert_same(const lived *l, const life *got, const life *want)
{
    if (memcmp(got->loss, want->loss, sizeof got->loss) == 0 &&
        got->valid_loss == want->valid_loss && got->predicted == want->predicted &&
        got->weights == want->weights && got->state == want->state)
        return;
    for (int i = 0; i < 2 * LIFE_STEPS; i++)
        print_error("step %d: loss %.17g and %.17g\n", i, got->loss[i], want->loss[i]);
    fail_msg("%s: valid loss %.17g and %.17g, predictions %llx and %llx, weights %llx and %llx, "
             "state %llx and "
             "%llx",
             l->name, got->valid_loss, want->valid_loss, (unsigned long long)got->predicted,
             (unsigned long long)want->predicted, (unsigned long long)got->weights,
             (unsigned long long)want->weights, (unsigned long long)got->state,
             (unsigned long long)want->state);
}

#define ON_THE_HOST .weights = TIER_HOST, .gradients = TIER_HOST, .optimizer = TIER_HOST
#define IN_FILES    .weights = TIER_FILE, .gradients = TIER_FILE, .optimizer = TIER_FILE

// All have the bits of the first.
static const lived FP32[] = {
    {"recorded", {.micro = 1}},
    {"a second run", {.micro = 1}},
    {"issued", {.micro = 1, .issues = true}},
    {"recompute selective", {.keep = RECOMPUTE_SELECTIVE}},
    {"recompute full, on the host, issued", {.keep = RECOMPUTE_FULL, .issues = true, ON_THE_HOST}},
    {"zero3 on the host", {.inner = "zero3", ON_THE_HOST}},
    {"zero3 in files", {.inner = "zero3", IN_FILES}},
};
static const lived SHORT[] = {
    {"bf16", {.precision = BF16, .micro = 2, .model = "llama_gqa"}},
    {"bf16, issued", {.precision = BF16, .micro = 2, .model = "llama_gqa", .issues = true}},
    {"bf16, zero3 on the host",
     {.precision = BF16, .micro = 2, .model = "llama_gqa", .inner = "zero3", ON_THE_HOST}},
};
static const lived FROZEN[] = {
    {"frozen", {.match = "*.mlp.*", .freezes = true}},
    {"frozen, in files", {.match = "*.mlp.*", .freezes = true, IN_FILES}},
};

static void expect_alike(const lived *all, size_t count)
{
    const life want = live(&all[0]);
    for (size_t i = 1; i < count; i++) {
        const life got = live(&all[i]);
        assert_same(&all[i], &got, &want);
    }
}

static void test_fp32_has_the_same_bits(void **state)
{
    (void)state;
    expect_alike(FP32, sizeof FP32 / sizeof *FP32);
}

static void test_bf16_has_the_same_bits(void **state)
{
    (void)state;
    expect_alike(SHORT, sizeof SHORT / sizeof *SHORT);
}

static void test_frozen_groups_have_the_same_bits(void **state)
{
    (void)state;
    expect_alike(FROZEN, sizeof FROZEN / sizeof *FROZEN);
}

// ---- Generation

// Logits of every token of the prompt; the caller frees them.
static float *generate(const char *name, const char *device_name, size_t *count)
{
    golden g = {0};
    decoder *d = NULL;
    device *on = NULL;
    golden_open(&g, name, 1);
    const safetensors_tensor *prompt = golden_tensor(&g, "prompt");
    CHECK(device_open(device_name, &(device_options){.threads = 1}, &on, e));
    CHECK(
        decoder_open(on, g.config.family, &g.config, F32, g.weights, NULL, prompt->dim[0], &d, e));
    const size_t vocab = (size_t)decoder_vocab(d);
    float *all = calloc((size_t)prompt->dim[0] * vocab, sizeof *all);
    *count = 0;
    for (int64_t offset = 0, fed; offset < prompt->dim[0]; offset += fed) {
        const float *logits;
        fed = offset == 0 ? 3 : 1;
        CHECK(decoder_feed(d, (const int32_t *)prompt->data + offset, fed, &logits, e));
        memcpy(all + *count, logits, vocab * sizeof *all);
        *count += vocab;
    }
    decoder_close(d);
    device_close(on);
    golden_close(&g);
    return all;
}

static void test_generation_is_that_of_the_cpu(void **state)
{
    (void)state;
    static const char *const models[] = {"gpt2_new", "llama_llama3"};
    for (int m = 0; m < 2; m++) {
        size_t count, again;
        float *want = generate(models[m], "cpu", &count),
              *got = generate(models[m], "cuda", &again);
        assert_int_equal(count, again);
        for (size_t i = 0; i < count; i++)
            if (!(fabsf(got[i] - want[i]) <= 1e-4f * fmaxf(1, fabsf(want[i]))))
                fail_msg("%s, logit %zu: %.9g, on the cpu %.9g", models[m], i, (double)got[i],
                         (double)want[i]);
        float *second = generate(models[m], "cuda", &again);
        assert_memory_equal(second, got, count * sizeof *got);
        free(want);
        free(got);
        free(second);
    }
}

// Neither a transfer, of any size, nor a token allocates memory once a decoder is open.
static void test_tokens_and_transfers_allocate_nothing(void **state)
{
    (void)state;
    enum { ELEMENTS = DEVICE_STAGING_BYTES / 2 + 1000 }; // several pieces, the last one short
    golden g = {0};
    decoder *d = NULL;
    device *on = NULL;
    device_stream *s = NULL;
    const float *logits;
    void *memory = NULL;
    const size_t bytes = ELEMENTS * sizeof(int32_t);
    int32_t *sent = malloc(bytes), *back = calloc(ELEMENTS, sizeof *back);
    golden_open(&g, "gpt2_new", 1);
    const int32_t *prompt = (const int32_t *)golden_tensor(&g, "prompt")->data;
    CHECK(device_open("cuda", NULL, &on, e));
    CHECK(decoder_open(on, g.config.family, &g.config, F32, g.weights, NULL, 6, &d, e));
    CHECK(on->ops->stream_open(on, STREAM_COMPUTE, false, &s, e));
    CHECK(device_alloc(on, MEMORY_DEVICE, bytes, &memory, e));
    const uint64_t before = on->allocations;
    for (int i = 0; i < 6; i++) CHECK(decoder_feed(d, prompt + i, 1, &logits, e));
    for (int i = 0; i < ELEMENTS; i++) sent[i] = i;
    CHECK(device_upload_issue(s, memory, sent, bytes, e));
    memset(sent, 0, bytes);
    CHECK(device_download(s, back, memory, bytes, e));
    for (int i = 0; i < ELEMENTS; i++) assert_int_equal(back[i], i);
    assert_int_equal(on->allocations, before);
    on->ops->stream_close(s);
    device_release(on, MEMORY_DEVICE, memory, bytes);
    decoder_close(d);
    device_close(on);
    golden_close(&g);
    free(sent);
    free(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses_are_those_of_the_cpu),
        cmocka_unit_test(test_fp32_has_the_same_bits),
        cmocka_unit_test(test_bf16_has_the_same_bits),
        cmocka_unit_test(test_frozen_groups_have_the_same_bits),
        cmocka_unit_test(test_generation_is_that_of_the_cpu),
        cmocka_unit_test(test_tokens_and_transfers_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
