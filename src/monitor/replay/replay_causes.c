// replay_causes.c -- see replay_causes.h. The path is followed backwards, from what ended last to what it waited for.
#include "monitor/replay/replay_causes.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static const char WHAT[] = "the critical path of a step";

// ---- The critical path

static status add_segment(replay_segments *p, replay_segment s, err *e)
{
    status result = OK;
    if (s.seconds <= 0) return OK;
    TRY(alloc_grow(&p->items, &p->room, (size_t)p->count + 1, sizeof *p->items, WHAT, e));
    p->items[p->count++] = s;
    p->seconds += s.seconds;
done:
    return result;
}

static int last_rank(const double *end, int ranks)
{
    int last = 0;
    for (int k = 1; k < ranks; k++)
        if (end[k] > end[last]) last = k;
    return last;
}

static int last_piece(const replay_record *r, const replay_span *time, int rank)
{
    int last = -1;
    for (int i = 0; i < r->x.pieces; i++)
        if (r->x.piece[i].rank == rank && (last < 0 || time[i].end > time[last].end)) last = i;
    return last;
}

// Adds what piece i did before `until`, and the lag before it. *next is the piece before it on the path; -1: none.
static status add_piece(const replay_record *r, const replay_span *time, int i, replay_segments *p,
                        int *next, err *e)
{
    status result = OK;
    const replay_span *t = &time[i];
    TRY(add_segment(p, (replay_segment){r->x.piece[i].rank, i, t->met, t->end - t->met}, e));
    // What it waited for began when this one's time of its own did.
    const int began = t->last >= 0 ? t->last : i, rank = r->x.piece[began].rank;
    const double begin = time[began].begin, lag = r->x.piece[began].lag;
    TRY(add_segment(p, (replay_segment){rank, -1, begin - lag, lag}, e));
    *next = time[began].cause;
    if (*next < 0) TRY(add_segment(p, (replay_segment){rank, -1, 0, begin - lag}, e));
done:
    return result;
}

static void turn_around(replay_segments *p)
{
    for (int i = 0; i < p->count / 2; i++) {
        const replay_segment s = p->items[i];
        p->items[i] = p->items[p->count - 1 - i];
        p->items[p->count - 1 - i] = s;
    }
}

status replay_path_find(const replay_record *r, const replay_span *time, replay_segments *out,
                        err *e)
{
    status result = OK;
    double *end = NULL;
    *out = (replay_segments){.count = 0};
    TRY(alloc_array(&end, (size_t)r->view->ranks, sizeof *end, WHAT, e));
    replay_record_ends(r, time, end);
    const int rank = last_rank(end, r->view->ranks);
    const double tail = r->tail[rank];
    TRY(add_segment(out, (replay_segment){rank, -1, end[rank] - tail, tail}, e));
    for (int i = last_piece(r, time, rank); i >= 0;) TRY(add_piece(r, time, i, out, &i, e));
    turn_around(out);
done:
    free(end);
    return result;
}

void replay_path_clear(replay_segments *p)
{
    free(p->items);
    *p = (replay_segments){.count = 0};
}

// ---- What a rank does at every moment

const char *replay_use_word(replay_use u)
{
    static const char *const words[] = {[USE_COMPUTE] = "compute",
                                        [USE_COMM] = "communication",
                                        [USE_INPUT] = "input",
                                        [USE_WAIT_RANK] = "wait_rank",
                                        [USE_WAIT_MESSAGE] = "wait_message",
                                        [USE_COPY] = "copies",
                                        [USE_HOST] = "host"};
    return words[u];
}

static replay_use use_of(const replay_part *p)
{
    if (p->kind == PART_LOADER) return USE_INPUT;
    if (p->kind != PART_WORK || p->phase == PHASE_COMM) return USE_COMM;
    return p->phase == PHASE_COPY || p->phase == PHASE_INPUT ? USE_COPY : USE_COMPUTE;
}

// Walks the pieces of one thread of a rank. A piece first waits, and then has its own time.
typedef struct replay_thread {
    int piece; // -1: the end
    bool own;
} replay_thread;

typedef struct replay_walk {
    const replay_record *r;
    const replay_span *time;
    int rank;
    replay_thread at[REPLAY_THREADS];
} replay_walk;

