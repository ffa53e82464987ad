// test_text.c -- a language model of a program, from training to generated tokens; and errors of
// the decoder.
#include "unit/api/fixture.h"

#include <math.h>

enum { WIDTH = 16, HEADS = 2, HEAD_DIM = 8, LONGEST = 12 };

static int own_blocks(const void *config)
{
    (void)config;
    return 3;
}

static trm_value *weight(trm_builder *b, const char *name, int64_t rows, int64_t cols)
{
    return trm_weight(b, name, rows, cols, TRM_NORMAL, 1 / sqrt((double)(cols ? cols : rows)));
}

// One attention layer with rotary position embedding and tied weights.
static void own_trace(trm_builder *b, const void *config, int block)
{
    static const double frequency[HEAD_DIM / 2] = {1, 0.3, 0.1, 0.03};
    (void)config;
    if (block == 0) {
        trm_value *table = weight(b, "tokens", VOCAB, WIDTH);
        trm_output(b, trm_embedding(b, trm_ids(b), table, NULL));
        return;
    }
    trm_value *x = trm_input(b, WIDTH);
    const char *name = block == 1 ? "norm" : "last_norm";
    trm_value *h = trm_layer_norm(b, x, trm_weight(b, name, WIDTH, 0, TRM_ONES, 0), NULL, 1e-5);
    if (block == 2) {
        trm_cross_entropy(b, h, weight(b, "tokens", VOCAB, WIDTH), NULL);
        return;
    }
    trm_value *w = weight(b, "{}.qkv", 3 * WIDTH, WIDTH);
    trm_stored_rows(b, w, "{}.q", WIDTH);
    trm_stored_rows(b, w, "{}.k", WIDTH);
    trm_stored_rows(b, w, "{}.v", WIDTH);
    h = trm_rope(b, trm_linear(b, h, w, NULL), 2 * HEADS, HEAD_DIM, LONGEST, frequency, 4);
    h = trm_attention(b, h, HEADS, HEADS, HEAD_DIM, 1 / sqrt(HEAD_DIM), 0);
    w = weight(b, "{}.o", WIDTH, WIDTH);
    trm_stored_transposed(b, w);
    h = trm_dropout(b, trm_linear(b, h, w, NULL), 0.1);
    trm_output(b, trm_add(b, h, x)); // the operands in any order
}

static const trm_family family = {"own", own_blocks, NULL, NULL, own_trace};

static trm_status train(trm_trainer *t, void *arg, trm_error *e)
{
    trm_step s = {.loss = 0};
    while (trm_trainer_steps_left(t) > 0) {
        trm_status how = trm_trainer_step(t, &s, e);
        if (how != TRM_OK) return how;
    }
    if (s.loss > 0.1) return trm_fail(e, TRM_FAILED, "the loss is still %g", s.loss);
    (void)arg;
    return trm_trainer_save(t, e);
}

static void train_own(const char *precision, const char *out)
{
    trm_job *job = new_job();
    SET(job, "train.steps", "120", "train.precision", precision, "train.out", out, "optimizer.lr",
        "2e-2");
    ACCEPT(trm_job_use_model(job, &family, NULL, "{\"model_type\": \"own\", \"note\": 1}", &error));
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &counting, &error));
    ACCEPT(trm_run(job, train, NULL, &error));
    trm_job_close(job);
}

