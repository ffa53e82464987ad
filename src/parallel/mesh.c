// mesh.c -- coordinates of ranks on the axes of the mesh. See mesh.h.
#include "parallel/mesh.h"

const char *axis_name(axis a)
{
    static const char *const name[AXES] = {"pp", "dp_replicate", "dp_shard", "cp", "tp"};
    return name[a];
}

status mesh_make(const int size[AXES], int ranks, mesh *out, err *e)
{
    int product = 1;
    for (int a = 0; a < AXES; a++) {
        if (size[a] < 1)
            return err_set(e, E_USAGE, "parallel.%s: found %d; valid: 1 or more",
                           axis_name((axis)a), size[a]);
        product *= out->size[a] = size[a];
    }
    out->ranks = ranks;
    if (product == ranks) return OK;
    return err_set(
        e, E_USAGE,
        "pp %d x dp_replicate %d x dp_shard %d x cp %d x tp %d make %d ranks; there are %d",
        size[AXIS_PP], size[AXIS_DP_REPLICATE], size[AXIS_DP_SHARD], size[AXIS_CP], size[AXIS_TP],
        product, ranks);
}

int mesh_coord(const mesh *m, int rank, axis a)
{
    for (int b = AXES - 1; b > (int)a; b--) rank /= m->size[b];
    return rank % m->size[a];
}

int mesh_rank(const mesh *m, const int coord[AXES])
{
    int rank = 0;
    for (int a = 0; a < AXES; a++) rank = rank * m->size[a] + coord[a];
    return rank;
}

int mesh_data_rank(const mesh *m, int rank)
{
    return mesh_coord(m, rank, AXIS_DP_REPLICATE) * m->size[AXIS_DP_SHARD] +
           mesh_coord(m, rank, AXIS_DP_SHARD);
}

int mesh_data_ranks(const mesh *m)
{
    return m->size[AXIS_DP_REPLICATE] * m->size[AXIS_DP_SHARD];
}
