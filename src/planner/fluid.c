// fluid.c -- see fluid.h. A rank runs at most one piece of each thread. When one of them begins or ends, the speeds of the
// rank's others change and nobody else's do, so a rank looks only at its own.
#include "planner/fluid.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>

static const char WHAT[] = "the simulation of a step";

// ---- Speeds

// The most by which all pieces that are not fixed can still become faster, before one of them has its full speed or a
// resource is used up.
static double room_of(const planner_claim *const *claim, int count, const double *speed,
                      const bool *is_fixed, int resource)
{
    double used = 0, wanted = 0;
    for (int i = 0; i < count; i++) {
        used += speed[i] * claim[i]->share[resource];
        if (!is_fixed[i]) wanted += claim[i]->share[resource];
    }
    return wanted > 0 ? fmax(0, 1 - used) / wanted : INFINITY;
}

void planner_fluid_speeds(const planner_claim *const *claim, int count, double *speed)
{
    bool is_fixed[PLANNER_THREADS] = {false};
    int open = count;
    for (int i = 0; i < count; i++) speed[i] = 0;
    while (open > 0) {
        double least = INFINITY;
        int tight = -1;
        for (int r = 0; r < PLANNER_RESOURCES; r++) {
            const double room = room_of(claim, count, speed, is_fixed, r);
            if (room >= least) continue;
            least = room;
            tight = r;
        }
        // All pieces that are not fixed have one speed.
        double now = 0;
        for (int i = 0; i < count; i++)
            if (!is_fixed[i]) now = speed[i];
        const bool full = now + least >= 1;
        for (int i = 0; i < count; i++) {
            if (is_fixed[i]) continue;
            speed[i] = full ? 1 : now + least;
            if (!full && claim[i]->share[tight] <= 0) continue;
            is_fixed[i] = true;
            open--;
        }
    }
}

// ---- The simulation

typedef struct fluid_rank {
    int running[PLANNER_THREADS]; // pieces; -1: none
    double left[PLANNER_THREADS]; // seconds of the piece alone
    double speed[PLANNER_THREADS];
    double seen; // the time at which `left` was true
    double next; // the time at which the first one ends; INFINITY: none runs
} fluid_rank;

typedef struct fluid {
    const planner_work *w;
    planner_run *out;
    fluid_rank *rank;
    int *due;     // [pieces] what it waits for, before it begins
    int *missing; // [pieces] itself and its partners that have not begun, before it runs
    int *
        first; // [pieces + 1] those that wait for piece p are after[first[p]] … after[first[p + 1] - 1]
    int *after;
    int *follower;       // [pieces] the next one of its thread; -1: none
    int *ready, readies; // pieces that begin now: a stack
    double now;
    int ended;
} fluid;

static void find_speeds(fluid *f, fluid_rank *r)
{
    const planner_claim *claim[PLANNER_THREADS];
    double speed[PLANNER_THREADS];
    int thread[PLANNER_THREADS], count = 0;
    for (int t = 0; t < PLANNER_THREADS; t++) {
        if (r->running[t] < 0) continue;
        thread[count] = t;
        claim[count++] = &f->w->piece[r->running[t]].claim;
    }
    planner_fluid_speeds(claim, count, speed);
    r->next = INFINITY;
    for (int i = 0; i < count; i++) {
        r->speed[thread[i]] = speed[i];
        r->next = fmin(r->next, f->now + r->left[thread[i]] / speed[i]);
    }
}

// Brings what is left of the rank's pieces to the present.
static void advance(fluid *f, fluid_rank *r)
{
    for (int t = 0; t < PLANNER_THREADS; t++)
        if (r->running[t] >= 0) r->left[t] = fmax(0, r->left[t] - (f->now - r->seen) * r->speed[t]);
    r->seen = f->now;
}

static void start(fluid *f, int i)
{
    const planner_piece *p = &f->w->piece[i];
    fluid_rank *r = &f->rank[p->rank];
    advance(f, r);
    f->out[i].run = f->now;
    r->running[p->thread] = i;
    r->left[p->thread] = p->claim.seconds;
    find_speeds(f, r);
}

// The piece has begun; it and its partners may run now.
static void begin(fluid *f, int i)
{
    const planner_piece *p = &f->w->piece[i];
    f->out[i].begin = f->now;
    if (--f->missing[i] == 0) start(f, i);
    for (int k = p->first_partner; k < p->first_partner + p->partners; k++) {
        const int other = f->w->other[k];
        f->out[other].last = i;
        if (--f->missing[other] == 0) start(f, other);
    }
    // The one that came last waited for nobody.
    if (f->missing[i] == 0) f->out[i].last = -1;
}

static void release(fluid *f, int i, int by)
{
    f->out[i].cause = by;
    if (--f->due[i] == 0) f->ready[f->readies++] = i;
}

