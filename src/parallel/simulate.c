// simulate.c -- gives every instruction of every stage a start and an end: the latest of what it
// waits for, and its seconds later. Called by `trireme explain`, the planner and draw.c's users.
// Deliberately knows no machine: what takes how long is the caller's function.
#include "parallel/simulate.h"

#include "device/device.h"
#include "parallel/replay.h"

#include <stdlib.h>

// When things of a stage are there, or free again. All begin with 0.
typedef struct clocks {
    double stream[STREAMS];
    double clipped;
    double *bucket;              // [buckets] gradients reduced, weights updated, state fetched
    double *gathered;            // [buckets]
    double *weights, *gradients; // [slots] free
    double *state[PLAN_STATES];  // [slots] free
    double *batch;               // [slots] free
    double **act;                // [chunks][slots] free
    double *loaded;              // [micros]
    double *received[2];         // [micros, chunks] activations, gradients
    int *batch_slot;             // [micros]
    int *fetched;                // [buckets] slot of weights
} clocks;

typedef struct simulation {
    const schedule *const *of_stage;
    const plan *const *plan_of_stage;
    const simulate_costs *costs;
    simulate_result *out;
    clocks *of; // [stages]
} simulation;

double simulate_block_seconds(const void *blocks, int stage, const schedule_instr *x)
{
    const simulate_blocks *b = blocks;
    (void)stage;
    switch (x->kind) {
    case FORWARD:
        return b->forward[x->index];
    case BACKWARD:
        return b->backward_input[x->index] + b->backward_weight[x->index];
    case BACKWARD_INPUT:
        return b->backward_input[x->index];
    case BACKWARD_WEIGHT:
        return b->backward_weight[x->index];
    default:
        return 0;
    }
}

static bool is_pass(schedule_instr_kind k)
{
    return k == FORWARD || k == BACKWARD || k == BACKWARD_INPUT || k == BACKWARD_WEIGHT;
}

