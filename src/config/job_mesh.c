// job_mesh.c -- sizes of the mesh from the keys of parallel: and a number of ranks. Called by the
// checks of a job, by the batch rule, and by who starts or plans ranks. Does not know what the axes
// are for, but that a policy which never shards needs no sharded axis.
#include "config/private.h"

#include "comm/world.h"

#include <string.h>

int64_t mesh_least_ranks(const job *j)
{
    int64_t shard = j->parallel.dp_shard ? j->parallel.dp_shard : 1;
    return shard * j->parallel.dp_replicate * j->parallel.tp * j->parallel.pp;
}

// "pp 2 x tp 2 = 4", "tp 4"
static void describe_least(const job *j, text *out)
{
    const struct {
        const char *name;
        int size;
    } axes[] = {{"pp", j->parallel.pp},
                {"dp_replicate", j->parallel.dp_replicate},
                {"dp_shard", j->parallel.dp_shard},
                {"tp", j->parallel.tp}};
    int named = 0;
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++)
        if (axes[i].size > 1)
            text_addf(out, named++ ? " x %s %d" : "%s %d", axes[i].name, axes[i].size);
    if (!named) text_add(out, "dp_shard 1");
    if (named > 1) text_addf(out, " = %lld", (long long)mesh_least_ranks(j));
}

static status refuse(const job *j, int ranks, err *e)
{
    int64_t least = mesh_least_ranks(j), below = ranks / least * least;
    bool fixed = j->parallel.dp_shard > 0;
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
    if (j->launch.ranks <= WORLD_RANKS) return OK;
    err_set(e, E_USAGE,
            "launch.ranks: found %d; valid to run on this machine: 1 to %d (trireme plan and "
            "explain take up to %d)",
            j->launch.ranks, WORLD_RANKS, MESH_RANKS);
    setting_place(j->values, settings_of(j->values, "launch.ranks"), e);
    return E_USAGE;
}

status job_solve_mesh(const job *j, int ranks, mesh *out, err *e)
{
    int64_t least = mesh_least_ranks(j);
    bool fixed = j->parallel.dp_shard > 0;
    if (least > MESH_RANKS || (fixed ? ranks != least : ranks % least != 0))
        return refuse(j, ranks, e);
    int rest = ranks / (int)least;
    int size[AXES] = {[AXIS_PP] = j->parallel.pp,
                      [AXIS_DP_REPLICATE] = j->parallel.dp_replicate,
                      [AXIS_DP_SHARD] = fixed ? j->parallel.dp_shard : rest,
                      [AXIS_CP] = 1,
                      [AXIS_TP] = j->parallel.tp};
    // One axis of plain replicas is one reduction. Where the outer axis shards, its given size is
    // into how many parts.
    bool plain = strcmp(j->strategy.dp.inner.name, "ddp") == 0;
    bool outer_plain = strcmp(j->strategy.dp.outer.name, "ddp") == 0;
    if (!fixed && plain && (outer_plain || j->parallel.dp_replicate == 1)) {
        size[AXIS_DP_REPLICATE] *= rest;
        size[AXIS_DP_SHARD] = 1;
    }
    return mesh_make(size, ranks, out, e);
}
