// mesh.h -- the device mesh: every rank has a coordinate on each axis. The ranks that differ in one
// coordinate only are the process group of that axis. Pure arithmetic; the trainer opens the
// communicators.
#ifndef TRIREME_PARALLEL_MESH_H
#define TRIREME_PARALLEL_MESH_H

#include "base/err.h"

// From the slowest to the fastest: consecutive ranks differ in tp first, so tp, which communicates
// most, runs between the closest ranks.
typedef enum axis { AXIS_PP, AXIS_DP_REPLICATE, AXIS_DP_SHARD, AXIS_CP, AXIS_TP, AXES } axis;

enum { MESH_RANKS = 16384 }; // at most; a machine starts fewer (comm/world.h)

typedef struct mesh {
    int size[AXES];
    int ranks; // the product
} mesh;

const char *axis_name(axis a); // "pp", "dp_replicate", …
// Sizes must multiply to `ranks`; E_USAGE names the axes otherwise.
status mesh_make(const int size[AXES], int ranks, mesh *out, err *e);
// The coordinate of `rank` on an axis.
int mesh_coord(const mesh *m, int rank, axis a);
// The rank at these coordinates.
int mesh_rank(const mesh *m, const int coord[AXES]);
// The coordinate of `rank` on both data-parallel axes flattened, and the number of such
// coordinates. Ranks with the same coordinate read the same samples.
int mesh_data_rank(const mesh *m, int rank);
int mesh_data_ranks(const mesh *m);

#endif
