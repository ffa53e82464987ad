// plan_groups.c -- parameter groups in the plan: which process groups they use, the layouts of their
// arrays, and which groups share buckets. Called by plan_make. It knows no rows and no buckets.
#include "parallel/plan_private.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

static const policy *in_effect(const plan_group *g, policy_level l)
{
    // A process group of one rank shards nothing, whatever its policy says.
    static const policy unsharded = {"", REPLICATE, PARTIAL, REPLICATE};
    return g->axes[l] ? policies_at(&g->policy, l) : &unsharded;
}

static plan_layout layout_of(placement outer, placement inner)
{
    return (plan_layout)((inner == SHARD ? LAYOUT_INNER : 0) | (outer == SHARD ? LAYOUT_OUTER : 0));
}

bool plan_joins_levels(const plan_options *o, const plan_group *g)
{
    const int inner = mesh_group_size(&o->mesh, g->axes[LEVEL_INNER]);
    return g->axes[LEVEL_OUTER] && (inner & (inner - 1)) != 0;
}

// Lets the gradients of the one micro-batch be reduced to where the optimizer reads them, on both levels.
static void reduce_at_once(policies *p)
{
    p->inner.gradient = p->inner.optimizer == SHARD ? SHARD : REPLICATE;
    p->outer.gradient = p->outer.optimizer == SHARD ? SHARD : REPLICATE;
}

static void choose_layouts(const plan_options *o, plan_group *g)
{
    const policies dp = g->o.dp;
    g->policy = o->micros > 1 && g->no_sync ? policies_no_sync(dp) : dp;
    // The inner level is summed before the outer one, also where only the outer one shards.
    if (o->micros == 1 && g->policy.outer.gradient == SHARD &&
        g->policy.inner.optimizer == REPLICATE)
        g->policy.inner.gradient = REPLICATE;
    if (o->micros == 1 && plan_joins_levels(o, g) &&
        (in_effect(g, LEVEL_INNER)->gradient == SHARD ||
         in_effect(g, LEVEL_OUTER)->gradient == SHARD))
        reduce_at_once(&g->policy);
    const policy *outer = in_effect(g, LEVEL_OUTER), *inner = in_effect(g, LEVEL_INNER);
    g->weight = layout_of(outer->weight, inner->weight);
    g->gradient = layout_of(outer->gradient, inner->gradient);
    g->optimizer = layout_of(outer->optimizer, inner->optimizer);
    if (g->o.storage == STORAGE_NF4 && g->weight == LAYOUT_FULL) g->weight = LAYOUT_PACKED;
    g->weight_slots = g->weight != LAYOUT_FULL || plan_is_swapped(g, PLAN_WEIGHTS);
    g->gradient_slots =
        !g->o.frozen && (g->gradient != LAYOUT_FULL || plan_is_swapped(g, PLAN_GRADIENTS));
}

enum { KEY_BYTES = 64 };

// The number of the entry that a group belongs to.
static int entry_of(const plan_options *o, int group)
{
    int entry = group;
    for (int i = 0; i < group; i++) entry -= o->group[i].storage == STORAGE_NF4;
    return entry;
}

// The key of a group's setting: "groups[2].dp", or "parallel.dp" for the job's own settings.
static const char *key_of(const plan_options *o, int group, const char *setting,
                          char out[KEY_BYTES])
{
    const int entry = entry_of(o, group);
    if (entry == entry_of(o, o->groups - 1))
        snprintf(out, KEY_BYTES, "parallel.%s", setting);
    else
        snprintf(out, KEY_BYTES, "groups[%d].%s", entry, setting);
    return out;
}

