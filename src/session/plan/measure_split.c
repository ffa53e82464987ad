// measure_split.c -- see measure_split.h.
#include "session/plan/measure_split.h"

#include "base/alloc.h"

#include <stdlib.h>

static const double SECONDS = 1; // long enough that other programs take their usual share of a core
static const double WORTH = 1 / 1.02; // the time of a step by that of an even one

// Sets speed[ranks of c] to the rates of all ranks, which measure them at the same time.
static status measure_all(dtype type, device *d, comm *c, double *speed, err *e)
{
    status result = OK;
    const size_t bytes = (size_t)c->size * sizeof *speed;
    double *shared = NULL;
    void *memory = NULL;
    device_stream *on = NULL;
    TRY(device_alloc(d, MEMORY_DEVICE, bytes, &memory, e));
    TRY(d->ops->stream_open(d, STREAM_COMPUTE, false, &on, e));
    TRY(comm_barrier(c, e));
    shared = memory;
    speed[c->rank] = device_matmul_mean(d, type, SECONDS);
    d->ops->copy(on, shared + c->rank, speed + c->rank, sizeof *speed);
    TRY(comm_all_gather(c, shared + c->rank, shared, 1, F64, on, e));
    d->ops->copy(on, speed, shared, bytes);
    TRY(d->ops->sync(on, e));
    for (int r = 0; r < c->size; r++)
        if (speed[r] <= 0)
            FAIL(
                E_IO,
                "parallel.batch_split: rank %d could not measure its speed; valid: even, or a list",
                r);
done:
    if (on) d->ops->stream_close(on);
    device_release(d, MEMORY_DEVICE, memory, bytes);
    return result;
}

// The speed of each data-parallel rank is that of the slowest of its ranks.
static void take_slowest(const mesh *m, const double *of_rank, double *out)
{
    for (int r = 0; r < m->ranks; r++) {
        double *const speed = &out[mesh_data_rank(m, r)];
        if (*speed == 0 || of_rank[r] < *speed) *speed = of_rank[r];
    }
}

static void describe(const batch_split_choice *c, const int *of, double time, text *out)
{
    enum { SHOWN = 16 };
    text_add(out, "parallel.batch_split measured ");
    for (int i = 0; i < c->ranks && i < SHOWN; i++)
        text_addf(out, i ? ", %.1f" : "%.1f", c->speed[i] * 1e-9);
    text_addf(out, "%s GFLOP/s on the data-parallel ranks; micro-batches of [",
              c->ranks > SHOWN ? ", …" : "");
    for (int i = 0; i < c->ranks && i < SHOWN; i++) text_addf(out, i ? ", %d" : "%d", of[i]);
    text_addf(out, "%s] sequences", c->ranks > SHOWN ? ", …" : "");
    if (time < 1)
        text_addf(out, ": by these speeds a step is %.2f times as fast as an even one", 1 / time);
    else
        text_add(out, ": an even split is as fast");
}

status session_measure_split(const job *j, const mesh *m, device *d, comm *c, int **of, char **note,
                             err *e)
{
    status result = OK;
    static const char WHAT[] = "the split of the batch";
    const int ranks = mesh_data_ranks(m), pp = m->size[AXIS_PP];
    const bool in_groups = pp > 1 && j->strategy.pipeline.schedule == PIPE_INTERLEAVED;
    double *of_rank = NULL, *speed = NULL;
    text line = {0};
    int *split = NULL;
    TRY(alloc_zeroed(&of_rank, (size_t)m->ranks, sizeof *of_rank, WHAT, e));
    TRY(alloc_zeroed(&speed, (size_t)ranks, sizeof *speed, WHAT, e));
    TRY(alloc_zeroed(&split, (size_t)ranks, sizeof *split, WHAT, e));
    TRY(measure_all(job_dtype(j), d, c, of_rank, e));
    take_slowest(m, of_rank, speed);
    const batch_split_choice choice = {.speed = speed,
                                       .ranks = ranks,
                                       .global_batch = j->train.global_batch,
                                       .most = j->train.micro_batch,
                                       .multiple = in_groups ? pp : 1};
    double time = batch_split_choose(&choice, split);
    if (time == 0 || time > WORTH) {
        for (int i = 0; i < ranks; i++) split[i] = (int)j->train.micro_batch;
        time = 1;
    }
    describe(&choice, split, time, &line);
    TRY(text_take(&line, note, e));
    *of = split;
    split = NULL;
done:
    text_clear(&line);
    free(of_rank);
    free(speed);
    free(split);
    return result;
}
