// test_equiv_controls.c -- negative controls of the equivalence suite. One thing at a time is broken (by
// the linker's --wrap, or on the device), and the outcome of the point that depends on it must differ.
// This covers every redistribution that is used, every axis, every kind of message, and slots.
#include "equiv/matrix_pool.h"

#include "device/kernels.h"
#include "train/redistribute.h"
#include "train/trainer_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

typedef enum fault_kind {
    NOTHING,
    CELL,         // placement_redistribute(from, to) says `becomes`
    AXIS,         // no collective along `axis`
    SKIP,         // instruction `skip` does nothing
    TP_SUM,       // partial gradients are not summed over tensor-parallel ranks
    TIED_SUM,     // tied gradients are not added
    MESSAGE,      // zeros are sent instead of what was computed
    ONE_SLOT,     // all buckets are unsharded into one slot, over the weights in use
    ONE_ACT_GRAD, // all activation gradients lie in one slot
    WRITTEN,      // gradients are added to what a newly allocated slot held before
} fault_kind;

typedef struct fault {
    const char *name, *point;
    fault_kind kind;
    placement from, to;
    placement_collective becomes;
    int axis;
    schedule_instr_kind skip;
} fault;

static const fault *broken; // what is broken now; NULL: nothing

static bool is(fault_kind kind)
{
    return broken && broken->kind == kind;
}

// ---- Seams

placement_collective __real_placement_redistribute(placement from, placement to);
placement_collective __wrap_placement_redistribute(placement from, placement to);
placement_collective __wrap_placement_redistribute(placement from, placement to)
{
    if (is(CELL) && from == broken->from && to == broken->to) return broken->becomes;
    return __real_placement_redistribute(from, to);
}

status __real_redistribute_bucket(const plan *p, const plan_redistribution *m, int b,
                                  const void *own, void *at, dtype t, comm *const *along,
                                  device_stream *on, err *e);
status __wrap_redistribute_bucket(const plan *p, const plan_redistribution *m, int b,
                                  const void *own, void *at, dtype t, comm *const *along,
                                  device_stream *on, err *e);
status __wrap_redistribute_bucket(const plan *p, const plan_redistribution *m, int b,
                                  const void *own, void *at, dtype t, comm *const *along,
                                  device_stream *on, err *e)
{
    plan_redistribution some = {.layout = m->layout};
    for (int i = 0; i < m->count; i++)
        if (!is(AXIS) || m->step[i].axis != broken->axis) some.step[some.count++] = m->step[i];
    return __real_redistribute_bucket(p, &some, b, own, at, t, along, on, e);
}

status __real_comm_all_reduce(comm *c, void *inout, size_t count, dtype t, comm_reduce_op how,
                              device_stream *on, err *e);
status __wrap_comm_all_reduce(comm *c, void *inout, size_t count, dtype t, comm_reduce_op how,
                              device_stream *on, err *e);
status __wrap_comm_all_reduce(comm *c, void *inout, size_t count, dtype t, comm_reduce_op how,
                              device_stream *on, err *e)
{
    if (is(TP_SUM) && t == F32 && on->kind == STREAM_COMM) return OK;
    return __real_comm_all_reduce(c, inout, count, t, how, on, e);
}

status __real_comm_send(comm *c, const void *buf, size_t bytes, int peer, device_stream *on,
                        err *e);
status __wrap_comm_send(comm *c, const void *buf, size_t bytes, int peer, device_stream *on,
                        err *e);
status __wrap_comm_send(comm *c, const void *buf, size_t bytes, int peer, device_stream *on, err *e)
{
    static const char zeros[1 << 16];
    if (is(MESSAGE) && on->kind == STREAM_COMM && bytes <= sizeof zeros) buf = zeros;
    return __real_comm_send(c, buf, bytes, peer, on, e);
}

status __real_schedule_make(const plan *p, schedule_pass what, schedule *out, err *e);
status __wrap_schedule_make(const plan *p, schedule_pass what, schedule *out, err *e);
status __wrap_schedule_make(const plan *p, schedule_pass what, schedule *out, err *e)
{
    const status result = __real_schedule_make(p, what, out, e);
    if (result != OK) return result;
    for (int i = 1; is(ONE_SLOT) && i < out->weights.count; i++)
        if (out->weights.elements[i] > out->weights.elements[0])
            out->weights.elements[0] = out->weights.elements[i];
    for (int i = 0; i < out->count; i++) {
        schedule_instr *x = &out->instr[i];
        if (is(ONE_SLOT) && (x->kind == UNSHARD || x->kind == RESHARD)) x->slot = 0;
        if (is(ONE_ACT_GRAD) && x->grad_in > 0) x->grad_in = 0;
        if (is(ONE_ACT_GRAD) && x->grad_out > 0) x->grad_out = 0;
    }
    return OK;
}

#define SKIPPABLE(name)                                                                            \
    status __real_##name(trainer *t, const schedule_instr *x, err *e);                             \
    status __wrap_##name(trainer *t, const schedule_instr *x, err *e);                             \
    status __wrap_##name(trainer *t, const schedule_instr *x, err *e)                              \
    {                                                                                              \
        return is(SKIP) && broken->skip == x->kind ? OK : __real_##name(t, x, e);                  \
    }
