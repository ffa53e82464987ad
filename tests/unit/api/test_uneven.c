// test_uneven.c -- data of each rank (read_own) that end in different steps: no rank waits for
// another, padding rows are not counted, and all ranks agree on the end. The reference is the same
// samples as numbered data, where the labels of missing samples are ignored.
#include "unit/api/fixture.h"

#include <math.h>
#include <sys/mman.h>

enum { RANKS = 3, OWN = 2, GLOBAL = RANKS * OWN, STEPS = 5, ROOM = 8, INPUTS = 4 };

// Samples of each rank: 4.5 batches, 2.5 and none.
static const uint64_t count[RANKS] = {9, 5, 0};
static const double present[STEPS] = {4, 4, 3, 2, 1};

static trm_status own_tokens(void *context, int rank, int ranks, uint64_t index, void *inputs,
                             void *labels, trm_error *e)
{
    const uint64_t *has = context;
    if (ranks != RANKS) return trm_fail(e, TRM_FAILED, "%d ranks", ranks);
    if (index >= has[rank]) return TRM_END;
    return read_tokens(NULL, 7 * (uint64_t)rank + index, inputs, labels, e);
}

// The samples of all ranks, in the order in which the global batches have them.
static trm_status all_tokens(void *context, uint64_t sample, void *inputs, void *labels,
                             trm_error *e)
{
    const uint64_t *has = context, rank = sample % GLOBAL / OWN,
                   index = sample / GLOBAL * OWN + sample % OWN;
    int32_t *in = inputs, *out = labels;
    if (index < has[rank]) return read_tokens(NULL, 7 * rank + index, inputs, labels, e);
    for (int i = 0; i < POSITIONS; i++) in[i] = 0, out[i] = -100;
    return TRM_OK;
}

typedef struct uneven_notes {
    int steps; // that had data
    double loss[ROOM], positions[ROOM];
    trm_step last;
    uint64_t weights; // a digest of all weights at the end
} uneven_notes;

// Lies in memory that ranks share, as threads or as processes.
static uneven_notes *notes_open(void)
{
    void *p =
        mmap(NULL, sizeof(uneven_notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

// Adds the values of every tensor to *digest.
static trm_status digest_weights(trm_trainer *t, uint64_t *digest, trm_error *e)
{
    trm_status how = TRM_OK;
    trm_tensor x;
    *digest = 14695981039346656037u;
    for (int i = 0; how == TRM_OK && trm_trainer_tensor(t, i, &x); i++) {
        const size_t elements = (size_t)(x.rows * (x.cols > 0 ? x.cols : 1));
        float *values = malloc(elements * sizeof *values);
        if (!values) abort();
        how = trm_trainer_read(t, x.name, values, elements, e);
        const unsigned char *bytes = (const unsigned char *)values;
        for (size_t k = 0; how == TRM_OK && k < elements * sizeof *values; k++)
            *digest = (*digest ^ bytes[k]) * 1099511628211u;
        free(values);
    }
    return how;
}

static trm_status train(trm_trainer *t, void *arg, trm_error *e)
{
    uneven_notes mine = {.steps = 0};
    trm_step s;
    while (trm_trainer_steps_left(t) > 0) {
        trm_status how = trm_trainer_step(t, &s, e);
        if (how != TRM_OK) return how;
        mine.last = s;
        if (s.exhausted) continue;
        mine.loss[mine.steps] = s.loss;
        mine.positions[mine.steps++] = s.positions;
    }
    trm_status read = digest_weights(t, &mine.weights, e);
    if (read != TRM_OK) return read;
    if (trm_trainer_rank(t) == 0) *(uneven_notes *)arg = mine;
    return TRM_OK;
}

static trm_job *new_tokens(bool own, const char *const *pairs)
{
    trm_job *job = new_gpt2();
    const trm_dataset numbered = {.samples = GLOBAL * STEPS,
                                  .positions = POSITIONS,
                                  .read = all_tokens,
                                  .context = (void *)count};
    const trm_dataset each = {
        .positions = POSITIONS, .read_own = own_tokens, .context = (void *)count};
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, own ? &each : &numbered, &error));
    SET(job, "train.global_batch", "6", "launch.ranks", "3", "data.order", "sequential",
        "train.steps", own ? "100" : "5", "checks.replicas_every", "1");
    for (; pairs && *pairs; pairs += 2) ACCEPT(trm_job_set(job, pairs[0], pairs[1], &error));
    return job;
}

static void run_tokens(bool own, const char *const *pairs, uneven_notes *out)
{
    trm_job *job = new_tokens(own, pairs);
    ACCEPT(trm_run(job, train, out, &error));
    trm_job_close(job);
}

static void ranks_without_data_go_on_and_count_for_nothing(void **state)
{
    (void)state;
    static const char *const strategies[][7] = {
        {"train.micro_batch", "1"},
        {"train.micro_batch", "2"},
        {"parallel.dp", "zero2", "train.micro_batch", "2", "launch.as", "processes"},
        {"parallel.dp", "zero3", "train.micro_batch", "1"},
        {"parallel.pp", "2", "launch.ranks", "6", "train.micro_batch", "1"},
        {"parallel.tp", "2", "launch.ranks", "6"},
    };
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        uneven_notes *own = notes_open(), *reference = notes_open();
        run_tokens(true, strategies[i], own);
        run_tokens(false, strategies[i], reference);
        assert_int_equal(own->steps, STEPS);
        assert_int_equal(reference->steps, STEPS);
        assert_memory_equal(own->loss, reference->loss, STEPS * sizeof(double));
        for (int k = 0; k < STEPS; k++)
            assert_true(own->positions[k] == present[k] * POSITIONS && own->loss[k] > 0);
        munmap(own, sizeof *own);
        munmap(reference, sizeof *reference);
    }
}

