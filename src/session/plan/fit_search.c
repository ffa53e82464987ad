// fit_search.c -- see fit_search.h. fit.c calls it to refuse a job or, with memory.fit, to change
// it, and table.c to print the first change that fits. It tries changes from the cheapest on. A change sets
// values of the job; it does not know how many bytes that saves, which the plan says.
#include "session/plan/fit_search.h"

static bool has_several_micro_batches(const job *j, const mesh *m)
{
    return job_micro_batches(j, m) > 1;
}

// The ranks that can shard state: those that hold the same part of the model.
static int sharding_ranks(const mesh *m)
{
    return mesh_group_size(m, POLICY_AXES.level[LEVEL_INNER]) *
           mesh_group_size(m, POLICY_AXES.level[LEVEL_OUTER]);
}

static status mesh_of(const job *j, int ranks, mesh *out)
{
    return job_solve_mesh(j, ranks, out, NULL);
}

// Takes the policy `name` for dp_shard and cp, and for dp_replicate where these have one rank. Under
// no_sync the gradients of several micro-batches are not sharded, so no_sync becomes false.
static bool to_policy(job *j, int ranks, const char *name)
{
    mesh m;
    const policy *p = policy_find(name);
    j->strategy.dp.inner = *p;
    if (mesh_of(j, ranks, &m) != OK || sharding_ranks(&m) == 1) return false;
    if (mesh_group_size(&m, POLICY_AXES.level[LEVEL_INNER]) == 1) j->strategy.dp.outer = *p;
    if (has_several_micro_batches(j, &m) && j->strategy.no_sync == NO_SYNC_TRUE)
        j->strategy.no_sync = NO_SYNC_FALSE;
    return true;
}

// Shards over the replicas of hybrid sharding, too.
static bool to_zero3_on_both_axes(job *j, int ranks)
{
    mesh m;
    j->strategy.dp.outer = *policy_find("zero3");
    return mesh_of(j, ranks, &m) == OK && mesh_group_size(&m, POLICY_AXES.level[LEVEL_INNER]) > 1 &&
           m.size[AXIS_DP_REPLICATE] > 1 && to_policy(j, ranks, "zero3");
}

// Splits a micro-batch of one sequence over twice as many ranks, which the data-parallel axes give.
static bool to_cp(job *j, int ranks)
{
    mesh m;
    const int cp = 2 * j->parallel.size[AXIS_CP];
    if (j->train.micro_batch != 1 || j->data.seq_len % (2 * cp) ||
        j->parallel.size[AXIS_DP_SHARD] % 2)
        return false;
    j->parallel.size[AXIS_DP_SHARD] /= 2; // 0, which is auto, stays
    j->parallel.size[AXIS_CP] = cp;
    return mesh_of(j, ranks, &m) == OK;
}

static bool to_tier(job *j, plan_state what, memory_tier to)
{
    if (j->strategy.offload.tier[what] >= to) return false;
    j->strategy.offload.tier[what] = to;
    return true;
}

// Where the memory of the device is the host's, offloading to the host saves nothing.
static bool to_host(job *j, int ranks)
{
    bool changed = false;
    (void)ranks;
    if (!j->strategy.offload.host_is_apart) return false;
    for (int k = 0; k < PLAN_STATES; k++) changed = to_tier(j, (plan_state)k, TIER_HOST) || changed;
    return changed;
}

static bool to_optimizer_file(job *j, int ranks)
{
    (void)ranks;
    return to_tier(j, PLAN_OPTIMIZER_STATE, TIER_FILE);
}

// Gradients in files can be reduced only once a step. auto resolves to that by itself.
static void reduce_once_a_step(job *j)
{
    if (j->strategy.no_sync == NO_SYNC_FALSE) j->strategy.no_sync = NO_SYNC_TRUE;
}

static bool to_gradients_file(job *j, int ranks)
{
    mesh m;
    if (mesh_of(j, ranks, &m) != OK) return false;
    if (has_several_micro_batches(j, &m)) reduce_once_a_step(j);
    return to_tier(j, PLAN_GRADIENTS, TIER_FILE);
}

// Weights can be in files only where they are sharded as the optimizer state is.
static bool to_weights_file(job *j, int ranks)
{
    mesh m;
    if (mesh_of(j, ranks, &m) != OK) return false;
    if (sharding_ranks(&m) > 1) to_policy(j, ranks, "zero3");
    if (has_several_micro_batches(j, &m) && j->strategy.offload.tier[PLAN_GRADIENTS] == TIER_FILE)
        reduce_once_a_step(j);
    return to_tier(j, PLAN_WEIGHTS, TIER_FILE);
}

