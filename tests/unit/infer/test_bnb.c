// test_bnb.c -- folders that bitsandbytes has quantised to NF4 have its weights, bit for bit, and transformers' logits; what does
// not fit together is refused. tests/golden/make_bnb.py writes them.
#include "infer/decoder.h"
#include "store/safetensors_nf4.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const KINDS[] = {"double", "single", "odd"};
enum { KIND_COUNT = sizeof KINDS / sizeof *KINDS };

// A folder and what bitsandbytes makes of it.
typedef struct quantised {
    char folder[600];
    safetensors *weights, *golden;
} quantised;

static quantised quantised_open(const char *kind)
{
    quantised q = {.weights = NULL};
    char path[700];
    err why = {0};
    snprintf(q.folder, sizeof q.folder, "%s/golden/bnb/%s", TESTS_DIR, kind);
    snprintf(path, sizeof path, "%s/golden.safetensors", q.folder);
    if (safetensors_open_weights(q.folder, &q.weights, &why) != OK ||
        safetensors_open(path, &q.golden, &why) != OK)
        fail_msg("%s", why.text);
    return q;
}

static void quantised_close(quantised *q)
{
    safetensors_close(q->weights);
    safetensors_close(q->golden);
}

// Reads the tensor in pieces of `piece` elements.
static uint16_t *read_pieces(const safetensors_tensor *t, int64_t count, int64_t piece)
{
    float *x = malloc((size_t)count * sizeof *x);
    uint16_t *low = malloc((size_t)count * sizeof *low);
    for (int64_t i = 0; i < count; i += piece)
        safetensors_read(t, i, count - i < piece ? count - i : piece, x + i);
    dtype_convert(low, BF16, x, F32, (size_t)count);
    free(x);
    return low;
}

// The digest of make_bnb.py.
static uint64_t digest_of(const uint16_t *word, uint64_t count)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += ((uint64_t)word[i] + 1) * (i * 0x9E3779B97F4A7C16u + 1);
    return sum;
}

static uint64_t number_of(const safetensors_tensor *t)
{
    uint64_t out;
    assert_int_equal(t->bytes, sizeof out);
    memcpy(&out, t->data, sizeof out);
    return out;
}

static void weights_are_those_of_bitsandbytes(void **state)
{
    (void)state;
    for (int k = 0; k < KIND_COUNT; k++) {
        quantised q = quantised_open(KINDS[k]);
        size_t packed = 0, fit = 0;
        assert_int_equal(safetensors_count(q.weights) + 2, safetensors_count(q.golden));
        for (size_t i = 0; i < safetensors_count(q.weights); i++) {
            const safetensors_tensor *t = safetensors_get(q.weights, i),
                                     *want = safetensors_find(q.golden, t->name);
            assert_non_null(want);
            assert_ptr_equal(safetensors_find(q.weights, t->name), t);
            assert_int_equal(t->type, BF16);
            packed += t->nf4 != NULL, fit += safetensors_nf4_fits(t);
            for (int64_t piece = 33; piece <= 16384; piece += 16351) {
                uint16_t *low = read_pieces(t, (int64_t)t->bytes / 2, piece);
                if (digest_of(low, t->bytes / 2) != number_of(want))
                    fail_msg("%s: %s in pieces of %lld has other elements", KINDS[k], t->name,
                             (long long)piece);
                free(low);
            }
        }
        assert_int_equal(packed, 7);
        assert_int_equal(fit, k == 0 ? packed : 0);
        quantised_close(&q);
    }
}

