// summing.h -- for tests of gradient reduction: runs steps of known gradients on every rank of a
// mesh. Ranks are threads. Each has the plan of a small model and issues the calls of its reductions as
// a trainer does.
#ifndef TRIREME_TESTS_TRAIN_SUMMING_H
#define TRIREME_TESTS_TRAIN_SUMMING_H

#include "base/rng.h"
#include "comm/registry.h"
#include "patience.h"
#include "train/calls.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/spy_device.h"

enum { SUM_RANKS = 8, SUM_PARAMS = 4, SUM_ELEMENTS = 10 * 8 + 16 * 5 + 4 * 4 + 9, SUM_STEPS = 8 };

// Rows and columns of each parameter. They make two buckets.
static const int64_t SUM_SHAPE[SUM_PARAMS][2] = {{10, 8}, {16, 5}, {4, 4}, {9, 1}};
static const char *const SUM_NAME[SUM_PARAMS] = {"a", "b", "c", "d"};

// Fills out [SUM_ELEMENTS], the gradients of all parameters in order. index: of the rank among those that
// sum them.
typedef void (*summand_fn)(uint64_t step, int index, float *out);

typedef struct summing {
    int replicate, shard, cp;  // ranks; 0: 1
    const char *outer, *inner; // policies; NULL: ddp
    // The inner policy of parameters b and d, which are then in a group of their own. "frozen" freezes
    // them: they have no sums. NULL: one group.
    const char *second;
    int micros; // 0: 1; every micro-batch has the step's gradients
    bool no_sync;
    dtype reduce;
    strategy_hook hook;
    double scale; // 0: 1
    summand_fn summand;
    int steps;
    int restart; // restarts the compressor before this step; 0: never
    bool spied;  // on spies (spy_device.h), whose kernels need workspaces
    // Results:
    float sum[SUM_RANKS][SUM_STEPS][SUM_ELEMENTS]; // the sums of each rank's shard
    bool own[SUM_RANKS][SUM_ELEMENTS];             // the elements of each rank's shard
    uint64_t counted, allocated;                   // planned and used bytes of rank 0
    bool was_opened;
} summing;

// One rank.
typedef struct summer {
    summing *x;
    world *world;
    int rank;
    plan *plan;
    device *device;
    device_stream *on;
    comm *all, *along[PROCESS_GROUPS];
    compressor *compressor;
    float *whole, *kept; // a slot for all buckets; gradients as they are kept
    size_t whole_bytes, kept_bytes;
    size_t bytes; // used by the device itself
    status result;
    err e;
} summer;

static void random_summand(uint64_t step, int index, float *out)
{
    rng_normals(rng_key_make(7, RNG_MOCK, step, (uint64_t)index), 0, SUM_ELEMENTS, out);
}

// Returns the first element of a parameter.
static int64_t sum_first(int param)
{
    int64_t offset = 0;
    for (int i = 0; i < param; i++) offset += SUM_SHAPE[i][0] * SUM_SHAPE[i][1];
    return offset;
}

static status summer_plan(summer *s, err *e)
{
    const summing *x = s->x;
    plan_param params[SUM_PARAMS];
    const plan_use use[SUM_PARAMS] = {{0, 0, 0}, {1, 0, 0}, {2, 1, 0}, {3, 1, 0}};
    const double cost[2] = {1, 1};
    const int size[AXES] = {1, x->replicate ? x->replicate : 1, x->shard ? x->shard : 1,
                            x->cp ? x->cp : 1, 1};
    const bool freezes = x->second && strcmp(x->second, "frozen") == 0;
    const char *const inner = x->inner ? x->inner : "ddp";
    plan_group_options group[2] = {
        {.dp = {.outer = *policy_find(x->outer ? x->outer : "ddp"), .inner = *policy_find(inner)},
         .over = POLICY_AXES,
         .compute = F32,
         .has_m = true,
         .has_v = true}};
    group[1] = group[0];
    group[1].frozen = freezes;
    group[1].dp.inner = *policy_find(x->second && !freezes ? x->second : inner);
    for (int i = 0; i < SUM_PARAMS; i++)
        params[i] = (plan_param){.name = SUM_NAME[i],
                                 .rows = SUM_SHAPE[i][0],
                                 .cols = SUM_SHAPE[i][1],
                                 .group = x->second && i % 2};
    plan_options o = {.rank = s->rank,
                      .strategy = {.no_sync = x->no_sync ? NO_SYNC_TRUE : NO_SYNC_FALSE,
                                   .reshard_after_forward = 1,
                                   .bucket_bytes = 1,
                                   .reduce_dtype = x->reduce,
                                   .hook = x->hook},
                      .group = group,
                      .groups = x->second ? 2 : 1,
                      .micros = x->micros ? x->micros : 1,
                      .cost = cost,
                      .blocks = 2,
                      .use = use,
                      .uses = SUM_PARAMS};
    status result = mesh_make(size, size[1] * size[2] * size[3], &o.mesh, e);
    return result == OK ? plan_make(&o, params, SUM_PARAMS, &s->plan, e) : result;
}

