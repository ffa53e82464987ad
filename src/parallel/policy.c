// policy.c -- the table of policies. See policy.h.
#include "parallel/policy.h"

#include <string.h>

static const policy POLICIES[] = {
    {"ddp", REPLICATE, PARTIAL, REPLICATE},  {"zero1", REPLICATE, PARTIAL, SHARD},
    {"zero2", REPLICATE, SHARD, SHARD},      {"zero3", SHARD, SHARD, SHARD},
    {"fsdp_no_sync", SHARD, PARTIAL, SHARD}, // zero3 that reduces gradients once a step
};

const policy_axes POLICY_AXES = {{[LEVEL_INNER] = MESH_AXIS(AXIS_DP_SHARD) | MESH_AXIS(AXIS_CP),
                                  [LEVEL_OUTER] = MESH_AXIS(AXIS_DP_REPLICATE)}};

const policy *policy_row(size_t i)
{
    return i < sizeof POLICIES / sizeof *POLICIES ? &POLICIES[i] : NULL;
}

const policy *policy_find(const char *name)
{
    for (size_t i = 0; policy_row(i); i++)
        if (strcmp(POLICIES[i].name, name) == 0) return &POLICIES[i];
    return NULL;
}

static bool ever_shards(const policy *p)
{
    return p->weight == SHARD || p->gradient == SHARD || p->optimizer == SHARD;
}

status policies_check(const policies *p, err *e)
{
    const placement outer[] = {p->outer.weight, p->outer.gradient, p->outer.optimizer},
                    inner[] = {p->inner.weight, p->inner.gradient, p->inner.optimizer};
    static const char *const state[] = {"weights", "gradients", "optimizer state"};
    if (!ever_shards(&p->inner)) return OK;
    for (int i = 0; i < 3; i++)
        if (outer[i] == SHARD && inner[i] != SHARD)
            return err_set(
                e, E_USAGE,
                "parallel.dp: %s over dp_replicate shards %s, %s over dp_shard does not; "
                "valid: shard them on dp_shard too, or nothing there (ddp)",
                p->outer.name, state[i], p->inner.name);
    return OK;
}

const policy *policies_at(const policies *p, policy_level level)
{
    return level == LEVEL_OUTER ? &p->outer : &p->inner;
}

bool policies_shard_gradients(const policies *p, const policy_axes *over, const mesh *m)
{
    for (int l = 0; l < POLICY_LEVELS; l++)
        if (policies_at(p, (policy_level)l)->gradient == SHARD &&
            mesh_group_size(m, over->level[l]) > 1)
            return true;
    return false;
}

policies policies_no_sync(policies p)
{
    p.outer.gradient = p.inner.gradient = PARTIAL;
    return p;
}
