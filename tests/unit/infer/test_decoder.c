// test_decoder.c -- compares logits with a key-value cache with those of transformers, for prompts
// that are fed in pieces of several sizes.
#include "unit/infer/golden_logits.h"

#include <unistd.h>

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

// ---- A family with two attentions in a block, so that the cache of a block has two parts. Queries and keys are
// normed, in the one before they are rotated, in the other after. A config says the form of the logits.

enum { VOCAB = 11, WIDTH = 16, TOKENS = 9 };

static int two_blocks(const void *config)
{
    (void)config;
    return 3;
}

static int two_key(const void *config, int block)
{
    (void)config;
    return block;
}

static graph_value *attend(graph *g, graph_value *x, const char *name, graph_attention a)
{
    a.head_dim = WIDTH / a.heads, a.scale = 0.5;
    static const double frequency[] = {1, 0.2};
    const graph_rope table = {.rows = 2 * TOKENS, .pairs = 2, .frequency = frequency, .scale = 1.5};
    const graph_qk_norm norm = {.heads = a.heads,
                                .kv_heads = a.kv_heads,
                                .head_dim = a.head_dim,
                                .eps = 1e-5,
                                .full_width = a.heads == a.kv_heads};
    graph_value *w =
        build_weight(g, name, (a.heads + 2 * a.kv_heads) * a.head_dim, WIDTH, INIT_NORMAL, 0.5);
    x = build_linear(g, x, w, NULL);
    if (!norm.full_width) x = build_qk_norm(g, x, &norm);
    x = build_rope(g, x, a.heads + a.kv_heads, a.head_dim, &table, norm.full_width);
    if (norm.full_width) x = build_qk_norm(g, x, &norm);
    return build_attention(g, x, &a);
}

static void two_trace(graph *g, const void *config, int block)
{
    const graph_logits *form = config, plain = {1, 0};
    if (block == 0) {
        graph_value *table = build_weight(g, "tokens", VOCAB, WIDTH, INIT_NORMAL, 1);
        build_output(g, build_embedding(g, build_ids(g), table, NULL, 1));
        return;
    }
    graph_value *x = build_residual(g, WIDTH);
    if (block == 2) {
        graph_value *w = build_weight(g, "head", VOCAB, WIDTH, INIT_NORMAL, 1);
        if (!form) form = &plain;
        build_linear_cross_entropy(g, x, w, NULL, form->scale, form->softcap);
        return;
    }
    // The attentions have different widths, so that the rows of the two cache parts differ. The second one has a
    // window, a cap and sinks.
    graph_value *a =
        build_add(g, x, attend(g, x, "first", (graph_attention){.heads = 2, .kv_heads = 1}), 1, 1);
    graph_attention second = {.heads = 4, .kv_heads = 4, .window = 3, .softcap = 1.5};
    second.sinks = build_weight(g, "sinks", 4, 0, INIT_NORMAL, 1);
    build_output(g, build_add(g, a, attend(g, a, "second", second), 1, 1));
}

static const model_family two_family = {
    .name = "two", .blocks = two_blocks, .key = two_key, .trace = two_trace, .layer = two_key};

typedef struct drawn {
    const model *m;
    device_stream *on;
    model_param_files files;
} drawn;

static status draw(void *arg, size_t i, uint64_t offset, void *out, size_t bytes, err *e)
{
    const drawn *d = arg;
    (void)e;
    model_param_init(d->m, d->files.file[i].param, 5, (int64_t)(offset / sizeof(float)),
                     (int64_t)(bytes / sizeof(float)), d->on, out);
    return OK;
}

static safetensors *weights_of(device *v, const model_family *f)
{
    const model_options o = {.mode = GRAPH_DECODE, .type = F32, .batch = 1, .seq = 1};
    char path[] = "/tmp/trireme-test-XXXXXX";
    model *m;
    safetensors *s;
    drawn d = {0};
    close(mkstemp(path));
    CHECK(model_open(f, NULL, &o, &m, e));
    d.m = m;
    CHECK(v->ops->stream_open(v, STREAM_COMPUTE, false, &d.on, e));
    CHECK(model_param_files_make(m, F32, &d.files, e));
    CHECK(safetensors_write(path, d.files.info, (size_t)d.files.count, draw, &d, NULL, e));
    CHECK(safetensors_open(path, &s, e));
    unlink(path);
    v->ops->stream_close(d.on);
    model_param_files_clear(&d.files);
    model_close(m);
    return s;
}