static void logits_are_those_of_transformers(void **state)
{
    (void)state;
    device *d = NULL;
    err why = {0};
    assert_int_equal(device_open("cpu", &(device_options){.threads = 1}, &d, NULL), OK);
    for (int k = 0; k < KIND_COUNT; k++) {
        quantised q = quantised_open(KINDS[k]);
        const safetensors_tensor *logits = safetensors_find(q.golden, "logits"),
                                 *tokens = safetensors_find(q.golden, "tokens");
        const int64_t vocab = logits->dim[1];
        model_config c;
        decoder *x = NULL;
        double worst = 0, most = 0;
        if (model_config_read(q.folder, &c, &why) != OK ||
            decoder_open(d, c.family, &c, F32, q.weights, NULL, logits->dim[0], &x, &why) != OK)
            fail_msg("%s", why.text);
        for (int64_t t = 0; t < logits->dim[0]; t++) {
            const float *got, *want = (const float *)logits->data + t * vocab;
            assert_int_equal(decoder_feed(x, (const int32_t *)tokens->data + t, 1, &got, &why), OK);
            for (int64_t i = 0; i < vocab; i++) {
                worst = fmax(worst, fabs((double)got[i] - want[i]));
                most = fmax(most, fabs((double)want[i]));
            }
        }
        if (!(worst <= 1e-5 * most)) fail_msg("%s: the logits differ by %.3g", KINDS[k], worst);
        decoder_close(x);
        quantised_close(&q);
    }
    device_close(d);
}

// ---- What is refused

static char *read_whole(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *bytes = (size_t)ftell(f);
    rewind(f);
    char *out = malloc(*bytes);
    assert_int_equal(fread(out, 1, *bytes, f), *bytes);
    fclose(f);
    return out;
}

// Replaces each `old` in the file of the kind by `new_text` of the same length.
static void refuse(const char *kind, const char *old, const char *new_text, const char *because)
{
    char path[700], folder[] = "/tmp/trireme-bnb-XXXXXX";
    size_t bytes, length = strlen(old), found = 0;
    err why = {0};
    safetensors *s = NULL;
    assert_int_equal(strlen(new_text), length);
    snprintf(path, sizeof path, "%s/golden/bnb/%s/model.safetensors", TESTS_DIR, kind);
    char *content = read_whole(path, &bytes);
    for (size_t i = 0; i + length <= bytes; i++)
        if (memcmp(content + i, old, length) == 0) memcpy(content + i, new_text, length), found++;
    assert_true(found > 0);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    FILE *f = fopen(path, "wb");
    assert_int_equal(fwrite(content, 1, bytes, f), bytes);
    fclose(f);
    assert_int_equal(safetensors_open_weights(folder, &s, &why), E_USAGE);
    if (!strstr(why.text, because)) fail_msg("\"%s\" does not say \"%s\"", why.text, because);
    assert_null(strchr(why.text, '\n'));
    assert_int_equal(safetensors_open_folder(folder, &s, &why), OK); // the file is sound
    safetensors_close(s);
    free(content);
    unlink(path);
    rmdir(folder);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    refuse("double", "bitsandbytes__nf4", "bitsandbytes__fp4", "as fp4; valid: nf4");
    refuse("double", "weight.quant_map", "weight.quant_mop", "quant_map is missing");
    refuse("double", "nested_absmax", "nested_absmix", "nested_absmax is missing");
    refuse("single", "\"shape\": [64, 64]", "\"shape\": [64, 63]", "other elements than");
    refuse("single", "\"shape\": [64, 64]", "\"shape\": [64, -4]", "other elements than");
    refuse("single", "\"shape\": [64, 64]", "\"shape\": \"[64,64\"", "valid: a list");
    refuse("single", "\"blocksize\": 64", "\"blocksize\": -4", "blocksize: valid: a whole number");
    refuse("single", "\"blocksize\": 64", "\"blocksize\": 32", ".absmax: valid: ");
    refuse("single", "\"dtype\": \"bfloat16\"", "\"dtype\": \"bfloat61\"",
           "dtype: found bfloat61; valid:");
    refuse("double", "nested_blocksize\": 256", "nested_blocksize\": 1  ",
           "nested_absmax: valid: ");
    refuse("double", "\"nested_offset\": ", "\"nested_offzet\": ", ".absmax: valid: ");
    refuse("single", "{\"quant_type", "[\"quant_type", "holds no JSON object");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_those_of_bitsandbytes),
        cmocka_unit_test(logits_are_those_of_transformers),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
