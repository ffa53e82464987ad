// test_verify.c -- session_inputs_open refuses invalid schedules in the starting process.
// schedule_make is wrapped (tests/CMakeLists.txt), so that it can leave one instruction out.
#include "session/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// Leaves out the first instruction of this kind in schedules of this pass on this stage.
typedef struct fault {
    schedule_instr_kind kind;
    schedule_pass what;
    int stage;
} fault;

// The wrapped function reads the fault from the environment, because it has no argument for it.
static void set_fault(const fault *f)
{
    char word[32];
    if (!f) {
        unsetenv("TEST_FAULT");
        return;
    }
    snprintf(word, sizeof word, "%d %d %d", (int)f->kind, (int)f->what, f->stage);
    setenv("TEST_FAULT", word, 1);
}

status __real_schedule_make(const plan *p, schedule_pass what, schedule *out, err *e);
status __wrap_schedule_make(const plan *p, schedule_pass what, schedule *out, err *e);

status __wrap_schedule_make(const plan *p, schedule_pass what, schedule *out, err *e)
{
    const status result = __real_schedule_make(p, what, out, e);
    const char *word = getenv("TEST_FAULT");
    int kind, of, stage, i = 0;
    if (result != OK || !word || sscanf(word, "%d %d %d", &kind, &of, &stage) != 3) return result;
    if (of != (int)what || stage != p->coord[AXIS_PP]) return OK;
    while (i < out->count && (int)out->instr[i].kind != kind) i++;
    assert_true(i < out->count);
    memmove(&out->instr[i], &out->instr[i + 1], (size_t)(--out->count - i) * sizeof *out->instr);
    return OK;
}

// `keys` are separated by a space. *says receives "verified" or the error.
static void open_with(const fault *f, const char *keys, char *says, size_t room)
{
    enum { FIXED = 13, MOST = 24 };
    const char *args[MOST] = {
        "--model.family=gpt2", "--model.layers=2",      "--model.hidden=8",
        "--model.heads=2",     "--model.vocab=16",      "--model.max_seq=8",
        "--data.seq_len=8",    "--data.train=mock",     "--data.valid=mock",
        "--train.steps=1",     "--train.micro_batch=1", "--train.global_batch=4",
        "--train.out=."};
    char *copy = strdup(keys), *rest = copy;
    int count = FIXED;
    assert_non_null(copy);
    while (rest && count < MOST) args[count++] = strsep(&rest, " ");
    job *j = NULL;
    session_inputs in;
    err e = {.code = OK};
    set_fault(NULL);
    if (job_open(NULL, count, (char *const *)args, &j, &e) != OK) fail_msg("%s", e.text);
    set_fault(f);
    const status result = session_inputs_open(j, &in, &e);
    set_fault(NULL);
    snprintf(says, room, "%s", result == OK ? "verified" : e.text);
    assert_true(result == OK || result == E_INTERNAL);
    if (result == OK) session_inputs_close(&in);
    job_close(j);
    free(copy);
}

static void expect(const fault *f, const char *keys, const char *part)
{
    char says[ERR_TEXT_BYTES];
    open_with(f, keys, says, sizeof says);
    if (!strstr(says, part)) fail_msg("%s, expected %s", says, part);
}

static void jobs_with_valid_schedules_are_opened(void **state)
{
    (void)state;
    expect(NULL, "--launch.ranks=2 --parallel.pp=2", "verified");
    expect(NULL, "--launch.ranks=2 --parallel.dp=zero3", "verified");
}

// Every axis in use has two ranks. Nothing but the plans and the schedules is made.
static void jobs_on_four_axes_are_verified(void **state)
{
    (void)state;
    const char *const all = "--launch.ranks=16 --parallel.pp=2 --parallel.cp=2 --parallel.tp=2 "
                            "--parallel.sequence_parallel=true --parallel.dp=zero3",
                      *const hybrid = "--launch.ranks=16 --parallel.pp=2 --parallel.cp=2 "
                                      "--parallel.dp_replicate=2 --parallel.dp_shard=2 "
                                      "--parallel.dp=zero3 --parallel.pp_schedule=zb",
                      *const deadlock =
                          "the schedule of a step cannot run: the pipeline deadlocks: ";
    expect(NULL, all, "verified");
    expect(NULL, hybrid, "verified");
    expect(&(fault){SEND_GRAD, PASS_TRAIN, 1}, all, "the schedule of a step cannot run: ");
    expect(&(fault){CLIP_GRAD_NORM, PASS_TRAIN, 0}, hybrid, deadlock);
}

static void a_pipeline_that_would_deadlock_is_refused(void **state)
{
    (void)state;
    expect(&(fault){SEND_GRAD, PASS_TRAIN, 1}, "--launch.ranks=2 --parallel.pp=2",
           "the schedule of a step cannot run: ");
    expect(&(fault){CLIP_GRAD_NORM, PASS_TRAIN, 0}, "--launch.ranks=2 --parallel.pp=2",
           "the pipeline deadlocks: ");
    expect(&(fault){SEND_ACT, PASS_EVAL, 0}, "--launch.ranks=2 --parallel.pp=2",
           "the schedule of an evaluation cannot run: the pipeline deadlocks: ");
}

static void a_schedule_that_uses_missing_data_is_refused(void **state)
{
    (void)state;
    expect(&(fault){LOAD_BATCH, PASS_TRAIN, 0}, "--launch.ranks=2 --parallel.dp=ddp",
           "the schedule of a step cannot run: stage 0, instruction 1 (LOAD_STEP): "
           "the batch of micro 0 is not loaded");
    expect(&(fault){UNSHARD, PASS_TRAIN, 0}, "--launch.ranks=2 --parallel.dp=zero3",
           "the weights of bucket 0 are not unsharded");
    expect(&(fault){UNSHARD, PASS_EVAL, 0}, "--launch.ranks=2 --parallel.dp=zero3",
           "the schedule of an evaluation cannot run: stage 0, ");
    expect(&(fault){REDUCE_GRAD, PASS_TRAIN, 0}, "--launch.ranks=2 --parallel.dp=zero1",
           "are not reduced");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_with_valid_schedules_are_opened),
        cmocka_unit_test(jobs_on_four_axes_are_verified),
        cmocka_unit_test(a_pipeline_that_would_deadlock_is_refused),
        cmocka_unit_test(a_schedule_that_uses_missing_data_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
