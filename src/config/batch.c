// batch.c -- the batch rule: global_batch = micro_batch * accumulation * ranks; and the number of
// steps of a run. Called by job_open for what is known then, and by the trainer once ranks, memory
// and data are. Does not know what fits: its caller gives the limit.
#include "config/private.h"

#include "comm/world.h"

#include <math.h>

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// The sequences that one forward pass of all ranks takes at least.
static int64_t unit_of(const job *j, int ranks)
{
    return ranks * (j->train.micro_batch ? j->train.micro_batch : 1);
}

int batch_auto_ranks(const job *j, int cores)
{
    int most = (int)min_of(cores, WORLD_RANKS);
    for (int ranks = most; ranks > 1; ranks--)
        if (j->train.global_batch % unit_of(j, ranks) == 0) return ranks;
    return 1;
}

enum { LISTED = 12 };

// The divisors of `number`, the LISTED smallest.
static void list_divisors(int64_t number, text *out)
{
    int listed = 0;
    for (int64_t d = 1; d <= min_of(number, 4096) && listed <= LISTED; d++) {
        if (number % d) continue;
        if (listed == LISTED)
            text_add(out, ", …");
        else
            text_addf(out, listed ? ", %lld" : "%lld", (long long)d);
        listed++;
    }
}

status batch_check(const job *j, int ranks, err *e)
{
    int64_t batch = j->train.global_batch, unit = unit_of(j, ranks), below = batch / unit * unit;
    text others = {0}, nearest = {0}, with = {0};
    if (batch % unit == 0) return OK;
    int64_t micro = j->train.micro_batch ? j->train.micro_batch : 1;
    bool divides = batch % micro == 0;
    text_addf(&others, "valid %s for %lld: ", divides ? "launch.ranks" : "train.micro_batch",
              (long long)batch);
    list_divisors(divides ? batch / micro : batch, &others);
    if (below) text_addf(&nearest, "%lld and ", (long long)below);
    text_addf(&nearest, "%lld", (long long)(below + unit));
    if (j->train.micro_batch)
        text_addf(&with, " x micro_batch %lld = %lld", (long long)j->train.micro_batch,
                  (long long)unit);
    err_set(e, E_USAGE,
            "train.global_batch: found %lld, not a multiple of %d rank%s%s; nearest valid: %s; %s",
            (long long)batch, ranks, ranks == 1 ? "" : "s", with.at ? with.at : "", nearest.at,
            others.at);
    text_clear(&others);
    text_clear(&nearest);
    text_clear(&with);
    return E_USAGE;
}

status job_solve_batch(job *j, int ranks, int64_t micro_limit, err *e)
{
    status result = OK;
    TRY(batch_check(j, ranks, e));
    if (j->train.micro_batch) goto done;
    int64_t share = j->train.global_batch / ranks;
    int64_t micro = micro_limit > 0 ? min_of(share, micro_limit) : share;
    while (share % micro) micro--;
    j->train.micro_batch = micro;
done:
    return result;
}

status job_resolve_steps(job *j, uint64_t samples, err *e)
{
    status result = OK;
    double batch = (double)j->train.global_batch, steps = (double)j->train.steps;
    if (j->train.epochs > 0) steps = j->train.epochs * (double)samples / batch;
    if (j->train.tokens) steps = (double)j->train.tokens / (batch * (double)j->data.seq_len);
    // The last bits of 0.1 * 10 must not cost a step.
    steps = ceil(steps - 1e-9 * steps);
    if (steps > 1e15)
        FAIL(E_USAGE, "%s: makes %.3g steps; valid: up to 1e15",
             j->train.epochs > 0 ? "train.epochs" : "train.tokens", steps);
    j->train.steps = steps < 1 ? 1 : (int64_t)steps;
    j->lr.total_steps = j->train.steps;
done:
    return result;
}
