// step.c -- see step.h. Each instruction becomes pieces of work: what it computes or moves, and then each of its calls.
// fluid.c runs the pieces of all stages against each other.
#include "planner/step.h"

#include "base/alloc.h"
#include "parallel/calls.h"
#include "parallel/instructions.h"
#include "parallel/replay/order.h"
#include "parallel/replay/replay.h"
#include "planner/fluid.h"
#include "planner/groups.h"
#include "planner/step_private.h"

#include <math.h>
#include <stdlib.h>

static const char WHAT[] = "the simulation of a step";

// Why the compute stream of a stage does nothing.
typedef enum step_cause { CAUSE_WORK, CAUSE_CALL, CAUSE_TRANSFER, CAUSE_STAGE } step_cause;

typedef struct step_piece {
    int stage, instr;
    step_cause cause; // what a stage that waits for this piece waits for
} step_piece;

typedef struct step_pieces {
    const planner_step *x;
    planner_step_costs costs;
    planner_work work;
    planner_piece *piece;
    step_piece *of; // [pieces]
    int *other;     // waits and partners
    size_t piece_room, of_room, other_room, others;
    planner_groups groups; // of the stage whose pieces are added
    int **first;           // [stages][instructions + 1] the first piece of an instruction
    schedule_order *order; // [stages]
    int *sender;      // [pieces] of a receive: the last piece of its message's send; -1: it is none
    planner_run *run; // [pieces]
} step_pieces;

// ---- Pieces

static int thread_of(const step_pieces *b, const schedule_instr *i)
{
    return b->x->machine->costs.streams_apart ? (int)instr_row_of(i->kind)->stream
                                              : (int)STREAM_COMPUTE;
}

static status add_piece(step_pieces *b, const step_piece *of, planner_claim claim, err *e)
{
    status result = OK;
    const size_t n = (size_t)b->work.pieces;
    const schedule_instr *i = &b->x->list[of->stage]->instr[of->instr];
    TRY(alloc_grow(&b->piece, &b->piece_room, n + 1, sizeof *b->piece, WHAT, e));
    TRY(alloc_grow(&b->of, &b->of_room, n + 1, sizeof *b->of, WHAT, e));
    b->piece[n] = (planner_piece){.rank = of->stage, .thread = thread_of(b, i), .claim = claim};
    b->of[n] = *of;
    b->work.pieces++;
done:
    return result;
}

static status add_call(step_pieces *b, int stage, int instr, const schedule_call *c, err *e)
{
    const planner_machine *m = b->x->machine;
    const plan *p = b->x->plan[stage];
    const schedule_instr *i = &b->x->list[stage]->instr[instr];
    const bool message = instr_is_message(i);
    const planner_group g = message
                                ? planner_message_of(p, i->peer, m->ranks_per_host)
                                : *planner_groups_find(&b->groups, p, c->group, m->ranks_per_host);
    const planner_claim claim = m->costs.call(m->costs.given, &g, &c->call, c->bytes);
    return add_piece(b, &(step_piece){stage, instr, CAUSE_CALL}, claim, e);
}

// An instruction has a piece even where it does nothing, for others to wait for.
static status add_instr(step_pieces *b, int stage, int instr, err *e)
{
    status result = OK;
    const schedule *s = b->x->list[stage];
    const schedule_instr *i = &s->instr[instr];
    const planner_sum work = planner_step_work(&b->costs, stage, i);
    const bool copies = instr_row_of(i->kind)->stream == STREAM_COPY;
    b->first[stage][instr] = b->work.pieces;
    if (work.claim.seconds > 0 || i->calls == 0)
        TRY(add_piece(b, &(step_piece){stage, instr, copies ? CAUSE_TRANSFER : CAUSE_WORK},
                      work.claim, e));
    for (int k = i->first_call; k < i->first_call + i->calls; k++)
        if (s->call[k].steps != STEPS_BEFORE_POWERSGD)
            TRY(add_call(b, stage, instr, &s->call[k], e));
    if (b->work.pieces == b->first[stage][instr])
        TRY(add_piece(b, &(step_piece){stage, instr, CAUSE_WORK}, work.claim, e));
done:
    return result;
}

// ---- Who waits for whom

static status add_other(step_pieces *b, int *first, int *count, int piece, err *e)
{
    status result = OK;
    TRY(alloc_grow(&b->other, &b->other_room, b->others + 1, sizeof *b->other, WHAT, e));
    if (*count == 0) *first = (int)b->others;
    b->other[b->others++] = piece;
    ++*count;
done:
    return result;
}

static int first_of(const step_pieces *b, int stage, int instr)
{
    return b->first[stage][instr];
}

static int last_of(const step_pieces *b, int stage, int instr)
{
    return b->first[stage][instr + 1] - 1;
}

// Messages that start together are one piece, that of the first one.
static int group_of(const step_pieces *b, replay_position at)
{
    const schedule *s = b->x->list[at.stage];
    int first = at.number;
    while (first > 0 && s->instr[first - 1].with_next) first--;
    return first_of(b, at.stage, first);
}

