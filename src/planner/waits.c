// waits.c -- see waits.h. An instruction waits for whatever ended last before it begins: the one before it in its stream,
// one of another stream whose values it uses, or the other ends of its messages and collectives.
#include "planner/waits.h"

#include "base/alloc.h"
#include "parallel/instructions.h"
#include "parallel/replay/order.h"
#include "parallel/replay/replay.h"

#include <math.h>
#include <stdlib.h>

static const char WHAT[] = "the waits of a step";

typedef struct waits_build {
    const planner_step *x;
    const planner_times *t;
    planner_waits *out;
    double **ready; // [stages][instructions] when its own stage would let it begin
    int **before;   // [stages][instructions] the one before it in its stream; -1: none
    double still;   // a shorter wait is none
} waits_build;

const char *planner_idle_name(planner_idle i)
{
    static const char *const names[PLANNER_IDLES] = {[IDLE_STAGES] = "other stages",
                                                     [IDLE_CALLS] = "collectives",
                                                     [IDLE_TRANSFERS] = "copies",
                                                     [IDLE_OTHER] = "other"};
    return names[i];
}

static device_stream_kind stream_of(const planner_step *x, const schedule_instr *i)
{
    return x->machine->costs.streams_apart ? instr_row_of(i->kind)->stream : STREAM_COMPUTE;
}

// ---- Within a stage

static status find_own(const waits_build *b, int stage, err *e)
{
    status result = OK;
    const schedule *s = b->x->list[stage];
    const simulate_span *span = b->t->span[stage];
    schedule_order order = {.count = 0};
    double end_of[STREAMS] = {0};
    int last_of[STREAMS] = {-1, -1, -1};
    TRY(schedule_order_make(b->x->plan[stage], s, &order, e));
    for (int i = 0; i < s->count; i++) {
        const device_stream_kind stream = stream_of(b->x, &s->instr[i]);
        double ready = end_of[stream];
        planner_wait *w = &b->out->of[stage][i];
        *w = (planner_wait){-1, -1};
        for (int k = order.first[i]; k < order.first[i + 1]; k++) {
            const double end = span[order.wait[k]].end;
            if (end <= ready + b->still || end > span[i].start + b->still) continue;
            ready = end;
            *w = (planner_wait){stage, order.wait[k]};
        }
        b->ready[stage][i] = ready;
        b->before[stage][i] = last_of[stream];
        end_of[stream] = span[i].end;
        last_of[stream] = i;
    }
done:
    schedule_order_clear(&order);
    return result;
}

// ---- Between stages

static const simulate_span *span_of(const waits_build *b, replay_position at)
{
    return &b->t->span[at.stage][at.number];
}

static double ready_of(const waits_build *b, replay_position at)
{
    return b->ready[at.stage][at.number];
}

static void wait_for(const waits_build *b, replay_position who, replay_position other)
{
    b->out->of[who.stage][who.number] = (planner_wait){other.stage, other.number};
}

// A member that was ready before the collective began waited for the one that was ready last.
static void find_meeting(const waits_build *b, const replay_step *s)
{
    int last = 0;
    for (int i = 1; i < s->count; i++)
        if (ready_of(b, s->items[i]) > ready_of(b, s->items[last])) last = i;
    for (int i = 0; i < s->count; i++)
        if (i != last && span_of(b, s->items[i])->start > ready_of(b, s->items[i]) + b->still)
            wait_for(b, s->items[i], s->items[last]);
}

static status visit(void *given, const replay_step *s, err *e)
{
    const waits_build *b = given;
    (void)e;
    if (!instr_is_message(&b->x->list[s->items->stage]->instr[s->items->number])) {
        find_meeting(b, s);
        return OK;
    }
    for (int i = 0; i < s->count; i++)
        if (s->others[i].stage >= 0 &&
            span_of(b, s->items[i])->start > ready_of(b, s->items[i]) + b->still)
            wait_for(b, s->items[i], s->others[i]);
    return OK;
}

// ---- Idle time

static bool is_work(const schedule_instr *i)
{
    const instr_row *row = instr_row_of(i->kind);
    return row->computes || (i->calls == 0 && row->stream == STREAM_COMPUTE);
}

// What a stage that waits for an instruction, or runs it on the stream that computes, waits for.
static planner_idle idle_of(const schedule_instr *i)
{
    if (instr_is_message(i)) return IDLE_STAGES;
    if (is_work(i)) return IDLE_OTHER;
    return i->calls > 0 ? IDLE_CALLS : IDLE_TRANSFERS;
}

