// mesh.c -- coordinates of ranks on the axes of the mesh. See mesh.h.
#include "parallel/mesh.h"

#include <stdio.h>

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

mesh_axes mesh_axes_in_use(const mesh *m, mesh_axes axes)
{
    mesh_axes used = 0;
    for (int a = 0; a < AXES; a++)
        if (m->size[a] > 1) used |= axes & MESH_AXIS(a);
    return used;
}

int mesh_group_size(const mesh *m, mesh_axes axes)
{
    int size = 1;
    for (int a = 0; a < AXES; a++)
        if (axes & MESH_AXIS(a)) size *= m->size[a];
    return size;
}

int mesh_group_index(const mesh *m, const int coord[AXES], mesh_axes axes)
{
    int index = 0;
    for (int a = 0; a < AXES; a++)
        if (axes & MESH_AXIS(a)) index = index * m->size[a] + coord[a];
    return index;
}

int mesh_group_first(const mesh *m, const int coord[AXES], mesh_axes axes)
{
    int first[AXES];
    for (int a = 0; a < AXES; a++) first[a] = axes & MESH_AXIS(a) ? 0 : coord[a];
    return mesh_rank(m, first);
}

const char *mesh_group_name(const mesh *m, mesh_axes axes, char out[MESH_NAME_BYTES])
{
    size_t used = 0;
    out[0] = '\0';
    for (int a = 0; a < AXES; a++)
        if (mesh_axes_in_use(m, axes) & MESH_AXIS(a))
            used += (size_t)snprintf(out + used, MESH_NAME_BYTES - used, "%s%s", used ? "_" : "",
                                     axis_name((axis)a));
    return out;
}

int mesh_data_rank(const mesh *m, int rank)
{
    int coord[AXES];
    for (int a = 0; a < AXES; a++) coord[a] = mesh_coord(m, rank, (axis)a);
    return mesh_group_index(m, coord, AXES_DATA);
}

int mesh_data_ranks(const mesh *m)
{
    return mesh_group_size(m, AXES_DATA);
}
