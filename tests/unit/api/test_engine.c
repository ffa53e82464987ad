// test_engine.c -- a step in parts: the bits of a whole step under every policy, precision and accumulation, the loss of
// a micro-batch, and one line for each wrong order.
#include "unit/api/fixture.h"

#include <math.h>
#include <stdio.h>

enum { STEPS = 3, RANKS = 2, MICROS = 4, FLOATS_MOST = 8192 };

typedef struct engine_notes {
    bool in_parts, reads_losses;
    double loss[STEPS], grad_norm[STEPS];
    double micro_loss[RANKS][STEPS * MICROS];
    int forwards[RANKS], boundaries[RANKS], early[RANKS];
    float weight[FLOATS_MOST];
    size_t floats;
} engine_notes;

static trm_status read_weights(trm_trainer *t, engine_notes *n, trm_error *e)
{
    static float unused[FLOATS_MOST];
    trm_tensor x;
    trm_status how = TRM_OK;
    size_t floats = 0;
    for (int i = 0; how == TRM_OK && trm_trainer_tensor(t, i, &x); i++) {
        const size_t count = (size_t)(x.rows * (x.cols ? x.cols : 1));
        if (floats + count > FLOATS_MOST) return trm_fail(e, TRM_FAILED, "the model is too large");
        how = trm_trainer_read(t, x.name, trm_trainer_rank(t) ? unused : n->weight + floats, count,
                               e);
        floats += count;
    }
    if (trm_trainer_rank(t) == 0) n->floats = floats;
    return how;
}

// One iteration of a loop of DeepSpeed.
static trm_status take_parts(trm_trainer *t, engine_notes *n, trm_step *s, trm_error *e)
{
    const int rank = trm_trainer_rank(t), k = n->forwards[rank]++;
    const uint64_t before = s->step;
    const bool boundary = trm_engine_is_boundary(t);
    trm_status how = trm_engine_forward(t, n->reads_losses ? &n->micro_loss[rank][k] : NULL, e);
    if (how == TRM_OK) how = trm_engine_backward(t, e);
    if (boundary != trm_engine_is_boundary(t)) return trm_fail(e, TRM_FAILED, "no boundary");
    if (how == TRM_OK) how = trm_engine_step(t, s, e);
    n->boundaries[rank] += boundary;
    if (!boundary && s->step != before) n->early[rank]++;
    return how;
}

static trm_status train(trm_trainer *t, void *arg, trm_error *e)
{
    engine_notes *n = arg;
    trm_step s = {.step = 0};
    trm_status how = TRM_OK;
    while (how == TRM_OK && trm_trainer_steps_left(t) > 0) {
        how = n->in_parts ? take_parts(t, n, &s, e) : trm_trainer_step(t, &s, e);
        if (how != TRM_OK || s.step == 0 || trm_trainer_rank(t) > 0) continue;
        n->loss[s.step - 1] = s.loss;
        n->grad_norm[s.step - 1] = s.grad_norm;
    }
    return how == TRM_OK ? read_weights(t, n, e) : how;
}

static void run_job(engine_notes *n, const char *accumulation, const char *const *settings)
{
    trm_job *job = new_gpt2();
    SET(job, "train.steps", "3", "train.accumulation", accumulation, "model.layers", "2",
        "train.micro_batch", strcmp(accumulation, "1") == 0 ? "4" : "1");
    for (; *settings; settings += 2) ACCEPT(trm_job_set(job, settings[0], settings[1], &error));
    ACCEPT(trm_run(job, train, n, &error));
    trm_job_close(job);
}

static engine_notes *new_notes(bool in_parts)
{
    engine_notes *n = calloc(1, sizeof *n);
    assert_non_null(n);
    n->in_parts = in_parts;
    return n;
}

static void both_ways_are_equal(const char *accumulation, const char *const *settings)
{
    engine_notes *straight = new_notes(false), *parts = new_notes(true);
    parts->reads_losses = true;
    run_job(straight, accumulation, settings);
    run_job(parts, accumulation, settings);
    assert_true(straight->loss[0] > 0 && straight->floats > 0);
    assert_memory_equal(straight->loss, parts->loss, sizeof straight->loss);
    assert_memory_equal(straight->grad_norm, parts->grad_norm, sizeof straight->grad_norm);
    assert_int_equal(straight->floats, parts->floats);
    assert_memory_equal(straight->weight, parts->weight, straight->floats * sizeof(float));
    free(straight);
    free(parts);
}

static void every_policy_has_the_bits_of_a_whole_step(void **state)
{
    static const char *const policies[] = {"ddp", "zero1", "zero2", "zero3"};
    static const char *const precisions[] = {"fp32", "bf16"};
    static const char *const accumulations[] = {"1", "4"};
    (void)state;
    for (int p = 0; p < 4; p++)
        for (int b = 0; b < 2; b++)
            for (int a = 0; a < 2; a++)
                both_ways_are_equal(accumulations[a],
                                    (const char *[]){"parallel.dp", policies[p], "train.precision",
                                                     precisions[b], NULL});
}