SKIPPABLE(run_reduce_tied_grad)
SKIPPABLE(run_swap_in)
SKIPPABLE(run_swap_out)
SKIPPABLE(run_all_gather_updated)
SKIPPABLE(run_send_grad)
SKIPPABLE(run_send_act)
SKIPPABLE(run_optimizer_step)

status __real_run_alloc_grad(trainer *t, const schedule_instr *x, err *e);
status __wrap_run_alloc_grad(trainer *t, const schedule_instr *x, err *e);
status __wrap_run_alloc_grad(trainer *t, const schedule_instr *x, err *e)
{
    const status result = __real_run_alloc_grad(t, x, e);
    const plan_bucket *b = &t->plan->bucket[x->index];
    for (int i = 0; is(WRITTEN) && i < b->rows; i++)
        *state_grad_written(t, t->plan->order[b->first_row + i]) = true;
    return result;
}

// On the communication stream of a trainer without slots, only tied gradients are added.
typedef struct without_sums {
    device_ops ops;
    const device_ops *real;
} without_sums;

static void launch_but_sums(device_stream *s, const kernel_call *c)
{
    const without_sums *d = (const without_sums *)s->device->ops;
    if (c->kind == K_ADD && s->kind == STREAM_COMM) return;
    d->real->launch(s, c);
}

static void opened(device *d, int rank)
{
    (void)rank;
    if (!is(TIED_SUM)) return;
    without_sums *mine = malloc(sizeof *mine);
    if (!mine) abort();
    *mine = (without_sums){.ops = *d->ops, .real = d->ops};
    mine->ops.launch = launch_but_sums;
    d->ops = &mine->ops;
}

static void closing(device *d, int rank)
{
    (void)rank;
    if (!is(TIED_SUM)) return;
    without_sums *mine = (without_sums *)(uintptr_t)d->ops;
    d->ops = mine->real;
    free(mine);
}

// ---- What is broken, and where it must be noticed

#define R2                   "replicate=2,outer="
#define S2                   "shard=2,inner="
#define IS(have, want, does) .kind = CELL, .from = have, .to = want, .becomes = does
#define RS(outer, inner)     "replicate=2,shard=2,outer=" outer ",inner=" inner