// Charges the seconds from `since` to `until`, in which the stage waits for instruction i to begin: first what i waits
// for, as long as that runs, then what that has waited for, and so on.
static void charge(const waits_build *b, int stage, int i, double since, double until)
{
    double *idle = b->out->stage[stage].idle_s;
    while (until > since) {
        planner_wait w = b->out->of[stage][i];
        if (w.stage < 0) w = (planner_wait){stage, b->before[stage][i]};
        if (w.stage != stage || w.instr < 0) {
            idle[w.stage != stage ? IDLE_STAGES : IDLE_OTHER] += until - since;
            return;
        }
        const simulate_span *span = &b->t->span[stage][w.instr];
        const double end = fmin(until, fmax(since, span->end)), begin = fmax(since, span->start);
        idle[IDLE_OTHER] += until - end;
        if (end > begin) idle[idle_of(&b->x->list[stage]->instr[w.instr])] += end - begin;
        until = fmin(end, begin);
        i = w.instr;
    }
}

// While a pass makes a call, it does not compute.
static double calls_of(const waits_build *b, int stage, const schedule_instr *i)
{
    double sum = 0;
    for (int k = i->first_call; k < i->first_call + i->calls; k++)
        sum += b->t->call[stage][k].end - b->t->call[stage][k].start;
    return sum;
}

static void note_pass(planner_stage_time *g, const simulate_span *span)
{
    if (g->last_s == 0) g->first_s = span->start;
    g->last_s = fmax(g->last_s, span->end);
}

static void add_instr(const waits_build *b, int stage, int i, double since)
{
    const schedule_instr *y = &b->x->list[stage]->instr[i];
    const simulate_span *span = &b->t->span[stage][i];
    planner_stage_time *g = &b->out->stage[stage];
    const double takes = span->end - span->start;
    charge(b, stage, i, since, span->start);
    if (instr_row_of(y->kind)->computes) note_pass(g, span);
    if (!is_work(y)) {
        g->idle_s[idle_of(y)] += takes;
        return;
    }
    const double calls = fmin(takes, calls_of(b, stage, y));
    g->idle_s[IDLE_CALLS] += calls;
    g->busy_s += takes - calls;
}

// After the last work of the stage come its own other streams, then other stages, then what stands between steps.
static void add_rest(const waits_build *b, int stage, double since, double all)
{
    const schedule *s = b->x->list[stage];
    planner_stage_time *g = &b->out->stage[stage];
    int last = -1;
    double end = since;
    for (int i = 0; i < s->count; i++)
        if (b->t->span[stage][i].end > end) end = b->t->span[stage][i].end, last = i;
    if (last >= 0) {
        const double begin = fmax(since, b->t->span[stage][last].start);
        g->idle_s[idle_of(&s->instr[last])] += end - begin;
        charge(b, stage, last, since, begin);
    }
    g->idle_s[IDLE_STAGES] += fmax(0, all - end);
    g->idle_s[IDLE_OTHER] += fmax(0, b->t->seconds - fmax(all, end));
}

static void sum_up(const waits_build *b)
{
    double all = 0;
    for (int k = 0; k < b->x->stages; k++)
        for (int i = 0; i < b->x->list[k]->count; i++) all = fmax(all, b->t->span[k][i].end);
    for (int k = 0; k < b->x->stages; k++) {
        double since = 0;
        for (int i = 0; i < b->x->list[k]->count; i++) {
            if (stream_of(b->x, &b->x->list[k]->instr[i]) != STREAM_COMPUTE) continue;
            add_instr(b, k, i, since);
            since = fmax(since, b->t->span[k][i].end);
        }
        add_rest(b, k, since, all);
    }
}

// ---- The whole

status planner_waits_find(const planner_step *x, const planner_times *t, planner_waits *out, err *e)
{
    status result = OK;
    const size_t stages = (size_t)x->stages;
    waits_build b = {.x = x, .t = t, .out = out, .still = 1e-9 * t->seconds};
    *out = (planner_waits){.stages = 0};
    TRY(alloc_zeroed(&out->of, stages, sizeof *out->of, WHAT, e));
    TRY(alloc_zeroed(&out->stage, stages, sizeof *out->stage, WHAT, e));
    out->stages = x->stages;
    TRY(alloc_zeroed(&b.ready, stages, sizeof *b.ready, WHAT, e));
    TRY(alloc_zeroed(&b.before, stages, sizeof *b.before, WHAT, e));
    for (int k = 0; k < x->stages; k++) {
        const size_t count = (size_t)x->list[k]->count;
        TRY(alloc_zeroed(&out->of[k], count, sizeof **out->of, WHAT, e));
        TRY(alloc_zeroed(&b.ready[k], count, sizeof **b.ready, WHAT, e));
        TRY(alloc_zeroed(&b.before[k], count, sizeof **b.before, WHAT, e));
        TRY(find_own(&b, k, e));
    }
    TRY(schedule_replay(x->list, x->stages, x->machine->costs.sends_wait, visit, &b, e));
    sum_up(&b);
done:
    for (int k = 0; b.ready && k < x->stages; k++) free(b.ready[k]);
    for (int k = 0; b.before && k < x->stages; k++) free(b.before[k]);
    free(b.ready);
    free(b.before);
    return result;
}

void planner_waits_clear(planner_waits *w)
{
    for (int k = 0; w->of && k < w->stages; k++) free(w->of[k]);
    free(w->of);
    free(w->stage);
    *w = (planner_waits){.stages = 0};
}
