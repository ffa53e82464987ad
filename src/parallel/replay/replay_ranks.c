// replay_ranks.c -- see replay_ranks.h. A piece is counted down until all that it waits for has ended; then it begins,
// and where it meets others it ends once all of them have begun.
#include "parallel/replay/replay_ranks.h"

#include "base/alloc.h"

#include <stdlib.h>

static const char WHAT[] = "the replay of a step";

// ---- What pieces wait for

static void link_threads(replay_ranks *x, int *last)
{
    for (int i = 0; i < x->ranks * REPLAY_THREADS; i++) last[i] = -1;
    for (int i = 0; i < x->pieces; i++) {
        int *before = &last[x->piece[i].rank * REPLAY_THREADS + x->piece[i].thread];
        x->links.before[i] = *before;
        *before = i;
    }
}

// The pieces of a list that are the n-th of their rank meet. Lists of one key are tied together by `next`.
typedef struct replay_chain {
    int first, last; // -1: empty
} replay_chain;

static void add_to(replay_chain *c, int *next, int piece)
{
    next[piece] = -1;
    if (c->first < 0)
        c->first = piece;
    else
        next[c->last] = piece;
    c->last = piece;
}

static status refuse(int *piece, int which, err *e, const char *why)
{
    if (piece) *piece = which;
    return err_set(e, E_USAGE, "%s", why);
}

// Collectives of one communicator: the n-th piece of each of its ranks is in meeting base + n. `seen` is [ranks], 0
// before and after.
static status link_comm(replay_ranks *x, const replay_chain *c, const int *next, int *seen,
                        int *piece, err *e)
{
    status result = OK;
    replay_links *l = &x->links;
    const int base = l->meetings;
    int most = 0, ranks = 0;
    for (int p = c->first; p >= 0; p = next[p]) {
        const int n = seen[x->piece[p].rank]++;
        ranks += n == 0;
        if (n + 1 > most) most = n + 1;
        l->meeting[p] = base + n;
        l->members[base + n]++;
    }
    for (int p = c->first; p >= 0; p = next[p]) seen[x->piece[p].rank] = 0;
    for (int p = c->first; p >= 0 && result == OK; p = next[p])
        if (l->members[l->meeting[p]] != ranks)
            result = refuse(piece, p, e, "another rank of its group makes fewer calls");
    l->meetings += most;
    return result;
}

// Messages of one channel: the n-th send meets the n-th receive.
static status link_channel(replay_ranks *x, const replay_chain *c, const int *next, int *piece,
                           err *e)
{
    replay_links *l = &x->links;
    int send = c->first, receive = c->first;
    for (;;) {
        while (send >= 0 && !x->piece[send].sends) send = next[send];
        while (receive >= 0 && x->piece[receive].sends) receive = next[receive];
        if (send < 0 && receive < 0) return OK;
        if (send < 0) return refuse(piece, receive, e, "nobody sends the message");
        if (receive < 0) return refuse(piece, send, e, "nobody receives the message");
        l->other[send] = receive;
        l->other[receive] = send;
        if (x->sends_wait) {
            l->meeting[send] = l->meeting[receive] = l->meetings;
            l->members[l->meetings++] = 2;
            l->other[send] = l->other[receive] = -1;
        }
        send = next[send];
        receive = next[receive];
    }
}

static status link_calls(replay_ranks *x, int *piece, err *e)
{
    status result = OK;
    replay_chain *chain = NULL;
    int *next = NULL, *seen = NULL;
    const int chains = x->comms + x->channels;
    TRY(alloc_array(&chain, (size_t)chains, sizeof *chain, WHAT, e));
    TRY(alloc_array(&next, (size_t)x->pieces, sizeof *next, WHAT, e));
    TRY(alloc_zeroed(&seen, (size_t)x->ranks, sizeof *seen, WHAT, e));
    for (int i = 0; i < chains; i++) chain[i] = (replay_chain){-1, -1};
    for (int i = 0; i < x->pieces; i++) {
        x->links.meeting[i] = x->links.other[i] = -1;
        if (x->piece[i].comm >= 0) add_to(&chain[x->piece[i].comm], next, i);
        if (x->piece[i].channel >= 0) add_to(&chain[x->comms + x->piece[i].channel], next, i);
    }
    for (int i = 0; i < x->comms; i++) TRY(link_comm(x, &chain[i], next, seen, piece, e));
    for (int i = x->comms; i < chains; i++) TRY(link_channel(x, &chain[i], next, piece, e));
done:
    free(chain);
    free(next);
    free(seen);
    return result;
}

// Visits the pieces that piece i waits for; -1 ends them.
static int wait_of(const replay_ranks *x, int i, int k)
{
    const replay_piece *p = &x->piece[i];
    if (k < p->waits) return x->wait[p->first_wait + k];
    return k == p->waits ? x->links.before[i] : -1;
}