// Opens the plan's process groups.
static status summer_split(summer *s, err *e)
{
    status result = OK;
    const plan *p = s->plan;
    int group[PROCESS_GROUPS];
    const int groups = plan_process_groups(p, group);
    for (int i = 0; i < groups; i++)
        TRY(comm_split(s->all, mesh_group_first(&p->o.mesh, p->coord, (mesh_axes)group[i]),
                       plan_group_index(p, group[i]), &s->along[group[i]], e));
done:
    return result;
}

// The first element of a bucket in the slot of all buckets.
static int64_t whole_first(const plan *p, int bucket)
{
    int64_t first = 0;
    for (int b = 0; b < bucket; b++) first += p->bucket[b].count[LAYOUT_FULL];
    return first;
}

static status summer_open(summer *s, err *e)
{
    status result = OK;
    const plan *p;
    const device_options options = {.threads = 1};
    TRY(summer_plan(s, e));
    p = s->plan;
    TRY(device_open("cpu", &options, &s->device, e));
    if (s->x->spied) spy_watch(s->device);
    s->bytes = s->device->bytes_now;
    TRY(s->device->ops->stream_open(s->device, STREAM_COMM, false, &s->on, e));
    TRY(comm_open("auto", test_world_options(s->world, s->rank, s->device), &s->all, e));
    TRY(summer_split(s, e));
    s->whole_bytes = sizeof(float) * (size_t)whole_first(p, p->buckets);
    s->kept_bytes = p->array_bytes[ARRAY_GRADIENTS];
    TRY(comm_alloc(s->all, s->device, s->whole_bytes, (void **)&s->whole, e));
    TRY(comm_alloc(s->all, s->device, s->kept_bytes, (void **)&s->kept, e));
    const size_t before = s->device->bytes_now;
    const compress_options o = {.plan = p,
                                .device = s->device,
                                .comm = s->all,
                                .scale = s->x->scale != 0 ? s->x->scale : 1,
                                .seed = 11};
    TRY(compress_open(&o, &s->compressor, e));
    if (s->rank > 0) return OK;
    s->x->counted = compress_bytes(p, s->device->needs);
    s->x->allocated = s->device->bytes_now - before;
    s->x->was_opened = s->compressor != NULL;
done:
    return result;
}

// The addresses of a bucket in the slot and in the array.
static float *whole_of(const summer *s, int bucket)
{
    return s->whole + whole_first(s->plan, bucket);
}
static float *kept_of(const summer *s, int bucket)
{
    return s->kept + s->plan->bucket[bucket].start[ARRAY_GRADIENTS] / sizeof(float);
}

static status summer_move(summer *s, const plan_redistribution *m, int b, float *array,
                          uint64_t step, err *e)
{
    const calls_run r = {
        .groups = s->along, .compressor = s->compressor, .on = s->on, .bucket = b, .step = step};
    const calls_use use = {.type = F32, .array = array == kept_of(s, b) ? IN_SHARDS : IN_BUCKET};
    schedule_call c[CALLS_MOST];
    return calls_issue(&r, c, calls_reduce(s->plan, m, b, use, c), array, NULL, e);
}

static bool is_frozen(const plan *p, int bucket)
{
    return plan_group_of(p, bucket)->o.frozen;
}

// *part is this rank's shard of a row's kept gradient. Returns its address.
static float *kept_part(const summer *s, const plan_row *r, plan_shard *part)
{
    const plan_layout l = plan_group_of(s->plan, r->bucket)->gradient;
    *part = plan_local_shard(s->plan, r, l, s->plan->coord);
    return kept_of(s, r->bucket) + r->offset[l];
}

// Copies a micro-batch's gradients to the slot, reduces them, and accumulates this rank's shards.
static status summer_micro(summer *s, uint64_t step, int micro, err *e)
{
    status result = OK;
    const plan *p = s->plan;
    float g[SUM_ELEMENTS];
    s->x->summand(step, mesh_group_index(&p->o.mesh, p->coord, plan_group_axes(&p->group[0])), g);
    for (int i = 0; i < SUM_PARAMS; i++)
        memcpy(whole_of(s, p->row[i].bucket) + p->row[i].offset[LAYOUT_FULL], g + sum_first(i),
               4 * (size_t)p->row[i].count);
    for (int b = p->buckets - 1; b >= 0; b--)
        if (!is_frozen(p, b))
            TRY(summer_move(s, &plan_group_of(p, b)->redistribute.reduce_micro_batch, b,
                            whole_of(s, b), step, e));
    TRY(s->device->ops->sync(s->on, e));
    for (int i = 0; i < SUM_PARAMS; i++) {
        const plan_row *r = &p->row[i];
        plan_shard part;
        if (is_frozen(p, r->bucket)) continue;
        float *to = kept_part(s, r, &part);
        const float *from = whole_of(s, r->bucket) + r->offset[LAYOUT_FULL] + part.first;
        for (int64_t k = 0; k < part.count; k++) to[k] = micro ? to[k] + from[k] : from[k];
    }
done:
    return result;
}