static status check_tiers(const plan_options *o, const plan_group *g, int group, err *e)
{
    char key[KEY_BYTES], dp[KEY_BYTES];
    if (g->o.frozen) return OK;
    if (plan_is_swapped(g, PLAN_WEIGHTS) && g->weight != g->optimizer)
        return err_set(e, E_USAGE,
                       "%s: %s needs weights that are sharded as the "
                       "optimizer's state is; valid: %s zero3, or device",
                       key_of(o, group, "offload.weights", key),
                       memory_tier_name(g->o.tier[PLAN_WEIGHTS]), key_of(o, group, "dp", dp));
    if (!plan_is_swapped(g, PLAN_GRADIENTS)) return OK;
    const char *tier = memory_tier_name(g->o.tier[PLAN_GRADIENTS]);
    key_of(o, group, "offload.gradients", key);
    if (o->micros > 1 && !g->no_sync)
        return err_set(e, E_USAGE,
                       "%s: %s cannot be added to in every micro-batch; "
                       "valid: parallel.no_sync true, one micro-batch a step, or device",
                       key, tier);
    if (g->gradient != LAYOUT_FULL && g->gradient != g->optimizer)
        return err_set(e, E_USAGE,
                       "%s: %s needs gradients that are unsharded, or sharded "
                       "as the optimizer's state is; valid: one policy for both axes, or device",
                       key, tier);
    return OK;
}

// The host must have the gradients that the update reads, and it writes whole buckets of weights.
static status check_update(const plan_options *o, const plan_group *g, int group, err *e)
{
    char key[KEY_BYTES], dp[KEY_BYTES];
    const bool apart = o->strategy.offload.host_is_apart;
    const memory_tier gradients = g->o.tier[PLAN_GRADIENTS], weights = g->o.tier[PLAN_WEIGHTS];
    if (!g->updates_on_host) return OK;
    if (!memory_tier_row_of(gradients, apart)->host_updates)
        return err_set(e, E_USAGE,
                       "%s: found %s; parallel.offload.update host needs them on the host; valid: "
                       "host, or parallel.offload.update device",
                       key_of(o, group, "offload.gradients", key), memory_tier_name(gradients));
    if (weights != TIER_DEVICE && !memory_tier_row_of(weights, apart)->host_updates)
        return err_set(e, E_USAGE,
                       "%s: found %s; parallel.offload.update host needs them on the device or on "
                       "the host; valid: device, host, or parallel.offload.update device",
                       key_of(o, group, "offload.weights", key), memory_tier_name(weights));
    if (g->weight != g->optimizer)
        return err_set(e, E_USAGE,
                       "parallel.offload.update: host needs weights that are sharded as the "
                       "optimizer's state is; valid: %s zero3, or device",
                       key_of(o, group, "dp", dp));
    return OK;
}

// The post-forward groups are of one process group: another parameter group frees its weights instead.
static status check_reshard(const plan_options *o, plan_group *g, mesh_axes *kept_over, err *e)
{
    const int k = o->strategy.reshard_after_forward,
              shards = mesh_group_size(&o->mesh, g->axes[LEVEL_INNER]);
    char name[MESH_NAME_BYTES];
    // Post-forward shards of packed weights would be larger than the packed weights.
    if (k < 2 || !plan_layout_shards(g->weight, LEVEL_INNER) || g->o.storage == STORAGE_NF4)
        return OK;
    if (shards % k)
        return err_set(e, E_USAGE,
                       "parallel.reshard_after_forward: groups of %d do not divide the %d ranks of "
                       "%s; valid: true, false, or a divisor",
                       k, shards, mesh_group_name(&o->mesh, g->axes[LEVEL_INNER], name));
    // A group of all ranks would keep the shards that the ranks have anyway.
    if (k < shards && !*kept_over) *kept_over = g->axes[LEVEL_INNER];
    g->keeps_post_forward_shards = *kept_over == g->axes[LEVEL_INNER];
    return OK;
}

static bool same_policy(const policy *a, const policy *b)
{
    return a->weight == b->weight && a->gradient == b->gradient && a->optimizer == b->optimizer;
}

