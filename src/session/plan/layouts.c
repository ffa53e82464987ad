// layouts.c -- see layouts.h. It walks the divisors of the ranks: tp, pp and cp, then the policies over what they leave,
// then the batch, the schedule and what is recomputed.
#include "session/plan/layouts.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum {
    TP_HOSTS_MOST = 4,     // tensor-parallel ranks span at most so many hosts
    TP_MOST = 64,          // and are at most so many
    CP_MOST = 16,          // context-parallel ranks
    CP_TOKENS = 512,       // that each of them has at least
    MICRO_MOST = 32,       // sequences of a micro-batch
    CHUNKS_MOST = 8,       // model chunks of a stage
    HYBRID_HOSTS_MOST = 64 // that shards of hybrid sharding span
};

void layouts_clear(layouts *l)
{
    free(l->item);
    *l = (layouts){.count = 0};
}

static status add(layouts *all, const layout *l, err *e)
{
    const status result =
        alloc_grow(&all->item, &all->room, all->count + 1, sizeof *all->item, "the layouts", e);
    if (result == OK) all->item[all->count++] = *l;
    return result;
}

// ---- What is recomputed, and where state lies

static bool has_tiers(const layouts_of *x, layout_tiers t)
{
    const bool on_host = t == TIERS_OPTIMIZER_HOST || t == TIERS_ALL_HOST;
    return t >= x->least && t <= x->most && (!on_host || x->j->strategy.offload.host_is_apart);
}

// State of weights can be in files only where they are sharded as the optimizer's is.
static bool goes_with(const layout *l, layout_tiers t)
{
    return t != TIERS_WEIGHTS_FILE || l->dp->weight == SHARD;
}

static status add_recomputes(const layouts_of *x, layout l, layouts *all, err *e)
{
    status result = OK;
    const bool both = l.size[AXIS_TP] > 1 && !x->keeps_mesh;
    l.sequence_parallel = l.size[AXIS_TP] > 1 && x->j->strategy.sequence_parallel;
    for (int t = 0; t < LAYOUT_TIERS; t++) {
        if (!has_tiers(x, (layout_tiers)t) || !goes_with(&l, (layout_tiers)t)) continue;
        l.tiers = (layout_tiers)t;
        for (int r = 0; r < RECOMPUTES; r++) {
            l.recompute = (recompute_mode)r;
            for (int s = 0; s <= both; s++) {
                if (both) l.sequence_parallel = s == 0;
                TRY(add(all, &l, e));
            }
        }
    }
done:
    return result;
}

// ---- Schedules

static status add_schedule(const layouts_of *x, layout l, pipeline_schedule s, int chunks,
                           layouts *all, err *e)
{
    l.schedule = s;
    l.virtual_stages = chunks;
    return add_recomputes(x, l, all, e);
}

static int layers_of(const layouts_of *x)
{
    return x->in->family->blocks(x->in->config) - 2;
}

// The interleaved schedule takes micro-batches in groups of pp. More than two chunks are worth their messages only where
// the layers divide over them.
static bool can_interleave(const layouts_of *x, int pp, int chunks, int64_t micros)
{
    const int layers = layers_of(x), all = pp * chunks;
    return micros % pp == 0 && all <= layers + 2 &&
           (chunks == 2 || layers % all == 0 || (layers + 2) % all == 0);
}

static int64_t micros_of(const layouts_of *x, const layout *l)
{
    const int64_t data = (int64_t)l->size[AXIS_DP_REPLICATE] * l->size[AXIS_DP_SHARD];
    return x->j->train.global_batch / data / l->micro_batch;
}

static status add_schedules(const layouts_of *x, const layout *l, layouts *all, err *e)
{
    status result = OK;
    const strategy_pipeline *own = &x->j->strategy.pipeline;
    const int pp = l->size[AXIS_PP];
    if (x->keeps_mesh) return add_schedule(x, *l, own->schedule, own->virtual_stages, all, e);
    TRY(add_schedule(x, *l, PIPE_1F1B, 1, all, e));
    if (pp == 1) goto done;
    TRY(add_schedule(x, *l, PIPE_ZB, 1, all, e));
    for (int chunks = 2; chunks <= CHUNKS_MOST; chunks++)
        if (can_interleave(x, pp, chunks, micros_of(x, l)))
            TRY(add_schedule(x, *l, PIPE_INTERLEAVED, chunks, all, e));
done:
    return result;
}

