// test_equiv_controls.c -- negative controls of the equivalence suite. Each test breaks one function
// (by the linker's --wrap, or on the device), and the outcome of a point that depends on it must
// differ. The faults cover every redistribution in use, every axis, every kind of message, slots,
// context parallelism and parameter groups.
//
// A fault that also breaks the reference of the point must be noticed as the suite does: the point
// is then not close to the run on one rank.
#include "equiv/matrix_pool.h"

#include "device/kernels.h"
#include "train/calls.h"
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
    CELL,         // placement_redistribute(from, to) returns `becomes`
    AXIS,         // no collective runs over a process group that has `axis`
    SKIP,         // instruction `skip` does nothing
    TP_SUM,       // partial gradients are not summed over tensor-parallel ranks
    TIED_SUM,     // tied gradients are not added
    SHARED_SUM,   // gradients of shared heads of keys and values are not summed
    MESSAGE,      // messages hold zeros
    ONE_SLOT,     // all buckets are unsharded into one slot and overwrite weights in use
    ONE_ACT_GRAD, // all activation gradients lie in one slot
    WRITTEN,      // gradients are added to the old content of a newly allocated slot
    SAME_CHUNKS,  // all context-parallel ranks have the tokens of rank 0
    CHUNK_ORDER,  // the second chunk of a context-parallel rank follows its first one
    POSITIONS,    // kernel `kernel` counts a rank's tokens from 0
    NO_KV,        // keys and values are not gathered
    KV_GRADS,     // gradients of keys and values are not summed over the context-parallel ranks
    ALL_SQUARES,  // every replica of a gradient adds all its squares to the norm
    TWO_LOSSES,   // the loss is counted twice
    TRAINED,      // frozen parameters train
    LR_SCALE,     // groups have no factor of the learning rate
    LATE_STOP,    // the backward stops one block too early
} fault_kind;

typedef struct fault {
    const char *name, *point;
    fault_kind kind;
    placement from, to;
    placement_collective becomes;
    int axis;
    schedule_instr_kind skip;
    kernel_kind kernel;
    bool breaks_reference; // the outcome must not be close to one rank's
} fault;

static const fault *broken; // the present fault; NULL: none

static bool is(fault_kind kind)
{
    return broken && broken->kind == kind;
}

// ---- Wrapped functions

placement_collective __real_placement_redistribute(placement from, placement to);
placement_collective __wrap_placement_redistribute(placement from, placement to);
placement_collective __wrap_placement_redistribute(placement from, placement to)
{
    if (is(CELL) && from == broken->from && to == broken->to) return broken->becomes;
    return __real_placement_redistribute(from, to);
}

status __real_calls_issue(const calls_run *r, const schedule_call *c, int count, void *array,
                          void *shards, err *e);
status __wrap_calls_issue(const calls_run *r, const schedule_call *c, int count, void *array,
                          void *shards, err *e);
status __wrap_calls_issue(const calls_run *r, const schedule_call *c, int count, void *array,
                          void *shards, err *e)
{
    status result = OK;
    for (int i = 0; i < count; i++)
        if ((!is(AXIS) || !(c[i].group & (int)MESH_AXIS(broken->axis))) &&
            (!is(SHARED_SUM) || c[i].group != GROUP_SHARED))
            TRY(__real_calls_issue(r, &c[i], 1, array, shards, e));
done:
    return result;
}

// The passes gather keys and values on the compute stream. Parameters are gathered on another one.
status __real_comm_issue(comm *c, const comm_call *call, device_stream *on, err *e);
status __wrap_comm_issue(comm *c, const comm_call *call, device_stream *on, err *e);
status __wrap_comm_issue(comm *c, const comm_call *call, device_stream *on, err *e)
{
    const comm_call_kind k = call->kind;
    const bool of_passes = call->segment && on->kind == STREAM_COMPUTE;
    if (is(TP_SUM) && k == CALL_ALL_REDUCE && call->type == F32 && on->kind == STREAM_COMM)
        return OK;
    if (is(NO_KV) && k == CALL_ALL_GATHER && of_passes) return OK;
    if (is(KV_GRADS) && k == CALL_REDUCE_SCATTER && of_passes) return OK;
    return __real_comm_issue(c, call, on, e);
}

