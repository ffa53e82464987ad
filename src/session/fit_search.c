// fit_search.c -- the ladder of changes to a job that does not fit. See fit_search.h. Called where a job is
// refused or, with memory.fit, changed. A step changes values of the job; what that saves is for
// its plan to say.
#include "session/fit_search.h"

#include <string.h>

static bool sums_several(const job *j, const mesh *m)
{
    return j->train.global_batch / mesh_data_ranks(m) > j->train.micro_batch;
}

static status mesh_of(const job *j, int ranks, mesh *out)
{
    return job_solve_mesh(j, ranks, out, NULL);
}

static bool to_bf16(job *j, int ranks)
{
    (void)ranks;
    if (j->train.precision != F32) return false;
    j->train.precision = BF16;
    return true;
}

static bool to_selective(job *j, int ranks)
{
    (void)ranks;
    if (j->strategy.recompute != RECOMPUTE_NONE) return false;
    j->strategy.recompute = RECOMPUTE_SELECTIVE;
    return true;
}

static bool to_full(job *j, int ranks)
{
    (void)ranks;
    if (j->strategy.recompute == RECOMPUTE_FULL) return false;
    j->strategy.recompute = RECOMPUTE_FULL;
    return true;
}

// `word` over dp_shard; over dp_replicate, too, where that is all there is. Gradients of several
// micro-batches stay whole unless each is reduced, as auto does.
static bool to_policy(job *j, int ranks, const char *word)
{
    mesh m;
    const policy *p = policy_find(word);
    j->strategy.dp.inner = *p;
    if (mesh_of(j, ranks, &m) != OK || mesh_data_ranks(&m) == 1) return false;
    if (m.size[AXIS_DP_SHARD] == 1) j->strategy.dp.outer = *p;
    if (sums_several(j, &m) && j->strategy.no_sync == NO_SYNC_TRUE)
        j->strategy.no_sync = NO_SYNC_FALSE;
    return true;
}

static bool to_zero2(job *j, int ranks)
{
    return to_policy(j, ranks, j->strategy.dp.inner.weight == SHARD ? "zero3" : "zero2");
}

static bool to_zero3(job *j, int ranks)
{
    return to_policy(j, ranks, "zero3");
}

// The copies of a hybrid, too.
static bool to_zero3_of_all(job *j, int ranks)
{
    mesh m;
    j->strategy.dp.outer = *policy_find("zero3");
    return mesh_of(j, ranks, &m) == OK && m.size[AXIS_DP_SHARD] > 1 &&
           m.size[AXIS_DP_REPLICATE] > 1 && to_policy(j, ranks, "zero3");
}

static bool to_tier(job *j, plan_state what, memory_tier to)
{
    if (j->strategy.offload.tier[what] >= to) return false;
    j->strategy.offload.tier[what] = to;
    return true;
}

// On cpu ranks the host's memory is the device's own: nothing is gained.
static bool to_host(job *j, int ranks)
{
    bool changed = false;
    (void)ranks;
    if (strcmp(j->launch.device, "cpu") == 0) return false;
    for (int k = 0; k < PLAN_STATES; k++) changed = to_tier(j, (plan_state)k, TIER_HOST) || changed;
    return changed;
}

static bool to_optimizer_file(job *j, int ranks)
{
    (void)ranks;
    return to_tier(j, PLAN_OPTIMIZER_STATE, TIER_FILE);
}

// A file cannot be added to by every micro-batch; auto knows that.
static void sum_locally(job *j)
{
    if (j->strategy.no_sync == NO_SYNC_FALSE) j->strategy.no_sync = NO_SYNC_TRUE;
}

static bool to_gradients_file(job *j, int ranks)
{
    mesh m;
    if (mesh_of(j, ranks, &m) != OK) return false;
    if (sums_several(j, &m)) sum_locally(j);
    return to_tier(j, PLAN_GRADIENTS, TIER_FILE);
}

// Where they are sharded as the optimizer's state is.
static bool to_weights_file(job *j, int ranks)
{
    mesh m;
    if (mesh_of(j, ranks, &m) != OK) return false;
    if (mesh_data_ranks(&m) > 1) to_zero3(j, ranks);
    if (sums_several(j, &m) && j->strategy.offload.tier[PLAN_GRADIENTS] == TIER_FILE)
        sum_locally(j);
    return to_tier(j, PLAN_WEIGHTS, TIER_FILE);
}