static int waits_of(const replay_ranks *x, int i)
{
    return x->piece[i].waits + (x->links.before[i] >= 0);
}

// Turns the waits around.
static status link_after(replay_ranks *x, err *e)
{
    status result = OK;
    replay_links *l = &x->links;
    int total = 0;
    TRY(alloc_zeroed(&l->first, (size_t)x->pieces + 2, sizeof *l->first, WHAT, e));
    for (int i = 0; i < x->pieces; i++) {
        total += waits_of(x, i);
        for (int k = 0; k < waits_of(x, i); k++) l->first[wait_of(x, i, k) + 2]++;
    }
    TRY(alloc_array(&l->after, (size_t)total, sizeof *l->after, WHAT, e));
    for (int i = 0; i < x->pieces; i++) l->first[i + 2] += l->first[i + 1];
    for (int i = 0; i < x->pieces; i++)
        for (int k = 0; k < waits_of(x, i); k++) l->after[l->first[wait_of(x, i, k) + 1]++] = i;
done:
    return result;
}

status replay_ranks_link(replay_ranks *x, int *piece, err *e)
{
    status result = OK;
    int *last = NULL;
    const size_t n = (size_t)x->pieces;
    if (piece) *piece = -1;
    replay_ranks_unlink(x);
    TRY(alloc_array(&last, (size_t)x->ranks * REPLAY_THREADS, sizeof *last, WHAT, e));
    TRY(alloc_array(&x->links.before, n, sizeof *x->links.before, WHAT, e));
    TRY(alloc_array(&x->links.meeting, n, sizeof *x->links.meeting, WHAT, e));
    TRY(alloc_array(&x->links.other, n, sizeof *x->links.other, WHAT, e));
    TRY(alloc_zeroed(&x->links.members, n, sizeof *x->links.members, WHAT, e));
    link_threads(x, last);
    TRY(link_calls(x, piece, e));
    TRY(link_after(x, e));
done:
    free(last);
    return result;
}

void replay_ranks_unlink(replay_ranks *x)
{
    free(x->links.before);
    free(x->links.meeting);
    free(x->links.other);
    free(x->links.members);
    free(x->links.first);
    free(x->links.after);
    x->links = (replay_links){.meetings = 0};
}

// ---- The replay

typedef struct replay_collective {
    int due;   // members that have not come
    int last;  // the piece of the last one
    int first; // of those that have come and wait; -1: none
} replay_collective;

typedef struct replay_run {
    const replay_ranks *x;
    replay_span *time;
    int *due;                   // [pieces] what it still waits for
    int *ready, count;          // pieces that begin: a stack
    int *next;                  // [pieces] of those that wait in one meeting
    bool *begun;                // [pieces]
    replay_collective *meeting; // [meetings]
    int ended;
} replay_run;

static void end(replay_run *r, int i, double met, int last)
{
    const replay_links *l = &r->x->links;
    replay_span *t = &r->time[i];
    t->met = met;
    t->last = last;
    t->end = met + r->x->piece[i].seconds;
    r->ended++;
    for (int k = l->first[i]; k < l->first[i + 1]; k++)
        if (--r->due[l->after[k]] == 0) r->ready[r->count++] = l->after[k];
}

// Ends those that have waited for the last member.
static void meet(replay_run *r, replay_collective *m)
{
    const double met = r->time[m->last].begin;
    for (int p = m->first, next; p >= 0; p = next) {
        next = r->next[p];
        end(r, p, met, p == m->last ? -1 : m->last);
    }
}

static void come(replay_run *r, int i)
{
    replay_collective *m = &r->meeting[r->x->links.meeting[i]];
    if (m->last < 0 || r->time[i].begin > r->time[m->last].begin) m->last = i;
    m->due--;
    if (r->x->piece[i].leaves) {
        end(r, i, r->time[i].begin, -1);
    } else {
        r->next[i] = m->first;
        m->first = i;
    }
    if (m->due == 0) meet(r, m);
}

// A receive waits for its send to begin.
static void receive(replay_run *r, int receiver, int sender)
{
    const double own = r->time[receiver].begin, sent = r->time[sender].begin;
    end(r, receiver, sent > own ? sent : own, sent > own ? sender : -1);
}

// Until when piece i waits for the k-th piece that it waits for.
static double until_of(const replay_run *r, int i, int k)
{
    const replay_piece *p = &r->x->piece[i];
    const double end = r->time[wait_of(r->x, i, k)].end;
    return k < p->waits ? end - r->x->lead[p->first_wait + k] : end;
}

