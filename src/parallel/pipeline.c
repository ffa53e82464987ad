// pipeline.c -- in which order a pipeline stage works through chunks and micro-batches, the idle
// share that follows, and where a model is cut. Called by plan.c (the cut) and schedule.c (the
// order); verify.c proves the lists, simulate.c times them. Deliberately knows no blocks of a model,
// no messages and no memory.
#include "parallel/pipeline.h"

#include <math.h>
#include <stdlib.h>

// What a generator is asked for.
typedef struct shape {
    int stages, chunks, micros, stage;
} shape;

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int most(int a, int b)
{
    return a > b ? a : b;
}

static void add(pipeline_list *l, pipeline_pass kind, int micro, int chunk)
{
    l->at[l->count++] = (pipeline_op){kind, micro, chunk};
}

// One stage: nobody waits, so the activations of one micro-batch are all that is ever kept.
static void make_alone(const shape *x, pipeline_list *out)
{
    for (int m = 0; m < x->micros; m++) {
        for (int c = 0; c < x->chunks; c++) add(out, PIPE_FORWARD, m, c);
        for (int c = x->chunks - 1; c >= 0; c--) add(out, PIPE_BACKWARD, m, c);
    }
}

// All forwards, then all backwards (Huang et al. 2019, "GPipe", §2.3).
static void make_gpipe(const shape *x, pipeline_list *out)
{
    for (int m = 0; m < x->micros; m++) add(out, PIPE_FORWARD, m, 0);
    for (int m = 0; m < x->micros; m++) add(out, PIPE_BACKWARD, m, 0);
}

// As many forwards as there are stages behind this one, then one forward, one backward (Narayanan
// et al. 2019, "PipeDream", §3.2; with a flush at the step's end).
static void make_1f1b(const shape *x, pipeline_list *out)
{
    int ahead = least(x->stages - x->stage - 1, x->micros);
    for (int m = 0; m < ahead; m++) add(out, PIPE_FORWARD, m, 0);
    for (int m = 0; m < x->micros; m++) {
        if (m + ahead < x->micros) add(out, PIPE_FORWARD, m + ahead, 0);
        add(out, PIPE_BACKWARD, m, 0);
    }
}

// The k-th pass of a stage: micro-batches go through in groups of as many as there are stages, a
// group through chunk after chunk.
static void add_interleaved(const shape *x, pipeline_pass kind, int k, pipeline_list *out)
{
    int group = x->stages * x->chunks, chunk = k % group / x->stages;
    if (kind != PIPE_FORWARD) chunk = x->chunks - 1 - chunk;
    add(out, kind, k / group * x->stages + k % x->stages, chunk);
}

// Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM", §2.2.
static void make_interleaved(const shape *x, pipeline_list *out)
{
    int passes = x->micros * x->chunks;
    int ahead = (x->stages - x->stage - 1) * 2 + (x->chunks - 1) * x->stages;
    ahead = least(ahead, passes);
    for (int k = 0; k < ahead; k++) add_interleaved(x, PIPE_FORWARD, k, out);
    for (int k = 0; k < passes; k++) {
        if (k + ahead < passes) add_interleaved(x, PIPE_FORWARD, k + ahead, out);
        add_interleaved(x, PIPE_BACKWARD, k, out);
    }
}

// 1F1B with the backward in halves: the input half when 1F1B has its backward, the weight half as
// many micro-batches later as there are stages before this one. So a stage keeps the activations of
// at most `stages` micro-batches, which is 1F1B's peak, and has weight halves left to do while the
// last input halves travel to the first stage (Qi et al. 2023, "Zero Bubble Pipeline Parallelism",
// §2.1, ZB-H1).
static void make_zb(const shape *x, pipeline_list *out)
{
    int ahead = least(x->stages - x->stage - 1, x->micros), late = x->stage, done = 0;
    for (int m = 0; m < ahead; m++) add(out, PIPE_FORWARD, m, 0);
    for (int m = 0; m < x->micros; m++) {
        if (m + ahead < x->micros) add(out, PIPE_FORWARD, m + ahead, 0);
        add(out, PIPE_BACKWARD_INPUT, m, 0);
        if (m >= late) add(out, PIPE_BACKWARD_WEIGHT, done++, 0);
    }
    while (done < x->micros) add(out, PIPE_BACKWARD_WEIGHT, done++, 0);
}

static void (*const GENERATORS[PIPE_SCHEDULES])(const shape *x, pipeline_list *out) = {
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

static status check_shape(pipeline_schedule s, const shape *x, err *e)
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
    const shape x = {stages, virtual_stages, micros, stage};
    *out = (pipeline_list){0};
    TRY(check_shape(s, &x, e));
    size_t passes = (size_t)micros * (size_t)virtual_stages;
    out->at = calloc(passes, 3 * sizeof *out->at); // at most a forward and two halves
    if (!out->at) FAIL(E_IO, "no memory for the order of %zu passes of the pipeline", passes);
    if (stages == 1)
        make_alone(&x, out);
    else
        GENERATORS[s](&x, out);
done:
    return result;
}

void pipeline_list_clear(pipeline_list *l)
{
    free(l->at);
    *l = (pipeline_list){0};
}

