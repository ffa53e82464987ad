// test_decoder.c -- logits with a key-value cache against transformers', fed in several ways.
#include "golden.h"

#include "train/decoder.h"

// Feeds the golden prompt in pieces of `piece` tokens and compares the logits after each piece.
static void check_logits(const char *name, int64_t piece)
{
    golden g = {0};
    decoder *d = NULL;
    golden_open(&g, name, 1);
    const tensor_info *prompt = golden_tensor(&g, "prompt"), *want = golden_tensor(&g, "logits");
    CHECK(decoder_open(g.device, family_find(g.config.family), &g.config, F32, g.weights,
                       prompt->dim[0], &d, e));
    for (int64_t at = 0; at < prompt->dim[0]; at += piece) {
        const float *logits;
        int64_t count = piece < prompt->dim[0] - at ? piece : prompt->dim[0] - at;
        CHECK(decoder_feed(d, (const int32_t *)prompt->data + at, count, &logits, e));
        double worst = relative_error(logits, want, (at + count - 1) * want->dim[1], want->dim[1]);
        if (!(worst <= 1e-5))
            fail_msg("%s: logits after %lld tokens: relative error %.3g", name,
                     (long long)(at + count), worst);
    }
    err full = {0};
    const float *none;
    assert_int_equal(decoder_feed(d, prompt->data, 1, &none, &full), E_USAGE);
    decoder_close(d);
    golden_close(&g);
}

static void test_cached_logits_equal_transformers(void **state)
{
    (void)state;
    static const int64_t pieces[] = {1, 3, 16};
    for (int i = 0; i < 3; i++) {
        check_logits("gpt2_new", pieces[i]);
        check_logits("llama_llama3", pieces[i]);
    }
}

static void test_sampling_follows_temperature_and_cuts(void **state)
{
    (void)state;
    const float logits[4] = {1, 3, 2, -50};
    int counts[4] = {0};
    int32_t id;
    const sample_options best = {.top_p = 1, .seed = 1}, all = {1, 1, 0, 7, 0},
                         first = {1, 1, 1, 7, 0}, most = {1, 0.9, 0, 7, 0};
    CHECK(sample_token(logits, 4, &best, 1, &id, e));
    assert_int_equal(id, 1);
    for (uint64_t i = 0; i < 4000; i++) {
        CHECK(sample_token(logits, 4, &all, i, &id, e));
        counts[id]++;
        CHECK(sample_token(logits, 4, &first, i, &id, e));
        assert_int_equal(id, 1);
        CHECK(sample_token(logits, 4, &most, i, &id, e));
        assert_true(id == 1 || id == 2);
    }
    // softmax(1, 3, 2) = 0.090, 0.665, 0.245
    assert_true(abs(counts[0] - 360) < 80 && abs(counts[1] - 2661) < 130 &&
                abs(counts[2] - 979) < 120 && counts[3] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cached_logits_equal_transformers),
        cmocka_unit_test(test_sampling_follows_temperature_and_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