// Changes on top of those that lower the estimate most. False: the change does not apply to this job.
static bool (*const LAST[])(job *j, int ranks) = {
    to_zero3_on_both_axes, to_cp,          to_cp, to_cp, to_host, to_optimizer_file,
    to_gradients_file,     to_weights_file};
enum { LAST_COUNT = sizeof LAST / sizeof *LAST };

// Policies and what is recomputed, from the cheapest on. zero1 sends no more than ddp. The others send for each
// micro-batch, mostly while the ranks compute; full recomputation computes a third more.
typedef struct fit_choice {
    const char *dp; // NULL: the job's own
    recompute_mode recompute;
} fit_choice;
static const fit_choice CHOICES[] = {
    {NULL, RECOMPUTE_NONE},         {"zero1", RECOMPUTE_NONE},      {NULL, RECOMPUTE_SELECTIVE},
    {"zero1", RECOMPUTE_SELECTIVE}, {"zero2", RECOMPUTE_NONE},      {"zero2", RECOMPUTE_SELECTIVE},
    {"zero3", RECOMPUTE_NONE},      {"zero3", RECOMPUTE_SELECTIVE}, {NULL, RECOMPUTE_FULL},
    {"zero1", RECOMPUTE_FULL},      {"zero2", RECOMPUTE_FULL},      {"zero3", RECOMPUTE_FULL}};
enum { CHOICE_COUNT = sizeof CHOICES / sizeof *CHOICES };

// How much of the state a policy shards.
static int shards_of(const policy *p)
{
    return (p->weight == SHARD) + (p->gradient == SHARD) + (p->optimizer == SHARD);
}

// False: the job has it already, or shards or recomputes more.
static bool take_choice(job *j, int ranks, const fit_choice *c)
{
    const int own = shards_of(&j->strategy.dp.inner);
    if (c->recompute < j->strategy.recompute) return false;
    const bool recomputes = c->recompute > j->strategy.recompute;
    j->strategy.recompute = c->recompute;
    if (!c->dp) return recomputes;
    return shards_of(policy_find(c->dp)) > own && to_policy(j, ranks, c->dp);
}

// ---- The search

typedef struct fit_search_state {
    const session_inputs *in;
    int ranks;
    uint64_t budget; // bytes of a rank
    const memory_estimate_base *base;
    fit_search *best; // the lowest estimate so far
} fit_search_state;

// Returns whether the estimate is better than the best so far. It is where fewer bytes are over the budgets, and of two
// that fit where it is lower.
static bool is_lower(const fit_search_state *c, const memory_estimate *n)
{
    const memory_estimate *best = &c->best->estimate;
    const uint64_t now = memory_estimate_over(n, c->budget, c->base),
                   before = memory_estimate_over(best, c->budget, c->base);
    return now != before ? now < before : n->total < best->total;
}

static void keep_if_lower(fit_search_state *c, const job *next, const memory_estimate *n)
{
    if (!is_lower(c, n)) return;
    c->best->changed = *next;
    c->best->estimate = *n;
    c->best->fits = memory_estimate_fits(n, c->budget, c->base);
}

// Leaves out a job that the plan refuses.
static status try_change(fit_search_state *c, const job *next, err *e)
{
    err refused = {0};
    memory_estimate n;
    const status result = memory_estimate_of(next, c->in, c->ranks, c->base, &n, &refused);
    if (result == E_USAGE || result == E_FIT) return OK;
    if (result != OK) return err_set(e, result, "%s", refused.text);
    keep_if_lower(c, next, &n);
    return OK;
}

// Takes the largest micro-batch up to `limit` that fits, or else the smallest one.
static status find_batch(fit_search_state *c, int64_t limit, err *e)
{
    job next = c->best->changed;
    const memory_estimate_search s = {&c->best->changed, c->in, c->ranks, c->budget, c->base};
    memory_estimate_micro found;
    err refused = {.code = OK};
    const bool listed = next.parallel.batch_split && !job_measures_split(&next); // the list says it
    if (limit < 1 || listed) return OK;
    const status result = memory_estimate_largest_micro(&s, limit, &found, &refused);
    if (result == E_USAGE || result == E_FIT) return OK;
    if (result != OK) return err_set(e, result, "%s", refused.text);
    next.train.micro_batch = found.micro;
    if (!c->best->fits) {
        keep_if_lower(c, &next, &found.estimate);
    } else if (found.fits) {
        c->best->changed = next;
        c->best->estimate = found.estimate;
    }
    return OK;
}