// ---- Batches

static status add_batches(const layouts_of *x, layout l, layouts *all, err *e)
{
    status result = OK;
    const int64_t data = (int64_t)l.size[AXIS_DP_REPLICATE] * l.size[AXIS_DP_SHARD];
    const int64_t share = x->j->train.global_batch / data, own = x->j->train.micro_batch;
    for (int64_t micro = 1; micro <= share; micro++) {
        const bool is_tried = x->keeps_mesh ? micro <= own : micro <= MICRO_MOST || micro == own;
        if (share % micro || !is_tried) continue;
        l.micro_batch = micro;
        l.no_sync = false;
        TRY(add_schedules(x, &l, all, e));
        // Of zero2 that is zero1.
        l.no_sync = l.dp->weight == SHARD && micros_of(x, &l) > 1;
        if (l.no_sync) TRY(add_schedules(x, &l, all, e));
        if (micro >= MICRO_MOST && micro >= own) break;
    }
done:
    return result;
}

// ---- Policies

static bool is_hybrid_worth(const layouts_of *x, const layout *l, int shards)
{
    const int together = shards * l->size[AXIS_CP] * l->size[AXIS_TP];
    return together % x->ranks_per_host == 0 && together < x->ranks &&
           together / x->ranks_per_host <= HYBRID_HOSTS_MOST;
}

static status add_policies(const layouts_of *x, layout l, int data, layouts *all, err *e)
{
    static const char *const NAMES[] = {"ddp", "zero1", "zero2", "zero3"};
    status result = OK;
    const int sharding = data * l.size[AXIS_CP];
    for (int i = 0; i < (sharding > 1 ? 4 : 1); i++) {
        l.dp = policy_find(NAMES[i]);
        l.size[AXIS_DP_REPLICATE] = 1;
        l.size[AXIS_DP_SHARD] = data;
        TRY(add_batches(x, l, all, e));
        for (int shards = 2; i > 0 && shards < data; shards++) {
            if (data % shards || !is_hybrid_worth(x, &l, shards)) continue;
            l.size[AXIS_DP_REPLICATE] = data / shards;
            l.size[AXIS_DP_SHARD] = shards;
            TRY(add_batches(x, l, all, e));
        }
    }
done:
    return result;
}

// ---- Meshes

static bool can_split_sequence(const layouts_of *x, int cp)
{
    const int64_t tokens = x->in->seq_len;
    return cp == 1 || cp == x->j->parallel.size[AXIS_CP] ||
           (tokens % (2 * cp) == 0 && tokens / cp >= CP_TOKENS);
}

static status add_meshes(const layouts_of *x, int tp, int pp, layouts *all, err *e)
{
    status result = OK;
    const int rest = x->ranks / tp / pp;
    for (int cp = 1; cp <= CP_MOST && cp <= rest; cp *= 2) {
        const int data = rest / cp;
        if (rest % cp || x->j->train.global_batch % data || !can_split_sequence(x, cp)) continue;
        layout l = {.size = {[AXIS_PP] = pp, [AXIS_CP] = cp, [AXIS_TP] = tp}};
        TRY(add_policies(x, l, data, all, e));
    }
done:
    return result;
}

static bool is_tp_tried(const layouts_of *x, int tp)
{
    if (x->keeps_mesh) return tp == x->j->parallel.size[AXIS_TP];
    return x->ranks % tp == 0 && tp <= TP_MOST && tp <= TP_HOSTS_MOST * x->ranks_per_host;
}

static bool is_pp_tried(const layouts_of *x, int tp, int pp)
{
    if (x->keeps_mesh) return pp == x->j->parallel.size[AXIS_PP];
    return pp == 1 || (x->ranks / tp % pp == 0 && pp <= layers_of(x));
}

status layouts_make(const layouts_of *x, layouts *out, err *e)
{
    status result = OK;
    *out = (layouts){.count = 0};
    for (int tp = 1; tp <= x->ranks; tp++)
        for (int pp = 1; is_tp_tried(x, tp) && pp <= x->ranks / tp; pp++)
            if (is_pp_tried(x, tp, pp)) TRY(add_meshes(x, tp, pp, out, e));
done:
    return result;
}

// ---- A layout

