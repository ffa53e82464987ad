// test_calls.c -- no kernel and no copy of a step holds a number that differs from one step to the next.
// The test records what the instructions of the first step launch and copy, and in every later step
// launches these recordings in place of the new calls. The losses and weights must be those of a run
// without recordings. Only LOAD_BATCH is left as it is: it copies from wherever the loader read. The
// linker wraps the functions run_NAME (tests/CMakeLists.txt).
#include "equiv/matrix_pool.h"

#include "train/trainer_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { LIMIT_S = 600, STEPS = 4, MOST = 1 << 14 };

// What a rank launched or copied. `from` NULL: a kernel.
typedef struct recorded {
    kernel_call call;
    device_stream *on;
    void *to;
    const void *from;
    size_t bytes;
} recorded;

typedef struct recorder {
    device_ops ops;
    const device_ops *real;
    int step, count, next; // `next` counts in the steps after the first
    recorded item[MOST];
} recorder;

// A fault: the first step's numbers are written into the recorded updates.
static bool bakes;
// This rank's recorder while it executes an instruction of a training step other than LOAD_BATCH.
static __thread recorder *now;

// Ends the process, which the pool reports as a failed run.
static void stop(const char *why)
{
    print_error("%s\n", why);
    abort();
}

static recorded *add(recorder *r, recorded x)
{
    if (r->count == MOST) stop("more calls than there is room for");
    r->item[r->count] = x;
    return &r->item[r->count++];
}

// The recording that takes the place of the next call.
static const recorded *replay(recorder *r, const device_stream *on, bool is_kernel)
{
    if (r->next == r->count) stop("a later step has more calls than the first");
    const recorded *x = &r->item[r->next++];
    if (x->on != on || (x->from == NULL) != is_kernel) stop("a later step has other calls");
    return x;
}

// Keeps the numbers that the first step had.
static void bake(kernel_call *c)
{
    kernel_step_group *copy = malloc(sizeof *copy);
    if (!copy) abort();
    *copy = *c->u.update.group;
    c->u.update.group = copy; // stays until the process ends
}

static void record_launch(device_stream *s, const kernel_call *c)
{
    recorder *r = now;
    const device_ops *real = ((const recorder *)s->device->ops)->real;
    if (!r) {
        real->launch(s, c);
        return;
    }
    if (r->step > 1) {
        const recorded *x = replay(r, s, true);
        if (x->call.kind != c->kind) stop("a later step has another kernel");
        real->launch(s, &x->call);
        return;
    }
    recorded *x = add(r, (recorded){.call = *c, .on = s});
    if (bakes && c->kind == K_UPDATE) bake(&x->call);
    real->launch(s, &x->call);
}

static void record_copy(device_stream *s, void *to, const void *from, size_t bytes)
{
    recorder *r = now;
    const device_ops *real = ((const recorder *)s->device->ops)->real;
    const recorded new = {.on = s, .to = to, .from = from, .bytes = bytes}, *x = &new;
    if (r && r->step == 1) add(r, new);
    if (r && r->step > 1) x = replay(r, s, false);
    real->copy(s, x->to, x->from, x->bytes);
}

// The rank's recorder; NULL in a run without recordings.
static recorder *recorder_of(const trainer *t)
{
    const device_ops *ops = trainer_ops(t);
    return ops->launch == record_launch ? (recorder *)(uintptr_t)ops : NULL;
}

static void begin(const trainer *t, schedule_instr_kind kind)
{
    recorder *r = recorder_of(t);
    if (r && kind == LOAD_STEP) r->step++, r->next = 0;
    now = kind == LOAD_BATCH ? NULL : r;
}

#define WRAPPED(KIND, name)                                                                        \
    status __real_run_##name(trainer *t, const schedule_instr *x, err *e);                         \
    status __wrap_run_##name(trainer *t, const schedule_instr *x, err *e);                         \
    status __wrap_run_##name(trainer *t, const schedule_instr *x, err *e)                          \
    {                                                                                              \
        begin(t, KIND);                                                                            \
        const status result = __real_run_##name(t, x, e);                                          \
        now = NULL;                                                                                \
        return result;                                                                             \
    }
SCHEDULE_INSTRS(WRAPPED)

static void opened(device *d, int rank)
{
    (void)rank;
    recorder *r = calloc(1, sizeof *r);
    if (!r) abort();
    r->ops = *d->ops, r->real = d->ops;
    r->ops.launch = record_launch, r->ops.copy = record_copy;
    d->ops = &r->ops;
}

static void closing(device *d, int rank)
{
    (void)rank;
    recorder *r = (recorder *)(uintptr_t)d->ops;
    if (r->step > 1 && r->next != r->count) stop("the last step has fewer calls than the first");
    d->ops = r->real;
    free(r);
}

// Runs the point as it is, and with the recordings. *same: the two have the same bits.
static void run_both(const char *name, bool *same)
{
    const matrix_run plain = {.steps = STEPS, .folder = pool_folder()};
    matrix_run replayed = plain;
    replayed.opened = opened, replayed.closing = closing;
    outcome *want = malloc(sizeof *want), *have = malloc(sizeof *have);
    point p;
    assert_true(want && have);
    if (!matrix_parse(name, &p) || !matrix_legal(&p)) fail_msg("%s is no point", name);
    pool_run_one(&p, &plain, LIMIT_S, want);
    pool_run_one(&p, &replayed, LIMIT_S, have);
    if (want->result != OK) fail_msg("%s: %s", name, want->error);
    if (have->result != OK) fail_msg("%s, with recordings: %s", name, have->error);
    *same = matrix_compare(want, have).same;
    free(want), free(have);
}

static void test_later_steps_can_launch_the_calls_of_the_first(void **state)
{
    (void)state;
    static const char *const points[] = {
        "model=gpt2", // with dropout
        "model=gpt2,precision=fp16,recompute=full",
        "shard=2,inner=zero3,precision=bf16,recompute=selective",
        "shard=2,inner=zero2,no_sync=false,groups=settings",
        "replicate=2,shard=2,outer=zero1,inner=zero3,model=llama",
        "pp=2,schedule=zb",
        "pp=2,schedule=interleaved,precision=fp16",
        "cp=2,inner=zero1",
        "tp=2sp,model=llama_tied",
        "shard=2,inner=zero3,file=ogw,micros=3",
    };
    bakes = false;
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        bool same;
        run_both(points[i], &same);
        if (!same) fail_msg("%s: a call of a step holds a number of that step", points[i]);
    }
}

static void test_a_number_in_a_call_is_noticed(void **state)
{
    (void)state;
    bool same;
    bakes = true;
    run_both("model=gpt2", &same);
    assert_false(same);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_later_steps_can_launch_the_calls_of_the_first),
        cmocka_unit_test(test_a_number_in_a_call_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
