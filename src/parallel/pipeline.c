// pipeline.c -- the order in which a pipeline stage runs chunks and micro-batches, the bubble that
// follows from it, and the division of a model into chunks. Called by plan.c (the division) and
// schedule.c (the order). Deliberately knows no messages and no memory.
#include "parallel/pipeline.h"

#include "base/alloc.h"
#include "base/size.h"

#include <math.h>
#include <stdlib.h>

// The arguments of a generator. `chunks` are those of one stage.
typedef struct pipeline_shape {
    int stages, chunks, micros, stage;
} pipeline_shape;

static void add(pipeline_list *l, pipeline_pass kind, int micro, int chunk)
{
    l->ops[l->count++] = (pipeline_op){.kind = kind, .micro = micro, .chunk = chunk};
}

// The only stage never waits for another one, so it saves the activations of one micro-batch at a
// time.
static void make_alone(const pipeline_shape *x, pipeline_list *out)
{
    for (int m = 0; m < x->micros; m++) {
        for (int c = 0; c < x->chunks; c++) add(out, PIPE_FORWARD, m, c);
        for (int c = x->chunks - 1; c >= 0; c--) add(out, PIPE_BACKWARD, m, c);
    }
}

// All forwards, then all backwards (Huang et al. 2019, "GPipe", §2.3).
static void make_gpipe(const pipeline_shape *x, pipeline_list *out)
{
    for (int m = 0; m < x->micros; m++) add(out, PIPE_FORWARD, m, 0);
    for (int m = 0; m < x->micros; m++) add(out, PIPE_BACKWARD, m, 0);
}

// As many forwards as there are later stages, then one forward and one backward in turn (Narayanan
// et al. 2019, "PipeDream", §3.2; with a flush at the step's end).
static void make_1f1b(const pipeline_shape *x, pipeline_list *out)
{
    int ahead = (int)size_min(x->stages - x->stage - 1, x->micros);
    for (int m = 0; m < ahead; m++) add(out, PIPE_FORWARD, m, 0);
    for (int m = 0; m < x->micros; m++) {
        if (m + ahead < x->micros) add(out, PIPE_FORWARD, m + ahead, 0);
        add(out, PIPE_BACKWARD, m, 0);
    }
}

// Adds the k-th pass of a stage. `stages` micro-batches form a group, and a group runs through one
// chunk after the other.
static void add_interleaved(const pipeline_shape *x, pipeline_pass kind, int k, pipeline_list *out)
{
    int group = x->stages * x->chunks, chunk = k % group / x->stages;
    if (kind != PIPE_FORWARD) chunk = x->chunks - 1 - chunk;
    add(out, kind, k / group * x->stages + k % x->stages, chunk);
}

// Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM", §2.2.
static void make_interleaved(const pipeline_shape *x, pipeline_list *out)
{
    int passes = x->micros * x->chunks;
    int ahead = (x->stages - x->stage - 1) * 2 + (x->chunks - 1) * x->stages;
    ahead = (int)size_min(ahead, passes);
    for (int k = 0; k < ahead; k++) add_interleaved(x, PIPE_FORWARD, k, out);
    for (int k = 0; k < passes; k++) {
        if (k + ahead < passes) add_interleaved(x, PIPE_FORWARD, k + ahead, out);
        add_interleaved(x, PIPE_BACKWARD, k, out);
    }
}

// 1F1B with separate dgrad and wgrad. dgrad runs where 1F1B has its backward. wgrad runs as many
// micro-batches later as there are earlier stages. So a stage saves the activations of at most
// `stages` micro-batches, which is 1F1B's peak, and still has wgrads to run while the last dgrads
// pass to the first stage (Qi et al. 2023, "Zero Bubble Pipeline Parallelism", §2.1, ZB-H1).
static void make_zb(const pipeline_shape *x, pipeline_list *out)
{
    int ahead = (int)size_min(x->stages - x->stage - 1, x->micros), late = x->stage, done = 0;
    for (int m = 0; m < ahead; m++) add(out, PIPE_FORWARD, m, 0);
    for (int m = 0; m < x->micros; m++) {
        if (m + ahead < x->micros) add(out, PIPE_FORWARD, m + ahead, 0);
        add(out, PIPE_BACKWARD_INPUT, m, 0);
        if (m >= late) add(out, PIPE_BACKWARD_WEIGHT, done++, 0);
    }
    while (done < x->micros) add(out, PIPE_BACKWARD_WEIGHT, done++, 0);
}