// Tries all choices on top of `from`.
static status try_choices(fit_search_state *c, const job *from, err *e)
{
    status result = OK;
    for (int i = 0; i < CHOICE_COUNT && !c->best->fits; i++) {
        job next = *from;
        if (take_choice(&next, c->ranks, &CHOICES[i])) TRY(try_change(c, &next, e));
    }
done:
    return result;
}

// What costs a job no time is tried before its precision changes.
static status try_cheap(fit_search_state *c, err *e)
{
    status result = OK;
    const job from = c->best->changed;
    job next = from;
    if (job_dtype(&from) != F32) return try_choices(c, &from, e);
    if (take_choice(&next, c->ranks, &CHOICES[1])) TRY(try_change(c, &next, e));
    if (c->best->fits) goto done;
    next = from;
    next.train.precision = PRECISION_BF16;
    TRY(try_change(c, &next, e));
    TRY(try_choices(c, &next, e));
done:
    return result;
}

// Of a job that fits: recomputes no more than it must.
static void recompute_less(fit_search_state *c, recompute_mode least)
{
    job next = c->best->changed;
    for (int r = least; r < (int)c->best->changed.strategy.recompute; r++) {
        memory_estimate n;
        next.strategy.recompute = (recompute_mode)r;
        if (memory_estimate_of(&next, c->in, c->ranks, c->base, &n, NULL) != OK ||
            !memory_estimate_fits(&n, c->budget, c->base))
            continue;
        c->best->changed = next;
        c->best->estimate = n;
    }
}

// Each of these saves more and costs more.
static status try_last(fit_search_state *c, const job *j, err *e)
{
    status result = OK;
    for (int i = 0; i < LAST_COUNT && !c->best->fits; i++) {
        job next = c->best->changed;
        if (LAST[i](&next, c->ranks)) TRY(try_change(c, &next, e));
    }
    if (c->best->fits) recompute_less(c, j->strategy.recompute);
done:
    return result;
}

status fit_search_run(const job *j, const session_inputs *in, int ranks, uint64_t budget,
                      const memory_estimate_base *base, fit_search *out, err *e)
{
    status result = OK;
    fit_search_state c = {in, ranks, budget, base, out};
    *out = (fit_search){.changed = *j};
    TRY(memory_estimate_of(j, in, ranks, base, &out->estimate, e));
    out->fits = memory_estimate_fits(&out->estimate, budget, base);
    const bool fitted = out->fits;
    if (!fitted) TRY(find_batch(&c, j->train.micro_batch - 1, e));
    const int64_t small = out->changed.train.micro_batch;
    if (!out->fits) TRY(try_cheap(&c, e));
    if (!out->fits) TRY(try_last(&c, j, e));
    // The changes were tried with the smallest micro-batch.
    if (!fitted && out->fits && small < j->train.micro_batch)
        TRY(find_batch(&c, j->train.micro_batch, e));
    for (int k = 0; k < PLAN_STATES; k++)
        if (out->changed.strategy.offload.tier[k] == TIER_FILE && !j->strategy.offload.path)
            out->needs_path = true;
done:
    return result;
}

status fit_search_ranks(const job *changed, const session_inputs *in, int ranks, uint64_t budget,
                        const memory_estimate_base *base, int *out, err *e)
{
    status result = OK;
    *out = 0;
    if (changed->parallel.batch_split) return OK; // a number for each of these ranks
    for (int times = 2; ranks * times <= MESH_RANKS && !*out; times *= 2) {
        job more = *changed;
        memory_estimate n;
        err refused = {0};
        more.train.global_batch *= times;
        if (more.parallel.size[AXIS_DP_SHARD] > 0) more.parallel.size[AXIS_DP_SHARD] *= times;
        if (!to_policy(&more, ranks * times, "zero3")) continue;
        result = memory_estimate_of(&more, in, ranks * times, base, &n, &refused);
        if (result != OK && result != E_USAGE && result != E_FIT) FAIL(result, "%s", refused.text);
        if (result == OK && memory_estimate_fits(&n, budget, base)) *out = ranks * times;
        result = OK;
    }
done:
    return result;
}

void fit_search_print(const job *j, const fit_search *l, text *out)
{
    char size[24];
    text changes = {0};
    job_describe_changes(j, &l->changed, &changes);
    text_bytes(size, (double)l->estimate.total);
    text_addf(out, "%s%s needs %s", changes.chars ? changes.chars : "as it is",
              !l->needs_path    ? ""
              : j->own.by_calls ? " parallel.offload.path FOLDER"
                                : " --parallel.offload.path FOLDER",
              size);
    text_clear(&changes);
}
