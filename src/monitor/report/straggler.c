// straggler.c -- see straggler.h. straggler_charge.c finds out of one step who kept whom waiting; this file judges from
// many steps.
#include "monitor/report/straggler_charge.h"

#include "base/alloc.h"
#include "monitor/report/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    RECENT = 10, // slow steps from which the cause follows, and steps of which
    CHRONIC = 8, // so many are slow
    LONG = 100,
    LONG_CHRONIC = 80,
    NAMED = 3,
    CHANGES = 50, // steps whose changes give the deviation
    QUIET = 100,  // steps after which a slow rank is told again
};
static const double LEAST_SHARE = 0.03, NAMED_SHARE = 0.15, LEAST_EXPLAINED = 0.8,
                    UNEXPLAINED = 0.2;
static const double DEVIATIONS = 5;
// A wait that is one rank's now and another's then changes in half of all steps of two ranks; one delay in twenty steps
// changes two of them.
static const double CHANGE_QUANTILE = 0.8, CHANGE_DEVIATIONS = 2;

const char *straggler_cause_word(straggler_cause c)
{
    static const char *const words[] = {[STRAGGLER_UNCLEAR] = "unclear",
                                        [STRAGGLER_COMPUTE] = "compute",
                                        [STRAGGLER_INPUT] = "input",
                                        [STRAGGLER_LINK] = "link"};
    return words[c];
}

// A rank or a host. Bit 0 of slow and late is the last step.
typedef struct straggler_subject {
    straggler s;
    uint64_t slow, late[2]; // late: by 3 %, whatever the deviation
    straggler_charge recent[RECENT];
    uint64_t recents;
    double share; // in the last step
    bool told_named, told_chronic, is_news;
} straggler_subject;

struct straggler_watch {
    straggler_charger *charger;
    int ranks, subjects;
    straggler_subject *subject; // [subjects] ranks, then hosts
    straggler_charge *charge;   // [subjects] of the last step
    double change[CHANGES];
    uint64_t steps; // that were judged, and one before them
    int news;       // the next subject to look at
};

// ---- The cause

static double sum_of(const straggler_subject *x, int cause)
{
    const size_t count = x->recents < RECENT ? (size_t)x->recents : RECENT;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += cause ? (double)x->recent[i].excess_ns[cause] : (double)x->recent[i].wait_ns;
    return sum;
}

// The cause that explains the wait of the last slow steps; unclear where none explains enough of it.
static void set_cause(straggler_subject *x)
{
    const double wait = sum_of(x, STRAGGLER_UNCLEAR);
    double share[STRAGGLER_CAUSES] = {0};
    straggler_cause most = STRAGGLER_COMPUTE;
    for (int c = STRAGGLER_COMPUTE; c < STRAGGLER_CAUSES; c++) {
        share[c] = wait > 0 ? fmin(sum_of(x, c) / wait, 1) : 0;
        if (share[c] > share[most]) most = (straggler_cause)c;
    }
    x->s.cause = share[most] >= LEAST_EXPLAINED ? most : STRAGGLER_UNCLEAR;
    x->s.explained = share[most];
    // It came in time as far as its own work goes, so what it sent came late.
    const double own = share[STRAGGLER_COMPUTE] + share[STRAGGLER_INPUT];
    if (x->s.cause != STRAGGLER_UNCLEAR || own > UNEXPLAINED || wait <= 0) return;
    x->s.cause = STRAGGLER_LINK;
    x->s.explained = 1 - own;
}

static void set_share(straggler_subject *x)
{
    double shares[RECENT];
    const size_t count = x->recents < RECENT ? (size_t)x->recents : RECENT;
    for (size_t i = 0; i < count; i++) shares[i] = x->recent[i].share;
    x->s.share = statistics_median(shares, count);
}

// ---- A step

// From which share of a step on a wait is slow.
static double threshold_of(const straggler_watch *w)
{
    double changes[CHANGES];
    const uint64_t count = w->steps - 2;
    const size_t kept = count < CHANGES ? (size_t)count : CHANGES;
    memcpy(changes, w->change, kept * sizeof *changes);
    // Of few values the upper one.
    const double share = kept < 3 ? 1 : CHANGE_QUANTILE;
    const double deviation = statistics_quantile(changes, kept, share) / CHANGE_DEVIATIONS;
    return fmax(LEAST_SHARE, DEVIATIONS * deviation);
}

static void add_change(straggler_watch *w)
{
    double most = 0;
    for (int i = 0; i < w->subjects; i++)
        most = fmax(most, fabs(w->charge[i].share - w->subject[i].share));
    w->change[(w->steps - 3) % CHANGES] = most;
}