status __real_comm_issue_group(const comm_message *m, int count, device_stream *on, err *e);
status __wrap_comm_issue_group(const comm_message *m, int count, device_stream *on, err *e);
status __wrap_comm_issue_group(const comm_message *m, int count, device_stream *on, err *e)
{
    static const char zeros[1 << 16];
    comm_message x[COMM_GROUP_MESSAGES];
    for (int i = 0; i < count; i++) {
        x[i] = m[i];
        if (is(MESSAGE) && x[i].call.kind == CALL_SEND && x[i].call.count <= sizeof zeros)
            x[i].call.in = zeros;
    }
    return __real_comm_issue_group(x, count, on, e);
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

// ---- Context parallelism

void __real_graph_shard_sequences(graph *g, int64_t seq);
void __wrap_graph_shard_sequences(graph *g, int64_t seq);
void __wrap_graph_shard_sequences(graph *g, int64_t seq)
{
    const int rank = g->position.coord[AXIS_CP];
    if (is(SAME_CHUNKS)) g->position.coord[AXIS_CP] = 0;
    __real_graph_shard_sequences(g, seq);
    g->position.coord[AXIS_CP] = rank;
    kernel_tokens *t = &g->sequences.tokens;
    if (is(CHUNK_ORDER)) t->start[0] = rank * t->seq, t->start[1] = t->start[0] + t->chunk;
}

void __real_clip_share(const plan *p, const plan_group *g, int *index, int *shares);
void __wrap_clip_share(const plan *p, const plan_group *g, int *index, int *shares);
void __wrap_clip_share(const plan *p, const plan_group *g, int *index, int *shares)
{
    __real_clip_share(p, g, index, shares);
    if (is(ALL_SQUARES)) *index = 0, *shares = 1;
}

status __real_clip_agree(comm *c, device_stream *on, kernel_step *step, int sums, double max_norm,
                         comm_visit *visit, err *e);
status __wrap_clip_agree(comm *c, device_stream *on, kernel_step *step, int sums, double max_norm,
                         comm_visit *visit, err *e);
status __wrap_clip_agree(comm *c, device_stream *on, kernel_step *step, int sums, double max_norm,
                         comm_visit *visit, err *e)
{
    const status result = __real_clip_agree(c, on, step, sums, max_norm, visit, e);
    if (is(TWO_LOSSES)) step->result.loss *= 2; // the cpu device has computed it
    return result;
}

// ---- Parameter groups

int __real_param_group_find(const param_group *groups, int count, const char *name);
int __wrap_param_group_find(const param_group *groups, int count, const char *name);
int __wrap_param_group_find(const param_group *groups, int count, const char *name)
{
    const int found = __real_param_group_find(groups, count, name);
    return is(TRAINED) && groups[found].frozen ? count - 1 : found;
}

status __real_plan_make(const plan_options *o, const plan_param *params, int count, plan **out,
                        err *e);
status __wrap_plan_make(const plan_options *o, const plan_param *params, int count, plan **out,
                        err *e);
status __wrap_plan_make(const plan_options *o, const plan_param *params, int count, plan **out,
                        err *e)
{
    plan_options other = *o;
    if (is(LATE_STOP)) other.first_backward++;
    return __real_plan_make(&other, params, count, out, e);
}

status __real_run_load_step(trainer *t, const schedule_instr *x, err *e);
status __wrap_run_load_step(trainer *t, const schedule_instr *x, err *e);
status __wrap_run_load_step(trainer *t, const schedule_instr *x, err *e)
{
    if (is(SKIP) && broken->skip == x->kind) return OK;
    const param_groups right = t->o.groups;
    param_group group[MATRIX_GROUPS];
    memcpy(group, right.items, (size_t)right.count * sizeof *group);
    for (int i = 0; is(LR_SCALE) && i < right.count; i++) group[i].lr_scale = 1;
    t->o.groups.items = group;
    const status result = __real_run_load_step(t, x, e);
    t->o.groups = right;
    return result;
}

// ---- Kernels

// Without slots, the only additions on the communication stream are those of tied gradients.
typedef struct broken_kernels {
    device_ops ops;
    const device_ops *real;
} broken_kernels;

// Counts the tokens of both chunks from 0.
static void forget_positions(kernel_tokens *t)
{
    *t = kernel_tokens_from(t->seq, 0);
}

static void launch_broken(device_stream *s, const kernel_call *c)
{
    const broken_kernels *d = (const broken_kernels *)s->device->ops;
    kernel_call other = *c;
    if (is(TIED_SUM) && c->kind == K_ADD && s->kind == STREAM_COMM) return;
    if (is(POSITIONS) && c->kind == broken->kernel) {
        if (c->kind == K_ROPE) forget_positions(&other.u.rope.row_tokens);
        if (c->kind == K_EMBEDDING) forget_positions(&other.u.embedding.row_tokens);
        if (c->kind == K_DROPOUT) forget_positions(&other.u.dropout.row_tokens);
    }
    d->real->launch(s, &other);
}

static void opened(device *d, int rank)
{
    (void)rank;
    if (!is(TIED_SUM) && !is(POSITIONS)) return;
    broken_kernels *mine = malloc(sizeof *mine);
    if (!mine) abort();
    *mine = (broken_kernels){.ops = *d->ops, .real = d->ops};
    mine->ops.launch = launch_broken;
    d->ops = &mine->ops;
}

static void closing(device *d, int rank)
{
    (void)rank;
    if (!is(TIED_SUM) && !is(POSITIONS)) return;
    broken_kernels *mine = (broken_kernels *)(uintptr_t)d->ops;
    d->ops = mine->real;
    free(mine);
}

// ---- The faults, each with a point whose outcome must change

#define R2                   "replicate=2,outer="
#define S2                   "shard=2,inner="
#define IS(have, want, does) .kind = CELL, .from = have, .to = want, .becomes = does
#define RS(outer, inner)     "replicate=2,shard=2,outer=" outer ",inner=" inner
#define ALL                  .breaks_reference = true, .kind

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
    {"the numbers of the step are not loaded", "model=llama", .kind = SKIP, .skip = LOAD_STEP},
    {"weights are not updated", "model=llama", .kind = SKIP, .skip = OPTIMIZER_STEP},
    {"nothing moves on cp", "cp=2", ALL = AXIS, .axis = AXIS_CP},
    {"nothing moves on cp", "cp=4,inner=zero3", ALL = AXIS, .axis = AXIS_CP},
    {"nothing moves on dp_shard x cp", S2 "zero2,cp=2", ALL = AXIS, .axis = AXIS_CP},
    {"nothing moves on dp_replicate", R2 "ddp,cp=2,inner=zero3", .kind = AXIS,
     .axis = AXIS_DP_REPLICATE},
    {"all cp ranks have the tokens of rank 0", "cp=2", ALL = SAME_CHUNKS},
    {"all cp ranks have the tokens of rank 0", "model=llama,cp=4", ALL = SAME_CHUNKS},
    {"a cp rank has two chunks that follow each other", "cp=2", ALL = CHUNK_ORDER},
    {"rotary positions do not follow the chunks", "model=llama,cp=2", ALL = POSITIONS,
     .kernel = K_ROPE},
    {"the position table does not follow the chunks", "cp=2", ALL = POSITIONS,
     .kernel = K_EMBEDDING},
    {"dropout does not follow the chunks", "cp=2", ALL = POSITIONS, .kernel = K_DROPOUT},
    {"keys and values are not gathered", "cp=2", ALL = NO_KV},
    {"gradients of keys and values are not summed", "cp=2", ALL = KV_GRADS},
    {"gradients of keys and values are not summed", "model=llama,cp=4,inner=zero3", ALL = KV_GRADS},
    {"gradients of shared key-value heads are not summed", "model=llama,tp=4", ALL = SHARED_SUM},
    {"gradients of shared key-value heads are not summed", S2 "zero3,model=llama_tied,tp=4",
     ALL = SHARED_SUM},
    {"every cp rank adds all squares to the norm", "cp=2", ALL = ALL_SQUARES},
    {"every replica adds all squares to the norm", R2 "ddp", ALL = ALL_SQUARES},
    {"the loss is counted for every cp rank", "cp=2", ALL = TWO_LOSSES},
    {"frozen parameters train", "groups=frozen", .kind = TRAINED},
    {"frozen parameters train", S2 "zero3,groups=frozen", .kind = TRAINED},
    {"frozen parameters train", "pp=2,cp=2,groups=frozen", .kind = TRAINED},
    {"a group's lr_scale is ignored", "groups=settings", .kind = LR_SCALE},
    {"a group's lr_scale is ignored", S2 "zero1,cp=2,groups=settings", .kind = LR_SCALE},
    {"the backward stops one block too early", "groups=frozen", .kind = LATE_STOP},
    {"the backward stops one block too early", "pp=2,groups=frozen", .kind = LATE_STOP},
};

