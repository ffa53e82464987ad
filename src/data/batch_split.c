// batch_split.c -- see batch_split.h.
#include "data/batch_split.h"

#include <stdbool.h>

int64_t batch_split_of(const batch_split *s, int rank)
{
    return s->of ? s->of[rank] : s->each;
}

int64_t batch_split_before(const batch_split *s, int rank)
{
    int64_t sum = 0;
    if (!s->of) return s->each * rank;
    for (int i = 0; i < rank; i++) sum += s->of[i];
    return sum;
}

int batch_split_largest(const batch_split *s)
{
    int found = 0;
    for (int i = 1; s->of && i < s->ranks; i++)
        if (s->of[i] > s->of[found]) found = i;
    return found;
}

int batch_split_smallest(const batch_split *s)
{
    int found = 0;
    for (int i = 1; s->of && i < s->ranks; i++)
        if (s->of[i] < s->of[found]) found = i;
    return found;
}

// ---- Choosing a split

// The rank that would end first with one sequence more; -1: every rank has the most.
static int next_rank(const batch_split_choice *c, const int *of)
{
    int found = -1;
    for (int i = 0; i < c->ranks; i++) {
        if (of[i] >= c->most) continue;
        if (found < 0 || (of[i] + 1) / c->speed[i] < (of[found] + 1) / c->speed[found]) found = i;
    }
    return found;
}

// Gives each rank the whole sequences of its share of `sum`, but at least one. Returns how many are left; negative:
// the ranks that get one have taken too many.
static int64_t deal_shares(const batch_split_choice *c, int64_t sum, int *of)
{
    double all = 0;
    int64_t left = sum;
    for (int i = 0; i < c->ranks; i++) all += c->speed[i];
    for (int i = 0; i < c->ranks; i++) {
        const int64_t share = (int64_t)((double)sum * c->speed[i] / all);
        of[i] = (int)(share < 1 ? 1 : share > c->most ? c->most : share);
        left -= of[i];
    }
    return left;
}

// Gives `sum` sequences to the ranks, the last ones one by one to the rank that ends first with one more, which
// makes the time of the slowest rank least. Returns that time per sequence.
static double deal(const batch_split_choice *c, int64_t sum, int *of)
{
    double slowest = 0;
    int64_t left = deal_shares(c, sum, of);
    for (int i = 0; left < 0 && i < c->ranks; i++) of[i] = 1;
    if (left < 0) left = sum - c->ranks;
    for (; left > 0; left--) of[next_rank(c, of)]++;
    for (int i = 0; i < c->ranks; i++)
        if (of[i] / c->speed[i] > slowest) slowest = of[i] / c->speed[i];
    return slowest / (double)sum;
}

static bool divides(const batch_split_choice *c, int64_t sum)
{
    return c->global_batch % sum == 0 && c->global_batch / sum % c->multiple == 0;
}

double batch_split_choose(const batch_split_choice *c, int *of)
{
    const double least_gain = 1e-9; // so that rounding errors choose no smaller micro-batches
    const int64_t most = c->most * c->ranks;
    int64_t best = 0, sum = most < c->global_batch ? most : c->global_batch;
    double slowest = c->speed[0], time = 0;
    for (int i = 1; i < c->ranks; i++)
        if (c->speed[i] < slowest) slowest = c->speed[i];
    for (int tried = 0; sum >= c->ranks && tried < BATCH_SPLIT_SUMS; sum--, tried++) {
        if (!divides(c, sum)) continue;
        const double t = deal(c, sum, of);
        if (best && t >= time * (1 - least_gain)) continue;
        best = sum, time = t;
    }
    if (!best) return 0;
    (void)deal(c, best, of);
    return time * slowest * c->ranks;
}