typedef void pipeline_generator(const pipeline_shape *x, pipeline_list *out);

static pipeline_generator *const GENERATORS[PIPE_SCHEDULES] = {
    [PIPE_GPIPE] = make_gpipe,
    [PIPE_1F1B] = make_1f1b,
    [PIPE_INTERLEAVED] = make_interleaved,
    [PIPE_ZB] = make_zb,
};

const char *const PIPELINE_SCHEDULE_NAMES[PIPE_SCHEDULES + 1] = {[PIPE_GPIPE] = "gpipe",
                                                                 [PIPE_1F1B] = "1f1b",
                                                                 [PIPE_INTERLEAVED] = "interleaved",
                                                                 [PIPE_ZB] = "zb"};

const char *pipeline_schedule_name(pipeline_schedule s)
{
    return PIPELINE_SCHEDULE_NAMES[s];
}

static status check_shape(pipeline_schedule s, const pipeline_shape *x, err *e)
{
    const char *name = pipeline_schedule_name(s);
    if (x->stages < 1 || x->micros < 1 || x->stage < 0 || x->stage >= x->stages)
        return err_set(e, E_USAGE,
                       "parallel.pp_schedule %s: stage %d of %d with %d micro-batches; valid: at "
                       "least one of each, and a stage below their number",
                       name, x->stage, x->stages, x->micros);
    if (s != PIPE_INTERLEAVED && x->chunks != 1)
        return err_set(e, E_USAGE,
                       "parallel.pp_schedule %s: found parallel.virtual_stages %d; valid: 1, or "
                       "pp_schedule interleaved",
                       name, x->chunks);
    if (s == PIPE_INTERLEAVED && x->chunks < 2)
        return err_set(e, E_USAGE,
                       "parallel.pp_schedule interleaved: found parallel.virtual_stages %d; "
                       "valid: 2 or more, or pp_schedule 1f1b",
                       x->chunks);
    if (s == PIPE_INTERLEAVED && x->micros % x->stages != 0)
        return err_set(e, E_USAGE,
                       "parallel.pp_schedule interleaved: found %d micro-batches a step for %d "
                       "stages; valid: a multiple of %d",
                       x->micros, x->stages, x->stages);
    return OK;
}

status pipeline_make(pipeline_schedule s, int stages, int virtual_stages, int micros, int stage,
                     pipeline_list *out, err *e)
{
    status result = OK;
    const pipeline_shape x = {stages, virtual_stages, micros, stage};
    *out = (pipeline_list){0};
    TRY(check_shape(s, &x, e));
    size_t passes = (size_t)micros * (size_t)virtual_stages;
    // at most forward, dgrad and wgrad
    TRY(alloc_zeroed(&out->ops, passes, 3 * sizeof *out->ops, "the passes of the pipeline", e));
    if (stages == 1)
        make_alone(&x, out);
    else
        GENERATORS[s](&x, out);
done:
    return result;
}

void pipeline_list_clear(pipeline_list *l)
{
    free(l->ops);
    *l = (pipeline_list){0};
}

double pipeline_bubble(pipeline_schedule s, int stages, int virtual_stages, int micros)
{
    double p = stages, v = virtual_stages, m = micros;
    if (stages == 1) return 0;
    if (s == PIPE_INTERLEAVED) return (p - 1) / (v * m + p - 1);
    if (s != PIPE_ZB) return (p - 1) / (m + p - 1);
    // In units of one forward, dgrad or wgrad. Every stage waits while the first forward passes to
    // the last stage. With fewer micro-batches than stages the first gradient is late by the
    // difference.
    double idle = p - 1 + (double)size_max(stages - micros, 0);
    return idle / (3 * m + idle);
}

// A dynamic program over the number of chunks k. `before[n]` and `now[n]` are the costs of the best
// division of the first n blocks into k-1 and into k chunks; -1 where no division keeps the limit.
typedef struct pipeline_division {
    double *sum;          // [blocks+1] cost of the first i blocks
    double *before, *now; // [blocks+1]
    int blocks, chunks;
    double limit; // largest cost of a chunk
    int *start;   // [chunks+1][blocks+1] the first block of chunk k, if k chunks hold n blocks
} pipeline_division;

static double chunk_cost(const pipeline_division *t, int from, int to)
{
    return t->sum[to] - t->sum[from];
}