static point point_of(const char *name)
{
    point p;
    if (!matrix_parse(name, &p) || !matrix_legal(&p)) fail_msg("%s is no point", name);
    return p;
}

static outcome *run_point(const point *p, int64_t micro_batch, const fault *f)
{
    // A broken run may wait for ever. A good run may wait long for a processor.
    const matrix_run how = {.folder = pool_folder(),
                            .micro_batch = micro_batch,
                            .patience_ms = f ? 1500 : 0,
                            .opened = opened,
                            .closing = closing};
    outcome *out = malloc(sizeof *out);
    assert_non_null(out);
    broken = f;
    pool_run_one(p, &how, 600, out);
    broken = NULL;
    return out;
}

// What notices a fault.
typedef enum check { NONE, AN_ERROR, THE_BITS, ONE_RANK, CHECKS } check;

static const char *const CHECK[CHECKS] = {"nothing", "an error of the run",
                                          "other bits than those of the good run",
                                          "the distance from one rank's run"};

// The run without the fault: on the ranks of the point, or on one rank.
static outcome *run_good(const fault *f, const point *p)
{
    int64_t micro_batch = 0;
    const point one = matrix_one_rank(p, &micro_batch);
    outcome *good = run_point(p, 0, NULL);
    if (good->result != OK) fail_msg("%s: %s", f->point, good->error);
    if (!f->breaks_reference) return good;
    outcome *single = run_point(&one, micro_batch, NULL);
    const difference d = matrix_compare(good, single);
    if (!matrix_allows(&d, MATRIX_CLOSE, matrix_tolerance(p)))
        fail_msg("%s: the good run is not close to one rank's", f->point);
    free(good);
    return single;
}

