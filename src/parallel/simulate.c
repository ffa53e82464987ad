// simulate.c -- computes the start and the end of every instruction of every stage. An instruction
// starts when its stream is idle, the values that it reads are complete, and the slots that it
// allocates are free. It ends when its duration is over.
// Called by `trireme explain`, the planner and the users of draw.c. Deliberately knows no machine
// (the caller's function says how long an instruction takes) and names no kind of instruction:
// instructions.c says what each waits for.
#include "parallel/simulate.h"

#include "base/alloc.h"
#include "parallel/instructions.h"
#include "parallel/replay/replay.h"

#include <stdlib.h>

static const char WHAT[] = "a simulation";

// The times at which the values of one resource exist. All start as 0.
typedef struct simulate_clock {
    double *ready;  // [slots], or for results [owners]: the time at which the value is complete
    double *unused; // [slots] the end of the last instruction that used the slot
    int *slot;      // [owners] the slot that an owner took last
} simulate_clock;

typedef struct simulate_stage {
    const plan *p;
    const schedule *s;
    double stream[STREAMS];
    simulate_clock *clock[RESOURCES]; // [groups of slots], or one clock for results
} simulate_stage;

typedef struct simulation {
    const schedule *const *of_stage;
    const simulate_costs *costs;
    simulate_result *out;
    simulate_stage *stage; // [stages]
} simulation;

double simulate_block_seconds(const void *blocks, int stage, const schedule_instr *x)
{
    const simulate_blocks *b = blocks;
    const unsigned computes = instr_row_of(x->kind)->computes;
    (void)stage;
    return (computes & COMPUTES_FORWARD ? b->forward[x->index] : 0) +
           (computes & COMPUTES_DGRAD ? b->backward_input[x->index] : 0) +
           (computes & COMPUTES_WGRAD ? b->backward_weight[x->index] : 0);
}

static void delay(double *t, double until)
{
    if (until > *t) *t = until;
}

// ---- One effect of an instruction

typedef struct simulate_moment {
    simulate_stage *stage;
    double start, end;
} simulate_moment;

// The value's index in ready[] (and unused[]).
static int place_of(const simulate_clock *c, const instr_use *u)
{
    if (u->resource >= RES_SLOTS) return u->owner;
    return u->any_slot ? c->slot[u->owner] : u->slot;
}

static status wait_for(void *given, const instr_use *u, err *e)
{
    simulate_moment *m = given;
    const simulate_clock *c = &m->stage->clock[u->resource][u->group];
    (void)e;
    if (u->access == ACCESS_ALLOCATE)
        delay(&m->start, c->unused[place_of(c, u)]);
    else if (u->access != ACCESS_WRITE && u->access != ACCESS_PRECEDE)
        delay(&m->start, c->ready[place_of(c, u)]);
    return OK;
}

static status note_end(void *given, const instr_use *u, err *e)
{
    const simulate_moment *m = given;
    simulate_clock *c = &m->stage->clock[u->resource][u->group];
    (void)e;
    if (u->access == ACCESS_PRECEDE) return OK;
    if (u->access == ACCESS_ALLOCATE) c->slot[u->owner] = u->slot;
    const int place = place_of(c, u);
    if (u->access != ACCESS_READ && u->access != ACCESS_FREE) delay(&c->ready[place], m->end);
    if (u->resource < RES_SLOTS) delay(&c->unused[place], m->end);
    return OK;
}

static device_stream_kind stream_of(const simulation *s, schedule_instr_kind k)
{
    return s->costs->overlap ? instr_row_of(k)->stream : STREAM_COMPUTE;
}

static const schedule_instr *instr_of(const simulation *s, replay_position position)
{
    return &s->of_stage[position.stage]->instr[position.number];
}

// When an instruction can start, as far as its own stage is concerned. The communication stream starts
// a message after the passes that stand before it, because they may have used its slot.
static status find_start(const simulation *x, replay_position position, double *start, err *e)
{
    status result = OK;
    const schedule_instr *y = instr_of(x, position);
    simulate_moment m = {.stage = &x->stage[position.stage], .start = *start};
    delay(&m.start, m.stage->stream[stream_of(x, y->kind)]);
    if (x->costs->sends_wait && instr_is_message(y))
        delay(&m.start, m.stage->stream[STREAM_COMPUTE]);
    TRY(instr_each_use(m.stage->p, m.stage->s, y, wait_for, &m, e));
    *start = m.start;
done:
    return result;
}

static double seconds_of(const simulation *x, replay_position position)
{
    return x->costs->seconds(x->costs->given, position.stage, instr_of(x, position));
}

// Notes the times of instructions of a step that end together.
static status note_times(const simulation *x, const replay_step *s, const simulate_span *span,
                         double busy, err *e)
{
    status result = OK;
    simulate_moment m = {.end = span->end};
    for (int i = 0; i < s->count; i++) {
        const replay_position *position = &s->items[i];
        const schedule_instr *y = instr_of(x, *position);
        m.stage = &x->stage[position->stage];
        x->out->span[position->stage][position->number] = *span;
        m.stage->stream[stream_of(x, y->kind)] = m.end;
        TRY(instr_each_use(m.stage->p, m.stage->s, y, note_end, &m, e));
        if (instr_row_of(y->kind)->stream == STREAM_COMPUTE) x->out->busy[position->stage] += busy;
    }
    delay(&x->out->seconds, m.end);
done:
    return result;
}

