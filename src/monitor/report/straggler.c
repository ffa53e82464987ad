// straggler.c -- see straggler.h. straggler_charge.c finds out of one step who kept whom waiting; this file judges from
// many steps.
#include "monitor/report/straggler_charge.h"

#include "base/alloc.h"
#include "monitor/report/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LAST = 10,   // steps, of which
    CHRONIC = 8, // so many are slow
    NAMED = 3,
    RECENT = 32, // late steps from which the cause follows, of the last CAUSE_STEPS
    CAUSE_STEPS = 32,
    OTHERS = 100, // steps in which all others are late less often
    CHANGES = 50, // steps whose changes give the deviation
    QUIET = 100,  // steps after which a chronic rank is told again
    SPANS_OF_STEPS = 5,
};
// In how many of so many last steps it is late by more than chance has it: were the last one drawn among the ranks of a
// stage, one rank in ten million would be the last one as often.
static const int STEPS_LOOKED_AT[SPANS_OF_STEPS] = {10, 20, 30, 50, 100};
static const double CHANCE = 1e-7, LEAST_OFTEN = 0.8;
static const double LEAST_SHARE = 0.03, NAMED_SHARE = 0.15, LEAST_EXPLAINED = 0.8,
                    UNEXPLAINED = 0.2;
static const double DEVIATIONS = 5;
static const double LEAST_NS =
    1e7; // shorter steps are judged together: a process that takes a core for a moment takes many
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
    uint64_t judged, late_steps;
    int64_t late_ns;
    int needed[SPANS_OF_STEPS]; // late steps that are more than chance
    straggler_charge recent[RECENT];
    uint64_t recent_step[RECENT], recents;
    double share;        // in the last step
    uint64_t named_last; // `judged` when it was named last
    bool told_named, told_chronic, is_news;
    bool has_links; // the run has several hosts, or the rank a device
    int stage;      // of a rank
} straggler_subject;

struct straggler_watch {
    straggler_charger *charger;
    int ranks, subjects;
    straggler_subject *subject; // [subjects] ranks, then hosts
    straggler_charge *charge;   // [subjects] of the last step
    straggler_charge *sum;      // [subjects] of the steps that are judged together
    double gathered_ns;         // these steps
    uint64_t gathered;
    double change[CHANGES];
    uint64_t steps; // that were judged, and one before them
    int news;       // the next subject to look at
};

// ---- The cause

// Adds up the excesses and the waits of the late steps of the last CAUSE_STEPS. Returns how many there are.
static size_t add_up(const straggler_subject *x, double sum[STRAGGLER_CAUSES], double *wait,
                     double shares[RECENT])
{
    const size_t kept = x->recents < RECENT ? (size_t)x->recents : RECENT;
    size_t count = 0;
    memset(sum, 0, STRAGGLER_CAUSES * sizeof *sum);
    *wait = 0;
    for (size_t i = 0; i < kept; i++) {
        const straggler_charge *c = &x->recent[i];
        if (x->recent_step[i] + CAUSE_STEPS <= x->judged) continue;
        shares[count++] = c->share;
        *wait += (double)c->wait_ns;
        for (int cause = 0; cause < STRAGGLER_CAUSES; cause++)
            sum[cause] += (double)c->excess_ns[cause];
    }
    return count;
}