// The piece in which a collective of several stages meets: the first call.
static int meeting_of(const step_pieces *b, replay_position at)
{
    const int last = last_of(b, at.stage, at.number);
    int piece = first_of(b, at.stage, at.number);
    while (piece < last && b->of[piece].cause != CAUSE_CALL) piece++;
    return piece;
}

// Adds a partner to a piece, whose partners are added one after the other.
static status add_partner(step_pieces *b, int piece, int partner, err *e)
{
    planner_piece *p = &b->piece[piece];
    for (int k = p->first_partner; k < p->first_partner + p->partners; k++)
        if (b->other[k] == partner) return OK;
    return add_other(b, &p->first_partner, &p->partners, partner, e);
}

// A group of messages waits for the groups at the other ends. It takes as long as its longest message, which all its
// pieces but the first give up to it.
static status join_messages(step_pieces *b, const replay_step *s, err *e)
{
    status result = OK;
    const int group = group_of(b, s->items[0]);
    for (int i = 0; i < s->count; i++) {
        const int piece = first_of(b, s->items[i].stage, s->items[i].number);
        planner_claim *own = &b->piece[piece].claim, *longest = &b->piece[group].claim;
        if (piece != group) {
            if (own->seconds > longest->seconds) *longest = *own;
            own->seconds = 0;
        }
        TRY(add_partner(b, group, group_of(b, s->others[i]), e));
    }
done:
    return result;
}

static status join_stages(step_pieces *b, const replay_step *s, err *e)
{
    status result = OK;
    for (int i = 0; i < s->count; i++)
        for (int k = 0; k < s->count; k++)
            if (i != k)
                TRY(add_partner(b, meeting_of(b, s->items[i]), meeting_of(b, s->items[k]), e));
done:
    return result;
}

// Partners of a step of the replay. What a piece waits for is added after all partners: both lie one after the other.
static status visit_partners(void *given, const replay_step *s, err *e)
{
    step_pieces *b = given;
    const schedule_instr *i = &b->x->list[s->items->stage]->instr[s->items->number];
    if (!instr_is_message(i)) return s->count > 1 ? join_stages(b, s, e) : OK;
    if (b->x->machine->costs.sends_wait) return join_messages(b, s, e);
    if (s->others->stage >= 0) // a receive of a message that was sent before
        b->sender[first_of(b, s->items->stage, s->items->number)] =
            last_of(b, s->others->stage, s->others->number);
    return OK;
}

static status add_waits(step_pieces *b, int stage, err *e)
{
    status result = OK;
    const schedule_order *o = &b->order[stage];
    for (int i = 0; i < b->x->list[stage]->count; i++) {
        const int piece = first_of(b, stage, i);
        planner_piece *p = &b->piece[piece];
        for (int k = o->first[i]; k < o->first[i + 1]; k++)
            TRY(add_other(b, &p->first_wait, &p->waits, last_of(b, stage, o->wait[k]), e));
        if (b->sender[piece] >= 0)
            TRY(add_other(b, &p->first_wait, &p->waits, b->sender[piece], e));
    }
done:
    return result;
}

static status build(step_pieces *b, err *e)
{
    status result = OK;
    const planner_step *x = b->x;
    const size_t stages = (size_t)x->stages;
    TRY(planner_step_costs_open(x, &b->costs, e));
    TRY(alloc_zeroed(&b->first, stages, sizeof *b->first, WHAT, e));
    TRY(alloc_zeroed(&b->order, stages, sizeof *b->order, WHAT, e));
    for (int k = 0; k < x->stages; k++) {
        const int count = x->list[k]->count;
        b->groups = (planner_groups){0};
        TRY(alloc_zeroed(&b->first[k], (size_t)count + 1, sizeof **b->first, WHAT, e));
        for (int i = 0; i < count; i++) TRY(add_instr(b, k, i, e));
        b->first[k][count] = b->work.pieces;
        TRY(schedule_order_make(x->plan[k], x->list[k], &b->order[k], e));
    }
    TRY(alloc_array(&b->sender, (size_t)b->work.pieces, sizeof *b->sender, WHAT, e));
    for (int i = 0; i < b->work.pieces; i++) b->sender[i] = -1;
    TRY(schedule_replay(x->list, x->stages, x->machine->costs.sends_wait, visit_partners, b, e));
    for (int k = 0; k < x->stages; k++) TRY(add_waits(b, k, e));
    b->work = (planner_work){b->piece, b->work.pieces, x->stages, b->other};
done:
    return result;
}

static void close_build(step_pieces *b)
{
    for (int k = 0; b->first && k < b->x->stages; k++) free(b->first[k]);
    for (int k = 0; b->order && k < b->x->stages; k++) schedule_order_clear(&b->order[k]);
    planner_step_costs_close(&b->costs);
    free(b->piece);
    free(b->of);
    free(b->other);
    free(b->first);
    free(b->order);
    free(b->sender);
    free(b->run);
}

// ---- Results

static simulate_span run_span(const planner_run *first, const planner_run *last)
{
    return (simulate_span){first->run, last->end};
}