// Do the groups differ in nothing that the plan knows?
static bool same_options(const plan_group_options *a, const plan_group_options *b)
{
    return memcmp(&a->over, &b->over, sizeof a->over) == 0 &&
           same_policy(&a->dp.outer, &b->dp.outer) && same_policy(&a->dp.inner, &b->dp.inner) &&
           memcmp(a->tier, b->tier, sizeof a->tier) == 0 && a->compute == b->compute &&
           a->storage == b->storage && a->frozen == b->frozen &&
           (a->frozen ||
            (a->has_m == b->has_m && a->has_v == b->has_v && a->has_average == b->has_average));
}

static int representative_of(const plan *p, int group)
{
    for (int i = 0; i < group; i++)
        if (same_options(&p->group[i].o, &p->group[group].o)) return i;
    return group;
}

// Finds which states are swapped. A state of which the group has nothing, such as the optimizer state of
// plain sgd, lies on the device, so that nothing is swapped in or out.
static void place_states(plan_group *g, const strategy_offload *s)
{
    bool has[PLAN_STATES] = {false};
    for (int a = 0; a < PLAN_ARRAYS; a++)
        if (plan_group_has(g, (plan_array)a)) has[plan_array_state((plan_array)a)] = true;
    for (int k = 0; k < PLAN_STATES; k++) {
        if (!has[k]) g->o.tier[k] = TIER_DEVICE;
        g->swapped[k] = memory_tier_row_of(g->o.tier[k], s->host_is_apart)->swapped;
    }
    const memory_tier t = g->o.tier[PLAN_OPTIMIZER_STATE];
    g->updates_on_host =
        s->updates_on_host && memory_tier_row_of(t, s->host_is_apart)->host_updates;
}

status plan_make_groups(plan *p, const strategy *s, err *e)
{
    status result = OK;
    const plan_options *o = &p->o;
    p->groups = o->groups;
    TRY(alloc_zeroed(&p->group, (size_t)p->groups, sizeof *p->group, "the plan", e));
    for (int i = 0; i < p->groups; i++) {
        plan_group *g = &p->group[i];
        g->o = o->group[i];
        place_states(g, &s->offload);
        g->representative = representative_of(p, i);
        for (int l = 0; l < POLICY_LEVELS; l++)
            g->axes[l] = mesh_axes_in_use(&o->mesh, g->o.over.level[l]);
        g->no_sync = strategy_no_sync_of(s->no_sync, &g->o.dp, &g->o.over,
                                         g->swapped[PLAN_GRADIENTS], &o->mesh);
        TRY(policies_check(&g->o.dp, e));
        choose_layouts(o, g);
        TRY(check_tiers(o, g, i, e));
        TRY(check_update(o, g, i, e));
        TRY(check_reshard(o, g, &p->kept_over, e));
    }
done:
    return result;
}

// ---- Arrays

bool plan_group_has(const plan_group *g, plan_array a)
{
    const bool trains = !g->o.frozen;
    // The host cannot update fp32 weights on the device in place: it has weights of its own.
    const bool masters = g->o.compute != F32 || (g->updates_on_host && !g->swapped[PLAN_WEIGHTS]);
    const bool has[PLAN_ARRAYS] = {[ARRAY_WEIGHTS] = true,
                                   [ARRAY_POST_FORWARD] = g->keeps_post_forward_shards,
                                   [ARRAY_GRADIENTS] = trains,
                                   [ARRAY_MASTER] = trains && masters,
                                   [ARRAY_M] = trains && g->o.has_m,
                                   [ARRAY_V] = trains && g->o.has_v,
                                   [ARRAY_AVERAGE] = trains && g->o.has_average};
    return has[a];
}

