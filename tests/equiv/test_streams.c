// test_streams.c -- every instruction executes on the stream that its row of the instruction table
// names. The test records the stream of every copy, kernel, message and collective of a trainer. The
// linker wraps the functions run_NAME and the collectives (tests/CMakeLists.txt).
#include "equiv/matrix_pool.h"

#include "parallel/instructions.h"
#include "train/calls.h"
#include "train/trainer_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { LIMIT_S = 600 };

// Whether an instruction of a kind has issued anything to a stream, in any process.
static atomic_bool (*issued)[INSTRS][STREAMS]; // ranks are threads, too
static __thread int kind_now = -1; // kind of the instruction that this rank executes; -1: none

static void note(const device_stream *on)
{
    if (kind_now >= 0) (*issued)[kind_now][on->kind] = true;
}

// ---- Wrapped functions

#define WATCHED(KIND, name)                                                                        \
    status __real_run_##name(trainer *t, const schedule_instr *x, err *e);                         \
    status __wrap_run_##name(trainer *t, const schedule_instr *x, err *e);                         \
    status __wrap_run_##name(trainer *t, const schedule_instr *x, err *e)                          \
    {                                                                                              \
        kind_now = x->kind;                                                                        \
        const status result = __real_run_##name(t, x, e);                                          \
        kind_now = -1;                                                                             \
        return result;                                                                             \
    }
SCHEDULE_INSTRS(WATCHED)

status __real_calls_issue(const calls_run *r, const schedule_call *c, int count, void *array,
                          void *shards, err *e);
status __wrap_calls_issue(const calls_run *r, const schedule_call *c, int count, void *array,
                          void *shards, err *e);
status __wrap_calls_issue(const calls_run *r, const schedule_call *c, int count, void *array,
                          void *shards, err *e)
{
    note(r->on);
    return __real_calls_issue(r, c, count, array, shards, e);
}

status __real_comm_issue(comm *c, const comm_call *call, device_stream *on, err *e);
status __wrap_comm_issue(comm *c, const comm_call *call, device_stream *on, err *e);
status __wrap_comm_issue(comm *c, const comm_call *call, device_stream *on, err *e)
{
    if (on) note(on);
    return __real_comm_issue(c, call, on, e);
}

status __real_comm_issue_group(const comm_message *m, int count, device_stream *on, err *e);
status __wrap_comm_issue_group(const comm_message *m, int count, device_stream *on, err *e);
status __wrap_comm_issue_group(const comm_message *m, int count, device_stream *on, err *e)
{
    note(on);
    return __real_comm_issue_group(m, count, on, e);
}

typedef struct watching {
    device_ops ops;
    const device_ops *real;
} watching;

static void watch_launch(device_stream *s, const kernel_call *c)
{
    note(s);
    ((const watching *)s->device->ops)->real->launch(s, c);
}

static void watch_copy(device_stream *s, void *to, const void *from, size_t bytes)
{
    note(s);
    ((const watching *)s->device->ops)->real->copy(s, to, from, bytes);
}

static void opened(device *d, int rank)
{
    (void)rank;
    watching *mine = malloc(sizeof *mine);
    if (!mine) abort();
    *mine = (watching){.ops = *d->ops, .real = d->ops};
    mine->ops.launch = watch_launch;
    mine->ops.copy = watch_copy;
    d->ops = &mine->ops;
}

static void closing(device *d, int rank)
{
    (void)rank;
    watching *mine = (watching *)(uintptr_t)d->ops;
    d->ops = mine->real;
    free(mine);
}

// ---- The test

// These points together execute every kind of instruction.
static const char *const POINTS[] = {
    "shard=2,inner=zero1",
    "shard=2,inner=zero3,micros=1",
    "shard=2,inner=zero2,no_sync=false",
    "pp=2",
    "pp=2,schedule=zb",
    "replicate=2,shard=2,outer=ddp,inner=zero3",
    "tp=2sp",
};

static void run_point(const char *name)
{
    const matrix_run how = {.folder = pool_folder(), .opened = opened, .closing = closing};
    outcome *out = malloc(sizeof *out);
    point p;
    assert_non_null(out);
    if (!matrix_parse(name, &p) || !matrix_legal(&p)) fail_msg("%s is no point", name);
    pool_run_one(&p, &how, LIMIT_S, out);
    if (out->result != OK) fail_msg("%s: %s", name, out->error);
    free(out);
}

// Some kinds issue nothing that the test records: they only order streams or access files.
static bool is_watched(schedule_instr_kind k)
{
    const instr_row *row = instr_row_of(k);
    return row->computes || row->payload || row->peers.waits_for;
}

static void test_instructions_run_on_the_stream_of_their_row(void **state)
{
    (void)state;
    int wrong = 0;
    issued = mmap(NULL, sizeof *issued, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(issued != MAP_FAILED);
    for (size_t i = 0; i < sizeof POINTS / sizeof *POINTS; i++) run_point(POINTS[i]);
    for (int k = 0; k < INSTRS; k++) {
        const schedule_instr_kind kind = (schedule_instr_kind)k;
        const device_stream_kind on = instr_row_of(kind)->stream;
        for (int s = 0; s < STREAMS; s++) {
            const bool must = s == (int)on && is_watched(kind), may = s == (int)on;
            if ((*issued)[k][s] ? may : !must) continue;
            print_error("%s: its row names stream %d; it issued %s to stream %d\n",
                        instr_name(kind), (int)on, (*issued)[k][s] ? "work" : "nothing", s);
            wrong++;
        }
    }
    munmap(issued, sizeof *issued);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_instructions_run_on_the_stream_of_their_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