// State in files, or on the host, by tiers.
static const memory_tier TIER_OF[LAYOUT_TIERS][PLAN_STATES] = {
    [TIERS_OPTIMIZER_HOST] = {[PLAN_OPTIMIZER_STATE] = TIER_HOST},
    [TIERS_ALL_HOST] = {TIER_HOST, TIER_HOST, TIER_HOST},
    [TIERS_OPTIMIZER_FILE] = {[PLAN_OPTIMIZER_STATE] = TIER_FILE},
    [TIERS_GRADIENTS_FILE] = {[PLAN_GRADIENTS] = TIER_FILE, [PLAN_OPTIMIZER_STATE] = TIER_FILE},
    [TIERS_WEIGHTS_FILE] = {TIER_FILE, TIER_FILE, TIER_FILE},
};

// What the job has on a tier stays there, or goes further.
static void apply_tiers(const layout *l, job *out)
{
    strategy *s = &out->strategy;
    for (int k = 0; k < PLAN_STATES; k++) {
        const memory_tier to = TIER_OF[l->tiers][k];
        if (to > s->offload.tier[k]) s->offload.tier[k] = to;
    }
    // Gradients in files can be reduced only once a step.
    if (s->offload.tier[PLAN_GRADIENTS] == TIER_FILE && s->no_sync == NO_SYNC_FALSE)
        s->no_sync = NO_SYNC_AUTO;
}

void layout_apply(const job *j, const layout *l, job *out)
{
    const bool is_auto = j->parallel.size[AXIS_DP_SHARD] == 0;
    const strategy_pipeline *before = &j->strategy.pipeline;
    strategy *s = &out->strategy;
    *out = *j;
    memcpy(out->parallel.size, l->size, sizeof out->parallel.size);
    if (is_auto) out->parallel.size[AXIS_DP_SHARD] = 0;
    s->dp = (policies){.outer = *policy_find("ddp"), .inner = *l->dp};
    if (l->dp->gradient == SHARD)
        s->no_sync = l->no_sync                   ? NO_SYNC_TRUE
                     : s->no_sync == NO_SYNC_TRUE ? NO_SYNC_AUTO
                                                  : s->no_sync;
    if (l->size[AXIS_PP] != j->parallel.size[AXIS_PP] ||
        l->virtual_stages != before->virtual_stages) {
        s->pipeline.chunk_blocks = NULL;
        out->parallel.split = NULL;
        out->parallel.splits = 0;
    }
    s->pipeline.schedule = l->schedule;
    s->pipeline.virtual_stages = l->virtual_stages;
    s->sequence_parallel = l->sequence_parallel;
    s->recompute = l->recompute;
    out->train.micro_batch = l->micro_batch;
    apply_tiers(l, out);
}

bool layout_has_files(const layout *l)
{
    return l->tiers >= TIERS_OPTIMIZER_FILE;
}

static void print_pipeline(const layout *l, text *out)
{
    if (l->size[AXIS_PP] == 1) return;
    text_addf(out, "pp %d %s", l->size[AXIS_PP], pipeline_schedule_name(l->schedule));
    if (l->virtual_stages > 1) text_addf(out, " x %d", l->virtual_stages);
    text_add(out, ", ");
}

void layout_print(const layout *l, text *out)
{
    static const char *const STATES[LAYOUT_TIERS] = {"",
                                                     ", optimizer on the host",
                                                     ", state on the host",
                                                     ", optimizer in files",
                                                     ", gradients and optimizer in files",
                                                     ", state in files"};
    const int replicas = l->size[AXIS_DP_REPLICATE];
    if (l->size[AXIS_TP] > 1)
        text_addf(out, "tp %d%s, ", l->size[AXIS_TP],
                  l->sequence_parallel ? " sequence_parallel" : "");
    if (l->size[AXIS_CP] > 1) text_addf(out, "cp %d, ", l->size[AXIS_CP]);
    print_pipeline(l, out);
    if (replicas > 1) text_addf(out, "dp_replicate %d, ", replicas);
    text_addf(out, "%s over %d, micro-batch %lld", l->dp->name, l->size[AXIS_DP_SHARD],
              (long long)l->micro_batch);
    if (l->no_sync) text_add(out, ", no_sync");
    if (l->recompute != RECOMPUTE_NONE)
        text_addf(out, ", recompute %s", RECOMPUTE_NAMES[l->recompute]);
    text_add(out, STATES[l->tiers]);
}
