// lists.h -- the plans and lists of all stages of a small model, for the tests of verify.c,
// simulate.c and draw.c. Every block has one matrix; with `tied` the last block uses the first's.
#ifndef TRIREME_TESTS_PARALLEL_LISTS_H
#define TRIREME_TESTS_PARALLEL_LISTS_H

#include "parallel/calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LISTS_STAGES = 8, LISTS_BLOCKS = 64, LISTS_PARAMS = 2 * LISTS_BLOCKS };

typedef struct lists_of {
    pipeline_schedule order;
    int stages, chunks, micros;
    int blocks;         // 0: one for each model chunk
    const char *policy; // on dp_shard; NULL: ddp
    int dp_shard;       // 0: 1
    bool tied, no_sync, evaluate;
    bool sends_wait;   // of the communicator
    bool files;        // state is in files; then no_sync is needed
    int slots;         // state slots; 0: as a job that does not say it
    bool apart;        // instead it is on the host, whose memory is not the device's
    bool host_updates; // and updated there
    int reshard; // 0: weights are resharded after forward; -1: not; K: kept by groups of K ranks
    // The second parameter group: the parameters of the blocks before `second`, or with `both` a
    // second matrix of every block. Its policy is on dp_shard; NULL: ddp.
    int second;
    bool both, frozen;
    const char *second_policy;
    bool second_files; // its weights are in files
    bool
        passes; // wgrad computes the gradient of a first matrix, dgrad of a second, forward of the loss
    bool all_backward; // every block has a backward, also those whose parameters are frozen
    bool in_place; // the input gradient of every block but the last replaces its output gradient
} lists_of;

#define LISTS(o, p, v, m, ...)                                                                     \
    (lists_of)                                                                                     \
    {                                                                                              \
        .order = (o), .stages = (p), .chunks = (v), .micros = (m), __VA_ARGS__                     \
    }

typedef struct lists {
    int stages;
    plan *plan[LISTS_STAGES];
    schedule list[LISTS_STAGES];
    const plan *plan_of[LISTS_STAGES];
    const schedule *of[LISTS_STAGES];
    plan_use use[LISTS_PARAMS];
} lists;

static plan_group_options lists_group(const lists_of *x, bool second)
{
    const char *name = second ? x->second_policy : x->policy;
    plan_group_options o = {.dp = {*policy_find("ddp"), *policy_find(name ? name : "ddp")},
                            .over = POLICY_AXES,
                            .frozen = second && x->frozen,
                            .has_m = true,
                            .has_v = true};
    // Weights go there only where they are sharded as the optimizer's state is.
    const bool alike = o.dp.inner.weight == o.dp.inner.optimizer;
    for (int t = alike ? 0 : PLAN_WEIGHTS + 1; x->files && !second && t < PLAN_STATES; t++)
        o.tier[t] = x->apart ? TIER_HOST : TIER_FILE;
    if (second && x->second_files) o.tier[PLAN_WEIGHTS] = TIER_FILE;
    return o;
}

// Passes make no calls, and blocks give each other 32 elements.
static void lists_make(lists *l, const lists_of *x, int stage, const plan_options *o,
                       const plan_param *params, int count)
{
    calls_block calls[LISTS_BLOCKS];
    err e = {0};
    for (int b = 0; b < o->blocks; b++)
        calls[b] = (calls_block){.input = {BF16, 32}, .output = {BF16, 32}};
    if (plan_make(o, params, count, &l->plan[stage], &e) != OK ||
        schedule_make(l->plan[stage], x->evaluate ? PASS_EVAL : PASS_TRAIN, &l->list[stage], &e) !=
            OK ||
        calls_list(&l->list[stage], l->plan[stage], calls, &e) != OK)
        fail_msg("%s", e.text);
}

static void lists_open(lists *l, const lists_of *x)
{
    static const char *const names[] = {"weight"};
    plan_param params[LISTS_PARAMS];
    double cost[LISTS_BLOCKS];
    bool in_place[LISTS_BLOCKS];
    err e = {0};
    const int parts = x->stages * x->chunks, blocks = x->blocks ? x->blocks : parts;
    const int count = blocks - x->tied, groups = x->second || x->both ? 2 : 1;
    const int extra = x->both ? blocks : 0;
    const int size[AXES] = {x->stages, 1, x->dp_shard ? x->dp_shard : 1, 1, 1};
    *l = (lists){.stages = x->stages};
    for (int b = 0; b < blocks; b++) {
        cost[b] = 1;
        in_place[b] = x->in_place && b < blocks - 1;
        if (b < count)
            params[b] = (plan_param){
                .name = names[0], .rows = 8, .cols = 4, .decays = true, .group = b < x->second};
        l->use[b] = (plan_use){.param = b < count ? b : 0, .block = b};
        if (x->passes) l->use[b].writes = b == blocks - 1 ? COMPUTES_FORWARD : COMPUTES_WGRAD;
    }
    for (int b = 0; b < extra; b++) {
        params[count + b] = (plan_param){.name = names[0], .rows = 6, .cols = 4, .group = 1};
        l->use[blocks + b] = (plan_use){.param = count + b, .block = b};
        if (x->passes) l->use[blocks + b].writes = COMPUTES_DGRAD;
    }
    const plan_group_options group[2] = {lists_group(x, false), lists_group(x, true)};
    plan_options o = {
        .strategy = {.dp = {*policy_find("ddp"), *policy_find(x->policy ? x->policy : "ddp")},
                     .no_sync = x->no_sync ? NO_SYNC_TRUE : NO_SYNC_FALSE,
                     .reshard_after_forward = x->reshard == 0  ? 1
                                              : x->reshard < 0 ? 0
                                                               : x->reshard,
                     .bucket_bytes = 1,
                     .reduce_dtype = F32,
                     .offload = {.host_is_apart = x->apart,
                                 .updates_on_host = x->host_updates,
                                 .slots = x->slots},
                     .pipeline = {.schedule = x->order,
                                  .virtual_stages = x->chunks,
                                  .sends_wait = x->sends_wait}},
        .group = group,
        .groups = groups,
        .first_backward = x->frozen && !x->both && !x->all_backward ? x->second : 0,
        .input_grad_in_place = in_place,
        .micros = x->micros,
        .cost = cost,
        .blocks = blocks,
        .use = l->use,
        .uses = blocks + extra};
    if (mesh_make(size, size[AXIS_PP] * size[AXIS_DP_SHARD], &o.mesh, &e) != OK)
        fail_msg("%s", e.text);
    for (int i = 0; i < x->stages; i++) {
        o.rank = mesh_rank(&o.mesh, (const int[AXES]){i});
        lists_make(l, x, i, &o, params, count + extra);
        l->plan_of[i] = l->plan[i];
        l->of[i] = &l->list[i];
    }
}

static void lists_close(lists *l)
{
    for (int i = 0; i < l->stages; i++) {
        schedule_clear(&l->list[i]);
        plan_free(l->plan[i]);
    }
}

#endif
