// replay_schedule.c -- a recorded step whose passes run in another order (replay_job.h). The lists of the other schedule
// are made as those of a job are; each of their instructions takes the pieces of the recorded one that is most like it.
#include "session/replay_job.h"

#include "base/alloc.h"
#include "monitor/replay/replay_change.h"
#include "parallel/instructions.h"
#include "parallel/replay/replay.h"

#include <stdlib.h>
#include <string.h>

static const char WHAT[] = "a step of another schedule";

// A recorded instruction that is like another one.
typedef struct other_instr {
    replay_position at;
    double seconds;
} other_instr;

// A recorded step, and one that is made of its pieces.
typedef struct other_step {
    const replay_job *job;
    const replay_record *from;
    session_stages stages; // of the other schedule
    schedule_order *order; // [stages.count]
    replay_record to;
    int **first; // [ranks][instructions] the first recorded piece of an instruction; -1: none
    int *next;   // [pieces] the next piece of the same instruction; -1: none
    other_instr *alike; // [recorded instructions of all stages] scratch
} other_step;

// ---- The pieces of recorded instructions

static const schedule *recorded_list(const other_step *o, int stage)
{
    return &o->job->stages.train[stage];
}

static status find_pieces(other_step *o, err *e)
{
    status result = OK;
    const replay_record *r = o->from;
    int *last = NULL, rank = -1;
    size_t instrs = 0;
    for (int i = 0; i < o->job->stages.count; i++) instrs += (size_t)recorded_list(o, i)->count;
    TRY(alloc_array(&o->alike, instrs, sizeof *o->alike, WHAT, e));
    TRY(alloc_zeroed(&o->first, (size_t)r->x.ranks, sizeof *o->first, WHAT, e));
    TRY(alloc_array(&o->next, (size_t)r->x.pieces, sizeof *o->next, WHAT, e));
    for (int k = 0; k < r->x.ranks; k++) {
        const int count = recorded_list(o, replay_record_stage(r, k))->count;
        TRY(alloc_array(&o->first[k], (size_t)count, sizeof(int), WHAT, e));
        for (int i = 0; i < count; i++) o->first[k][i] = -1;
    }
    for (int i = 0; i < r->x.pieces; i++) {
        const int instr = r->part[i].instr;
        if (r->x.piece[i].rank != rank) {
            rank = r->x.piece[i].rank;
            free(last);
            last = NULL;
            TRY(alloc_zeroed(&last, (size_t)recorded_list(o, replay_record_stage(r, rank))->count,
                             sizeof *last, WHAT, e));
        }
        o->next[i] = -1;
        if (instr < 0) continue;
        *(o->first[rank][instr] < 0 ? &o->first[rank][instr] : &o->next[last[instr]]) = i;
        last[instr] = i;
    }
done:
    free(last);
    return result;
}

// The rank of the other stage that is where `rank` is in its own.
static int rank_in_stage(const replay_record *r, int rank, int stage)
{
    int coord[AXES];
    memcpy(coord, r->coord[rank], sizeof coord);
    coord[AXIS_PP] = stage;
    return mesh_rank(&r->mesh, coord);
}

// How much a recorded instruction is like *x, whatever its micro-batch; -1: it is of another kind.
static int likeness(const schedule_instr *x, schedule_instr_kind kind, int stage,
                    const schedule_instr *y, int recorded_stage)
{
    if (y->kind != kind) return -1;
    return 4 * (y->index == x->index) + 2 * (recorded_stage == stage) +
           (y->last == x->last && y->what == x->what);
}

static double seconds_of(const other_step *o, int rank, replay_position at)
{
    double sum = 0;
    const int recorded = rank_in_stage(o->from, rank, at.stage);
    for (int i = o->first[recorded][at.number]; i >= 0; i = o->next[i])
        sum += o->from->x.piece[i].lag + o->from->x.piece[i].seconds;
    return sum;
}

