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

// *says receives "verified" or the error.
static void open_with(const fault *f, const char *key, char *says, size_t room)
{
    const char *const args[] = {
        "--model.family=gpt2", "--model.layers=2",      "--model.hidden=8",
        "--model.heads=2",     "--model.vocab=16",      "--model.max_seq=8",
        "--data.seq_len=8",    "--data.train=mock",     "--data.valid=mock",
        "--train.steps=1",     "--train.micro_batch=1", "--train.global_batch=4",
        "--launch.ranks=2",    "--train.out=.",         key};
    job *j = NULL;
    session_inputs in;
    err e = {.code = OK};
    set_fault(NULL);
    if (job_open(NULL, sizeof args / sizeof *args, (char *const *)args, &j, &e) != OK)
        fail_msg("%s", e.text);
    set_fault(f);
    const status result = session_inputs_open(j, &in, &e);
    set_fault(NULL);
    snprintf(says, room, "%s", result == OK ? "verified" : e.text);
    assert_true(result == OK || result == E_INTERNAL);
    if (result == OK) session_inputs_close(&in);
    job_close(j);
}

static void expect(const fault *f, const char *key, const char *part)
{
    char says[ERR_TEXT_BYTES];
    open_with(f, key, says, sizeof says);
    if (!strstr(says, part)) fail_msg("%s, expected %s", says, part);
}

static void jobs_with_valid_schedules_are_opened(void **state)
{
    (void)state;
    expect(NULL, "--parallel.pp=2", "verified");
    expect(NULL, "--parallel.dp=zero3", "verified");
}

static void a_pipeline_that_would_deadlock_is_refused(void **state)
{
    (void)state;
    expect(&(fault){SEND_GRAD, PASS_TRAIN, 1}, "--parallel.pp=2",
           "the schedule of a step cannot run: ");
    expect(&(fault){CLIP_GRAD_NORM, PASS_TRAIN, 0}, "--parallel.pp=2",
           "the pipeline comes to a standstill: ");
    expect(&(fault){SEND_ACT, PASS_EVAL, 0}, "--parallel.pp=2",
           "the schedule of an evaluation cannot run: the pipeline comes to a standstill: ");
}

static void a_schedule_that_uses_missing_data_is_refused(void **state)
{
    (void)state;
    expect(&(fault){LOAD_BATCH, PASS_TRAIN, 0}, "--parallel.dp=ddp",
           "the schedule of a step cannot run: stage 0, instruction 0 (FORWARD micro 0 block 0): "
           "the batch of micro 0 is not loaded");
    expect(&(fault){UNSHARD, PASS_TRAIN, 0}, "--parallel.dp=zero3",
           "the weights of bucket 0 are not gathered");
    expect(&(fault){UNSHARD, PASS_EVAL, 0}, "--parallel.dp=zero3",
           "the schedule of an evaluation cannot run: stage 0, ");
    expect(&(fault){REDUCE_GRAD, PASS_TRAIN, 0}, "--parallel.dp=zero1", "is not reduced");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_with_valid_schedules_are_opened),
        cmocka_unit_test(a_pipeline_that_would_deadlock_is_refused),
        cmocka_unit_test(a_schedule_that_uses_missing_data_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