static const fault FAULTS[] = {
    {"PARTIAL->REPLICATE does nothing", R2 "ddp", IS(PARTIAL, REPLICATE, REDISTRIBUTE_NOTHING)},
    {"PARTIAL->REPLICATE does nothing", S2 "ddp", IS(PARTIAL, REPLICATE, REDISTRIBUTE_NOTHING)},
    {"PARTIAL->SHARD does nothing", R2 "zero1", IS(PARTIAL, SHARD, REDISTRIBUTE_NOTHING)},
    {"PARTIAL->SHARD does nothing", S2 "zero1", IS(PARTIAL, SHARD, REDISTRIBUTE_NOTHING)},
    {"PARTIAL->SHARD does nothing", S2 "zero2", IS(PARTIAL, SHARD, REDISTRIBUTE_NOTHING)},
    {"PARTIAL->SHARD does nothing", S2 "zero2,no_sync=false",
     IS(PARTIAL, SHARD, REDISTRIBUTE_NOTHING)},
    {"PARTIAL->SHARD does nothing", S2 "zero3", IS(PARTIAL, SHARD, REDISTRIBUTE_NOTHING)},
    {"PARTIAL->SHARD does nothing", R2 "zero3,micros=1", IS(PARTIAL, SHARD, REDISTRIBUTE_NOTHING)},
    {"SHARD->REPLICATE does nothing", R2 "zero1", IS(SHARD, REPLICATE, REDISTRIBUTE_NOTHING)},
    {"SHARD->REPLICATE does nothing", S2 "zero2", IS(SHARD, REPLICATE, REDISTRIBUTE_NOTHING)},
    {"SHARD->REPLICATE does nothing", S2 "zero3", IS(SHARD, REPLICATE, REDISTRIBUTE_NOTHING)},
    {"SHARD->REPLICATE does nothing", S2 "fsdp_no_sync",
     IS(SHARD, REPLICATE, REDISTRIBUTE_NOTHING)},
    {"REPLICATE->REPLICATE sums", S2 "ddp", IS(REPLICATE, REPLICATE, REDISTRIBUTE_ALL_REDUCE)},
    {"PARTIAL->PARTIAL sums", S2 "ddp,file=g", IS(PARTIAL, PARTIAL, REDISTRIBUTE_ALL_REDUCE)},
    {"SHARD->SHARD sums", S2 "zero3,micros=1", IS(SHARD, SHARD, REDISTRIBUTE_ALL_REDUCE)},
    {"nothing moves on dp_replicate", RS("ddp", "zero3"), .kind = AXIS, .axis = AXIS_DP_REPLICATE},
    {"nothing moves on dp_shard", RS("ddp", "zero3"), .kind = AXIS, .axis = AXIS_DP_SHARD},
    {"nothing moves on dp_replicate", RS("zero1", "zero2"), .kind = AXIS,
     .axis = AXIS_DP_REPLICATE},
    {"nothing moves on dp_shard", RS("zero1", "zero2"), .kind = AXIS, .axis = AXIS_DP_SHARD},
    {"nothing moves on dp_replicate", RS("zero3", "zero3"), .kind = AXIS,
     .axis = AXIS_DP_REPLICATE},
    {"nothing moves on dp_shard", RS("zero3", "ddp"), .kind = AXIS, .axis = AXIS_DP_SHARD},
    {"gradients of tied weights are not summed", "pp=2", .kind = SKIP, .skip = REDUCE_TIED_GRAD},
    {"gradients of tied weights are not summed", "pp=2," S2 "zero3", .kind = SKIP,
     .skip = REDUCE_TIED_GRAD},
    {"partial gradients are not summed over tp", "tp=2sp", .kind = TP_SUM},
    {"tied gradients are not added", "model=gpt2", .kind = TIED_SUM},
    {"tied gradients are not added", "model=llama_tied,recompute=full", .kind = TIED_SUM},
    {"gradients are not sent", "pp=2", .kind = SKIP, .skip = SEND_GRAD},
    {"gradients are not sent", "pp=2,schedule=zb", .kind = SKIP, .skip = SEND_GRAD},
    {"activations are not sent", "pp=2,schedule=interleaved", .kind = SKIP, .skip = SEND_ACT},
    {"zeros are sent", "pp=2", .kind = MESSAGE},
    {"zeros are sent", "pp=2,schedule=zb", .kind = MESSAGE},
    {"weights are resharded too early", S2 "zero3", .kind = ONE_SLOT},
    {"weights are resharded too early", RS("ddp", "zero3"), .kind = ONE_SLOT},
    {"activation gradients share one slot", "pp=2,schedule=interleaved", .kind = ONE_ACT_GRAD},
    {"gradients are added to what a slot held before", S2 "zero2,no_sync=false", .kind = WRITTEN},
    {"gradients are added to what a slot held before", S2 "zero3,micros=1", .kind = WRITTEN},
    {"state is not swapped in", S2 "zero1,file=o", .kind = SKIP, .skip = SWAP_IN},
    {"state is not written", S2 "zero1,file=o", .kind = SKIP, .skip = SWAP_OUT},
    {"weights are not swapped in", S2 "zero3,file=w", .kind = SKIP, .skip = SWAP_IN},
    {"weights are not written", S2 "zero3,file=w", .kind = SKIP, .skip = SWAP_OUT},
    {"gradients are not written", "file=g", .kind = SKIP, .skip = SWAP_OUT},
    {"updated weights are not gathered", S2 "zero1", .kind = SKIP, .skip = ALL_GATHER_UPDATED},
    {"weights are not updated", "model=llama", .kind = SKIP, .skip = OPTIMIZER_STEP},
};

static outcome *run_point(const char *name, const fault *f)
{
    // A broken run may wait for ever. A good one may wait long for its turn on the processor.
    const matrix_run how = {.folder = pool_folder(),
                            .patience_ms = f ? 1500 : 300000,
                            .opened = opened,
                            .closing = closing};
    outcome *out = malloc(sizeof *out);
    point p;
    assert_non_null(out);
    if (!matrix_parse(name, &p) || !matrix_legal(&p)) fail_msg("%s is no point", name);
    broken = f;
    pool_run_one(&p, &how, 600, out);
    broken = NULL;
    return out;
}

static void test_every_fault_is_noticed(void **state)
{
    (void)state;
    int missed = 0, errors = 0;
    const int count = (int)(sizeof FAULTS / sizeof *FAULTS);
    for (int i = 0; i < count; i++) {
        outcome *good = run_point(FAULTS[i].point, NULL),
                *bad = run_point(FAULTS[i].point, &FAULTS[i]);
        if (good->result != OK) fail_msg("%s: %s", FAULTS[i].point, good->error);
        const bool noticed = bad->result != OK || !matrix_compare(bad, good).same;
        errors += bad->result != OK;
        missed += !noticed;
        if (!noticed) print_error("%s (%s): not noticed\n", FAULTS[i].name, FAULTS[i].point);
        free(good);
        free(bad);
    }
    print_message("%d of %d faults are noticed, %d of them as an error of the run\n",
                  count - missed, count, errors);
    assert_int_equal(missed, 0);
}

// A rank that waits for a message which never comes names the rank that it waits for.
static void test_a_missing_message_names_the_rank(void **state)
{
    (void)state;
    const fault f = {"gradients are not sent", "pp=2", .kind = SKIP, .skip = SEND_GRAD};
    outcome *out = run_point(f.point, &f);
    assert_int_equal(out->result, E_PEER);
    assert_non_null(strstr(out->error, "rank 1"));
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_fault_is_noticed),
        cmocka_unit_test(test_a_missing_message_names_the_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
