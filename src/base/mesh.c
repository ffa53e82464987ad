// mesh.c -- coordinates of ranks on the axes of the mesh. See mesh.h.
#include "base/mesh.h"

#include <stdio.h>

static const struct {
    const char *name, *ranks;
} AXIS[AXES] = {[AXIS_PP] = {"pp", "pipeline stages"},
                [AXIS_DP_REPLICATE] = {"dp_replicate", NULL},
                [AXIS_DP_SHARD] = {"dp_shard", NULL},
                [AXIS_CP] = {"cp", "context-parallel ranks"},
                [AXIS_TP] = {"tp", "tensor-parallel ranks"}};

const char *axis_name(axis a)
{
    return AXIS[a].name;
}

const char *axis_ranks(axis a)
{
    return AXIS[a].ranks;
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
    char sizes[128];
    size_t used = 0;
    for (int a = 0; a < AXES; a++)
        used += (size_t)snprintf(sizes + used, sizeof sizes - used, "%s%s %d", a ? " x " : "",
                                 axis_name((axis)a), size[a]);
    return err_set(e, E_USAGE, "%s make %d ranks; there are %d", sizes, product, ranks);
}

mesh mesh_of_sizes(const int size[AXES])
{
    mesh m = {.ranks = 1};
    for (int a = 0; a < AXES; a++) m.ranks *= m.size[a] = size[a] > 1 ? size[a] : 1;
    return m;
}

int mesh_coord(const mesh *m, int rank, axis a)
{
    for (int b = AXES - 1; b > (int)a; b--) rank /= m->size[b];
    return rank % m->size[a];
}

void mesh_coords(const mesh *m, int rank, int out[AXES])
{
    for (int a = 0; a < AXES; a++) out[a] = mesh_coord(m, rank, (axis)a);
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
    mesh_coords(m, rank, coord);
    return mesh_group_index(m, coord, AXES_DATA);
}

void mesh_set_data_rank(const mesh *m, int data_rank, int coord[AXES])
{
    coord[AXIS_DP_REPLICATE] = data_rank / m->size[AXIS_DP_SHARD];
    coord[AXIS_DP_SHARD] = data_rank % m->size[AXIS_DP_SHARD];
}

int mesh_data_ranks(const mesh *m)
{
    return mesh_group_size(m, AXES_DATA);
}