static check notice(const fault *f)
{
    const point p = point_of(f->point);
    outcome *good = run_good(f, &p), *bad = run_point(&p, 0, f);
    const difference d = matrix_compare(bad, good);
    check by = NONE;
    if (bad->result != OK)
        by = AN_ERROR;
    else if (!f->breaks_reference)
        by = d.same ? NONE : THE_BITS;
    else
        by = matrix_allows(&d, MATRIX_CLOSE, matrix_tolerance(&p)) ? NONE : ONE_RANK;
    print_message("%s (%s): noticed by %s\n", f->name, f->point, CHECK[by]);
    free(good);
    free(bad);
    return by;
}

static void test_every_fault_is_noticed(void **state)
{
    (void)state;
    int by[CHECKS] = {0};
    const int count = (int)(sizeof FAULTS / sizeof *FAULTS);
    for (int i = 0; i < count; i++) by[notice(&FAULTS[i])]++;
    for (int k = 0; k < CHECKS; k++)
        print_message("%d of %d faults are noticed by %s\n", by[k], count, CHECK[k]);
    assert_int_equal(by[NONE], 0);
}

// If a message never arrives, the error names the rank that should have sent it.
static void test_a_missing_message_names_the_rank(void **state)
{
    (void)state;
    const fault f = {"gradients are not sent", "pp=2", .kind = SKIP, .skip = SEND_GRAD};
    const point p = point_of(f.point);
    outcome *out = run_point(&p, 0, &f);
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
