// test_packed.c -- packed samples of a program: training with several documents in a sample gives the weights of
// training with the documents as samples, under every kind of parallelism; so do evaluation and predictions.
#include "unit/api/fixture.h"

#include <math.h>

enum { DOCUMENT = 8, DOCUMENTS = 3, PACKED = DOCUMENT * DOCUMENTS, STEPS = 3, ROOM = 4096 };

// Document d has the tokens 3d, 3d + 1, … modulo 16, and where d is even every other one of them.
static void read_document(uint64_t d, int32_t *in, int32_t *labels)
{
    const uint64_t stride = d % 2 ? 1 : 2;
    for (uint64_t i = 0; i < DOCUMENT; i++) {
        in[i] = (int32_t)((3 * d + stride * i) % VOCAB);
        labels[i] = (int32_t)((3 * d + stride * (i + 1)) % VOCAB);
    }
}

static trm_status read_apart(void *context, uint64_t sample, void *inputs, void *labels,
                             trm_error *e)
{
    (void)context, (void)e;
    read_document(sample, inputs, labels);
    ((int32_t *)labels)[DOCUMENT - 1] = -100; // as packing does
    return TRM_OK;
}

static trm_status read_packed(void *context, uint64_t sample, void *inputs, void *labels,
                              trm_error *e)
{
    int32_t *in = inputs, *out = labels, *start = in + PACKED;
    const bool *wrong = context;
    (void)e;
    for (int k = 0; k < DOCUMENTS; k++)
        read_document(sample * DOCUMENTS + (uint64_t)k, in + k * DOCUMENT, out + k * DOCUMENT);
    for (int i = 0; i < PACKED; i++) start[i] = i / DOCUMENT * DOCUMENT;
    if (wrong && *wrong) start[5] = 4;
    out[PACKED - 1] =
        -100; // no document follows the last one, so nothing else ignores its last label
    return TRM_OK;
}

static const trm_dataset apart = {.samples = 90, .positions = DOCUMENT, .read = read_apart};
static const trm_dataset packed = {
    .samples = 30, .positions = PACKED, .packed = true, .read = read_packed};

typedef struct packed_notes {
    double loss[STEPS], positions[STEPS], valid;
    int count; // of weights
    float weights[ROOM];
    float logits[DOCUMENT * DOCUMENTS * VOCAB];
} packed_notes;

static trm_status keep_weights(trm_trainer *t, packed_notes *n, trm_error *e)
{
    trm_status how = TRM_OK;
    trm_tensor x;
    for (int i = 0; how == TRM_OK && trm_trainer_tensor(t, i, &x); i++) {
        const size_t elements = (size_t)(x.rows * (x.cols > 0 ? x.cols : 1));
        if (n->count + (int)elements > ROOM) return trm_fail(e, TRM_FAILED, "no room");
        how = trm_trainer_read(t, x.name, n->weights + n->count, elements, e);
        n->count += (int)elements;
    }
    return how;
}

#define OR_LEAVE(call)                                                                             \
    do {                                                                                           \
        const trm_status how = (call);                                                             \
        if (how != TRM_OK) return how;                                                             \
    } while (0)

static trm_status train(trm_trainer *t, void *arg, trm_error *e, bool is_packed)
{
    packed_notes n = {.count = 0};
    trm_step s;
    int32_t in[2 * PACKED], labels[PACKED];
    for (int i = 0; i < STEPS; i++) {
        OR_LEAVE(trm_trainer_step(t, &s, e));
        n.loss[i] = s.loss, n.positions[i] = s.positions;
    }
    OR_LEAVE(trm_trainer_evaluate(t, 0, &n.valid, e));
    OR_LEAVE(read_packed(NULL, 7, in, labels, e));
    OR_LEAVE(trm_trainer_predict(t, TRM_LOGITS, false, in, is_packed ? 1 : DOCUMENTS, n.logits,
                                 PACKED * VOCAB, e));
    OR_LEAVE(keep_weights(t, &n, e));
    if (trm_trainer_rank(t) == 0) *(packed_notes *)arg = n;
    return TRM_OK;
}

static trm_status train_apart(trm_trainer *t, void *arg, trm_error *e)
{
    return train(t, arg, e, false);
}

static trm_status train_packed(trm_trainer *t, void *arg, trm_error *e)
{
    return train(t, arg, e, true);
}