static int compare_alike(const void *a, const void *b)
{
    const other_instr *x = a, *y = b;
    if (x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
    return x->at.stage != y->at.stage ? x->at.stage - y->at.stage : x->at.number - y->at.number;
}

// The recorded instruction of this kind that is most like *x: of those of all micro-batches, the one of median duration.
// A thread that a busy machine did not schedule for a while would count in another schedule, where it may be waited for.
static bool find_alike(const other_step *o, const schedule_instr *x, schedule_instr_kind kind,
                       int rank, replay_position *out)
{
    const int stage = replay_record_stage(o->from, rank);
    int best = -1;
    size_t count = 0;
    for (int s = 0; s < o->job->stages.count; s++)
        for (int i = 0; i < recorded_list(o, s)->count; i++) {
            const schedule_instr *y = &recorded_list(o, s)->instr[i];
            const int alike = likeness(x, kind, stage, y, s);
            if (alike < best || alike < 0) continue;
            if (alike > best) count = 0;
            best = alike;
            o->alike[count++] = (other_instr){.at = {s, i}};
        }
    if (best < 0) return false;
    for (size_t i = 0; i < count; i++) {
        o->alike[i].seconds = seconds_of(o, rank, o->alike[i].at);
    }
    qsort(o->alike, count, sizeof *o->alike, compare_alike);
    *out = o->alike[count / 2].at;
    return true;
}

// ---- The other step

// The other end of a recorded message, where the rank at `rank` has it.
static int peer_of(const other_step *o, const schedule_instr *x, int rank, int recorded_peer)
{
    const int stage = instr_is_message(x) ? x->peer : replay_record_stage(o->from, rank);
    return recorded_peer < 0 ? -1 : rank_in_stage(o->from, recorded_peer, stage);
}

// Adds the pieces of a recorded instruction to *x of the rank, `share` of their seconds.
static status add_alike(other_step *o, int rank, int number, const schedule_instr *x,
                        replay_position from, double share, err *e)
{
    status result = OK;
    const replay_record *r = o->from;
    const int recorded = rank_in_stage(r, rank, from.stage);
    for (int i = o->first[recorded][from.number]; i >= 0; i = o->next[i]) {
        replay_piece p = r->x.piece[i];
        replay_part t = r->part[i];
        const bool call = t.kind != PART_WORK && t.kind != PART_LOADER;
        p.rank = rank;
        p.comm = p.channel = -1;
        p.waits = p.first_wait = 0;
        p.seconds *= share;
        t.instr = number;
        t.row = 0;
        if (call)
            TRY(replay_record_set_call(&o->to, replay_record_row(r, i), replay_record_instr(r, i),
                                       peer_of(o, x, rank, t.peer), &p, &t, e));
        TRY(replay_record_add(&o->to, &p, &t, e));
    }
done:
    return result;
}

// A list has dgrad and wgrad as one instruction or as two, and the record may have them the other way.
static status add_instr(other_step *o, int rank, int number, const schedule_instr *x, err *e)
{
    status result = OK;
    const unsigned both = COMPUTES_DGRAD | COMPUTES_WGRAD;
    const unsigned computes = instr_row_of(x->kind)->computes;
    replay_position a, b;
    if (find_alike(o, x, x->kind, rank, &a)) {
        TRY(add_alike(o, rank, number, x, a, 1, e));
    } else if (computes == both && find_alike(o, x, instr_computing(COMPUTES_DGRAD), rank, &a) &&
               find_alike(o, x, instr_computing(COMPUTES_WGRAD), rank, &b)) {
        TRY(add_alike(o, rank, number, x, a, 1, e));
        TRY(add_alike(o, rank, number, x, b, 1, e));
    } else if ((computes & both) && find_alike(o, x, instr_computing(both), rank, &a)) {
        // They are products of the same sizes.
        TRY(add_alike(o, rank, number, x, a, 0.5, e));
    } else {
        FAIL(E_USAGE, "the step has no %s, so nothing says how long one takes",
             instr_name(x->kind));
    }
done:
    return result;
}

static status add_rank(other_step *o, int rank, err *e)
{
    status result = OK;
    const schedule *list = &o->stages.train[replay_record_stage(o->from, rank)];
    const int first = o->to.x.pieces;
    for (int i = 0; i < list->count; i++) TRY(add_instr(o, rank, i, &list->instr[i], e));
    TRY(replay_record_add_waits(&o->to, rank, first, e));
done:
    return result;
}

static status make_lists(other_step *o, pipeline_schedule which, err *e)
{
    status result = OK;
    trainer_options options = o->job->options;
    strategy_pipeline *p = &options.strategy.pipeline;
    const bool several = which == PIPE_INTERLEAVED, had = p->virtual_stages > 1;
    if (several != had) {
        p->virtual_stages = several ? 2 : 1;
        p->chunk_blocks = NULL;
    }
    p->schedule = which;
    TRY(session_stages_open(&options, &o->stages, e));
    TRY(alloc_zeroed(&o->order, (size_t)o->stages.count, sizeof *o->order, WHAT, e));
    for (int i = 0; i < o->stages.count; i++)
        TRY(schedule_order_make(o->stages.plan[i], &o->stages.train[i], &o->order[i], e));
done:
    return result;
}

static status make_step(other_step *o, err *e)
{
    status result = OK;
    const replay_record *r = o->from;
    // It borrows what a schedule does not change.
    o->to = (replay_record){.view = r->view,
                            .step = r->step,
                            .mesh = r->mesh,
                            .coord = r->coord,
                            .known = r->known,
                            .apart = r->apart,
                            .start = r->start,
                            .end = r->end,
                            .tail = r->tail,
                            .gap = r->gap};
    o->to.known.order = o->order;
    TRY(find_pieces(o, e));
    for (int k = 0; k < r->x.ranks; k++) TRY(add_rank(o, k, e));
    TRY(replay_record_link(&o->to, e));
done:
    return result;
}

static void close_step(other_step *o)
{
    for (int i = 0; o->order && i < o->stages.count; i++) schedule_order_clear(&o->order[i]);
    for (int k = 0; o->first && k < o->from->x.ranks; k++) free(o->first[k]);
    free(o->order);
    free(o->first);
    free(o->next);
    free(o->alike);
    session_stages_close(&o->stages);
    replay_record_clear_made(&o->to);
}

static status find_schedule(const char *name, pipeline_schedule *out, err *e)
{
    for (int i = 0; i < PIPE_SCHEDULES; i++) {
        *out = (pipeline_schedule)i;
        if (strcmp(name, PIPELINE_SCHEDULE_NAMES[i]) == 0) return OK;
    }
    return err_set(e, E_USAGE, "found the schedule '%s'; valid: gpipe, 1f1b, interleaved, zb",
                   name);
}

// The seconds from step to step where the passes run in the order of this schedule.
static status find_period(const replay_job *j, const replay_record *r, pipeline_schedule which,
                          double *seconds, err *e)
{
    status result = OK;
    other_step o = {.job = j, .from = r};
    TRY(make_lists(&o, which, e));
    TRY(make_step(&o, e));
    TRY(replay_change_period(&o.to, &(replay_change){.kind = CHANGE_NOTHING}, seconds, e));
done:
    close_step(&o);
    return result;
}

status replay_job_schedule(const replay_job *j, const replay_record *r, const char *name,
                           double *ratio, err *e)
{
    status result = OK;
    pipeline_schedule which;
    double own, other;
    TRY(find_schedule(name, &which, e));
    if (!j->known.order) FAIL(E_USAGE, "the lists of the run are not known: %s", j->why);
    if (j->stages.count == 1) FAIL(E_USAGE, "the run has one stage, so no pipeline");
    TRY(find_period(j, r, j->options.strategy.pipeline.schedule, &own, e));
    TRY(find_period(j, r, which, &other, e));
    *ratio = own > 0 ? other / own : 1;
done:
    return result;
}