static void other_axes_and_tiers_have_the_bits_of_a_whole_step(void **state)
{
    (void)state;
    both_ways_are_equal("4", (const char *[]){"parallel.tp", "2", "train.micro_batch", "2", NULL});
    both_ways_are_equal("4", (const char *[]){"parallel.cp", "2", "train.micro_batch", "2", NULL});
    both_ways_are_equal("4", (const char *[]){"parallel.dp", "zero3", "parallel.offload.optimizer",
                                              "file", "parallel.offload.weights", "file",
                                              "parallel.offload.path", "state", NULL});
    both_ways_are_equal("4", (const char *[]){"train.precision", "fp16", "parallel.dp", "zero2",
                                              "parallel.recompute", "full", NULL});
}

static void the_losses_of_micro_batches_have_the_loss_of_the_step_as_their_mean(void **state)
{
    (void)state;
    engine_notes *n = new_notes(true), *quiet = new_notes(true);
    n->reads_losses = true;
    run_job(n, "4", (const char *[]){"parallel.dp", "zero2", NULL});
    run_job(quiet, "4", (const char *[]){"parallel.dp", "zero2", NULL});
    for (int s = 0; s < STEPS; s++) {
        double mean = 0;
        for (int i = 0; i < RANKS * MICROS; i++)
            mean += n->micro_loss[i % RANKS][s * MICROS + i / RANKS] / (RANKS * MICROS);
        assert_true(fabs(mean - n->loss[s]) < 1e-12);
    }
    assert_true(n->micro_loss[0][0] != n->micro_loss[0][1]);
    assert_true(n->micro_loss[0][0] != n->micro_loss[1][0]);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(n->forwards[r], STEPS * MICROS);
        assert_int_equal(n->boundaries[r], STEPS);
        assert_int_equal(n->early[r], 0);
    }
    // A program that reads no loss has the same bits.
    assert_memory_equal(n->loss, quiet->loss, sizeof n->loss);
    assert_memory_equal(n->weight, quiet->weight, n->floats * sizeof(float));
    free(n);
    free(quiet);
}

