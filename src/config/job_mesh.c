// job_mesh.c -- solves the sizes of the mesh from the keys of `parallel` and a number of ranks. The
// checks of a job, the batch rule and session/ call it. Of the strategy it knows only that ddp
// needs no sharded axis. See job_solve_mesh in job.h.
#include "config/private.h"

#include "base/size.h"
#include "rendezvous/world.h"

#include <string.h>

int64_t mesh_least_ranks(const job *j)
{
    uint64_t least = 1;
    for (int a = 0; a < AXES; a++)
        if (j->parallel.size[a]) least = size_mul(least, (uint64_t)j->parallel.size[a]);
    return (int64_t)least;
}

// Appends the sizes above 1 and their product: "pp 2 x tp 2 = 4", "tp 4".
static void describe_least(const job *j, text *out)
{
    int named = 0;
    for (int a = 0; a < AXES; a++)
        if (j->parallel.size[a] > 1)
            text_addf(out, named++ ? " x %s %d" : "%s %d", axis_name((axis)a), j->parallel.size[a]);
    if (!named) text_add(out, "dp_shard 1");
    const int64_t least = mesh_least_ranks(j);
    if (named > 1 && size_fits((uint64_t)least)) text_addf(out, " = %lld", (long long)least);
}

static status refuse(const job *j, int ranks, err *e)
{
    int64_t least = mesh_least_ranks(j), below = ranks / least * least;
    bool fixed = j->parallel.size[AXIS_DP_SHARD] > 0;
    text sizes = {0}, valid = {0};
    describe_least(j, &sizes);
    if (least > MESH_RANKS)
        text_addf(&valid, "sizes of which the product is at most %d", MESH_RANKS);
    else if (fixed || !below || below + least > MESH_RANKS)
        text_addf(&valid, "%lld", (long long)(fixed || !below ? least : below));
    else
        text_addf(&valid, "%lld and %lld", (long long)below, (long long)(below + least));
    err_set(e, E_USAGE, "launch.ranks: found %d, not %s %s; %s: %s", ranks,
            fixed ? "the product of" : "a multiple of", sizes.chars,
            fixed || least > MESH_RANKS ? "valid" : "nearest valid", valid.chars);
    text_clear(&sizes);
    text_clear(&valid);
    return E_USAGE;
}

status job_check_local(const job *j, err *e)
{
    if (j->launch.ranks <= WORLD_MOST_RANKS) return OK;
    err_set(e, E_USAGE,
            "launch.ranks: found %d; valid to run on this machine: 1 to %d (trireme plan and "
            "explain take up to %d)",
            j->launch.ranks, WORLD_MOST_RANKS, MESH_RANKS);
    setting_place(j->values, settings_of(j->values, "launch.ranks"), e);
    return E_USAGE;
}

// Returns whether ddp is the policy over dp_shard of all parameters.
static bool shards_nothing(const job *j)
{
    bool plain = strcmp(j->strategy.dp.inner.name, "ddp") == 0;
    for (int i = 0; i < j->groups; i++) {
        const char *own = j->group[i].value.dp.inner.name; // NULL: not given
        plain = plain && (!own || strcmp(own, "ddp") == 0);
    }
    return plain;
}

status job_solve_mesh(const job *j, int ranks, mesh *out, err *e)
{
    int64_t least = mesh_least_ranks(j);
    bool fixed = j->parallel.size[AXIS_DP_SHARD] > 0;
    if (least > MESH_RANKS || (fixed ? ranks != least : ranks % least != 0))
        return refuse(j, ranks, e);
    int rest = ranks / (int)least;
    int size[AXES];
    memcpy(size, j->parallel.size, sizeof size);
    if (!fixed) size[AXIS_DP_SHARD] = rest;
    // Replicas on one axis are reduced at once. The size of an outer axis that shards stays as
    // given, because it is the number of shards.
    bool outer_plain = strcmp(j->strategy.dp.outer.name, "ddp") == 0;
    if (!fixed && shards_nothing(j) && (outer_plain || j->parallel.size[AXIS_DP_REPLICATE] == 1)) {
        size[AXIS_DP_REPLICATE] *= rest;
        size[AXIS_DP_SHARD] = 1;
    }
    return mesh_make(size, ranks, out, e);
}
