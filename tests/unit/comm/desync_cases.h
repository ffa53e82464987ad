// desync_cases.h -- ranks that call different collectives on purpose, for the tests of checks.desync, and what each of
// them says.
#ifndef TESTS_COMM_DESYNC_CASES_H
#define TESTS_COMM_DESYNC_CASES_H

#include "ranks.h"

static void describe(uint64_t what, char *out, size_t room)
{
    snprintf(out, room, "REDUCE_GRAD bucket %d", (int)what);
}

static void show_activity(const test_rank *s, uint64_t what)
{
    comm_activity *a =
        comm_watchdog_activity(s->world->watchdog, s->comm->rank - s->world->first_rank);
    atomic_store(&a->describe, describe);
    comm_activity_set(a, what);
}

static status sum(const test_rank *s, comm *c, err *e)
{
    float x = 1;
    const status result = comm_all_reduce(c, &x, 1, F32, REDUCE_SUM, s->stream, e);
    return result == OK ? s->device->ops->sync(s->stream, e) : result;
}

typedef enum desync_how {
    WRONG_CALL,
    WRONG_COUNT,
    WRONG_TYPE,
    WRONG_OP,
    WRONG_ROOT,
    WRONG_ORDER
} desync_how;

typedef struct desync {
    desync_how how;
    const char *low, *high; // what ranks 1 and 2 say; the others call as rank 1 does
} desync;

// Rank 2 differs. Both issue to the group of ranks 1 and 2, in which sums went well before.
static status desync_run(const test_rank *s, const desync *d, err *e)
{
    status result = OK;
    const bool odd = s->comm->rank == 2;
    const int differs = odd ? (int)d->how : -1;
    double x[16] = {0}, y[16];
    comm *pair = NULL;
    TRY(comm_split(s->comm, s->comm->rank > 0, s->comm->rank, &pair, e));
    comm_set_label(pair, "dp_shard");
    for (int i = 0; i < 70; i++) TRY(sum(s, pair, e));
    if (s->comm->rank == 0) goto done;
    show_activity(s, (uint64_t)s->comm->rank + 2);
    if (differs == WRONG_CALL)
        TRY(comm_all_gather(pair, x, y, 4, F32, s->stream, e));
    else if (differs == WRONG_ORDER)
        TRY(comm_barrier(pair, e));
    else if (d->how == WRONG_ROOT)
        TRY(comm_broadcast(pair, x, 8, odd, s->stream, e));
    else
        TRY(comm_all_reduce(pair, x, differs == WRONG_COUNT ? 3 : 4,
                            differs == WRONG_TYPE ? F64 : F32,
                            differs == WRONG_OP ? REDUCE_MAX : REDUCE_SUM, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
done:
    comm_close(pair);
    return result;
}

static const char CALLS_4[] = "calls all_reduce of 4 fp32 (sum)";
static const desync DESYNCS[] = {
    {WRONG_CALL, CALLS_4, "calls all_gather of 4 fp32"},
    {WRONG_COUNT, CALLS_4, "calls all_reduce of 3 fp32 (sum)"},
    {WRONG_TYPE, CALLS_4, "calls all_reduce of 4 fp64 (sum)"},
    {WRONG_OP, CALLS_4, "calls all_reduce of 4 fp32 (max)"},
    {WRONG_ROOT, "calls broadcast of 8 bytes from 0", "calls broadcast of 8 bytes from 1"},
    {WRONG_ORDER, CALLS_4, "calls barrier"},
};

#endif