static status summer_step(summer *s, uint64_t step, err *e)
{
    status result = OK;
    const plan *p = s->plan;
    for (int m = 0; m < p->o.micros; m++) TRY(summer_micro(s, step, m, e));
    for (int b = p->buckets - 1; b >= 0; b--)
        if (!is_frozen(p, b))
            TRY(summer_move(s, &plan_group_of(p, b)->redistribute.reduce_step, b, kept_of(s, b),
                            step, e));
    TRY(s->device->ops->sync(s->on, e));
    for (int i = 0; i < SUM_PARAMS; i++) {
        const plan_row *r = &p->row[i];
        plan_shard held;
        if (is_frozen(p, r->bucket)) continue;
        const float *from = kept_part(s, r, &held);
        const plan_shard part =
            plan_local_shard(p, r, plan_group_of(p, r->bucket)->optimizer, p->coord);
        const int64_t array = sum_first(i) + part.first;
        memcpy(s->x->sum[s->rank][step] + array, from + (part.first - held.first),
               4 * (size_t)part.count);
        for (int64_t k = 0; k < part.count; k++) s->x->own[s->rank][array + k] = true;
    }
    compress_end_step(s->compressor, step + 1, step + 1 == (uint64_t)s->x->restart);
done:
    return result;
}

static void *summer_main(void *arg)
{
    summer *s = arg;
    err *e = &s->e;
    status result = OK;
    TRY(summer_open(s, e));
    for (int i = 0; i < s->x->steps; i++) TRY(summer_step(s, (uint64_t)i, e));
done:
    if (result != OK) comm_failure_set(s->world->failure, s->rank, e);
    if (s->on) s->device->ops->stream_close(s->on);
    compress_close(s->compressor);
    if (s->whole) comm_release(s->all, s->device, s->whole, s->whole_bytes);
    if (s->kept) comm_release(s->all, s->device, s->kept, s->kept_bytes);
    for (int k = 0; k < PROCESS_GROUPS; k++) comm_close(s->along[k]);
    comm_close(s->all);
    if (result == OK && s->device->bytes_now != s->bytes)
        result =
            err_set(e, E_INTERNAL, "%zu bytes are still counted", s->device->bytes_now - s->bytes);
    device_close(s->device);
    plan_free(s->plan);
    s->result = result;
    return NULL;
}

static int sum_ranks(const summing *x)
{
    return (x->replicate ? x->replicate : 1) * (x->shard ? x->shard : 1) * (x->cp ? x->cp : 1);
}

// Runs x's steps on all its ranks and fills its results.
static void sum_run(summing *x)
{
    const int ranks = sum_ranks(x);
    pthread_t threads[SUM_RANKS];
    summer s[SUM_RANKS];
    world *w = NULL;
    err e = {0};
    memset(s, 0, sizeof s);
    if (!x->summand) x->summand = random_summand;
    if (test_world_open(ranks, true, &w, &e) != OK) fail_msg("%s", e.text);
    for (int r = 0; r < ranks; r++) {
        s[r].x = x, s[r].world = w, s[r].rank = r;
        pthread_create(&threads[r], NULL, summer_main, &s[r]);
    }
    for (int r = 0; r < ranks; r++) pthread_join(threads[r], NULL);
    world_close(w);
    for (int r = 0; r < ranks; r++)
        if (s[r].result != OK && s[r].result != E_PEER) fail_msg("rank %d: %s", r, s[r].e.text);
}

static summing *sum_new(summing x)
{
    summing *out = malloc(sizeof *out);
    assert_non_null(out);
    *out = x;
    sum_run(out);
    return out;
}

// Every element of every rank's shard must have the bits of rank 0 of `whole`, which has all sums.
static void expect_same_bits(const summing *found, const summing *whole)
{
    for (int r = 0; r < sum_ranks(found); r++)
        for (int t = 0; t < found->steps; t++)
            for (int k = 0; k < SUM_ELEMENTS; k++)
                if (found->own[r][k] &&
                    memcmp(&found->sum[r][t][k], &whole->sum[0][t][k], sizeof(float)) != 0)
                    fail_msg("rank %d, step %d, element %d: %.9g; valid: %.9g", r, t, k,
                             (double)found->sum[r][t][k], (double)whole->sum[0][t][k]);
}

#endif