// The most blocks that the first k chunks can have.
static int last_of(const pipeline_division *t, int k)
{
    return t->blocks - (t->chunks - k);
}

static void next_row(pipeline_division *t)
{
    double *swap = t->before;
    t->before = t->now;
    t->now = swap;
}

// The smallest possible cost of the largest chunk. A later start of the last chunk makes the chunks
// before it cost more and the last one less; the best start is where the two costs meet.
static double least_largest(pipeline_division *t)
{
    for (int n = 1; n <= t->blocks; n++) t->now[n] = chunk_cost(t, 0, n);
    for (int k = 2; k <= t->chunks; k++) {
        next_row(t);
        for (int n = k, i = k - 1; n <= last_of(t, k); n++) {
            while (i < n - 1 && t->before[i] < chunk_cost(t, i, n)) i++;
            double cost = fmax(t->before[i], chunk_cost(t, i, n));
            if (i > k - 1) cost = fmin(cost, fmax(t->before[i - 1], chunk_cost(t, i - 1, n)));
            t->now[n] = cost;
        }
    }
    return t->now[t->blocks];
}

// The best first block of the last of k chunks of n blocks, from `low` to `high`; -1 where none
// keeps the limit.
static int best_start(pipeline_division *t, int k, int n, int low, int high)
{
    int *start = &t->start[(size_t)k * ((size_t)t->blocks + 1) + (size_t)n];
    t->now[n] = -1;
    for (int i = low; i <= size_min(high, n - 1); i++) {
        const double last = chunk_cost(t, i, n);
        if (t->before[i] < 0 || last > t->limit) continue;
        const double cost = t->before[i] + last * last;
        if (t->now[n] >= 0 && cost >= t->now[n]) continue;
        t->now[n] = cost;
        *start = i;
    }
    return t->now[n] < 0 ? -1 : *start;
}

// Fills now[from … to], whose best starts lie from `low` to `high`. The best start never moves to
// an earlier block as n grows, so the middle n halves the search. Where no start keeps the limit,
// none does for a larger n.
static void divide_rows(pipeline_division *t, int k, int from, int to, int low, int high)
{
    while (from <= to) {
        const int middle = from + (to - from) / 2;
        const int start = best_start(t, k, middle, low, high);
        if (start < 0) {
            for (int n = middle; n <= to; n++) t->now[n] = -1;
            to = middle - 1;
        } else {
            divide_rows(t, k, from, middle - 1, low, start);
            from = middle + 1;
            low = start;
        }
    }
}

// The smallest sum of squares of chunks that keep the limit. Among the divisions with the same
// largest chunk it prefers even ones.
static void most_even(pipeline_division *t)
{
    for (int n = 1; n <= t->blocks; n++) {
        const double last = chunk_cost(t, 0, n);
        t->now[n] = last > t->limit ? -1 : last * last;
    }
    for (int k = 2; k <= t->chunks; k++) {
        next_row(t);
        divide_rows(t, k, k, last_of(t, k), k - 1, last_of(t, k) - 1);
    }
}

status pipeline_split(const double *cost, int blocks, int chunks, int *first, err *e)
{
    status result = OK;
    pipeline_division t = {.blocks = blocks, .chunks = chunks};
    if (chunks < 1 || blocks < chunks)
        FAIL(E_USAGE,
             "parallel.pp x parallel.virtual_stages: found %d model chunks for %d blocks; "
             "valid: 1 to %d",
             chunks, blocks, blocks);
    const size_t row = (size_t)blocks + 1;
    TRY(alloc_zeroed(&t.sum, row, sizeof *t.sum, "the split of the blocks", e));
    TRY(alloc_zeroed(&t.before, row, sizeof *t.before, "the split of the blocks", e));
    TRY(alloc_zeroed(&t.now, row, sizeof *t.now, "the split of the blocks", e));
    TRY(alloc_zeroed(&t.start, row * ((size_t)chunks + 1), sizeof *t.start,
                     "the split of the blocks", e));
    for (int b = 0; b < blocks; b++) t.sum[b + 1] = t.sum[b] + cost[b];
    t.limit = least_largest(&t);
    most_even(&t);
    first[chunks] = blocks;
    first[0] = 0;
    for (int k = chunks; k > 1; k--) first[k - 1] = t.start[(size_t)k * row + (size_t)first[k]];
done:
    free(t.start);
    free(t.now);
    free(t.before);
    free(t.sum);
    return result;
}
