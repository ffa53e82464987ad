// step_update.c -- the end of a step: what all ranks agree on, and the update of this rank's part.
// Called through the table in step.c.
#include "train/state.h"

#include <math.h>

// Do this rank's parts lie back to back in every array of the update?
static bool parts_touch(const plan *p)
{
    return trainer_gradient_layout(p) == p->optimizer && p->weight == p->optimizer;
}

bool trainer_next_run(const trainer *t, int bucket, row_run *run)
{
    const plan *p = t->plan;
    const plan_bucket *b = &p->bucket[bucket];
    const int end = b->first_row + b->rows;
    run->first = run->last;
    if (run->first >= end) return false;
    const plan_row *a = &p->row[p->order[run->first]];
    for (run->last = run->first + 1; run->last < end && parts_touch(p); run->last++) {
        const plan_row *r = &p->row[p->order[run->last]],
                       *before = &p->row[p->order[run->last - 1]];
        const int64_t end_before = before->offset[p->optimizer] +
                                   plan_local_shard(p, before, p->optimizer, p->coord).count;
        // Between rows of a state slot lies what another bucket left there.
        if (r->offset[p->optimizer] != end_before) break;
        if (r->decays != a->decays || r->counted != a->counted) break;
    }
    return true;
}

// First element of this rank's part of row r, relative to its bucket in an array of that level.
static int64_t part_at(const plan *p, const plan_row *r, plan_layout array)
{
    return r->offset[array] - p->bucket[r->bucket].first[array] +
           plan_local_shard(p, r, p->optimizer, p->coord).first -
           plan_local_shard(p, r, array, p->coord).first;
}

// A run's elements: from its first row's part to the end of its last one's. Runs of several rows
// exist only where parts touch.
static int64_t run_count(const plan *p, const row_run *run)
{
    const plan_row *a = &p->row[p->order[run->first]], *b = &p->row[p->order[run->last - 1]];
    return b->offset[p->optimizer] - a->offset[p->optimizer] +
           plan_local_shard(p, b, p->optimizer, p->coord).count;
}

void trainer_add_squares(trainer *t, int bucket, const float *at, plan_layout array,
                         device_stream *on)
{
    const plan *p = t->plan;
    row_run run = {.last = p->bucket[bucket].first_row};
    int index, of;
    clip_share(p, &index, &of);
    while (trainer_next_run(t, bucket, &run)) {
        const plan_row *r = &p->row[p->order[run.first]];
        const int64_t count = run_count(p, &run), from = count * index / of,
                      to = count * (index + 1) / of;
        if (!r->counted || from == to) continue;
        kernel_call k = {.kind = K_SUM_SQUARES};
        k.u.sum_squares = (kernel_sum_squares_args){.count = to - from,
                                                    .x = at + part_at(p, r, array) + from,
                                                    .sum = &t->sums[SUM_SQUARES],
                                                    .type = F32};
        device_launch(on, &k);
    }
}

// A power of two, so that nothing is rounded: the loss scale over about as many positions as the
// rank's gradients are sums of.
double trainer_gradient_scale(const trainer *t)
{
    if (t->o.precision != F16) return 1;
    const double positions = (double)(t->o.micro_batch * t->o.seq_len * t->micros);
    return t->scaler.scale / exp2(ceil(log2(positions)));
}

status run_clip_grad_norm(trainer *t, const schedule_instr *x, err *e)
{
    (void)x;
    // The sums of the loss come from the compute stream, those of the gradients follow the
    // reductions.
    trainer_order(t, t->computed, t->stream[STREAM_COMPUTE], t->stream[STREAM_COMM]);
    t->agreed_scale = trainer_gradient_scale(t);
    return clip_agree(t->agree ? t->agree : t->o.comm, t->stream[STREAM_COMM], t->sums,
                      t->host_sums, t->stop, (double)t->samples, t->o.clip_grad_norm,
                      t->agreed_scale, &t->agreed, e);
}