// When the group of messages that holds this one starts. The first one to ask finds the stage still at
// the group, and the time is kept in the span of the message.
static status find_group_start(const simulation *x, replay_position position, double *start, err *e)
{
    status result = OK;
    const schedule *s = x->of_stage[position.stage];
    simulate_span *span = x->out->span[position.stage];
    int first = position.number;
    if (span[first].start < 0) {
        double when = 0;
        while (first > 0 && s->instr[first - 1].with_next) first--;
        const int last = first + replay_together(s, first);
        for (int i = first; i < last; i++)
            TRY(find_start(x, (replay_position){position.stage, i}, &when, e));
        for (int i = first; i < last; i++) span[i].start = when;
    }
    *start = span[position.number].start;
done:
    return result;
}

// Each message takes its seconds from when both of its ends have started; the group ends with the last.
static status time_messages(const simulation *x, const replay_step *s, err *e)
{
    status result = OK;
    simulate_span own = {0, 0};
    TRY(find_group_start(x, s->items[0], &own.start, e));
    for (int i = 0; i < s->count; i++) {
        double other, seconds = seconds_of(x, s->items[i]);
        TRY(find_group_start(x, s->others[i], &other, e));
        delay(&seconds, seconds_of(x, s->others[i]));
        delay(&other, own.start);
        delay(&own.end, other + seconds);
    }
    TRY(note_times(x, s, &own, 0, e));
done:
    return result;
}

static status time_step(void *given, const replay_step *s, err *e)
{
    status result = OK;
    const simulation *x = given;
    const bool message = instr_is_message(instr_of(x, s->items[0]));
    simulate_span span = {0, 0};
    double seconds = 0;
    if (message && x->costs->sends_wait) return time_messages(x, s, e);
    for (int i = 0; i < s->count; i++) {
        TRY(find_start(x, s->items[i], &span.start, e));
        delay(&seconds, seconds_of(x, s->items[i]));
    }
    if (message && s->others->stage >= 0)
        delay(&span.start, x->out->span[s->others->stage][s->others->number].end);
    span.end = span.start + seconds;
    TRY(note_times(x, s, &span, seconds, e));
done:
    return result;
}

// ---- Memory

static status open_clock(simulate_clock *c, int slots, int owners, err *e)
{
    status result = OK;
    TRY(alloc_zeroed(&c->slot, (size_t)owners, sizeof *c->slot, WHAT, e));
    TRY(alloc_zeroed(&c->ready, (size_t)slots, sizeof *c->ready, WHAT, e));
    TRY(alloc_zeroed(&c->unused, (size_t)slots, sizeof *c->unused, WHAT, e));
done:
    return result;
}

static status open_stage(simulate_stage *g, const plan *p, const schedule *s, err *e)
{
    status result = OK;
    *g = (simulate_stage){.p = p, .s = s};
    for (instr_resource r = 0; r < RESOURCES; r++) {
        const int groups = instr_slot_groups(p, r), owners = instr_owners(p, r);
        TRY(alloc_zeroed(&g->clock[r], (size_t)groups, sizeof *g->clock[r], WHAT, e));
        if (r >= RES_SLOTS)
            TRY(alloc_zeroed(&g->clock[r]->ready, (size_t)owners, sizeof(double), WHAT, e));
        for (int i = 0; r < RES_SLOTS && i < groups; i++)
            TRY(open_clock(&g->clock[r][i], instr_slot_count(s, r, i), owners, e));
    }
done:
    return result;
}

static void close_stage(simulate_stage *g)
{
    for (instr_resource r = 0; r < RESOURCES; r++) {
        for (int i = 0; g->clock[r] && i < instr_slot_groups(g->p, r); i++) {
            free(g->clock[r][i].ready);
            free(g->clock[r][i].unused);
            free(g->clock[r][i].slot);
        }
        free(g->clock[r]);
    }
}

// Spans start as -1: not known yet.
static status open_result(simulate_result *r, const schedule *const *of_stage, int stages, err *e)
{
    status result = OK;
    *r = (simulate_result){.stages = stages};
    TRY(alloc_zeroed(&r->busy, (size_t)stages, sizeof *r->busy, WHAT, e));
    TRY(alloc_zeroed(&r->idle, (size_t)stages, sizeof *r->idle, WHAT, e));
    TRY(alloc_zeroed(&r->span, (size_t)stages, sizeof *r->span, WHAT, e));
    for (int i = 0; i < stages; i++) {
        TRY(alloc_zeroed(&r->span[i], (size_t)of_stage[i]->count, sizeof **r->span, WHAT, e));
        for (int k = 0; k < of_stage[i]->count; k++) r->span[i][k].start = -1;
    }
done:
    return result;
}

void simulate_result_clear(simulate_result *r)
{
    for (int i = 0; r->span && i < r->stages; i++) free(r->span[i]);
    free(r->span);
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
    simulation x = {of_stage, c, out, NULL};
    TRY(open_result(out, of_stage, stages, e));
    TRY(alloc_zeroed(&x.stage, (size_t)stages, sizeof *x.stage, WHAT, e));
    for (int i = 0; i < stages; i++) TRY(open_stage(&x.stage[i], plan_of_stage[i], of_stage[i], e));
    TRY(schedule_replay(of_stage, stages, c->sends_wait, time_step, &x, e));
    sum_up(out);
done:
    for (int i = 0; x.stage && i < stages && x.stage[i].p; i++) close_stage(&x.stage[i]);
    free(x.stage);
    return result;
}