static void end(fluid *f, fluid_rank *r, int thread)
{
    const int i = r->running[thread];
    r->running[thread] = -1;
    f->out[i].end = f->now;
    f->ended++;
    for (int k = f->first[i]; k < f->first[i + 1]; k++) release(f, f->after[k], i);
    if (f->follower[i] >= 0) release(f, f->follower[i], i);
}

// Ends what ends at this time, on this rank.
static void end_due(fluid *f, fluid_rank *r)
{
    advance(f, r);
    for (int t = 0; t < PLANNER_THREADS; t++)
        if (r->running[t] >= 0 && r->left[t] <= 1e-12 * (f->now + 1e-3)) end(f, r, t);
    find_speeds(f, r);
}

static fluid_rank *next_rank(const fluid *f)
{
    fluid_rank *best = &f->rank[0];
    for (int r = 1; r < f->w->ranks; r++)
        if (f->rank[r].next < best->next) best = &f->rank[r];
    return best;
}

static status open_waits(fluid *f, err *e)
{
    status result = OK;
    const planner_work *w = f->w;
    const size_t n = (size_t)w->pieces;
    int total = 0;
    TRY(alloc_zeroed(&f->first, n + 2, sizeof *f->first, WHAT, e));
    for (int i = 0; i < w->pieces; i++) {
        const planner_piece *p = &w->piece[i];
        total += p->waits;
        f->due[i] += p->waits;
        f->missing[i] = 1 + p->partners;
        for (int k = 0; k < p->waits; k++) f->first[w->other[p->first_wait + k] + 2]++;
    }
    TRY(alloc_array(&f->after, (size_t)total, sizeof *f->after, WHAT, e));
    for (int i = 0; i < w->pieces; i++) f->first[i + 2] += f->first[i + 1];
    for (int i = 0; i < w->pieces; i++) {
        const planner_piece *p = &w->piece[i];
        for (int k = 0; k < p->waits; k++)
            f->after[f->first[w->other[p->first_wait + k] + 1]++] = i;
    }
done:
    return result;
}

static status open_fluid(fluid *f, err *e)
{
    status result = OK;
    const planner_work *w = f->w;
    const size_t n = (size_t)w->pieces;
    int *last = NULL;
    TRY(alloc_array(&last, (size_t)w->ranks * PLANNER_THREADS, sizeof *last, WHAT, e));
    TRY(alloc_array(&f->rank, (size_t)w->ranks, sizeof *f->rank, WHAT, e));
    TRY(alloc_zeroed(&f->due, n, sizeof *f->due, WHAT, e));
    TRY(alloc_array(&f->missing, n, sizeof *f->missing, WHAT, e));
    TRY(alloc_array(&f->follower, n, sizeof *f->follower, WHAT, e));
    TRY(alloc_array(&f->ready, n, sizeof *f->ready, WHAT, e));
    for (int r = 0; r < w->ranks; r++)
        f->rank[r] = (fluid_rank){.running = {-1, -1, -1}, .next = INFINITY};
    for (int i = 0; i < w->ranks * PLANNER_THREADS; i++) last[i] = -1;
    for (int i = 0; i < w->pieces; i++) {
        int *before = &last[w->piece[i].rank * PLANNER_THREADS + w->piece[i].thread];
        f->out[i] = (planner_run){.begin = -1, .run = -1, .end = -1, .cause = -1, .last = -1};
        f->follower[i] = -1;
        if (*before >= 0) f->follower[*before] = i, f->due[i] = 1;
        *before = i;
    }
    TRY(open_waits(f, e));
done:
    free(last);
    return result;
}

static int find_stuck(const fluid *f)
{
    for (int i = 0; i < f->w->pieces; i++)
        if (f->out[i].begin >= 0 && f->out[i].end < 0) return i;
    for (int i = 0; i < f->w->pieces; i++)
        if (f->out[i].end < 0) return i;
    return -1;
}

status planner_fluid_run(const planner_work *w, planner_run *out, int *stuck, err *e)
{
    status result = OK;
    fluid f = {.w = w, .out = out};
    TRY(open_fluid(&f, e));
    for (int i = 0; i < w->pieces; i++)
        if (f.due[i] == 0) f.ready[f.readies++] = i;
    while (f.ended < w->pieces) {
        while (f.readies > 0) begin(&f, f.ready[--f.readies]);
        fluid_rank *r = next_rank(&f);
        if (r->next == INFINITY) break;
        f.now = r->next;
        end_due(&f, r);
    }
    if (stuck) *stuck = find_stuck(&f);
    if (f.ended < w->pieces)
        FAIL(E_INTERNAL, "the pieces of a simulated step wait for each other in a circle");
done:
    free(f.rank);
    free(f.due);
    free(f.missing);
    free(f.first);
    free(f.after);
    free(f.follower);
    free(f.ready);
    return result;
}