plan_state plan_array_state(plan_array a)
{
    static const plan_state state[PLAN_ARRAYS] = {
        [ARRAY_WEIGHTS] = PLAN_WEIGHTS,        [ARRAY_POST_FORWARD] = PLAN_WEIGHTS,
        [ARRAY_GRADIENTS] = PLAN_GRADIENTS,    [ARRAY_MASTER] = PLAN_OPTIMIZER_STATE,
        [ARRAY_M] = PLAN_OPTIMIZER_STATE,      [ARRAY_V] = PLAN_OPTIMIZER_STATE,
        [ARRAY_AVERAGE] = PLAN_OPTIMIZER_STATE};
    return state[a];
}

plan_layout plan_array_layout(const plan_group *g, plan_array a)
{
    const plan_layout layout[PLAN_STATES] = {[PLAN_WEIGHTS] = g->weight,
                                             [PLAN_GRADIENTS] = g->gradient,
                                             [PLAN_OPTIMIZER_STATE] = g->optimizer};
    return a == ARRAY_POST_FORWARD ? LAYOUT_POST_FORWARD : layout[plan_array_state(a)];
}

dtype plan_array_type(const plan_group *g, plan_array a)
{
    const bool packed = g->o.storage == STORAGE_NF4;
    return plan_array_state(a) == PLAN_WEIGHTS && !packed ? g->o.compute : F32;
}

int plan_group_entry(const plan *p, int group)
{
    int entry = group;
    for (int i = 0; i < group; i++) entry -= p->group[i].o.storage == STORAGE_NF4;
    return entry;
}

bool plan_updates_on_host(const plan *p)
{
    for (int i = 0; i < p->groups; i++)
        if (p->group[i].updates_on_host) return true;
    return false;
}

bool plan_any_on_tier(const plan *p, plan_state what, memory_tier t)
{
    for (int i = 0; i < p->groups; i++)
        if (p->group[i].o.tier[what] == t) return true;
    return false;
}

// ---- Process groups

int plan_group_ranks(const plan *p, int process_group)
{
    if (process_group == GROUP_WORLD) return p->o.mesh.ranks;
    if (process_group == GROUP_POST_FORWARD) return p->o.strategy.reshard_after_forward;
    if (process_group == GROUP_SHARED) return p->shared_ranks;
    if (process_group == GROUP_TIED) return 2;
    return mesh_group_size(&p->o.mesh, (mesh_axes)process_group);
}

int plan_group_index(const plan *p, int process_group)
{
    if (process_group == GROUP_WORLD) return p->o.rank;
    if (process_group == GROUP_TIED) return p->coord[AXIS_PP] > 0;
    if (process_group == GROUP_SHARED)
        return mesh_group_index(&p->o.mesh, p->coord, p->shared_over) % p->shared_ranks;
    if (process_group == GROUP_POST_FORWARD)
        return mesh_group_index(&p->o.mesh, p->coord, p->kept_over) %
               p->o.strategy.reshard_after_forward;
    return mesh_group_index(&p->o.mesh, p->coord, (mesh_axes)process_group);
}

int plan_process_groups(const plan *p, int out[PROCESS_GROUPS])
{
    bool used[PROCESS_GROUPS] = {false};
    int count = 0;
    for (int a = 0; a < AXES; a++)
        used[mesh_axes_in_use(&p->o.mesh, AXES_PASSES & MESH_AXIS(a))] = true;
    for (int i = 0; i < p->rows; i++) used[p->row[i].partial] = true;
    for (int i = 0; i < p->groups; i++) {
        const plan_group *g = &p->group[i];
        used[g->axes[LEVEL_INNER]] = used[g->axes[LEVEL_OUTER]] = true;
        used[plan_group_axes(g)] = true;
        used[GROUP_POST_FORWARD] = used[GROUP_POST_FORWARD] || g->keeps_post_forward_shards;
    }
    used[GROUP_SHARED] = p->shared_ranks > 1;
    used[GROUP_TIED] = plan_ties_stages(p);
    for (int k = 1; k < PROCESS_GROUPS; k++) // 0: the axes of no group
        if (used[k]) out[count++] = k;
    return count;
}