static safetensors *two_weights(device *v)
{
    return weights_of(v, &two_family);
}

static const int32_t TEXT[TOKENS] = {3, 1, 4, 1, 5, 9, 2, 6, 5};

// Feeds TEXT in pieces to a decoder for `room` tokens and returns the last logits.
static void feed_pieces(device *v, const safetensors *weights, const graph_logits *form,
                        int64_t piece, int64_t room, float out[VOCAB])
{
    decoder *d;
    const float *logits = NULL;
    CHECK(decoder_open(v, &two_family, form, F32, weights, NULL, room, &d, e));
    for (int64_t offset = 0; offset < TOKENS; offset += piece)
        CHECK(decoder_feed(d, TEXT + offset, piece < TOKENS - offset ? piece : TOKENS - offset,
                           &logits, e));
    memcpy(out, logits, VOCAB * sizeof *out);
    decoder_close(d);
}

// If the text is fed at once, a block reads cache rows of the same pass. If it is fed in pieces, the
// block reads rows of earlier passes, at another offset of each part.
static void test_every_part_of_the_cache_is_found_again(void **state)
{
    (void)state;
    device *v;
    float whole[VOCAB], pieces[VOCAB];
    CHECK(device_open("cpu", &(device_options){.threads = 1}, &v, e));
    safetensors *weights = two_weights(v);
    feed_pieces(v, weights, NULL, TOKENS, TOKENS, whole);
    for (int64_t piece = 1; piece < TOKENS; piece++)
        for (int64_t room = TOKENS; room <= TOKENS + 3; room += 3) {
            feed_pieces(v, weights, NULL, piece, room, pieces);
            for (int i = 0; i < VOCAB; i++)
                if (!(fabsf(pieces[i] - whole[i]) <= 1e-4F))
                    fail_msg("pieces of %lld, room %lld: logit %d is %g, not %g", (long long)piece,
                             (long long)room, i, (double)pieces[i], (double)whole[i]);
        }
    device_close(v);
    safetensors_close(weights);
}

// Sampling with a temperature reads the logits that the loss reads.
static void test_logits_are_scaled_and_capped(void **state)
{
    (void)state;
    const graph_logits form = {0.5f, 4};
    device *v;
    float plain[VOCAB], capped[VOCAB];
    CHECK(device_open("cpu", &(device_options){.threads = 1}, &v, e));
    safetensors *weights = two_weights(v);
    feed_pieces(v, weights, NULL, TOKENS, TOKENS, plain);
    feed_pieces(v, weights, &form, TOKENS, TOKENS, capped);
    for (int i = 0; i < VOCAB; i++)
        assert_true(fabs(capped[i] - 4 * tanh(0.5 * plain[i] / 4)) < 1e-6);
    device_close(v);
    safetensors_close(weights);
}

static void test_a_sequence_continues_after_it_was_truncated(void **state)
{
    (void)state;
    device *v;
    decoder *d;
    float first[VOCAB];
    const float *logits;
    CHECK(device_open("cpu", &(device_options){.threads = 1}, &v, e));
    safetensors *weights = two_weights(v);
    CHECK(decoder_open(v, &two_family, NULL, F32, weights, NULL, TOKENS, &d, e));
    CHECK(decoder_feed(d, TEXT, 4, &logits, e));
    CHECK(decoder_feed(d, TEXT + 4, 1, &logits, e));
    memcpy(first, logits, sizeof first);
    CHECK(decoder_feed(d, TEXT + 5, 4, &logits, e));
    decoder_rewind(d, 4);
    assert_int_equal(decoder_position(d), 4);
    CHECK(decoder_feed(d, TEXT + 4, 1, &logits, e));
    assert_memory_equal(logits, first, sizeof first);
    decoder_close(d);
    device_close(v);
    safetensors_close(weights);
}

