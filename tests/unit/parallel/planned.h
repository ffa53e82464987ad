// planned.h -- plans of small models on any mesh, for the tests of plan.c and plan_redistribute.c.
#ifndef TRIREME_TESTS_PARALLEL_PLANNED_H
#define TRIREME_TESTS_PARALLEL_PLANNED_H

#include "parallel/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PLANNED_PARAMS = 16, PLANNED_BLOCKS = 16, PLANNED_GROUPS = 4 };

// rows x cols (0: a vector), used by block `block` and, where it is not 0, by block `also`.
typedef struct planned_param {
    int64_t rows, cols;
    int block, also;
    bool tp_sharded, tp_partial;
    mesh_axes sharded, partial; // where neither of these two is set
    plan_shared shared;
    int group;       // of planned.group
    unsigned writes; // as in plan_use
} planned_param;

// A parameter group after the first, which has the members of `planned`. NULL: ddp.
typedef struct planned_group {
    const char *outer, *inner;
    bool frozen;
    dtype compute;
    storage_type storage;
    memory_tier tier[PLAN_STATES];
    bool no_moments;                // the rule has no state
    mesh_axes level[POLICY_LEVELS]; // of its process groups; zeros: those of all other groups
} planned_group;

// Zeros are: one rank, ddp, fp32, one micro-batch, two numbers of optimizer state a weight, buckets
// of one element, all blocks cost the same, nothing in a file.
typedef struct planned {
    int replicate, shard, cp, pp, tp, rank;
    const char *outer, *inner;
    planned_param param[PLANNED_PARAMS];
    int params, blocks;
    int64_t bucket_bytes;
    int micros, reshard, chunks;
    bool no_sync;
    memory_tier tier[PLAN_STATES];
    bool apart; // the host's memory is not the device's
    bool host_updates;
    dtype compute;
    bool frozen; // the first group
    planned_group group[PLANNED_GROUPS];
    int groups; // in `group`
    int first_backward;
    bool no_moments; // the rule of the first group has no state
    const int *split;
    strategy_hook hook;
    double cost[PLANNED_BLOCKS];
} planned;

static int at_least_1(int n)
{
    return n ? n : 1;
}

static plan_group_options planned_group_options(const planned_group *g)
{
    plan_group_options o = {.dp = {*policy_find(g->outer ? g->outer : "ddp"),
                                   *policy_find(g->inner ? g->inner : "ddp")},
                            .over = POLICY_AXES,
                            .compute = g->compute,
                            .storage = g->storage,
                            .frozen = g->frozen,
                            .has_m = !g->no_moments,
                            .has_v = !g->no_moments};
    memcpy(o.tier, g->tier, sizeof o.tier);
    if (g->level[LEVEL_INNER]) memcpy(o.over.level, g->level, sizeof g->level);
    return o;
}

static status planned_make(const planned *x, plan **out, err *e)
{
    static const char *const names[PLANNED_PARAMS] = {"a", "b", "c", "d", "e", "f", "g", "h",
                                                      "i", "j", "k", "l", "m", "n", "o", "p"};
    plan_param params[PLANNED_PARAMS] = {{0}};
    plan_use use[2 * PLANNED_PARAMS];
    double cost[PLANNED_BLOCKS];
    const int size[AXES] = {at_least_1(x->pp), at_least_1(x->replicate), at_least_1(x->shard),
                            at_least_1(x->cp), at_least_1(x->tp)};
    planned_group first = {.outer = x->outer,
                           .inner = x->inner,
                           .frozen = x->frozen,
                           .compute = x->compute,
                           .no_moments = x->no_moments};
    plan_group_options group[PLANNED_GROUPS + 1];
    memcpy(first.tier, x->tier, sizeof first.tier);
    group[0] = planned_group_options(&first);
    for (int i = 0; i < x->groups; i++) group[i + 1] = planned_group_options(&x->group[i]);
    plan_options o = {
        .rank = x->rank,
        .strategy = {.dp = {*policy_find(x->outer ? x->outer : "ddp"),
                            *policy_find(x->inner ? x->inner : "ddp")},
                     .no_sync = x->no_sync ? NO_SYNC_TRUE : NO_SYNC_FALSE,
                     .reshard_after_forward = x->reshard,
                     .bucket_bytes = x->bucket_bytes ? x->bucket_bytes : 4,
                     .reduce_dtype = F32,
                     .hook = x->hook,
                     .pipeline = {.schedule = x->chunks > 1 ? PIPE_INTERLEAVED : PIPE_1F1B,
                                  .virtual_stages = at_least_1(x->chunks),
                                  .chunk_blocks = x->split}},
        .group = group,
        .groups = 1 + x->groups,
        .first_backward = x->first_backward,
        .micros = at_least_1(x->micros),
        .cost = cost,
        .blocks = x->blocks,
        .use = use,
    };
    memcpy(o.strategy.offload.tier, x->tier, sizeof o.strategy.offload.tier);
    o.strategy.offload.host_is_apart = x->apart;
    o.strategy.offload.updates_on_host = x->host_updates;
    for (int b = 0; b < x->blocks; b++) cost[b] = x->cost[b] > 0 ? x->cost[b] : 1;
    for (int i = 0; i < x->params; i++) {
        const planned_param *q = &x->param[i];
        params[i] = (plan_param){.name = names[i],
                                 .rows = q->rows,
                                 .cols = q->cols ? q->cols : 1,
                                 .group = q->group,
                                 .decays = q->cols > 0,
                                 .sharded = q->tp_sharded ? MESH_AXIS(AXIS_TP) : q->sharded,
                                 .partial = q->tp_partial ? MESH_AXIS(AXIS_TP) : q->partial,
                                 .shared = q->shared};
        use[o.uses++] = (plan_use){.param = i, .block = q->block, .writes = q->writes};
        if (q->also && q->also != q->block)
            use[o.uses++] = (plan_use){.param = i, .block = q->also, .writes = q->writes};
    }
    const int ranks = size[0] * size[1] * size[2] * size[3] * size[4];
    if (mesh_make(size, ranks, &o.mesh, e) != OK) return E_USAGE;
    return plan_make(&o, params, x->params, out, e);
}

static plan *planned_open(const planned *x)
{
    plan *p = NULL;
    err e = {0};
    if (planned_make(x, &p, &e) != OK) fail_msg("%s", e.text);
    return p;
}

// A model of `blocks` blocks that have a matrix of rows x cols each.
static __attribute__((unused)) planned planned_blocks(int blocks, int64_t rows, int64_t cols)
{
    planned x = {.params = blocks, .blocks = blocks};
    for (int b = 0; b < blocks; b++)
        x.param[b] = (planned_param){.rows = rows, .cols = cols, .block = b};
    return x;
}

// A pair of policies, and what a test expects of it. 18 pairs are legal.
typedef struct planned_pair {
    const char *outer, *inner, *expected;
} planned_pair;

static inline void expect_buckets(const planned *x, const char *expected)
{
    plan *p = planned_open(x);
    text t = {0};
    for (int k = 0; k < p->buckets; k++) {
        const plan_bucket *b = &p->bucket[k];
        text_addf(&t, "%s", k ? " |" : "");
        for (int i = 0; i < b->rows; i++)
            text_addf(&t, "%s%s", i || k ? " " : "", p->row[p->order[b->first_row + i]].name);
        assert_int_equal(b->first_block, p->row[p->order[b->first_row]].block);
        assert_int_equal(b->last_block, p->row[p->order[b->first_row + b->rows - 1]].block);
    }
    assert_string_equal(t.chars, expected);
    text_clear(&t);
    plan_free(p);
}

#endif