static bool (*const STEPS[])(job *j, int ranks) = {
    to_bf16,         to_selective, to_full,           to_zero2,          to_zero3,
    to_zero3_of_all, to_host,      to_optimizer_file, to_gradients_file, to_weights_file};

enum { COUNT = sizeof STEPS / sizeof *STEPS };

// ---- Climbing

typedef struct climber {
    const session_inputs *in;
    int ranks;
    uint64_t budget;
    const memory_estimate_base *base;
    fit_search *at;
} climber;

// Goes on from `next` where that needs less.
static void take_step(climber *c, const job *next, const memory_estimate *n)
{
    if (n->total >= c->at->need.total) return;
    c->at->changed = *next;
    c->at->need = *n;
    c->at->fits = n->total <= c->budget;
}

// What the plan refuses is no step.
static status try(climber *c, const job *next, err *e)
{
    err refused = {0};
    memory_estimate n;
    status result = memory_estimate_of(next, c->in, c->ranks, c->base, &n, &refused);
    if (result == E_USAGE || result == E_FIT) return OK;
    if (result != OK) {
        if (e) *e = refused;
        return result;
    }
    take_step(c, next, &n);
    return OK;
}

// The largest micro-batch below that fits, else the smallest.
static status shrink_batch(climber *c, err *e)
{
    status result = OK;
    job next = c->at->changed;
    const micro_search s = {&c->at->changed, c->in, c->ranks, c->budget, c->base};
    memory_estimate_micro found;
    err refused = {.code = OK};
    if (c->at->fits || next.train.micro_batch == 1) return OK;
    result = memory_estimate_largest_micro(&s, next.train.micro_batch - 1, &found, &refused);
    if (result == E_USAGE || result == E_FIT) return OK;
    if (result != OK) FAIL(result, "%s", refused.text);
    next.train.micro_batch = found.micro;
    take_step(c, &next, &found.need);
done:
    return result;
}

status fit_search_run(const job *j, const session_inputs *in, int ranks, uint64_t budget,
                      const memory_estimate_base *base, fit_search *out, err *e)
{
    status result = OK;
    climber c = {in, ranks, budget, base, out};
    *out = (fit_search){.changed = *j};
    TRY(memory_estimate_of(j, in, ranks, base, &out->need, e));
    out->fits = out->need.total <= budget;
    TRY(shrink_batch(&c, e));
    for (int i = 0; i < COUNT && !out->fits; i++) {
        job next = out->changed;
        if (STEPS[i](&next, ranks)) TRY(try(&c, &next, e));
    }
    for (int k = 0; k < PLAN_STATES; k++)
        if (out->changed.strategy.offload.tier[k] == TIER_FILE && !j->strategy.offload.path)
            out->wants_path = true;
done:
    return result;
}

status fit_search_ranks(const job *changed, const session_inputs *in, int ranks, uint64_t budget,
                        const memory_estimate_base *base, int *out, err *e)
{
    status result = OK;
    *out = 0;
    for (int times = 2; ranks * times <= MESH_RANKS && !*out; times *= 2) {
        job more = *changed;
        memory_estimate n;
        err refused = {0};
        more.train.global_batch *= times;
        if (more.parallel.dp_shard > 0) more.parallel.dp_shard *= times;
        if (!to_zero3(&more, ranks * times)) continue;
        result = memory_estimate_of(&more, in, ranks * times, base, &n, &refused);
        if (result != OK && result != E_USAGE && result != E_FIT) FAIL(result, "%s", refused.text);
        if (result == OK && n.total <= budget) *out = ranks * times;
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
    text_bytes(size, (double)l->need.total);
    text_addf(out, "%s%s needs %s", changes.chars ? changes.chars : "as it is",
              !l->wants_path    ? ""
              : j->own.by_calls ? " parallel.offload.path FOLDER"
                                : " --parallel.offload.path FOLDER",
              size);
    text_clear(&changes);
}