// The calls of an instruction are its last pieces.
static void take_calls(const step_pieces *b, int stage, int instr, simulate_span *out)
{
    const schedule *s = b->x->list[stage];
    const schedule_instr *i = &s->instr[instr];
    int piece = last_of(b, stage, instr);
    for (int k = i->first_call + i->calls - 1; k >= i->first_call; k--) {
        if (s->call[k].steps == STEPS_BEFORE_POWERSGD) continue;
        out[k] = run_span(&b->run[piece], &b->run[piece]);
        piece--;
    }
}

static status take_spans(const step_pieces *b, planner_times *out, err *e)
{
    status result = OK;
    const size_t stages = (size_t)b->x->stages;
    TRY(alloc_zeroed(&out->span, stages, sizeof *out->span, WHAT, e));
    TRY(alloc_zeroed(&out->call, stages, sizeof *out->call, WHAT, e));
    out->stages = b->x->stages;
    for (int k = 0; k < b->x->stages; k++) {
        const schedule *s = b->x->list[k];
        TRY(alloc_zeroed(&out->span[k], (size_t)s->count, sizeof **out->span, WHAT, e));
        TRY(alloc_zeroed(&out->call[k], (size_t)s->calls, sizeof **out->call, WHAT, e));
        for (int i = 0; i < s->count; i++) {
            out->span[k][i] = run_span(&b->run[first_of(b, k, i)], &b->run[last_of(b, k, i)]);
            take_calls(b, k, i, out->call[k]);
        }
    }
done:
    return result;
}

// The seconds of the thread that computes, by what it does or waits for.
typedef struct step_share {
    double of[CAUSE_STAGE + 1];
} step_share;

// Divides the time since `since`, in which the thread that computes waited for this piece to begin: it goes back over
// what ended last, until it comes to another stage or to `since`.
static void add_gap(const step_pieces *b, int piece, double since, step_share *s)
{
    const int stage = b->of[piece].stage;
    double until = b->run[piece].begin;
    for (int p = b->run[piece].cause; until > since; p = b->run[p].cause) {
        if (p < 0 || b->of[p].stage != stage) break;
        const double ran = fmax(since, fmin(until, b->run[p].run)),
                     begun = fmax(since, fmin(ran, b->run[p].begin));
        const step_cause cause = b->of[p].cause == CAUSE_TRANSFER ? CAUSE_TRANSFER : CAUSE_CALL;
        s->of[cause] += until - ran;
        s->of[CAUSE_STAGE] += ran - begun;
        until = begun;
    }
    s->of[CAUSE_STAGE] += fmax(0, until - since);
    s->of[CAUSE_STAGE] += b->run[piece].run - b->run[piece].begin;
}

// A piece that runs takes its own time; what it takes longer, because others run beside it, is theirs.
static step_share share_of(const step_pieces *b, int stage, double end)
{
    step_share s = {{0}};
    double since = 0;
    for (int i = b->first[stage][0]; i < b->first[stage][b->x->list[stage]->count]; i++) {
        const planner_piece *p = &b->piece[i];
        const planner_run *r = &b->run[i];
        if (p->thread != STREAM_COMPUTE) continue;
        add_gap(b, i, since, &s);
        s.of[b->of[i].cause] += p->claim.seconds;
        s.of[CAUSE_CALL] += r->end - r->run - p->claim.seconds;
        since = r->end;
    }
    s.of[CAUSE_CALL] += end - since;
    return s;
}

static void take_shares(const step_pieces *b, planner_times *out)
{
    double waits = 0;
    for (int k = 0; k < b->x->stages; k++) {
        const step_share s = share_of(b, k, out->seconds);
        waits += s.of[CAUSE_STAGE];
        if (k > 0 && s.of[CAUSE_WORK] <= out->compute_s) continue;
        out->compute_s = s.of[CAUSE_WORK];
        out->exposed_s = s.of[CAUSE_CALL];
        out->transfer_s = s.of[CAUSE_TRANSFER];
    }
    out->bubble = out->seconds > 0 ? waits / (out->seconds * b->x->stages) : 0;
}

status planner_step_times(const planner_step *x, planner_times *out, err *e)
{
    status result = OK;
    step_pieces b = {.x = x};
    *out = (planner_times){.stages = 0};
    TRY(build(&b, e));
    TRY(alloc_array(&b.run, (size_t)b.work.pieces, sizeof *b.run, WHAT, e));
    TRY(planner_fluid_run(&b.work, b.run, NULL, e));
    for (int i = 0; i < b.work.pieces; i++) out->seconds = fmax(out->seconds, b.run[i].end);
    TRY(take_spans(&b, out, e));
    take_shares(&b, out);
    out->seconds += x->machine->costs.step_s;
done:
    close_build(&b);
    return result;
}

void planner_times_clear(planner_times *t)
{
    for (int k = 0; k < t->stages; k++) {
        if (t->span) free(t->span[k]);
        if (t->call) free(t->call[k]);
    }
    free(t->span);
    free(t->call);
    *t = (planner_times){.stages = 0};
}
