// mesh.h -- who is where: every rank has a coordinate on each axis, and every axis that it spans is
// a group. Pure arithmetic; the communicators of the axes are opened by whoever runs the plan.
#ifndef TRIREME_PARALLEL_MESH_H
#define TRIREME_PARALLEL_MESH_H

#include "base/err.h"

// Slowest to fastest: neighbours in rank differ in tp first, which keeps it on the fastest links.
typedef enum axis { AXIS_PP, AXIS_DP_REPLICATE, AXIS_DP_SHARD, AXIS_CP, AXIS_TP, AXES } axis;

enum { MESH_RANKS = 16384 }; // at most; a machine starts fewer (comm/world.h)

typedef struct mesh {
    int size[AXES];
    int ranks; // the product
} mesh;

const char *axis_name(axis a); // "pp", "dp_replicate", …
// Sizes must multiply to `ranks`; E_USAGE names the axes otherwise.
status mesh_make(const int size[AXES], int ranks, mesh *out, err *e);
// Where `rank` is on an axis.
int mesh_at(const mesh *m, int rank, axis a);
// The rank at these coordinates.
int mesh_rank(const mesh *m, const int at[AXES]);
// Which data-parallel part of the global batch is this rank's, and of how many.
int mesh_data_rank(const mesh *m, int rank);
int mesh_data_ranks(const mesh *m);

#endif