static void the_step_without_any_data_does_nothing_and_says_so(void **state)
{
    (void)state;
    uneven_notes own = {.steps = 0}, full = {.steps = 0};
    run_tokens(true, NULL, &own);
    assert_true(own.last.exhausted);
    assert_true(own.last.step == STEPS && own.last.steps == 100);
    assert_true(own.last.positions == 0);
    run_tokens(false, NULL, &full);
    assert_false(full.last.exhausted);
    assert_true(full.last.positions == GLOBAL * POSITIONS);
    assert_true(own.weights == full.weights); // not even weight decay has changed them
}

static trm_status train_and_keep(trm_trainer *t, void *arg, trm_error *e)
{
    trm_status how = trm_trainer_resume(t, NULL, e);
    if (how == TRM_OK) how = train(t, arg, e);
    return how == TRM_OK ? trm_trainer_save(t, e) : how;
}

static void a_run_whose_data_have_ended_is_gone_on_from(void **state)
{
    (void)state;
    uneven_notes first = {.steps = 0}, again = {.steps = 0};
    trm_job *job = new_tokens(true, NULL);
    SET(job, "train.out", "ended");
    ACCEPT(trm_run(job, train_and_keep, &first, &error));
    ACCEPT(trm_run(job, train_and_keep, &again, &error));
    assert_int_equal(first.steps, STEPS);
    assert_int_equal(again.steps, 0);
    assert_true(again.last.exhausted && again.last.step == STEPS);
    trm_job_close(job);
}

// ---- Squared errors have no label that is ignored

static trm_status own_vectors(void *context, int rank, int ranks, uint64_t index, void *inputs,
                              void *labels, trm_error *e)
{
    const uint64_t *has = context;
    float *x = inputs, *y = labels;
    if (index >= has[rank]) return TRM_END;
    for (uint64_t i = 0; i < INPUTS; i++)
        x[i] = (float)(((uint64_t)rank * 5 + index * 7 + i * 3) % 11) / 11;
    y[0] = x[0] - x[1], y[1] = 1 + x[2];
    (void)ranks, (void)e;
    return TRM_OK;
}

static int two_blocks(const void *config)
{
    (void)config;
    return 2;
}

static void regression(trm_builder *b, const void *config, int block)
{
    trm_value *w = block == 0 ? trm_weight(b, "a", 8, INPUTS, TRM_NORMAL, 0.5)
                              : trm_weight(b, "b", 2, 8, TRM_NORMAL, 0.5);
    trm_value *bias = trm_weight(b, block == 0 ? "c" : "d", block == 0 ? 8 : 2, 0, TRM_ZEROS, 0);
    if (block == 0)
        trm_output(b, trm_activation(b, trm_linear(b, trm_features(b, INPUTS), w, bias), TRM_TANH));
    else
        trm_square_error(b, trm_input(b, 8), w, bias);
    (void)config;
}