static device_stream_kind stream_of(const simulation *x, schedule_instr_kind k)
{
    if (!x->costs->overlap || is_pass(k) || k == OPTIMIZER_STEP || k == RESHARD_POST_FORWARD ||
        k == RESHARD || k == ALLOC_GRAD)
        return STREAM_COMPUTE;
    return k == LOAD_BATCH || k == SWAP_IN || k == SWAP_OUT ? STREAM_COPY : STREAM_COMM;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

static void delay(double *t, double until)
{
    if (until > *t) *t = until;
}

static size_t chunk_of(const plan *p, const schedule_instr *x)
{
    return (size_t)(plan_part_of(p, x->index) / p->o.mesh.size[AXIS_PP]);
}

// What a chunk receives is for its first or its last block; those behind wait for that one anyway.
static size_t pair(const plan *p, const schedule_instr *x)
{
    const int chunks = p->chunks / p->o.mesh.size[AXIS_PP];
    return (size_t)x->micro * (size_t)chunks + chunk_of(p, x);
}

static double *act_slot(const clocks *c, const plan *p, const schedule_instr *x)
{
    return &c->act[chunk_of(p, x)][x->slot];
}

// ---- What an instruction waits for, besides its own stream

static double ready_pass(const clocks *c, const plan *p, const schedule_instr *x)
{
    double t = c->received[x->kind != FORWARD][pair(p, x)];
    if (x->kind == FORWARD) delay(&t, c->loaded[x->micro]);
    const plan_buckets l = plan_buckets_of(p, x->index);
    for (int i = 0; p->weight_slots && i < l.count; i++) delay(&t, c->gathered[l.items[i]]);
    return t;
}

static double ready_update(const clocks *c, const schedule_instr *x)
{
    double t = later(c->clipped, c->bucket[x->index]);
    for (int i = 0; i < PLAN_STATES; i++)
        if (x->state[i] >= 0) delay(&t, c->state[i][x->state[i]]);
    return t;
}

static double ready_at(const clocks *c, const plan *p, const schedule_instr *x)
{
    const double computed = c->stream[STREAM_COMPUTE]; // all that comes before it in the list
    switch (x->kind) {
    case LOAD_BATCH:
        return c->batch[x->slot];
    case SWAP_IN:
        return x->full ? c->gradients[x->slot] : c->state[x->what][x->slot];
    case UNSHARD:
        return later(c->weights[x->slot], c->bucket[x->index]);
    case ALLOC_GRAD:
        return c->gradients[x->slot];
    case RECV_ACT:
        return *act_slot(c, p, x);
    case OPTIMIZER_STEP:
        return ready_update(c, x);
    case REDUCE_TIED_GRAD:
    case REDUCE_GRAD:
    case ALL_GATHER_UPDATED:
    case SWAP_OUT:
        return later(computed, c->bucket[x->index]);
    case SEND_ACT:
    case SEND_GRAD:
    case CLIP_GRAD_NORM:
        return computed;
    default:
        return is_pass(x->kind) ? ready_pass(c, p, x) : 0;
    }
}

// ---- What has its time with an instruction's end

static void end_pass(const clocks *c, const plan *p, const schedule_instr *x, double end)
{
    delay(act_slot(c, p, x), end);
    if (x->index == 0 || x->index == p->o.blocks - 1)
        delay(&c->batch[c->batch_slot[x->micro]], end);
}

static void end_bucket(clocks *c, const schedule_instr *x, double end)
{
    switch (x->kind) {
    case SWAP_IN:
    case SWAP_OUT:
        delay(x->full ? &c->gradients[x->slot] : &c->state[x->what][x->slot], end);
        if (x->kind == SWAP_IN) delay(&c->bucket[x->index], end);
        if (x->kind == SWAP_IN && x->what == PLAN_WEIGHTS) c->fetched[x->index] = x->slot;
        break;
    case UNSHARD:
        c->gathered[x->index] = end;
        if (c->fetched[x->index] >= 0) delay(&c->state[PLAN_WEIGHTS][c->fetched[x->index]], end);
        c->fetched[x->index] = -1;
        break;
    case RESHARD:
        delay(&c->weights[x->slot], end);
        break;
    default: // REDUCE_TIED_GRAD, REDUCE_GRAD, OPTIMIZER_STEP, ALL_GATHER_UPDATED
        c->bucket[x->index] = end;
        if ((x->kind == REDUCE_TIED_GRAD || x->kind == REDUCE_GRAD) && x->slot >= 0)
            delay(&c->gradients[x->slot], end);
        for (int i = 0; (x->kind == REDUCE_GRAD || x->kind == OPTIMIZER_STEP) && i < PLAN_STATES;
             i++)
            if (x->state[i] >= 0) delay(&c->state[i][x->state[i]], end);
        break;
    }
}

static void end_at(clocks *c, const plan *p, const schedule_instr *x, double end)
{
    switch (x->kind) {
    case LOAD_BATCH:
        c->loaded[x->micro] = end;
        c->batch_slot[x->micro] = x->slot;
        break;
    case RECV_ACT:
    case RECV_GRAD:
        c->received[x->kind == RECV_GRAD][pair(p, x)] = end;
        break;
    case SEND_ACT:
    case SEND_GRAD:
        delay(act_slot(c, p, x), end);
        break;
    case CLIP_GRAD_NORM:
        c->clipped = end;
        break;
    case ALLOC_GRAD:
        break;
    default:
        if (is_pass(x->kind))
            end_pass(c, p, x, end);
        else
            end_bucket(c, x, end);
    }
}

static status time_step(void *given, const replay_step *s, err *e)
{
    const simulation *x = given;
    double start = 0, seconds = 0;
    (void)e;
    for (int i = 0; i < s->count; i++) {
        const int stage = s->at[i].stage;
        const schedule_instr *y = &x->of_stage[stage]->instr[s->at[i].number];
        const clocks *c = &x->of[stage];
        delay(&start, c->stream[stream_of(x, y->kind)]);
        delay(&start, ready_at(c, x->plan_of_stage[stage], y));
        if (y->kind == RECV_ACT || y->kind == RECV_GRAD)
            delay(&start, x->out->at[s->sent.stage][s->sent.number].end);
        delay(&seconds, x->costs->seconds(x->costs->given, stage, y));
    }
    for (int i = 0; i < s->count; i++) {
        const int stage = s->at[i].stage;
        const schedule_instr *y = &x->of_stage[stage]->instr[s->at[i].number];
        x->out->at[stage][s->at[i].number] = (simulate_span){start, start + seconds};
        x->of[stage].stream[stream_of(x, y->kind)] = start + seconds;
        end_at(&x->of[stage], x->plan_of_stage[stage], y, start + seconds);
        if (is_pass(y->kind) || y->kind == OPTIMIZER_STEP) x->out->busy[stage] += seconds;
        delay(&x->out->seconds, start + seconds);
    }
    return OK;
}

// ---- Memory

static bool open_doubles(double **out, size_t count)
{
    *out = calloc(count + 1, sizeof **out);
    return *out != NULL;
}

static bool open_clocks(clocks *c, const plan *p, const schedule *s)
{
    const size_t buckets = (size_t)p->buckets, micros = (size_t)p->o.micros;
    const int chunks = p->chunks / p->o.mesh.size[AXIS_PP];
    const size_t pairs = micros * (size_t)chunks;
    bool good = open_doubles(&c->bucket, buckets) && open_doubles(&c->gathered, buckets) &&
                open_doubles(&c->weights, (size_t)s->weights.count) &&
                open_doubles(&c->gradients, (size_t)s->gradients.count) &&
                open_doubles(&c->batch, (size_t)s->batch_slots) &&
                open_doubles(&c->loaded, micros) && open_doubles(&c->received[0], pairs) &&
                open_doubles(&c->received[1], pairs);
    for (int t = 0; good && t < PLAN_STATES; t++)
        good = open_doubles(&c->state[t], (size_t)s->state[t].count);
    c->act = calloc((size_t)chunks, sizeof *c->act);
    for (int i = 0; good && c->act && i < chunks; i++)
        good = open_doubles(&c->act[i], (size_t)s->act_slots[i]);
    c->batch_slot = calloc(micros + 1, sizeof *c->batch_slot);
    c->fetched = malloc((buckets + 1) * sizeof *c->fetched);
    for (size_t k = 0; c->fetched && k < buckets; k++) c->fetched[k] = -1;
    return good && c->act && c->batch_slot && c->fetched;
}

static void close_clocks(clocks *c, const plan *p)
{
    double *const one[] = {c->bucket, c->gathered, c->weights,     c->gradients,
                           c->batch,  c->loaded,   c->received[0], c->received[1]};
    for (size_t i = 0; i < sizeof one / sizeof *one; i++) free(one[i]);
    for (int t = 0; t < PLAN_STATES; t++) free(c->state[t]);
    for (int i = 0; c->act && i < p->chunks / p->o.mesh.size[AXIS_PP]; i++) free(c->act[i]);
    free(c->act);
    free(c->batch_slot);
    free(c->fetched);
}

static status open_result(simulate_result *r, const schedule *const *of_stage, int stages, err *e)
{
    *r = (simulate_result){.stages = stages};
    bool good = open_doubles(&r->busy, (size_t)stages) && open_doubles(&r->idle, (size_t)stages);
    r->at = calloc((size_t)stages, sizeof *r->at);
    good = good && r->at;
    for (int i = 0; good && i < stages; i++) {
        r->at[i] = calloc((size_t)of_stage[i]->count + 1, sizeof **r->at);
        good = r->at[i] != NULL;
    }
    return good ? OK : err_set(e, E_MEMORY, "no memory to simulate %d stages", stages);
}

void simulate_result_clear(simulate_result *r)
{
    for (int i = 0; r->at && i < r->stages; i++) free(r->at[i]);
    free(r->at);
    free(r->busy);
    free(r->idle);
    *r = (simulate_result){0};
}

static void sum_up(simulate_result *r)
{
    double idle = 0;
    for (int i = 0; i < r->stages; i++) {
        r->idle[i] = r->seconds - r->busy[i];
        idle += r->idle[i];
    }
    r->bubble = r->seconds > 0 ? idle / (r->seconds * r->stages) : 0;
}

status schedule_simulate(const schedule *const *of_stage, const plan *const *plan_of_stage,
                         int stages, const simulate_costs *c, simulate_result *out, err *e)
{
    status result = OK;
    simulation x = {of_stage, plan_of_stage, c, out, calloc((size_t)stages, sizeof(clocks))};
    TRY(open_result(out, of_stage, stages, e));
    if (!x.of) FAIL(E_MEMORY, "no memory to simulate %d stages", stages);
    for (int i = 0; i < stages; i++)
        if (!open_clocks(&x.of[i], plan_of_stage[i], of_stage[i]))
            FAIL(E_MEMORY, "no memory to simulate %d stages", stages);
    TRY(schedule_replay(of_stage, stages, time_step, &x, e));
    sum_up(out);
done:
    for (int i = 0; x.of && i < stages; i++) close_clocks(&x.of[i], plan_of_stage[i]);
    free(x.of);
    return result;
}
