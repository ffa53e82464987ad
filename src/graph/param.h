// param.h -- a parameter as a block declares it, and the tensors of files that it is made of. A part of graph.h. It
// knows neither values nor memory.
#ifndef TRIREME_GRAPH_PARAM_H
#define TRIREME_GRAPH_PARAM_H

#include "base/dtype.h"
#include "base/mesh.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PARAM_DIMS = 2, PARAM_SECTIONS = 4, PARAM_NAME_BYTES = 96 };

// The meaning of a dimension of a parameter. It decides the axis over which the dimension is sharded
// (tensor_parallel.c).
typedef enum graph_role {
    ROLE_NONE,
    ROLE_VOCAB,
    ROLE_EMBED,
    ROLE_HEADS,
    ROLE_MLP,
    ROLES
} graph_role;
typedef enum graph_init {
    INIT_NORMAL,
    INIT_ONES,
    INIT_ZEROS,
    INIT_CONSTANT,
    INIT_UNIFORM // from -std to std
} graph_init;

// A low-rank update of the rows of a piece (LoRA, Hu et al. 2021): scale * B A, with lora_A [rank, in] and
// lora_B [out, rank], which are parameters of their own.
typedef struct graph_adapter {
    int64_t rank; // 0: none
    float scale;
    float dropout; // of what A reads
} graph_adapter;

// Rows of a parameter that are sharded by themselves (queries, keys, values).
typedef struct graph_part {
    int64_t rows;  // of the full section
    int64_t heads; // that the rows are, and that stay together; 0: rows may be sharded anywhere
} graph_part;

// A tensor of a file that holds some rows of a parameter.
typedef struct graph_piece {
    char name[PARAM_NAME_BYTES];
    int64_t rows;    // of dim[0]
    bool transposed; // the file holds [dim[1], rows]
    bool is_conv;    // the file holds [rows, 1, dim[1]]
    // The piece is several parts, and the file holds run[i] rows of part i in turn. Zeros: the rows in their order
    int64_t run[PARAM_SECTIONS];
    bool takes_adapter; // a linear layer reads the piece, and has asked for its adapter
    graph_adapter adapter;
} graph_piece;

// A parameter as a block declares it. Two parameters of equal name are one parameter. A "{}" in a
// name stands for the layer's number. In files a parameter is a concatenation of pieces along its
// rows; each piece is one tensor of a HuggingFace folder.
typedef struct graph_param {
    char name[PARAM_NAME_BYTES];
    int dims;                // of the tensor; 0: one number
    int64_t dim[PARAM_DIMS]; // of the full tensor, also where it is sharded
    graph_role roles[PARAM_DIMS];
    graph_init init;
    float std; // of INIT_NORMAL; the number of INIT_CONSTANT; the bound of INIT_UNIFORM
    int pieces;
    size_t piece_room;
    graph_piece *piece; // [pieces] owned by the graph
    // Where rows are sharded they are a concatenation of sections.
    int sections;
    graph_part section[PARAM_SECTIONS];
    // The axes over which a use of the parameter gives the full gradient on every rank, and those over
    // which it gives a summand. Set by the ops that use the parameter.
    mesh_axes grad_full, grad_partial;
    bool constant;   // training does not change it
    bool is_adapter; // a factor of an adapter: the files of the model do not hold it
    struct {
        int param,
            piece; // of an adapter that has the rows of this piece; param -1: of one that has not
    } adapts;
    // The caller may set these two before graph_finish:
    bool frozen; // it gets no gradient; GRAPH_TRAIN only
    dtype type;  // of the compute weight; the graph's type unless it is set
} graph_param;

#endif