static void find_piece(replay_walk *w, int thread, int from)
{
    replay_thread *c = &w->at[thread];
    *c = (replay_thread){-1, false};
    for (int i = from; i < w->r->x.pieces && w->r->x.piece[i].rank == w->rank; i++)
        if (w->r->x.piece[i].thread == thread) {
            c->piece = i;
            return;
        }
}

static double begin_of(const replay_walk *w, const replay_thread *c)
{
    return c->own ? w->time[c->piece].met : w->time[c->piece].begin;
}

static double end_of(const replay_walk *w, const replay_thread *c)
{
    return c->own ? w->time[c->piece].end : w->time[c->piece].met;
}

// Goes to the part of the thread that ends after `now`.
static void go_on(replay_walk *w, int thread, double now)
{
    replay_thread *c = &w->at[thread];
    while (c->piece >= 0 && end_of(w, c) <= now) {
        if (c->own)
            find_piece(w, thread, c->piece + 1);
        else
            c->own = true;
    }
}

static replay_use use_at(const replay_walk *w, const replay_thread *c)
{
    const replay_part *p = &w->r->part[c->piece];
    if (c->own) return use_of(p);
    return p->kind == PART_COLLECTIVE ? USE_WAIT_RANK : USE_WAIT_MESSAGE;
}

// The use of the moment, and the piece that it is of. *until is when it may change; < now: never again.
static replay_use look(replay_walk *w, double now, double *until, int *piece)
{
    replay_use best = USE_HOST;
    *until = -1;
    *piece = -1;
    for (int k = 0; k < REPLAY_THREADS; k++) {
        replay_thread *c = &w->at[k];
        go_on(w, k, now);
        if (c->piece < 0) continue;
        const bool runs = begin_of(w, c) <= now;
        const double change = runs ? end_of(w, c) : begin_of(w, c);
        if (*until < 0 || change < *until) *until = change;
        if (!runs || use_at(w, c) >= best) continue;
        best = use_at(w, c);
        *piece = c->piece;
    }
    return best;
}

static void note_most(const double *of, int count, int *which, double *seconds)
{
    *which = -1;
    *seconds = 0;
    for (int k = 0; k < count; k++)
        if (of[k] > *seconds) {
            *which = k;
            *seconds = of[k];
        }
}

// `waits` is [ranks + stages], overwritten.
static void walk(replay_walk *w, int first, double *waits, replay_rank_uses *out)
{
    const replay_record *r = w->r;
    const int ranks = r->view->ranks, stages = r->mesh.size[AXIS_PP];
    double now = r->start[w->rank], until;
    int piece;
    memset(waits, 0, (size_t)(ranks + stages) * sizeof *waits);
    for (int k = 0; k < REPLAY_THREADS; k++) find_piece(w, k, first);
    for (;;) {
        const replay_use u = look(w, now, &until, &piece);
        if (until < 0) break;
        out->seconds[u] += until - now;
        const int last = piece < 0 ? -1 : w->time[piece].last;
        if (last >= 0 && u == USE_WAIT_RANK) waits[r->x.piece[last].rank] += until - now;
        if (last >= 0 && u == USE_WAIT_MESSAGE)
            waits[ranks + replay_record_stage(r, r->x.piece[last].rank)] += until - now;
        now = until;
    }
    out->seconds[USE_HOST] += r->tail[w->rank];
    note_most(waits, ranks, &out->last, &out->last_seconds);
    note_most(waits + ranks, stages, &out->stage, &out->stage_seconds);
}

status replay_uses_find(const replay_record *r, const replay_span *time, replay_rank_uses *out,
                        err *e)
{
    status result = OK;
    const int ranks = r->view->ranks;
    double *waits = NULL;
    TRY(alloc_array(&waits, (size_t)ranks + (size_t)r->mesh.size[AXIS_PP], sizeof *waits, WHAT, e));
    memset(out, 0, (size_t)ranks * sizeof *out);
    for (int i = 0, rank = -1; i < r->x.pieces; i++) {
        if (r->x.piece[i].rank == rank) continue;
        rank = r->x.piece[i].rank;
        walk(&(replay_walk){.r = r, .time = time, .rank = rank}, i, waits, &out[rank]);
    }
done:
    free(waits);
    return result;
}