// No token leaves the state of a gated delta rule: the decoder feeds the kept tokens again.
static void test_a_state_follows_a_truncated_sequence(void **state)
{
    (void)state;
    golden g = {0};
    decoder *d = NULL;
    float first[256], fresh[256];
    const float *logits;
    golden_open(&g, "qwen3_5", 1);
    const safetensors_tensor *prompt = golden_tensor(&g, "prompt");
    const int32_t *ids = prompt->data;
    const size_t bytes = sizeof(float) * (size_t)golden_tensor(&g, "logits")->dim[1];
    CHECK(decoder_open(g.device, g.config.family, &g.config, F32, g.weights, NULL, prompt->dim[0],
                       &d, e));
    CHECK(decoder_feed(d, ids, 1, &logits, e));
    memcpy(fresh, logits, bytes);
    CHECK(decoder_feed(d, ids + 1, 6, &logits, e));
    decoder_rewind(d, 5);
    CHECK(decoder_feed(d, ids + 5, 1, &logits, e));
    memcpy(first, logits, bytes);
    CHECK(decoder_feed(d, ids + 6, 3, &logits, e));
    decoder_rewind(d, 7);
    decoder_rewind(d, 5);
    assert_int_equal(decoder_position(d), 5);
    CHECK(decoder_feed(d, ids + 5, 1, &logits, e));
    assert_memory_equal(logits, first, bytes);
    assert_int_equal(decoder_position(d), 6);
    decoder_rewind(d, 0);
    CHECK(decoder_feed(d, ids, 1, &logits, e));
    assert_memory_equal(logits, fresh, bytes);
    decoder_close(d);
    golden_close(&g);
}

// ---- Long texts of models in which all attention of a block has a window, so that its cache does not hold all tokens

enum {
    LONG = 1500,
    SEEN = 12
}; // SEEN: tokens that the logits of windows_family depend on, at most

static int windows_blocks(const void *config)
{
    (void)config;
    return 4;
}

// Two layers with windows of 3 and 5 tokens, which do not know positions.
static void windows_trace(graph *g, const void *config, int block)
{
    if (block == 0 || block == 3) {
        two_trace(g, config, block == 0 ? 0 : 2);
        return;
    }
    const graph_attention a = {
        .heads = 4, .kv_heads = 2, .head_dim = 4, .scale = 0.5, .window = 1 + 2 * block};
    graph_value *x = build_residual(g, WIDTH),
                *w = build_weight(g, block == 1 ? "first" : "second", 32, WIDTH, INIT_NORMAL, 0.5);
    build_output(g, build_add(g, x, build_attention(g, build_linear(g, x, w, NULL), &a), 1, 1));
}

static const model_family windows_family = {.name = "windows",
                                            .blocks = windows_blocks,
                                            .key = two_key,
                                            .trace = windows_trace,
                                            .layer = two_key};

static void fill_text(int32_t ids[LONG], int32_t vocab)
{
    for (int64_t i = 0; i < LONG; i++) ids[i] = (int32_t)((i * i + 5 * i / 3) % vocab);
}

static decoder *open_windows(device *v, const safetensors *weights, int64_t room)
{
    decoder *d;
    CHECK(decoder_open(v, &windows_family, NULL, F32, weights, NULL, room, &d, e));
    return d;
}

static const float *feed(decoder *d, const int32_t *ids, int64_t count, int64_t piece)
{
    const float *logits = NULL;
    for (int64_t i = 0; i < count; i += piece)
        CHECK(decoder_feed(d, ids + i, piece < count - i ? piece : count - i, &logits, e));
    return logits;
}

// The logits of a token in a long text have the bits of those in a text that begins shortly before it.
static void test_rows_that_moved_in_the_cache_are_read_in_their_new_places(void **state)
{
    (void)state;
    device *v;
    int32_t ids[LONG];
    float logits[VOCAB];
    CHECK(device_open("cpu", &(device_options){.threads = 1}, &v, e));
    safetensors *weights = weights_of(v, &windows_family);
    decoder *whole = open_windows(v, weights, LONG), *end = open_windows(v, weights, SEEN);
    fill_text(ids, VOCAB);
    for (int64_t i = 0; i < LONG; i++) {
        memcpy(logits, feed(whole, ids + i, 1, 1), sizeof logits);
        if (i < SEEN || i % 7) continue;
        decoder_rewind(end, 0);
        assert_memory_equal(feed(end, ids + i - SEEN + 1, SEEN, 1), logits, sizeof logits);
    }
    decoder_close(whole);
    decoder_close(end);
    device_close(v);
    safetensors_close(weights);
}

