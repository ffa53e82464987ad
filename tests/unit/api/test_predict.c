// test_predict.c -- trm_trainer_predict: outputs are equal on every mesh and rank, they are those
// of a decoder that is fed token by token, and invalid arguments are refused.
#include "unit/api/fixture.h"

#include <math.h>
#include <stdio.h>
#include <sys/mman.h>

enum { SAMPLES = 5, ROWS = SAMPLES * POSITIONS, RANKS = 4 };

// Lies in memory that ranks share, as threads or as processes.
typedef struct predict_seen {
    float logits[RANKS][ROWS * VOCAB], last[SAMPLES * VOCAB], vectors[ROWS * 16];
    int32_t classes[ROWS];
    int64_t width[3];
    char refused[4][200];
    bool save;
} predict_seen;

static predict_seen *seen_open(void)
{
    void *p =
        mmap(NULL, sizeof(predict_seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static void make_inputs(int32_t ids[ROWS])
{
    for (int i = 0; i < ROWS; i++) ids[i] = (i * 7 + i / POSITIONS) % VOCAB;
}

#define OR_LEAVE(call)                                                                             \
    do {                                                                                           \
        const trm_status how = (call);                                                             \
        if (how != TRM_OK) return how;                                                             \
    } while (0)

static trm_status predict(trm_trainer *t, void *arg, trm_error *e)
{
    predict_seen *s = arg;
    int32_t ids[ROWS];
    const int rank = trm_trainer_rank(t);
    make_inputs(ids);
    for (int i = 0; i < 2; i++) OR_LEAVE(trm_trainer_step(t, NULL, e));
    OR_LEAVE(
        trm_trainer_predict(t, TRM_LOGITS, false, ids, SAMPLES, s->logits[rank], ROWS * VOCAB, e));
    // Only rank 0 asks for these outputs.
    OR_LEAVE(trm_trainer_predict(t, TRM_LOGITS, true, ids, SAMPLES, rank ? NULL : s->last,
                                 rank ? 0 : SAMPLES * VOCAB, e));
    OR_LEAVE(trm_trainer_predict(t, TRM_CLASSES, false, ids, SAMPLES, rank ? NULL : s->classes,
                                 rank ? 0 : ROWS, e));
    OR_LEAVE(trm_trainer_predict(t, TRM_VECTORS, false, ids, SAMPLES, rank ? NULL : s->vectors,
                                 rank ? 0 : ROWS * 16, e));
    OR_LEAVE(trm_trainer_predict(t, TRM_LOGITS, false, NULL, 0, NULL, 0, e));
    if (rank == 0)
        for (int k = 0; k < 3; k++) s->width[k] = trm_trainer_width(t, (trm_prediction)k);
    return s->save ? trm_trainer_save(t, e) : TRM_OK;
}

static void run_on(predict_seen *s, const char *precision, const char *pairs[])
{
    trm_job *job = new_gpt2();
    memset(s->logits, 0, sizeof s->logits);
    // Micro-batches of one sample make all shapes the same, so all bits are the same.
    SET(job, "train.precision", precision, "train.micro_batch", "1", "model.layers", "2",
        "parallel.no_sync", "true");
    set_all(job, pairs);
    ACCEPT(trm_run(job, predict, s, &error));
    trm_job_close(job);
}

static double worst_difference(const float *a, const float *b, int count)
{
    double worst = 0;
    for (int i = 0; i < count; i++) worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
    return worst;
}

// Every rank has the expected logits, within `tolerance`.
static void check_mesh(const float *want, const char *precision, double tolerance, int ranks,
                       const char *pairs[])
{
    predict_seen *s = seen_open();
    run_on(s, precision, pairs);
    for (int r = 0; r < ranks; r++) {
        const double worst = worst_difference(s->logits[r], want, ROWS * VOCAB);
        if (!(worst <= tolerance))
            fail_msg("%s %s: rank %d differs by %g", pairs[0], pairs[1], r, worst);
    }
    munmap(s, sizeof *s);
}

#define ON(...) ((const char *[]){__VA_ARGS__, NULL})

static void every_mesh_predicts_the_same(void **state)
{
    (void)state;
    predict_seen *one = seen_open();
    const float *want = one->logits[0];
    // The weights after two steps of two ranks, as in the other tests.
    run_on(one, "fp32", ON("parallel.dp", "ddp"));
    check_mesh(want, "fp32", 0, 2, ON("parallel.dp", "zero3"));
    check_mesh(want, "fp32", 0, 2, ON("parallel.dp", "zero3", "launch.as", "processes"));
    check_mesh(want, "fp32", 0, 2,
               ON("parallel.dp", "zero3", "parallel.offload.weights", "file",
                  "parallel.offload.path", "."));
    check_mesh(want, "fp32", 0, 4, ON("parallel.pp", "2", "launch.ranks", "4"));
    check_mesh(want, "fp32", 0, 4,
               ON("parallel.pp", "2", "launch.ranks", "4", "parallel.pp_schedule", "interleaved",
                  "parallel.virtual_stages", "2"));
    check_mesh(want, "fp32", 1e-4, 4, ON("parallel.tp", "2", "launch.ranks", "4"));
    check_mesh(want, "fp32", 1e-4, 4,
               ON("parallel.tp", "2", "launch.ranks", "4", "parallel.sequence_parallel", "true"));
    run_on(one, "bf16", ON("parallel.dp", "ddp"));
    check_mesh(want, "bf16", 0, 2, ON("parallel.dp", "zero3"));
    munmap(one, sizeof *one);
}

static void kinds_of_predictions_fit_together(void **state)
{
    (void)state;
    const char **meshes[] = {ON("parallel.dp", "ddp"),
                             ON("parallel.tp", "2", "launch.ranks", "4", "launch.as", "processes")};
    for (int m = 0; m < 2; m++) {
        predict_seen *s = seen_open();
        run_on(s, "fp32", meshes[m]);
        assert_int_equal(s->width[TRM_LOGITS], VOCAB);
        assert_int_equal(s->width[TRM_CLASSES], 1);
        assert_int_equal(s->width[TRM_VECTORS], 16);
        for (int i = 0; i < ROWS; i++) {
            const float *row = s->logits[0] + i * VOCAB;
            for (int k = 0; k < VOCAB; k++) assert_true(row[k] <= row[s->classes[i]]);
        }
        for (int i = 0; i < SAMPLES; i++)
            assert_memory_equal(s->last + i * VOCAB,
                                s->logits[0] + ((i + 1) * POSITIONS - 1) * VOCAB,
                                VOCAB * sizeof(float));
        munmap(s, sizeof *s);
    }
}

// A decoder of a checkpoint of the same weights, fed token by token.
static void a_decoder_says_the_same_token_by_token(void **state)
{
    (void)state;
    predict_seen *s = seen_open();
    int32_t ids[ROWS];
    trm_decoder *d = NULL;
    const float *logits;
    s->save = true;
    make_inputs(ids);
    run_on(s, "fp32", ON("train.out", "saved"));
    ACCEPT(trm_decoder_open("saved/checkpoints/latest", NULL, NULL, POSITIONS, &d, &error));
    for (int i = 0; i < ROWS; i++) {
        if (i % POSITIONS == 0) trm_decoder_rewind(d);
        ACCEPT(trm_decoder_feed(d, &ids[i], 1, &logits, &error));
        assert_true(worst_difference(logits, s->logits[0] + i * VOCAB, VOCAB) <= 1e-4);
    }
    trm_decoder_close(d);
    munmap(s, sizeof *s);
}

static trm_status ask_wrongly(trm_trainer *t, void *arg, trm_error *e)
{
    predict_seen *s = arg;
    int32_t ids[ROWS];
    float out[ROWS * VOCAB];
    char(*said)[200] = s->refused;
    make_inputs(ids);
    const bool first = trm_trainer_rank(t) == 0;
#define REFUSED(i, ...)                                                                            \
    do {                                                                                           \
        if (trm_trainer_predict(t, __VA_ARGS__, e) != TRM_USAGE) return TRM_FAILED;                \
        if (first) snprintf(said[i], sizeof said[i], "%.199s", e->text);                           \
    } while (0)
    REFUSED(0, TRM_LOGITS, false, ids, SAMPLES, out, ROWS * VOCAB - 1);
    REFUSED(1, TRM_CLASSES, false, ids, -1, out, 0);
    REFUSED(2, (trm_prediction)3, false, ids, SAMPLES, out, 0);
    ids[POSITIONS + 2] = VOCAB;
    REFUSED(3, TRM_LOGITS, false, ids, SAMPLES, out, ROWS * VOCAB);
    // The trainer can still train.
    return trm_trainer_step(t, NULL, e);
}

static void what_cannot_be_is_refused_and_the_run_goes_on(void **state)
{
    (void)state;
    predict_seen *s = seen_open();
    trm_job *job = new_gpt2();
    ACCEPT(trm_run(job, ask_wrongly, s, &error));
    assert_non_null(strstr(s->refused[0], "639 elements; valid: 640, 5 samples of 128"));
    assert_non_null(strstr(s->refused[1], "-1 samples"));
    assert_non_null(strstr(s->refused[2], "valid: TRM_LOGITS, TRM_CLASSES, TRM_VECTORS"));
    assert_non_null(strstr(s->refused[3], "sample 1: token 2 is 16; valid: 0 to 15"));
    trm_job_close(job);
    munmap(s, sizeof *s);
}

// ---- A model of the program with squared error: y = (x0 + x1, x0 - x1).

static int one_block(const void *config)
{
    (void)config;
    return 1;
}

static void trace_sum(trm_builder *b, const void *config, int block)
{
    (void)config, (void)block;
    trm_square_error(b, trm_features(b, 2), trm_weight(b, "w", 2, 2, TRM_NORMAL, 0.1), NULL);
}

static trm_status read_sum(void *context, uint64_t sample, void *inputs, void *labels, trm_error *e)
{
    float *x = inputs, *y = labels;
    (void)context, (void)e;
    x[0] = (float)(sample % 5) - 2, x[1] = (float)(sample % 3) - 1;
    y[0] = x[0] + x[1], y[1] = x[0] - x[1];
    return TRM_OK;
}

static trm_status learn_sum(trm_trainer *t, void *arg, trm_error *e)
{
    const float x[3][2] = {{1, 2}, {-3, 0.5F}, {0, 0}};
    float y[3][2];
    (void)arg;
    while (trm_trainer_steps_left(t) > 0) OR_LEAVE(trm_trainer_step(t, NULL, e));
    if (trm_trainer_width(t, TRM_VECTORS) != 2 || trm_trainer_width(t, TRM_LOGITS) != 0)
        return trm_fail(e, TRM_FAILED, "other widths");
    OR_LEAVE(trm_trainer_predict(t, TRM_VECTORS, false, x, 3, y, 6, e));
    for (int i = 0; i < 3; i++)
        if (fabsf(y[i][0] - x[i][0] - x[i][1]) > 0.05F ||
            fabsf(y[i][1] - x[i][0] + x[i][1]) > 0.05F)
            return trm_fail(e, TRM_FAILED, "sample %d: %g %g", i, (double)y[i][0], (double)y[i][1]);
    return trm_trainer_predict(t, TRM_CLASSES, false, x, 3, y, 3, e);
}

static void a_regression_predicts_its_targets(void **state)
{
    (void)state;
    const trm_family sum = {"sum", one_block, NULL, NULL, trace_sum};
    const trm_dataset data = {
        .samples = 30, .positions = 1, .features = 2, .targets = 2, .read = read_sum};
    trm_job *job = new_job();
    SET(job, "train.steps", "200", "train.global_batch", "10", "optimizer.lr", "0.05",
        "optimizer.weight_decay", "0");
    ACCEPT(trm_job_use_model(job, &sum, NULL, NULL, &error));
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &data, &error));
    REFUSE(trm_run(job, learn_sum, NULL, &error));
    HAS("no classes: its loss is squared error; valid: vectors");
    trm_job_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decoder_says_the_same_token_by_token),
        cmocka_unit_test(kinds_of_predictions_fit_together),
        cmocka_unit_test(every_mesh_predicts_the_same),
        cmocka_unit_test(what_cannot_be_is_refused_and_the_run_goes_on),
        cmocka_unit_test(a_regression_predicts_its_targets),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