// Sets the cause that explains the wait of the last late steps. Returns whether one explains enough of it; else the cause
// stays as it is.
static bool set_cause(straggler_subject *x)
{
    double sum[STRAGGLER_CAUSES], wait, shares[RECENT];
    straggler_cause most = STRAGGLER_COMPUTE;
    const size_t count = add_up(x, sum, &wait, shares);
    if (wait <= 0) return false;
    for (int c = 0; c < STRAGGLER_CAUSES; c++) sum[c] = fmin(fmax(sum[c] / wait, 0), 1);
    if (sum[STRAGGLER_INPUT] > sum[most]) most = STRAGGLER_INPUT;
    double explained = sum[most];
    // A rank that computes slowly also communicates slowly: both take its cores.
    if (most == STRAGGLER_COMPUTE) explained = fmin(explained + sum[STRAGGLER_LINK], 1);
    const double own = sum[STRAGGLER_COMPUTE] + sum[STRAGGLER_INPUT] + sum[STRAGGLER_UNCLEAR];
    if (own <= UNEXPLAINED) {
        // It came in time as far as its own work goes, so what it sent came late.
        most = STRAGGLER_LINK;
        explained = x->has_links ? 1 - own : 0;
    }
    if (explained < LEAST_EXPLAINED) return false;
    x->s.cause = most;
    x->s.explained = explained;
    x->s.share = statistics_median(shares, count);
    return true;
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
        most = fmax(most, fabs(w->sum[i].share - w->subject[i].share));
    w->change[(w->steps - 3) % CHANGES] = most;
}

static bool is_named(const straggler_subject *x, double threshold)
{
    if ((x->late[0] & 7) != 7) return false;
    for (uint64_t i = 1; i <= NAMED; i++)
        if (x->recent[(x->recents - i) % RECENT].share < fmax(NAMED_SHARE, threshold)) return false;
    return true;
}

// In how many of the last `steps` steps it was late, at most 128.
static int late_in(const straggler_subject *x, int steps)
{
    const uint64_t all = ~UINT64_C(0);
    const uint64_t first = steps >= 64 ? all : all >> (64 - steps);
    const uint64_t second = steps <= 64 ? 0 : all >> (128 - steps);
    return __builtin_popcountll(x->late[0] & first) + __builtin_popcountll(x->late[1] & second);
}

static bool is_chronic(const straggler_subject *x)
{
    if (__builtin_popcountll(x->slow & ((1u << LAST) - 1)) >= CHRONIC) return true;
    if (x->s.is_chronic && late_in(x, LAST) >= CHRONIC) return true;
    for (int i = 0; i < SPANS_OF_STEPS; i++)
        if (late_in(x, STEPS_LOOKED_AT[i]) >= x->needed[i]) return true;
    return false;
}

// Returns whether it was late in more of the last steps than all others of its stage together: on a busy machine one rank
// is late for a while, and then another. Of a host, the others are all ranks of other hosts.
static bool stands_out(const straggler_watch *w, const straggler_subject *x)
{
    int others = 0;
    const int own = late_in(x, OTHERS);
    for (int r = 0; r < w->ranks && others <= own; r++) {
        const straggler_subject *other = &w->subject[r];
        const bool competes =
            x->s.rank < 0 ? other->s.host != x->s.host : other != x && other->stage == x->stage;
        if (competes) others += late_in(other, OTHERS);
    }
    return own > others;
}

static void judge(const straggler_watch *w, straggler_subject *x, double threshold, uint64_t step)
{
    const bool was_chronic = x->s.is_chronic;
    const bool chronic = is_chronic(x) && (was_chronic || stands_out(w, x));
    const bool named = chronic || (is_named(x, threshold) && stands_out(w, x));
    x->s.is_chronic = false;
    if (!named || (!set_cause(x) && !was_chronic)) return;
    if (x->judged > x->named_last + QUIET) x->told_named = x->told_chronic = false;
    x->named_last = x->judged;
    x->s.is_chronic = chronic;
    if (!x->s.named_step) x->s.named_step = step;
    if (chronic && !x->s.chronic_step) x->s.chronic_step = step;
    x->is_news = !x->told_named || (chronic && !x->told_chronic);
    x->told_named = true;
    x->told_chronic |= chronic;
}