static void begin(replay_run *r, int i, const double *start)
{
    const replay_ranks *x = r->x;
    const int other = x->links.other[i];
    replay_span *t = &r->time[i];
    *t = (replay_span){.begin = start[x->piece[i].rank], .cause = -1, .last = -1};
    for (int k = 0; k < waits_of(x, i); k++) {
        const double until = until_of(r, i, k);
        if (until < t->begin) continue;
        t->begin = until;
        t->cause = wait_of(x, i, k);
    }
    t->begin += x->piece[i].lag;
    t->end = t->begin - 1; // it has not ended
    r->begun[i] = true;
    if (x->links.meeting[i] >= 0) {
        come(r, i);
    } else if (other >= 0 && !x->piece[i].sends) {
        if (r->begun[other]) receive(r, i, other);
    } else {
        end(r, i, t->begin, -1);
        if (other >= 0 && r->begun[other]) receive(r, other, i);
    }
}

static status open_run(replay_run *r, err *e)
{
    status result = OK;
    const replay_ranks *x = r->x;
    const size_t n = (size_t)x->pieces;
    TRY(alloc_array(&r->due, n, sizeof *r->due, WHAT, e));
    TRY(alloc_array(&r->ready, n, sizeof *r->ready, WHAT, e));
    TRY(alloc_array(&r->next, n, sizeof *r->next, WHAT, e));
    TRY(alloc_zeroed(&r->begun, n, sizeof *r->begun, WHAT, e));
    TRY(alloc_array(&r->meeting, (size_t)x->links.meetings, sizeof *r->meeting, WHAT, e));
    for (int i = 0; i < x->links.meetings; i++)
        r->meeting[i] = (replay_collective){x->links.members[i], -1, -1};
    for (int i = x->pieces; i-- > 0;) {
        r->due[i] = waits_of(x, i);
        if (r->due[i] == 0) r->ready[r->count++] = i;
    }
done:
    return result;
}

// A piece that has begun and waits for others, or else one that does not begin.
static int stuck_piece(const replay_run *r)
{
    int stuck = 0;
    for (int i = r->x->pieces; i-- > 0;)
        if (!r->begun[i]) stuck = i;
    for (int i = r->x->pieces; i-- > 0;)
        if (r->begun[i] && r->time[i].end < r->time[i].begin) stuck = i;
    return stuck;
}

status replay_ranks_run(const replay_ranks *x, const double *start, replay_span *out, int *piece,
                        err *e)
{
    status result = OK;
    replay_run r = {.x = x, .time = out};
    if (piece) *piece = -1;
    TRY(open_run(&r, e));
    while (r.count > 0) begin(&r, r.ready[--r.count], start);
    if (r.ended < x->pieces)
        result = refuse(piece, stuck_piece(&r), e, "it waits for itself, in a circle");
done:
    free(r.due);
    free(r.ready);
    free(r.next);
    free(r.begun);
    free(r.meeting);
    return result;
}

void replay_ranks_ends(const replay_ranks *x, const double *start, const replay_span *time,
                       double *end)
{
    for (int r = 0; r < x->ranks; r++) end[r] = start[r];
    for (int i = 0; i < x->pieces; i++)
        if (time[i].end > end[x->piece[i].rank]) end[x->piece[i].rank] = time[i].end;
}

// ---- Steps one after another

enum { MOST_REPEATS = 16 };

// The rank that is behind by most in this step, of which the others follow in later ones.
static double longest(const replay_ranks *x, const double *start, const double *next)
{
    double most = 0;
    for (int r = 0; r < x->ranks; r++)
        if (next[r] - start[r] > most) most = next[r] - start[r];
    return most;
}

static double shortest(const replay_ranks *x, const double *start, const double *next)
{
    double least = next[0] - start[0];
    for (int r = 1; r < x->ranks; r++)
        if (next[r] - start[r] < least) least = next[r] - start[r];
    return least;
}

status replay_ranks_period(const replay_ranks *x, const double *gap, replay_span *time,
                           double *seconds, err *e)
{
    status result = OK;
    double *start = NULL, *next = NULL, sum = 0;
    TRY(alloc_zeroed(&start, (size_t)x->ranks, sizeof *start, WHAT, e));
    TRY(alloc_zeroed(&next, (size_t)x->ranks, sizeof *next, WHAT, e));
    for (int i = 0; i < MOST_REPEATS; i++) {
        TRY(replay_ranks_run(x, start, time, NULL, e));
        replay_ranks_ends(x, start, time, next);
        for (int r = 0; r < x->ranks; r++) next[r] += gap[r];
        const double most = longest(x, start, next), least = shortest(x, start, next);
        sum = (most + least) / 2;
        double *swap = start;
        start = next;
        next = swap;
        if (i > 0 && most - least <= 1e-9 * most) break;
    }
    *seconds = sum;
done:
    free(start);
    free(next);
    return result;
}