double pipeline_bubble(pipeline_schedule s, int stages, int virtual_stages, int micros)
{
    double p = stages, v = virtual_stages, m = micros;
    if (stages == 1) return 0;
    if (s == PIPE_INTERLEAVED) return (p - 1) / (v * m + p - 1);
    if (s != PIPE_ZB) return (p - 1) / (m + p - 1);
    // In units of a half: no stage can do better than wait for the first forward to reach the last
    // stage. With fewer micro-batches than stages the first gradient is late by the difference.
    double idle = p - 1 + most(stages - micros, 0);
    return idle / (3 * m + idle);
}

// A dynamic programme over parts: `before` and `now` are the costs of dividing the first n blocks
// into one part less and into this many, -1 where no division keeps the limit.
typedef struct split {
    double *sum; // sum[i]: cost of the first i blocks
    double *before, *now;
    int blocks, parts;
    double limit; // of a part
    int *cut;     // [parts+1][blocks+1] where the last part begins
} split;

static double part_cost(const split *t, int from, int to)
{
    return t->sum[to] - t->sum[from];
}

// The last of the blocks that `k` of the parts can have.
static int last_of(const split *t, int k)
{
    return t->blocks - (t->parts - k);
}

static void next_row(split *t)
{
    double *swap = t->before;
    t->before = t->now;
    t->now = swap;
}

// The least that the largest part can cost. More blocks in front cost more, and leave a smaller
// last part: the best place is where both meet.
static double least_largest(split *t)
{
    for (int n = 1; n <= t->blocks; n++) t->now[n] = part_cost(t, 0, n);
    for (int k = 2; k <= t->parts; k++) {
        next_row(t);
        for (int n = k, i = k - 1; n <= last_of(t, k); n++) {
            while (i < n - 1 && t->before[i] < part_cost(t, i, n)) i++;
            double cost = fmax(t->before[i], part_cost(t, i, n));
            if (i > k - 1) cost = fmin(cost, fmax(t->before[i - 1], part_cost(t, i - 1, n)));
            t->now[n] = cost;
        }
    }
    return t->now[t->blocks];
}

// The best place for the last of k parts of n blocks, from `low` to `high`; -1: none keeps the
// limit.
static int best_cut(split *t, int k, int n, int low, int high)
{
    int *cut = &t->cut[(size_t)k * ((size_t)t->blocks + 1) + (size_t)n];
    t->now[n] = -1;
    for (int i = low; i <= least(high, n - 1); i++) {
        const double part = part_cost(t, i, n);
        if (t->before[i] < 0 || part > t->limit) continue;
        const double cost = t->before[i] + part * part;
        if (t->now[n] >= 0 && cost >= t->now[n]) continue;
        t->now[n] = cost;
        *cut = i;
    }
    return t->now[n] < 0 ? -1 : *cut;
}

// Costs for n from `from` to `to`, whose best places lie from `low` to `high`: the place of a
// larger n is never in front of that of a smaller one. Where no place keeps the limit, none does
// for a larger n.
static void split_rows(split *t, int k, int from, int to, int low, int high)
{
    while (from <= to) {
        const int middle = from + (to - from) / 2;
        const int place = best_cut(t, k, middle, low, high);
        if (place < 0) {
            for (int n = middle; n <= to; n++) t->now[n] = -1;
            to = middle - 1;
        } else {
            split_rows(t, k, from, middle - 1, low, place);
            from = middle + 1;
            low = place;
        }
    }
}

// The least sum of squares of parts that keep the limit: it prefers even divisions among those
// whose largest part is the same.
static void most_even(split *t)
{
    for (int n = 1; n <= t->blocks; n++) {
        const double part = part_cost(t, 0, n);
        t->now[n] = part > t->limit ? -1 : part * part;
    }
    for (int k = 2; k <= t->parts; k++) {
        next_row(t);
        split_rows(t, k, k, last_of(t, k), k - 1, last_of(t, k) - 1);
    }
}

status pipeline_split(const double *cost, int blocks, int parts, int *first, err *e)
{
    status result = OK;
    split t = {.blocks = blocks, .parts = parts};
    if (parts < 1 || blocks < parts)
        FAIL(E_USAGE,
             "parallel.pp x parallel.virtual_stages: found %d parts for a model of %d blocks; "
             "valid: 1 to %d",
             parts, blocks, blocks);
    const size_t wide = (size_t)blocks + 1;
    t.sum = calloc(wide, sizeof *t.sum);
    t.before = calloc(wide, sizeof *t.before);
    t.now = calloc(wide, sizeof *t.now);
    t.cut = calloc(wide * ((size_t)parts + 1), sizeof *t.cut);
    if (!t.sum || !t.before || !t.now || !t.cut)
        FAIL(E_IO, "no memory to divide %d blocks", blocks);
    for (int b = 0; b < blocks; b++) t.sum[b + 1] = t.sum[b] + cost[b];
    t.limit = least_largest(&t);
    most_even(&t);
    first[parts] = blocks;
    first[0] = 0;
    for (int k = parts; k > 1; k--) first[k - 1] = t.cut[(size_t)k * wide + (size_t)first[k]];
done:
    free(t.cut);
    free(t.now);
    free(t.before);
    free(t.sum);
    return result;
}
