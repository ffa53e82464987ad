// bucket_hook.c -- a program's function in the place of the reduction of gradients. REDUCE_GRAD (step_state.c) calls it
// for buckets of full gradients. The function sums what it likes of the bucket by the calls that REDUCE_GRAD would
// have made, over its own range of elements, so a function that sums all of it has the bits of no function. Gradients
// are partial over other axes, too (tensor parallelism); these sums come before. It does not know the program.
#include "base/text.h"
#include "parallel/hook.h"
#include "parallel/instructions.h"
#include "train/calls.h"
#include "train/trainer_private.h"

// ---- What a hook can replace

static bool reduces_gradients(const schedule_instr *x)
{
    return instr_row_of(x->kind)->payload == PAYLOAD_GRADIENTS;
}

// Returns whether the call sums over process groups of the parameter group.
static bool is_of_group(const plan_group *g, const schedule_call *c)
{
    return ((mesh_axes)c->group & ~plan_group_axes(g)) == 0;
}

static int calls_before(const plan_group *g, const schedule_call *c, int calls)
{
    int before = 0;
    while (before < calls && !is_of_group(g, &c[before])) before++;
    return before;
}

// Returns whether the instruction sums full gradients of a whole bucket, in the flat array, and nothing else.
static bool can_replace(const trainer *t, const schedule_instr *x)
{
    const plan_bucket *b = &t->plan->bucket[x->index];
    const plan_group *g = plan_group_of(t->plan, x->index);
    const schedule_call *c = t->schedule.call + x->first_call, *end = c + x->calls;
    bool can = x->slot < 0 && x->state[PLAN_GRADIENTS] < 0 && g->gradient == LAYOUT_FULL;
    for (c += calls_before(g, c, x->calls); c < end; c++)
        can = can && c->call.kind == CALL_ALL_REDUCE && c->array == IN_BUCKET &&
              (int64_t)c->call.count == b->count[LAYOUT_FULL];
    return can;
}

static status check_reductions(const trainer *t, err *e)
{
    text name = {0};
    bool can = true;
    for (int i = 0; i < t->schedule.count; i++) {
        const schedule_instr *x = &t->schedule.instr[i];
        if (reduces_gradients(x)) can = can && can_replace(t, x);
    }
    if (can) return OK;
    plan_print_policy(t->plan, &name);
    err_set(
        e, E_USAGE,
        "communication hook: the ranks of this job (%s) reduce gradients to shards, or in other "
        "memory; valid: full gradients on the device, as under parallel.dp ddp",
        name.chars ? name.chars : "");
    text_clear(&name);
    return E_USAGE;
}

status trainer_set_hook(trainer *t, trainer_hook hook, void *arg, err *e)
{
    status result = OK;
    TRY(trainer_check_ended(t, "communication hook", e));
    if (hook) {
        if (!t->o.device->is_host_memory)
            FAIL(E_USAGE,
                 "communication hook: the program cannot read the memory of device %s; valid: "
                 "launch.device cpu",
                 t->o.device->ops->name);
        if (hook_compresses(t->plan))
            FAIL(E_USAGE,
                 "communication hook: parallel.hook or train.reduce_dtype compresses the "
                 "gradients already; valid: parallel.hook none and train.reduce_dtype fp32");
        TRY(check_reductions(t, e));
    }
    t->hook = (trainer_hooks){.run = hook, .arg = arg};
done:
    return result;
}

// ---- A bucket

static bool is_last(const trainer *t)
{
    const schedule *s = t->pass.list;
    int i = t->pass.next + 1;
    while (i < s->count && !reduces_gradients(&s->instr[i])) i++;
    return i >= s->count;
}

static calls_run run_of(const trainer *t, int bucket)
{
    return (calls_run){.groups = groups_comms(t->groups),
                       .on = trainer_stream(t, STREAM_COMM),
                       .bucket = bucket,
                       .step = results_steps_done(t)};
}

status trainer_run_hook(trainer *t, const schedule_instr *x, const schedule_call *c, int calls,
                        float *gradients, err *e)
{
    status result = OK;
    trainer_hooks *h = &t->hook;
    const calls_run r = run_of(t, x->index);
    const int before = calls_before(plan_group_of(t->plan, x->index), c, calls);
    const trainer_bucket b = {.index = x->index,
                              .last = is_last(t),
                              .gradients = gradients,
                              .count = t->plan->bucket[x->index].count[LAYOUT_FULL]};
    TRY(calls_issue(&r, c, before, gradients, NULL, e));
    TRY(trainer_ops(t)->sync(r.on, e));
    h->bucket = &b;
    h->call = c + before;
    h->calls = calls - before;
    TRY(h->run(h->arg, &b, e));
done:
    h->bucket = NULL;
    return result;
}

status trainer_reduce_bucket(trainer *t, int64_t first, int64_t count, err *e)
{
    status result = OK;
    const trainer_hooks *h = &t->hook;
    const trainer_bucket *b = h->bucket;
    if (!b) FAIL(E_USAGE, "all-reduce of a bucket: no communication hook runs");
    if (first < 0 || count < 0 || first > b->count || count > b->count - first)
        FAIL(E_USAGE,
             "all-reduce of a bucket: found %lld elements from %lld; valid: elements of the "
             "bucket's %lld",
             (long long)count, (long long)first, (long long)b->count);
    const calls_run r = run_of(t, b->index);
    for (int i = 0; count > 0 && i < h->calls; i++) {
        schedule_call part = h->call[i];
        part.call.count = (size_t)count;
        TRY(calls_issue(&r, &part, 1, b->gradients + first, NULL, e));
    }
    TRY(trainer_ops(t)->sync(r.on, e));
done:
    return result;
}