static void check_counting(const char *folder)
{
    trm_decoder *d = NULL;
    const int32_t prompt[] = {13, 14};
    const float *logits;
    int32_t id;
    ACCEPT(trm_decoder_open(folder, &family, NULL, LONGEST, &d, &error));
    assert_int_equal(trm_decoder_vocab(d), VOCAB);
    REFUSE(trm_decoder_sample(d, 0, 0, 1, 0, &id, &error));
    HAS("no token was fed yet");
    for (int again = 0; again < 2; again++) {
        ACCEPT(trm_decoder_feed(d, prompt, 2, &logits, &error));
        for (int i = 0; i < 6; i++) {
            ACCEPT(trm_decoder_sample(d, 0, 0, 1, 0, &id, &error));
            assert_int_equal(id, (15 + i) % VOCAB);
            ACCEPT(trm_decoder_feed(d, &id, 1, NULL, &error));
        }
        id = VOCAB;
        REFUSE(trm_decoder_feed(d, &id, 1, NULL, &error));
        HAS("token id 16");
        REFUSE(trm_decoder_feed(d, (int32_t[]){1, 2, 3, 4, 5}, 5, NULL, &error));
        HAS("there is room for 12");
        trm_decoder_rewind(d);
    }
    trm_decoder_close(d);
}

static void a_model_of_ones_own_learns_to_count(void **state)
{
    (void)state;
    train_own("fp32", "fp32");
    check_counting("fp32/checkpoints/latest");
}

static void in_bf16_too(void **state)
{
    (void)state;
    train_own("bf16", "bf16");
    check_counting("bf16/checkpoints/latest");
}

static void the_checkpoint_holds_what_the_program_said(void **state)
{
    (void)state;
    file_map m = {0};
    assert_int_equal(file_map_open("fp32/checkpoints/latest/config.json", &m, NULL), OK);
    assert_int_equal(m.bytes, strlen("{\"model_type\": \"own\", \"note\": 1}"));
    assert_memory_equal(m.ptr, "{\"model_type\": \"own\", \"note\": 1}", m.bytes);
    file_unmap(&m);
}

static void a_decoder_refuses_what_it_cannot_hold(void **state)
{
    (void)state;
    trm_decoder *d = NULL;
    const char *folder = "fp32/checkpoints/latest";
    REFUSE(trm_decoder_open(folder, &family, NULL, LONGEST + 1, &d, &error));
    HAS("1 to 12");
    assert_null(d);
    REFUSE(trm_decoder_open(folder, NULL, NULL, LONGEST, &d, &error));
    HAS("own");
    REFUSE(trm_decoder_open("nowhere", NULL, NULL, LONGEST, &d, &error));
    HAS("nowhere");
}

static trm_status read_vectors(void *context, uint64_t sample, void *inputs, void *labels,
                               trm_error *e)
{
    (void)context, (void)e;
    ((float *)inputs)[0] = (float)(sample % 2);
    *(int32_t *)labels = (int32_t)(sample % 2);
    return TRM_OK;
}

static void a_model_of_vectors_does_not_continue_text(void **state)
{
    (void)state;
    const trm_dataset d = {.samples = 64, .positions = 1, .features = 1, .read = read_vectors};
    trm_decoder *decoder = NULL;
    trm_job *job = new_job();
    SET(job, "train.out", "mlp", "train.steps", "100", "model.family", "mlp", "model.features", "1",
        "model.classes", "2", "model.hidden", "8", "model.layers", "2", "optimizer.lr", "0.1",
        "checks.replicas_every", "0");
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &d, &error));
    ACCEPT(trm_run(job, train, NULL, &error));
    REFUSE(trm_decoder_open("mlp/checkpoints/latest", NULL, NULL, 4, &decoder, &error));
    HAS("does not generate tokens");
    trm_job_close(job);
}

static void a_tokenizer_that_is_not_there_is_named(void **state)
{
    (void)state;
    trm_tokenizer *t = NULL;
    REFUSE(trm_tokenizer_open("none/tokenizer.json", &t, &error));
    HAS("none/tokenizer.json");
    trm_tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_of_ones_own_learns_to_count),
        cmocka_unit_test(in_bf16_too),
        cmocka_unit_test(the_checkpoint_holds_what_the_program_said),
        cmocka_unit_test(a_decoder_refuses_what_it_cannot_hold),
        cmocka_unit_test(a_model_of_vectors_does_not_continue_text),
        cmocka_unit_test(a_tokenizer_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