static trm_job *open_job(const trm_dataset *data, const char *const *pairs)
{
    trm_job *job = new_job();
    SET(job, "model.family", "llama", "model.vocab", "16", "model.layers", "4", "model.hidden", "8",
        "model.heads", "2", "model.kv_heads", "2", "model.ffn", "16", "model.max_seq", "32",
        "optimizer.lr", "1e-2", "lr_schedule.name", "constant", "data.order", "sequential",
        "launch.ranks", "1", "train.steps", "3");
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, data, &error));
    ACCEPT(trm_job_use_data(job, TRM_VALID, data, &error));
    for (; pairs && *pairs; pairs += 2) ACCEPT(trm_job_set(job, pairs[0], pairs[1], &error));
    return job;
}

// Micro-batches of two packed samples, or of the same documents.
static void run_data(bool is_packed, const char *const *pairs, packed_notes *out)
{
    trm_job *job = open_job(is_packed ? &packed : &apart, pairs);
    SET(job, "train.global_batch", is_packed ? "8" : "24", "train.micro_batch",
        is_packed ? "2" : "6");
    ACCEPT(trm_run(job, is_packed ? train_packed : train_apart, out, &error));
    trm_job_close(job);
}

static double worst(const float *a, const float *b, int count)
{
    double most = 0;
    for (int i = 0; i < count; i++) most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

static void check(const char *what, const packed_notes *a, const packed_notes *b, double tolerance)
{
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < STEPS; i++)
        if (!(fabs(a->loss[i] - b->loss[i]) <= tolerance))
            fail_msg("%s: loss %.9g of step %d, not %.9g", what, b->loss[i], i + 1, a->loss[i]);
    if (!(fabs(a->valid - b->valid) <= tolerance))
        fail_msg("%s: valid loss %.9g, not %.9g", what, b->valid, a->valid);
    if (!(worst(a->weights, b->weights, a->count) <= tolerance))
        fail_msg("%s: weights differ by %g", what, worst(a->weights, b->weights, a->count));
    if (!(worst(a->logits, b->logits, PACKED * VOCAB) <= tolerance))
        fail_msg("%s: logits differ by %g", what, worst(a->logits, b->logits, PACKED * VOCAB));
}

#define ON(...) ((const char *const[]){__VA_ARGS__, NULL})

static void packed_documents_train_as_documents(void **state)
{
    (void)state;
    static packed_notes one, other;
    run_data(false, NULL, &one);
    assert_true(one.positions[0] == 24 * DOCUMENT);
    run_data(true, NULL, &other);
    assert_true(other.positions[0] == 8 * PACKED);
    check("one rank", &one, &other, 0); // the rows of a micro-batch are equal, and so are the bits
    const struct {
        double tolerance;
        const char *const *pairs;
    } runs[] = {
        {0, ON("parallel.recompute", "full")},
        {0, ON("parallel.pp", "4", "launch.ranks", "4")}, // two stages have neither ids nor labels
        {0, ON("parallel.pp", "2", "launch.ranks", "2", "parallel.pp_schedule", "zb")},
        {0, ON("parallel.pp", "2", "launch.ranks", "2", "parallel.pp_schedule", "interleaved",
               "parallel.virtual_stages", "2")},
        {1e-5, ON("parallel.tp", "2", "launch.ranks", "2")},
        {1e-5, ON("parallel.cp", "2", "launch.ranks", "2")},
        {1e-5,
         ON("parallel.cp", "2", "parallel.pp", "2", "launch.ranks", "4", "parallel.dp", "zero3")},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        run_data(true, runs[i].pairs, &other);
        check(runs[i].pairs[0], &one, &other, runs[i].tolerance);
    }
}

static void packed_documents_on_two_data_parallel_ranks_train_as_documents(void **state)
{
    (void)state;
    static packed_notes one, other;
    const char *const *pairs =
        ON("parallel.dp", "zero3", "launch.ranks", "2", "train.precision", "bf16");
    run_data(false, pairs, &one);
    run_data(true, pairs, &other);
    check("zero3", &one, &other, 0);
}

static trm_status read_own_packed(void *context, int rank, int ranks, uint64_t index, void *inputs,
                                  void *labels, trm_error *e)
{
    (void)rank, (void)ranks;
    if (index >= 8 * STEPS - 3) return TRM_END; // the last batch has padding
    return read_packed(context, index, inputs, labels, e);
}