// Where the arrays of a bucket's update begin.
typedef struct places {
    char *weights, *low;
    float *master, *moment[2], *gradients;
} places;

static float *next_part(float **from, size_t count, bool wanted)
{
    float *at = *from;
    if (!wanted) return NULL;
    *from += count;
    return at;
}

static status find_places(trainer *t, const schedule_instr *x, places *out, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const plan_bucket *b = &p->bucket[x->index];
    const optim_rule *rule = optim_rule_of(&t->o.optimizer);
    const int64_t state = b->first[p->optimizer];
    device_stream *on = t->stream[STREAM_COMPUTE];
    for (int k = 0; k < PLAN_STATES; k++)
        if (x->state[k] >= 0) TRY(trainer_await_slot(t, (plan_state)k, x->state[k], on, e));
    out->weights = x->state[PLAN_WEIGHTS] >= 0
                       ? t->state_slot[PLAN_WEIGHTS][x->state[PLAN_WEIGHTS]].at
                       : t->weights + (size_t)b->first[p->weight] * trainer_weight_bytes(t);
    out->gradients = x->state[PLAN_GRADIENTS] >= 0
                         ? (void *)t->state_slot[PLAN_GRADIENTS][x->state[PLAN_GRADIENTS]].at
                         : t->gradients + b->first[p->gradient];
    if (x->state[PLAN_OPTIMIZER_STATE] >= 0) {
        float *at = (void *)t->state_slot[PLAN_OPTIMIZER_STATE][x->state[PLAN_OPTIMIZER_STATE]].at;
        const size_t count = (size_t)b->count[p->optimizer];
        out->master = next_part(&at, count, t->o.precision != F32);
        out->moment[0] = next_part(&at, count, rule->has_m);
        out->moment[1] = next_part(&at, count, rule->has_v);
        goto done;
    }
    out->master = t->master ? t->master + state : NULL;
    for (int i = 0; i < 2; i++) out->moment[i] = t->moment[i] ? t->moment[i] + state : NULL;
done:
    return result;
}

static void update_run(trainer *t, const row_run *run, const places *at)
{
    const plan *p = t->plan;
    const plan_row *r = &p->row[p->order[run->first]];
    kernel_call c = {.kind = K_UPDATE};
    kernel_update_args *u = &c.u.update;
    optim_config config = t->o.optimizer;
    // A schedule that cycles momentum means Adam's first beta; SGD's momentum stays.
    if (at->moment[1]) config.beta1 = lr_momentum_at(&t->o.lr, config.beta1, trainer_updates(t));
    optim_fill(&config, (uint64_t)trainer_updates(t) + 1,
               lr_at(&t->o.lr, config.lr, trainer_updates(t)), t->agreed.scale, r->decays, u);
    const int64_t state = part_at(p, r, p->optimizer), weight = part_at(p, r, p->weight);
    char *weights = at->weights + (size_t)weight * trainer_weight_bytes(t);
    u->count = run_count(p, run);
    u->w = at->master ? at->master + state : (float *)(void *)weights;
    u->g = at->gradients + part_at(p, r, trainer_gradient_layout(p));
    u->m = at->moment[0] ? at->moment[0] + state : NULL;
    u->v = at->moment[1] ? at->moment[1] + state : NULL;
    u->low = at->master ? weights : NULL;
    u->low_type = t->o.precision;
    if (u->count > 0) device_launch(t->stream[STREAM_COMPUTE], &c);
}

status run_optimizer_step(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    places at = {NULL};
    trainer_order(t, t->reduced, t->stream[STREAM_COMM], t->stream[STREAM_COMPUTE]);
    TRY(find_places(t, x, &at, e));
    row_run run = {.last = t->plan->bucket[x->index].first_row};
    while (trainer_next_run(t, x->index, &run)) update_run(t, &run, &at);
    for (int k = 0; k < PLAN_STATES; k++)
        if (x->state[k] >= 0)
            trainer_ops(t)->record(t->state_slot[k][x->state[k]].freed, t->stream[STREAM_COMPUTE]);
done:
    return result;
}