static void test_a_sequence_continues_after_rows_were_lost(void **state)
{
    (void)state;
    device *v;
    int32_t ids[LONG];
    float logits[VOCAB];
    CHECK(device_open("cpu", &(device_options){.threads = 1}, &v, e));
    safetensors *weights = weights_of(v, &windows_family);
    decoder *d = open_windows(v, weights, LONG);
    fill_text(ids, VOCAB);
    for (int64_t keep = 1000; keep >= 0; keep -= 500) {
        if (keep) feed(d, ids, keep, keep);
        memcpy(logits, feed(d, ids + keep, 1, 1), sizeof logits);
        feed(d, ids + keep + 1, LONG - keep - 1, 1);
        for (int k = 0; k < 2; k++) {
            decoder_rewind(d, keep);
            assert_int_equal(decoder_position(d), keep);
            assert_memory_equal(feed(d, ids + keep, 1, 1), logits, sizeof logits);
        }
        decoder_rewind(d, 0);
    }
    decoder_close(d);
    device_close(v);
    safetensors_close(weights);
}

// Ids and the rotary tables are all that a longer text takes.
static void test_a_window_limits_the_bytes_of_the_cache(void **state)
{
    (void)state;
    device *v;
    CHECK(device_open("cpu", &(device_options){.threads = 1}, &v, e));
    safetensors *weights = weights_of(v, &windows_family);
    uint64_t bytes[2];
    for (int i = 0; i < 2; i++) {
        const uint64_t before = v->bytes_now;
        decoder *d = open_windows(v, weights, (i + 1) * LONG);
        bytes[i] = v->bytes_now - before;
        decoder_close(d);
    }
    assert_true(bytes[1] - bytes[0] <= 2 * sizeof(int32_t) * LONG + 256);
    device_close(v);
    safetensors_close(weights);
}

// A prompt that is longer than windows and caches runs in pieces of any size.
static void check_long_prompt(const char *name)
{
    golden g = {0};
    decoder *d;
    int32_t ids[LONG];
    golden_open(&g, name, 1);
    g.config.max_seq = LONG;
    const int64_t vocab = golden_tensor(&g, "logits")->dim[1];
    const size_t bytes = (size_t)vocab * sizeof(float);
    float *want = malloc(bytes);
    fill_text(ids, (int32_t)vocab);
    CHECK(decoder_open(g.device, g.config.family, &g.config, F32, g.weights, NULL, LONG, &d, e));
    memcpy(want, feed(d, ids, LONG, 1), bytes);
    for (int64_t piece = 299; piece <= LONG; piece += LONG - 299) {
        decoder_rewind(d, 0);
        const float *logits = feed(d, ids, LONG, piece);
        for (int64_t i = 0; i < vocab; i++)
            if (!(fabsf(logits[i] - want[i]) <= 1e-4F))
                fail_msg("%s, pieces of %lld: logit %lld is %g, not %g", name, (long long)piece,
                         (long long)i, (double)logits[i], (double)want[i]);
    }
    free(want);
    decoder_close(d);
    golden_close(&g);
}

static void test_a_long_prompt_runs_in_pieces(void **state)
{
    (void)state;
    check_long_prompt("mistral");
    check_long_prompt("gemma3_text");
}

static void test_every_sampling_stream_of_a_seed_is_independent(void **state)
{
    (void)state;
    float flat[64] = {0};
    int32_t id[2], again;
    int equal = 0;
    for (uint64_t i = 0; i < 200; i++) {
        for (uint64_t k = 0; k < 2; k++) {
            const sample_options o = {.temperature = 1, .top_p = 1, .seed = 3, .stream = k};
            CHECK(sample_token(flat, 64, &o, i, &id[k], e));
            CHECK(sample_token(flat, 64, &o, i, &again, e));
            assert_int_equal(id[k], again);
        }
        equal += id[0] == id[1];
    }
    assert_true(equal < 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cached_logits_equal_transformers),
        cmocka_unit_test(test_sampling_follows_temperature_and_cuts),
        cmocka_unit_test(test_logits_are_scaled_and_capped),
        cmocka_unit_test(test_every_part_of_the_cache_is_found_again),
        cmocka_unit_test(test_a_sequence_continues_after_it_was_truncated),
        cmocka_unit_test(test_rows_that_moved_in_the_cache_are_read_in_their_new_places),
        cmocka_unit_test(test_a_sequence_continues_after_rows_were_lost),
        cmocka_unit_test(test_a_window_limits_the_bytes_of_the_cache),
        cmocka_unit_test(test_a_long_prompt_runs_in_pieces),
        cmocka_unit_test(test_a_state_follows_a_truncated_sequence),
        cmocka_unit_test(test_every_sampling_stream_of_a_seed_is_independent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