static void add_to(const straggler_watch *w, straggler_subject *x, const straggler_charge *c,
                   double threshold, uint64_t step)
{
    const bool late = c->share >= LEAST_SHARE, slow = c->share >= threshold;
    x->share = c->share;
    x->is_news = false;
    x->judged++;
    x->late[1] = x->late[1] << 1 | x->late[0] >> 63;
    x->late[0] = x->late[0] << 1 | late;
    x->slow = x->slow << 1 | slow;
    if (late) {
        x->recent_step[x->recents % RECENT] = x->judged;
        x->recent[x->recents++ % RECENT] = *c;
        x->late_steps += w->gathered;
        x->late_ns += c->wait_ns;
    }
    if (slow || (late && x->s.is_chronic)) {
        if (!x->s.first_step) x->s.first_step = step;
        x->s.last_step = step;
        x->s.slow_steps += w->gathered;
        x->s.lost_ns += c->wait_ns;
    }
    if (late || x->s.is_chronic) judge(w, x, threshold, step);
    // Of a chronic one every late step counts, also those before it was seen.
    if (!x->s.chronic_step) return;
    x->s.slow_steps = x->late_steps;
    x->s.lost_ns = x->late_ns;
}

static void judge_all(straggler_watch *w, uint64_t number)
{
    w->news = 0;
    if (++w->steps > 2) add_change(w);
    // The second one has no change yet, and nothing is slow.
    const double threshold = w->steps > 2 ? threshold_of(w) : INFINITY;
    for (int i = 0; i < w->subjects; i++) add_to(w, &w->subject[i], &w->sum[i], threshold, number);
    w->gathered = 0;
    w->gathered_ns = 0;
}

// Adds the charges of a step to those of the short steps before it. Returns whether they are long enough to be judged.
static bool gather(straggler_watch *w)
{
    w->gathered_ns += straggler_charger_step_ns(w->charger);
    w->gathered++;
    for (int i = 0; i < w->subjects; i++) {
        straggler_charge *sum = &w->sum[i];
        if (w->gathered == 1) *sum = (straggler_charge){0};
        sum->wait_ns += w->charge[i].wait_ns;
        for (int c = 0; c < STRAGGLER_CAUSES; c++) sum->excess_ns[c] += w->charge[i].excess_ns[c];
        sum->share = (double)sum->wait_ns / w->gathered_ns;
    }
    return w->gathered_ns >= LEAST_NS;
}

void straggler_watch_add(straggler_watch *w, const spans_step *step)
{
    uint64_t number;
    w->news = w->subjects;
    if (!straggler_charge_step(w->charger, step, w->charge, &number)) return;
    // The first step is not judged.
    if (w->steps == 0)
        w->steps = 1;
    else if (gather(w))
        judge_all(w, number);
}

// ---- The watch

// The smallest number of late steps, of so many, that has a chance below `level`, where each has the chance `p`.
static int needed_of(int steps, double p, double level)
{
    double tail = 0, ways = 1;
    int k = steps;
    for (; k > 0; k--) {
        tail += ways * pow(p, k) * pow(1 - p, steps - k);
        if (tail > level) break;
        ways *= (double)k / (steps - k + 1);
    }
    const int often = (int)ceil(LEAST_OFTEN * steps);
    return k + 1 > often ? k + 1 : often;
}

// `among`: of how many the last one is drawn.
static void set_needed(straggler_subject *x, int among)
{
    const double p = among > 1 ? 1.0 / among : 0.5;
    for (int i = 0; i < SPANS_OF_STEPS; i++)
        x->needed[i] = needed_of(STEPS_LOOKED_AT[i], p, CHANCE * p);
}

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
    TRY(alloc_zeroed(&w->sum, (size_t)w->subjects, sizeof *w->sum, what, e));
    for (int i = 0; i < w->subjects; i++) {
        w->subject[i].s.rank = i < ranks ? i : -1;
        w->subject[i].stage = i < ranks ? locations[i].stage : -1;
        w->subject[i].has_links = w->subjects > ranks + 1 || (i < ranks && locations[i].has_device);
        w->subject[i].s.host = i < ranks ? locations[i].host : i - ranks;
        set_needed(&w->subject[i], i < ranks
                                       ? straggler_charger_members(w->charger, locations[i].stage)
                                       : w->subjects - ranks);
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
    free(w->sum);
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
