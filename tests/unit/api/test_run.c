// test_run.c -- trm_run and the trainer of a rank: equal bits as threads and as processes, weights
// by name, resuming from a checkpoint, and errors of the program's functions.
#include "unit/api/fixture.h"

#include <pthread.h>
#include <sys/mman.h>

enum { STEPS = 4 };

// Lies in memory that ranks share, as threads or as processes.
typedef struct run_notes {
    double loss[STEPS];
    float first[8], second[8];
    int ranks;
    uint64_t left;
    trm_error error;
} run_notes;

static run_notes *notes_open(void)
{
    void *p =
        mmap(NULL, sizeof(run_notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static trm_status train(trm_trainer *t, void *arg, trm_error *e)
{
    run_notes *n = arg;
    trm_step s;
    if (trm_trainer_rank(t) == 0) n->ranks = trm_trainer_ranks(t);
    trm_status how = trm_trainer_resume(t, NULL, e);
    while (how == TRM_OK && trm_trainer_steps_left(t) > 0) {
        how = trm_trainer_step(t, &s, e);
        if (how == TRM_OK && trm_trainer_rank(t) == 0) n->loss[s.step - 1] = s.loss;
    }
    return how == TRM_OK ? trm_trainer_save(t, e) : how;
}

static void run_gpt2(run_notes *n, const char *as, const char *out, const char *steps)
{
    trm_job *job = new_gpt2();
    SET(job, "launch.as", as, "train.out", out, "train.steps", steps);
    ACCEPT(trm_run(job, train, n, &error));
    trm_job_close(job);
}

static void threads_and_processes_give_the_same_bits(void **state)
{
    (void)state;
    run_notes *a = notes_open(), *b = notes_open();
    run_gpt2(a, "processes", "processes", "4");
    run_gpt2(b, "threads", "threads", "4");
    assert_int_equal(a->ranks, 2);
    assert_true(a->loss[0] > a->loss[3] && a->loss[3] > 0);
    assert_memory_equal(a->loss, b->loss, sizeof a->loss);
}

static void a_checkpoint_is_gone_on_from_bit_for_bit(void **state)
{
    (void)state;
    run_notes *straight = notes_open(), *resumed = notes_open();
    run_gpt2(straight, "threads", "straight", "4");
    run_gpt2(resumed, "threads", "resumed", "2");
    run_gpt2(resumed, "threads", "resumed", "4");
    assert_memory_equal(straight->loss, resumed->loss, sizeof straight->loss);
}

static const char LN[] = "transformer.ln_f.bias", QKV[] = "transformer.h.0.attn.c_attn.weight";

static trm_status weights(trm_trainer *t, void *arg, trm_error *e)
{
    run_notes *n = arg;
    trm_tensor tensor;
    float values[16], qkv[16 * 48], again[16 * 48];
    for (int i = 0; trm_trainer_tensor(t, i, &tensor) && strcmp(tensor.name, QKV) != 0;) i++;
    if (tensor.rows != 16 || tensor.cols != 48) return trm_fail(e, TRM_FAILED, "not as in files");
    trm_status s = trm_trainer_read(t, QKV, qkv, 16 * 48, e);
    for (int i = 0; i < 16; i++) values[i] = (float)(i + 100 * trm_trainer_rank(t));
    if (s == TRM_OK) s = trm_trainer_write(t, LN, values, 16, e);
    if (s == TRM_OK) s = trm_trainer_write(t, QKV, qkv, 16 * 48, e);
    if (s == TRM_OK) s = trm_trainer_read(t, LN, values, 16, e);
    if (s == TRM_OK) s = trm_trainer_read(t, QKV, again, 16 * 48, e);
    if (s != TRM_OK) return s;
    memcpy(trm_trainer_rank(t) ? n->second : n->first, values, sizeof n->first);
    if (memcmp(qkv, again, sizeof qkv) != 0) return trm_fail(e, TRM_FAILED, "a round trip");
    if (trm_trainer_read(t, LN, values, 15, e) != TRM_USAGE) return TRM_FAILED;
    if (trm_trainer_read(t, "nothing", values, 16, e) != TRM_USAGE) return TRM_FAILED;
    if (trm_trainer_rank(t) == 0) n->error = *e;
    return trm_trainer_step(t, NULL, e);
}

static void read_and_write(const char *key, const char *value, const char *precision)
{
    run_notes *n = notes_open();
    trm_job *job = new_gpt2();
    SET(job, "launch.as", "processes", "train.precision", precision, key, value);
    ACCEPT(trm_run(job, weights, n, &error));
    for (int i = 0; i < 8; i++) {
        assert_true(n->first[i] == (float)i);
        assert_true(n->second[i] == (float)i); // the values of rank 0
    }
    assert_string_equal(n->error.text, "the model has no tensor nothing");
    trm_job_close(job);
}

static void tensors_are_read_and_written_by_name(void **state)
{
    (void)state;
    read_and_write("parallel.dp", "ddp", "fp32");
    read_and_write("parallel.dp", "ddp", "bf16");
}

static void sharded_tensors_are_read_and_written_in_full(void **state)
{
    (void)state;
    read_and_write("parallel.dp", "zero1", "bf16");
    read_and_write("parallel.dp", "zero3", "fp32");
    read_and_write("parallel.dp", "zero3", "bf16");
    read_and_write("parallel.tp", "2", "fp32");
    read_and_write("parallel.pp", "2", "fp32");
    read_and_write("parallel.pp", "2", "bf16");
}

static trm_status stop_after_two(trm_trainer *t, void *arg, trm_error *e)
{
    run_notes *n = arg;
    trm_step s = {.step = 0};
    while (trm_trainer_steps_left(t) > 0) {
        // Only one rank requests the stop; the others stop after the same step.
        if (s.step == 1 && trm_trainer_rank(t) == 1) trm_trainer_stop(t);
        trm_status how = trm_trainer_step(t, &s, e);
        if (how != TRM_OK) return how;
    }
    if (trm_trainer_rank(t) == 0) n->left = s.steps - s.step;
    return trm_trainer_save(t, e); // would fail if the ranks had stopped after different steps
}

static void any_rank_may_ask_to_stop(void **state)
{
    (void)state;
    run_notes *n = notes_open();
    trm_job *job = new_gpt2();
    SET(job, "train.steps", "1000");
    ACCEPT(trm_run(job, stop_after_two, n, &error));
    assert_true(n->left > 900);
    trm_job_close(job);
}

static trm_status give_up(trm_trainer *t, void *arg, trm_error *e)
{
    (void)arg;
    if (trm_trainer_rank(t) == 1) return trm_fail(e, TRM_USAGE, "enough of %d", 7);
    while (trm_trainer_steps_left(t) > 0) {
        trm_status s = trm_trainer_step(t, NULL, e);
        if (s != TRM_OK) return s;
    }
    return TRM_OK;
}

static trm_status say_nothing(trm_trainer *t, void *arg, trm_error *e)
{
    (void)t, (void)arg, (void)e;
    return TRM_FAILED;
}

static trm_status leave_early(trm_trainer *t, void *arg, trm_error *e)
{
    (void)t, (void)arg, (void)e;
    return TRM_INTERRUPTED;
}

static void a_rank_that_gives_up_ends_the_run_and_is_named(void **state)
{
    (void)state;
    trm_job *job = new_gpt2();
    for (int i = 0; i < 2; i++) {
        SET(job, "launch.as", i ? "threads" : "processes");
        REFUSE(trm_run(job, give_up, NULL, &error));
        assert_string_equal(error.text, "rank 1: enough of 7");
    }
    assert_int_equal(trm_run(job, say_nothing, NULL, &error), TRM_FAILED);
    HAS("failed and gave no reason");
    assert_int_equal(trm_run(job, leave_early, NULL, &error), TRM_INTERRUPTED);
    REFUSE(trm_run(job, NULL, NULL, &error));
    trm_job_close(job);
}

static trm_status read_too_far(void *context, uint64_t sample, void *inputs, void *labels,
                               trm_error *e)
{
    trm_status s = read_tokens(context, sample, inputs, labels, e);
    if (sample == 5) ((int32_t *)inputs)[3] = 700;
    return s;
}

static trm_status read_badly(void *context, uint64_t sample, void *inputs, void *labels,
                             trm_error *e)
{
    if (sample == 5) return trm_fail(e, TRM_FAILED, "the tape is torn");
    return read_tokens(context, sample, inputs, labels, e);
}

static void a_sample_that_cannot_be_is_named(void **state)
{
    (void)state;
    run_notes *n = notes_open();
    trm_job *job = new_gpt2();
    trm_dataset d = counting;
    d.samples = 8, d.read = read_too_far;
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &d, &error));
    REFUSE(trm_run(job, train, n, &error));
    HAS("rank ");
    HAS("data.train: sample 5: token 3 is 700; valid: 0 to 15");
    d.read = read_badly;
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &d, &error));
    assert_int_equal(trm_run(job, train, n, &error), TRM_FAILED);
    HAS("data.train: sample 5: the tape is torn");
    trm_job_close(job);
}

static void *wait_for(void *arg)
{
    pthread_mutex_lock(arg);
    pthread_mutex_unlock(arg);
    return NULL;
}

static void processes_are_not_forked_beside_threads(void **state)
{
    (void)state;
    pthread_t thread;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    trm_job *job = new_gpt2();
    SET(job, "launch.as", "processes");
    pthread_mutex_lock(&lock);
    assert_int_equal(pthread_create(&thread, NULL, wait_for, &lock), 0);
    REFUSE(trm_run(job, train, NULL, &error));
    HAS("launch.as: processes cannot be forked");
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    trm_job_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_are_not_forked_beside_threads),
        cmocka_unit_test(tensors_are_read_and_written_by_name),
        cmocka_unit_test(sharded_tensors_are_read_and_written_in_full),
        cmocka_unit_test(a_rank_that_gives_up_ends_the_run_and_is_named),
        cmocka_unit_test(threads_and_processes_give_the_same_bits),
        cmocka_unit_test(a_checkpoint_is_gone_on_from_bit_for_bit),
        cmocka_unit_test(any_rank_may_ask_to_stop),
        cmocka_unit_test(a_sample_that_cannot_be_is_named),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
