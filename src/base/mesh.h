// mesh.h -- the device mesh: every rank has a coordinate on each axis. A process group is one axis,
// or several axes flattened: the ranks that differ in their coordinates on these axes only. Pure
// arithmetic; the trainer opens the communicators.
#ifndef TRIREME_BASE_MESH_H
#define TRIREME_BASE_MESH_H

#include "base/err.h"

// From the slowest to the fastest: consecutive ranks differ in tp first, so tp, which communicates
// most, runs between the closest ranks.
typedef enum axis { AXIS_PP, AXIS_DP_REPLICATE, AXIS_DP_SHARD, AXIS_CP, AXIS_TP, AXES } axis;

// A set of axes: bit a stands for axis a.
typedef unsigned mesh_axes;
#define MESH_AXIS(a) (1u << (a))

enum {
    // Ranks that differ on these axes read different samples.
    AXES_DATA = MESH_AXIS(AXIS_DP_REPLICATE) | MESH_AXIS(AXIS_DP_SHARD),
    // Ranks that differ on these axes have different tokens of a step.
    AXES_TOKENS = AXES_DATA | MESH_AXIS(AXIS_CP),
    // Ranks that differ on these axes compute a block together: the graph of each is its shard of the block.
    AXES_GRAPH = MESH_AXIS(AXIS_CP) | MESH_AXIS(AXIS_TP),
    // Passes communicate over each of these axes by itself.
    AXES_PASSES = AXES_GRAPH | MESH_AXIS(AXIS_PP),
    AXES_ALL = (1 << AXES) - 1,
    MESH_NAME_BYTES = 48 // room for the name of a process group
};

enum { MESH_RANKS = 16384 }; // at most; a machine starts fewer (rendezvous/world.h)

typedef struct mesh {
    int size[AXES];
    int ranks; // the product
} mesh;

const char *axis_name(axis a); // "pp", "dp_replicate", …
// "pipeline stages", "tensor-parallel ranks"; NULL: an axis of data parallelism.
const char *axis_ranks(axis a);
// Sizes must multiply to `ranks`; E_USAGE names the axes otherwise.
status mesh_make(const int size[AXES], int ranks, mesh *out, err *e);
// The mesh of these sizes, of which 0 counts as 1.
mesh mesh_of_sizes(const int size[AXES]);
// The coordinate of `rank` on an axis, or on all axes.
int mesh_coord(const mesh *m, int rank, axis a);
void mesh_coords(const mesh *m, int rank, int out[AXES]);
// The rank at these coordinates.
int mesh_rank(const mesh *m, const int coord[AXES]);
// The set without its axes of one rank. Two sets that are equal then are the same process group.
mesh_axes mesh_axes_in_use(const mesh *m, mesh_axes axes);
// The first axis of a set that is not empty.
static inline axis mesh_first_axis(mesh_axes axes)
{
    return (axis)__builtin_ctz(axes);
}
// The number of ranks of a process group.
int mesh_group_size(const mesh *m, mesh_axes axes);
// The index of the rank at these coordinates within its process group: its coordinate on the
// flattened axes, from the slowest axis to the fastest.
int mesh_group_index(const mesh *m, const int coord[AXES], mesh_axes axes);
// The first rank of the process group that the rank at these coordinates is in.
int mesh_group_first(const mesh *m, const int coord[AXES], mesh_axes axes);
// Writes the names of the axes in use, joined: "dp_shard_cp". Returns out.
const char *mesh_group_name(const mesh *m, mesh_axes axes, char out[MESH_NAME_BYTES]);

// The index of `rank` among the ranks that read different samples, and their number. Ranks with the
// same index read the same samples.
int mesh_data_rank(const mesh *m, int rank);
int mesh_data_ranks(const mesh *m);
// Sets the coordinates that the ranks with this index have in common.
void mesh_set_data_rank(const mesh *m, int data_rank, int coord[AXES]);

#endif