static void run_vectors(const uint64_t *has, const char *ranks, const char *batch, const char *dp,
                        uneven_notes *out)
{
    const trm_family family = {.name = "regression", .blocks = two_blocks, .trace = regression};
    const trm_dataset d = {.positions = 1,
                           .features = INPUTS,
                           .targets = 2,
                           .read_own = own_vectors,
                           .context = (void *)has};
    trm_job *job = new_job();
    ACCEPT(trm_job_use_model(job, &family, NULL, NULL, &error));
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &d, &error));
    SET(job, "launch.ranks", ranks, "train.global_batch", batch, "train.steps", "100",
        "parallel.dp", dp, "train.micro_batch", "2", "optimizer.lr", "1e-2");
    ACCEPT(trm_run(job, train, out, &error));
    trm_job_close(job);
}

// One of three ranks has five samples; the model learns what one rank alone learns from them.
static void blank_targets_are_in_neither_loss_nor_gradient(void **state)
{
    (void)state;
    static const uint64_t three[] = {5, 0, 0}, alone[] = {5};
    for (int zero3 = 0; zero3 < 2; zero3++) {
        uneven_notes a = {.steps = 0}, b = {.steps = 0};
        run_vectors(three, "3", "6", zero3 ? "zero3" : "ddp", &a);
        run_vectors(alone, "1", "2", "ddp", &b);
        assert_int_equal(a.steps, 3);
        assert_int_equal(b.steps, 3);
        for (int k = 0; k < 3; k++) {
            assert_true(fabs(a.loss[k] - b.loss[k]) < 1e-6 * b.loss[k]);
            assert_true(a.positions[k] == (k < 2 ? 2 : 1));
        }
    }
}

// ---- Refusals

static trm_status the_same_everywhere(void *context, int rank, int ranks, uint64_t index,
                                      void *inputs, void *labels, trm_error *e)
{
    (void)context, (void)rank, (void)ranks;
    return read_tokens(NULL, index, inputs, labels, e);
}

static trm_status ends(void *context, uint64_t sample, void *inputs, void *labels, trm_error *e)
{
    (void)context, (void)sample, (void)inputs, (void)labels, (void)e;
    return TRM_END;
}

static trm_status too_far(void *context, int rank, int ranks, uint64_t index, void *inputs,
                          void *labels, trm_error *e)
{
    trm_status s = own_tokens(context, rank, ranks, index, inputs, labels, e);
    if (index == 3) ((int32_t *)labels)[2] = 700;
    return s;
}

static void data_that_cannot_be_are_named(void **state)
{
    (void)state;
    uneven_notes n;
    trm_job *job = new_tokens(true, NULL);
    trm_dataset d = {.positions = POSITIONS, .read_own = too_far, .context = (void *)count};
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &d, &error));
    REFUSE(trm_run(job, train, &n, &error));
    HAS("data.train: sample 3: label 2 is 700; valid: 0 to 15");
    d.read_own = the_same_everywhere;
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &d, &error));
    REFUSE(trm_run(job, train, &n, &error));
    HAS("read identical data in step 1");
    REFUSE(trm_job_use_data(job, TRM_VALID, &d, &error));
    HAS("read_own is for training");
    d.samples = 5;
    REFUSE(trm_job_use_data(job, TRM_TRAIN, &d, &error));
    HAS("read_own and samples are both set");
    d.samples = 0, d.read = read_tokens;
    REFUSE(trm_job_use_data(job, TRM_TRAIN, &d, &error));
    HAS("read_own and read are both set");
    d = (trm_dataset){.samples = 64, .positions = POSITIONS, .read = ends};
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &d, &error));
    REFUSE(trm_run(job, train, &n, &error));
    HAS("read returned TRM_END");
    trm_job_close(job);
}

static void data_without_a_length_have_no_epochs(void **state)
{
    (void)state;
    const char *text;
    trm_job *job = NULL;
    const trm_dataset d = {
        .positions = POSITIONS, .read_own = own_tokens, .context = (void *)count};
    ACCEPT(trm_job_open(NULL, &job, &error));
    SET(job, "model.family", "gpt2", "model.vocab", "16", "model.layers", "1", "model.hidden", "16",
        "model.heads", "2", "model.max_seq", "16", "launch.ranks", "3", "train.global_batch", "6",
        "train.epochs", "2");
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &d, &error));
    REFUSE(trm_job_explain(job, &text, &error));
    HAS("train.epochs: data of each rank's own have no epochs");
    trm_job_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_without_data_go_on_and_count_for_nothing),
        cmocka_unit_test(the_step_without_any_data_does_nothing_and_says_so),
        cmocka_unit_test(a_run_whose_data_have_ended_is_gone_on_from),
        cmocka_unit_test(blank_targets_are_in_neither_loss_nor_gradient),
        cmocka_unit_test(data_that_cannot_be_are_named),
        cmocka_unit_test(data_without_a_length_have_no_epochs),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