static trm_status read_own_apart(void *context, int rank, int ranks, uint64_t index, void *inputs,
                                 void *labels, trm_error *e)
{
    (void)rank, (void)ranks;
    if (index >= (8 * STEPS - 3) * DOCUMENTS) return TRM_END;
    return read_apart(context, index, inputs, labels, e);
}

static void packed_samples_of_a_rank_may_end(void **state)
{
    (void)state;
    static packed_notes notes[2];
    const trm_dataset data[2] = {
        {.positions = DOCUMENT, .read_own = read_own_apart},
        {.positions = PACKED, .read_own = read_own_packed, .packed = true}};
    for (int i = 0; i < 2; i++) {
        trm_job *job = open_job(i ? &packed : &apart, NULL);
        ACCEPT(trm_job_use_data(job, TRM_TRAIN, &data[i], &error));
        SET(job, "train.global_batch", i ? "8" : "24", "train.micro_batch", i ? "2" : "6");
        ACCEPT(trm_run(job, i ? train_packed : train_apart, &notes[i], &error));
        trm_job_close(job);
    }
    assert_true(notes[1].positions[STEPS - 1] == 5 * PACKED);
    check("read_own", &notes[0], &notes[1], 0);
}

// The negative control: the same tokens without the starts of documents.
static trm_status read_joined(void *context, uint64_t sample, void *inputs, void *labels,
                              trm_error *e)
{
    trm_status how = read_packed(context, sample, inputs, labels, e);
    for (int i = 0; i < PACKED; i++) ((int32_t *)inputs)[PACKED + i] = 0;
    for (int i = DOCUMENT; i < PACKED; i += DOCUMENT) ((int32_t *)labels)[i - 1] = -100;
    return how;
}

static void joined_documents_train_otherwise(void **state)
{
    (void)state;
    static packed_notes one, other;
    const trm_dataset joined = {
        .samples = 30, .positions = PACKED, .packed = true, .read = read_joined};
    run_data(true, NULL, &one);
    trm_job *job = open_job(&joined, NULL);
    SET(job, "train.global_batch", "8", "train.micro_batch", "2");
    ACCEPT(trm_run(job, train_packed, &other, &error));
    trm_job_close(job);
    assert_true(one.positions[0] == other.positions[0]);
    assert_true(fabs(one.loss[0] - other.loss[0]) > 1e-4);
    assert_true(worst(one.logits, other.logits, PACKED * VOCAB) > 1e-2);
}

static void wrong_packed_data_are_refused(void **state)
{
    (void)state;
    static packed_notes n;
    bool wrong = true;
    trm_dataset data = packed;
    trm_job *job = open_job(&packed, NULL);
    data.features = 3;
    REFUSE(trm_job_use_data(job, TRM_TRAIN, &data, &error));
    HAS("packed with features");
    data = packed, data.targets = 1;
    REFUSE(trm_job_use_data(job, TRM_TRAIN, &data, &error));
    HAS("packed with targets");
    data = packed, data.context = &wrong;
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &data, &error));
    SET(job, "train.global_batch", "8", "train.micro_batch", "2");
    REFUSE(trm_run(job, train_packed, &n, &error));
    HAS("the document of position 5 begins at 4; valid: 5, or where that of the last position");
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &packed, &error));
    data = apart, data.positions = PACKED;
    ACCEPT(trm_job_use_data(job, TRM_VALID, &data, &error));
    REFUSE(trm_run(job, train_packed, &n, &error));
    HAS("data.valid: samples are no packed documents, those of data.train are");
    trm_job_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(packed_documents_train_as_documents, enter_folder,
                                        leave_folder),
        cmocka_unit_test_setup_teardown(
            packed_documents_on_two_data_parallel_ranks_train_as_documents, enter_folder,
            leave_folder),
        cmocka_unit_test_setup_teardown(packed_samples_of_a_rank_may_end, enter_folder,
                                        leave_folder),
        cmocka_unit_test_setup_teardown(joined_documents_train_otherwise, enter_folder,
                                        leave_folder),
        cmocka_unit_test_setup_teardown(wrong_packed_data_are_refused, enter_folder, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
