// model.h -- a model: a list of blocks, the graphs they share, and the parameters that they
// declare.
//
// A family is a table of three functions (model_family); gpt2.c, llama.c and mlp.c are the ones that
// come with Trireme, and a program brings its own through trireme.h. Blocks of equal key are traced
// once.
#ifndef TRIREME_MODEL_MODEL_H
#define TRIREME_MODEL_MODEL_H

#include "device/device.h"
#include "graph/graph.h"
#include "model/config.h"
#include "store/safetensors.h"

typedef struct model model;

enum { MODEL_BLOCKS = MODEL_LAYERS + 2 }; // at most

typedef struct model_family {
    const char *name;
    // How many blocks, and which of them have the same graph (equal keys).
    int (*blocks)(const void *config);
    int (*key)(const void *config, int block);
    // Writes the forward pass of one block: input (ids, features or the block before) to output or
    // loss.
    void (*trace)(graph *g, const void *config, int block);
    // The number that "{}" stands for in the names of this block's parameters; -1 none.
    int (*layer)(const void *config, int block);
} model_family;

extern const model_family gpt2_family, llama_family, mlp_family;
const model_family *family_find(family f);

typedef struct model_param {
    char name[PARAM_NAME_BYTES];
    const graph_param
        *decl;     // of the first block that declares it; borrowed from that block's graph
    int64_t count; // elements of the whole
    int64_t shard_rows, shard_cols; // of this tensor-parallel rank's part; shard_cols 1 for vectors
    bool tp_sharded;                // each tensor-parallel rank has another part
    bool tp_partial; // whole on each of them, but a rank's gradient is a summand of the gradient
    int block;       // the first that uses it
    int last_block;  // the last that uses it; another one when tied
    int layer;       // what "{}" stands for in the names of its pieces
} model_param;

typedef struct model_block {
    graph *g;   // borrowed from the model
    int *param; // of each parameter of the graph: its number in the model
    int layer;
} model_block;

struct model {
    const model_family *family;
    graph_mode mode;
    dtype type;
    int64_t batch, seq;
    graph_tp cut;
    bool halves;
    int blocks;
    model_block *block;
    int graphs;
    graph **graph;
    int params;
    model_param *param;
    const graph *rope; // a graph that has the rotary table, or NULL
};

typedef struct model_options {
    graph_mode mode;
    dtype type;
    int64_t batch, seq; // of a micro-batch
    graph_recompute keep;
    graph_tp cut; // over the ranks of tensor parallelism; zeros: not at all
    bool halves;  // the backward of a block can be run in two halves
} model_options;

// Traces every block. `config` is the family's own (model_config for ours) and need not outlive the
// call. E_USAGE names the misuse, or what does not divide over the ranks of the cut.
status model_open(const model_family *f, const void *config, const model_options *o, model **out,
                  err *e);
void model_close(model *m); // NULL allowed

// What the model's tables bound: ids of tokens are below `tokens`, class labels below `classes`,
// and a sequence has at most `positions`. INT32_MAX where there is no table.
typedef struct model_limits {
    int32_t tokens, classes, positions;
} model_limits;
model_limits model_get_limits(const model *m);

uint64_t model_param_count(const model *m);
// How many parameters no block gives a gradient. Appends their names, "a, b and 7 more" where they
// would not fit a line.
int model_unused_params(const model *m, text *names);
// Forward and backward of one micro-batch, of this rank's part where the model is cut.
double model_flops(const model *m);
double model_block_flops(const model *m, int block);

// "model.layers.{}.x" of layer 3 is "model.layers.3.x".
void model_param_name_expand(char out[PARAM_NAME_BYTES], const char *pattern, int layer);

// ---- Parameters (params.c): drawn on the device, else on the host

// Draws elements first … first+count-1 of parameter p into device memory, by seed, number and
// element alone.
void model_param_init(const model *m, int p, uint64_t seed, int64_t first, int64_t count,
                      device_stream *on, float *out);
// The part of parameter p that one tensor-parallel rank has: shard_rows x shard_cols of it (cols 1
// for vectors); all of it where the model is not cut or the parameter is not split.
int64_t model_param_shard_rows(const model *m, int p, int tp_rank);
int64_t model_param_shard_cols(const model *m, int p, int tp_rank);
// Between the whole and a part, on the host, in fp32.
void model_param_take_shard(const model *m, int p, int tp_rank, const float *whole, float *part);
void model_param_put_shard(const model *m, int p, int tp_rank, const float *part, float *whole);
// Draws elements first … first+count-1 of that part: those that model_param_init draws for the whole.
void model_param_init_shard(const model *m, int p, int tp_rank, uint64_t seed, int64_t first,
                            int64_t count, device_stream *on, float *out);
// Reads parameter p from a HuggingFace folder's tensors (names with or without "transformer." /
// "model." in front). E_USAGE names the tensor that is missing or has another shape.
status model_param_load(const model *m, int p, const safetensors *from, float *out, err *e);
// Every parameter has its tensors, of the right shapes, and every tensor is a parameter's or known
// to be harmless: E_USAGE names the tensor otherwise. Reads no data.
status model_param_check_all(const model *m, const safetensors *from, err *e);

// The tensors of a HuggingFace folder: one per piece. names and list are owned by the caller
// through model_param_files_clear.
typedef struct model_param_file {
    char name[PARAM_NAME_BYTES];
    int param, piece;
    int64_t first_row;
} model_param_file;
typedef struct model_param_files {
    model_param_file *file;
    tensor_info *info; // of the written type; data NULL
    int count;
} model_param_files;
status model_param_files_make(const model *m, dtype type, model_param_files *out, err *e);
void model_param_files_clear(model_param_files *f);
// Piece f out of the whole parameter (fp32, host): out[rows * cols] fp32 in the file's order.
void model_param_file_extract(const model *m, const model_param_file *f, const float *whole,
                              float *out);
// The reverse: piece f of the whole parameter from in[rows * cols].
void model_param_file_insert(const model *m, const model_param_file *f, const float *in,
                             float *whole);

#endif