#define WRONG(call, line)                                                                          \
    if ((call) != TRM_USAGE || strcmp(e->text, line) != 0)                                         \
    return trm_fail(e, TRM_FAILED, "%s: %s", #call, e->text)

// The first loss is read again by each later call. A refused call changes nothing: the losses stay those of a loop
// without mistakes.
static trm_status err_often(trm_trainer *t, void *arg, trm_error *e)
{
    engine_notes *n = arg;
    trm_step s = {.step = 0};
    float w;
    double loss;
    WRONG(trm_engine_backward(t, e), "backward: no forward came before; valid: forward");
    WRONG(trm_engine_step(t, &s, e), "step: no backward came before; valid: forward");
    if (trm_engine_forward(t, NULL, e) != TRM_OK) return e->code;
    WRONG(trm_engine_forward(t, NULL, e),
          "forward: micro-batch 1 of 2 had its forward, and no backward; valid: backward");
    WRONG(trm_engine_step(t, &s, e),
          "step: micro-batch 1 of 2 had its forward, and no backward; valid: backward");
    WRONG(trm_trainer_step(t, &s, e),
          "a whole step: micro-batch 1 of 2 has begun, and the step has "
          "not ended; valid: after the step of the last one");
    if (trm_trainer_save(t, e) != TRM_USAGE || trm_trainer_resume(t, NULL, e) != TRM_USAGE ||
        trm_trainer_evaluate(t, 0, &loss, e) != TRM_USAGE ||
        trm_trainer_read(t, "transformer.ln_f.bias", &w, 1, e) != TRM_USAGE ||
        trm_trainer_write(t, "transformer.ln_f.bias", &w, 1, e) != TRM_USAGE ||
        trm_trainer_register_comm_hook(t, NULL, NULL, e) != TRM_USAGE)
        return trm_fail(e, TRM_FAILED, "within a step");
    if (trm_engine_backward(t, e) != TRM_OK) return e->code;
    WRONG(trm_engine_backward(t, e),
          "backward: micro-batch 1 of 2 had its backward; valid: forward");
    if (trm_engine_step(t, &s, e) != TRM_OK) return e->code;
    WRONG(trm_engine_step(t, &s, e), "step: micro-batch 1 of 2 had its step; valid: forward");
    if (trm_engine_forward(t, &loss, e) != TRM_OK) return e->code;
    if (trm_engine_backward(t, e) != TRM_OK) return e->code;
    WRONG(trm_engine_forward(t, NULL, e),
          "forward: micro-batch 2 of 2 is the last one, and had its backward; valid: step");
    if (trm_engine_step(t, &s, e) != TRM_OK) return e->code;
    WRONG(trm_engine_step(t, &s, e), "step: no backward came before; valid: forward");
    if (trm_trainer_rank(t) == 0) n->loss[0] = s.loss;
    // The step of a micro-batch before the last one may be left out.
    for (int i = 0; i < 2; i++)
        if (trm_engine_forward(t, NULL, e) != TRM_OK || trm_engine_backward(t, e) != TRM_OK)
            return e->code;
    if (trm_engine_step(t, &s, e) != TRM_OK) return e->code;
    if (trm_trainer_rank(t) == 0) n->loss[1] = s.loss;
    // Whole steps and steps in parts may follow each other.
    if (trm_trainer_step(t, &s, e) != TRM_OK) return e->code;
    if (trm_trainer_rank(t) == 0) n->loss[2] = s.loss;
    return trm_trainer_save(t, e);
}

static void a_wrong_order_is_one_line_and_changes_nothing(void **state)
{
    (void)state;
    engine_notes *straight = new_notes(false), *n = new_notes(true);
    const char *settings[] = {"train.micro_batch", "2", "parallel.dp", "zero2", NULL};
    run_job(straight, "2", settings);
    trm_job *job = new_gpt2();
    SET(job, "train.steps", "3", "train.accumulation", "2", "model.layers", "2",
        "train.micro_batch", "2", "parallel.dp", "zero2");
    ACCEPT(trm_job_use_data(job, TRM_VALID, &counting, &error));
    ACCEPT(trm_run(job, err_often, n, &error));
    assert_memory_equal(straight->loss, n->loss, sizeof n->loss);
    trm_job_close(job);
    free(straight);
    free(n);
}

static trm_status in_a_pipeline(trm_trainer *t, void *arg, trm_error *e)
{
    (void)arg;
    WRONG(trm_engine_forward(t, NULL, e),
          "forward: parallel.pp is 2, and the stages of a pipeline run the passes of several "
          "micro-batches in turn; valid: a whole step, or parallel.pp 1");
    return trm_trainer_step(t, NULL, e);
}

static void a_pipeline_takes_whole_steps_alone(void **state)
{
    (void)state;
    trm_job *job = new_gpt2();
    SET(job, "parallel.pp", "2", "model.layers", "2");
    ACCEPT(trm_run(job, in_a_pipeline, NULL, &error));
    trm_job_close(job);
}

static trm_status leave_within_a_step(trm_trainer *t, void *arg, trm_error *e)
{
    trm_status how = trm_engine_forward(t, NULL, e);
    (void)arg;
    return how == TRM_OK ? trm_engine_backward(t, e) : how;
}

static void a_run_may_end_within_a_step(void **state)
{
    static const char *const policies[] = {"ddp", "zero3"};
    (void)state;
    for (int p = 0; p < 2; p++) {
        trm_job *job = new_gpt2();
        SET(job, "parallel.dp", policies[p], "train.micro_batch", "1", "launch.as",
            p ? "processes" : "threads");
        ACCEPT(trm_run(job, leave_within_a_step, NULL, &error));
        trm_job_close(job);
    }
}

// Rank 0 has 5 samples, rank 1 has 3. A step takes two micro-batches of one sample of each.
static trm_status read_own(void *context, int rank, int ranks, uint64_t index, void *inputs,
                           void *labels, trm_error *e)
{
    (void)ranks;
    if (index >= (rank == 0 ? 5u : 3u)) return TRM_END;
    return read_tokens(context, 10 * (uint64_t)rank + index, inputs, labels, e);
}

static trm_status until_the_end(trm_trainer *t, void *arg, trm_error *e)
{
    engine_notes *n = arg;
    trm_step s = {.step = 0};
    double loss;
    trm_status how = TRM_OK;
    while (how == TRM_OK && trm_trainer_steps_left(t) > 0) {
        how = trm_engine_forward(t, &loss, e);
        n->early[trm_trainer_rank(t)] += isnan(loss); // padding
        if (how == TRM_OK) how = trm_engine_backward(t, e);
        if (how == TRM_OK) how = trm_engine_step(t, &s, e);
        n->forwards[trm_trainer_rank(t)]++;
    }
    if (how == TRM_OK && s.step != 3) return trm_fail(e, TRM_FAILED, "step %d", (int)s.step);
    return how;
}

static void ranks_that_run_out_of_data_take_padding(void **state)
{
    (void)state;
    engine_notes *n = new_notes(true);
    trm_job *job = new_gpt2();
    const trm_dataset own = {.positions = POSITIONS, .read_own = read_own};
    SET(job, "train.steps", "100", "train.global_batch", "4", "train.micro_batch", "1");
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &own, &error));
    ACCEPT(trm_run(job, until_the_end, n, &error));
    // Three steps with samples, and one in which no rank has any.
    for (int r = 0; r < RANKS; r++) assert_int_equal(n->forwards[r], 8);
    assert_int_equal(n->early[0], 3);
    assert_int_equal(n->early[1], 5);
    trm_job_close(job);
    free(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_policy_has_the_bits_of_a_whole_step),
        cmocka_unit_test(other_axes_and_tiers_have_the_bits_of_a_whole_step),
        cmocka_unit_test(the_losses_of_micro_batches_have_the_loss_of_the_step_as_their_mean),
        cmocka_unit_test(a_wrong_order_is_one_line_and_changes_nothing),
        cmocka_unit_test(a_pipeline_takes_whole_steps_alone),
        cmocka_unit_test(a_run_may_end_within_a_step),
        cmocka_unit_test(ranks_that_run_out_of_data_take_padding),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