static bool is_named(const straggler_subject *x, double threshold)
{
    if ((x->late[0] & 7) != 7) return false;
    for (uint64_t i = 1; i <= NAMED; i++)
        if (x->recent[(x->recents - i) % RECENT].share < fmax(NAMED_SHARE, threshold)) return false;
    return true;
}

static bool is_chronic(const straggler_subject *x)
{
    const uint64_t last = (1u << RECENT) - 1, rest = (UINT64_C(1) << (LONG - 64)) - 1;
    const int slow = __builtin_popcountll(x->slow & last);
    const int late = __builtin_popcountll(x->late[0] & last);
    const int late_long =
        __builtin_popcountll(x->late[0]) + __builtin_popcountll(x->late[1] & rest);
    return slow >= CHRONIC || late_long >= LONG_CHRONIC || (x->s.is_chronic && late >= CHRONIC);
}

static void judge(straggler_subject *x, double threshold, uint64_t step)
{
    const bool chronic = is_chronic(x), named = chronic || is_named(x, threshold);
    x->s.is_chronic = false;
    if (!named) return;
    set_cause(x);
    if (x->s.cause == STRAGGLER_UNCLEAR) return;
    x->s.is_chronic = chronic;
    if (!x->s.named_step) x->s.named_step = step;
    if (chronic && !x->s.chronic_step) x->s.chronic_step = step;
    x->is_news = !x->told_named || (chronic && !x->told_chronic);
    x->told_named = true;
    x->told_chronic |= chronic;
}

static void add_to(straggler_subject *x, const straggler_charge *c, double threshold, uint64_t step)
{
    const bool late = c->share >= LEAST_SHARE, slow = c->share >= threshold;
    x->share = c->share;
    x->is_news = false;
    x->late[1] = x->late[1] << 1 | x->late[0] >> 63;
    x->late[0] = x->late[0] << 1 | late;
    x->slow = x->slow << 1 | slow;
    if (late) x->recent[x->recents++ % RECENT] = *c;
    if (slow || (late && x->s.is_chronic)) {
        if (step > x->s.last_step + QUIET) x->told_named = x->told_chronic = false;
        if (!x->s.first_step) x->s.first_step = step;
        x->s.last_step = step;
        x->s.slow_steps++;
        x->s.lost_ns += c->wait_ns;
    }
    if (late || x->s.is_chronic) {
        set_share(x);
        judge(x, threshold, step);
    }
}

void straggler_watch_add(straggler_watch *w, const spans_step *step)
{
    uint64_t number;
    if (!straggler_charge_step(w->charger, step, w->charge, &number)) return;
    w->news = 0;
    // The first step is not judged.
    if (w->steps++ == 0) return;
    if (w->steps > 2) add_change(w);
    // The second one has no change yet, and nothing is slow.
    const double threshold = w->steps > 2 ? threshold_of(w) : INFINITY;
    for (int i = 0; i < w->subjects; i++) add_to(&w->subject[i], &w->charge[i], threshold, number);
}

// ---- The watch

status straggler_watch_open(const straggler_location *locations, int ranks, straggler_watch **out,
                            err *e)
{
    status result = OK;
    straggler_watch *w = NULL;
    const char *what = "the search for stragglers";
    TRY(alloc_zeroed(&w, 1, sizeof *w, what, e));
    w->ranks = ranks;
    TRY(straggler_charger_open(locations, ranks, &w->charger, e));
    w->subjects = ranks + straggler_charger_hosts(w->charger);
    TRY(alloc_zeroed(&w->subject, (size_t)w->subjects, sizeof *w->subject, what, e));
    TRY(alloc_zeroed(&w->charge, (size_t)w->subjects, sizeof *w->charge, what, e));
    for (int i = 0; i < w->subjects; i++) {
        w->subject[i].s.rank = i < ranks ? i : -1;
        w->subject[i].s.host = i < ranks ? locations[i].host : i - ranks;
    }
    *out = w;
    w = NULL;
done:
    straggler_watch_close(w);
    return result;
}

void straggler_watch_close(straggler_watch *w)
{
    if (!w) return;
    straggler_charger_close(w->charger);
    free(w->subject);
    free(w->charge);
    free(w);
}

const straggler *straggler_watch_news(straggler_watch *w)
{
    while (w->news < w->subjects) {
        straggler_subject *x = &w->subject[w->news++];
        if (x->is_news) return &x->s;
    }
    return NULL;
}

int straggler_watch_count(const straggler_watch *w)
{
    return w->subjects;
}

const straggler *straggler_watch_get(const straggler_watch *w, int i)
{
    return &w->subject[i].s;
}
