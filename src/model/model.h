// model.h -- a model: a list of blocks, the graphs that they share, and their parameters.
//
// A family is a table of functions (model_family) and a schema of its fields (schema.h). registry.c lists the
// families that come with Trireme; a program brings its own through trireme.h. model_open traces a family's blocks
// once for each distinct key. Called by train/, by session/'s planning and by the memory estimate.
// A model knows no memory: it says how large things are, and others allocate them.
#ifndef TRIREME_MODEL_MODEL_H
#define TRIREME_MODEL_MODEL_H

#include "device/device.h"
#include "graph/graph.h"
#include "model/config.h"
#include "store/safetensors.h"

typedef struct model model;
typedef struct decoder_form decoder_form;

enum { MODEL_BLOCKS = MODEL_LAYERS + 2 }; // at most

// `config` is the family's own: a model_config for the families of Trireme.
struct model_family {
    const char *name;
    const struct model_schema *schema; // NULL: a program's own family
    const decoder_form *decoder;       // how a decoder's layers are put together; NULL: no decoder
    bool reads_vectors;                // its samples are vectors, not sequences of tokens
    int (*blocks)(const void *config); // how many blocks
    // Blocks of equal key have the same graph, but for what is_frozen, type_of and adapter_of say.
    int (*key)(const void *config, int block);
    // Writes the forward pass of one block with the build_* functions of graph.h, from its input (ids,
    // features or the block before) to its output or the loss.
    void (*trace)(graph *g, const void *config, int block);
    // The number that "{}" stands for in the names of this block's parameters; -1: none.
    int (*layer)(const void *config, int block);
};

// Rows of a shard that several adjacent ranks have alike: heads of keys and values that are fewer than the ranks. Each
// rank's gradient of them is a summand.
typedef struct model_shared {
    int64_t first_row; // of the shard; all rows from there on are shared
    int ranks;         // 1: none
} model_shared;

typedef struct model_param {
    char name[PARAM_NAME_BYTES];
    // The declaration by the first block that uses the parameter. Borrowed from that block's graph.
    const graph_param *decl;
    uint64_t
        drawing; // keys its initial values; adapters have numbers of their own, so others keep theirs
    int64_t count;                  // elements of the full parameter
    int64_t shard_rows, shard_cols; // of this rank's shard; a vector has 1 column
    mesh_axes sharded;              // the axes over which each rank has another shard
    // The axes over which each rank has the same, but its gradient is a sum over the ranks; none where it is frozen.
    mesh_axes partial;
    model_shared shared;
    int block;      // the first block that uses it
    int last_block; // the last block that uses it; another one when the weights are tied
    int layer;      // what "{}" stands for in the names of its pieces
    bool frozen;    // it gets no gradient; false unless GRAPH_TRAIN
    dtype type;     // of the compute weight
} model_param;

typedef struct model_block {
    graph *g;   // borrowed from the model; blocks may share it
    int *param; // [g->params] index in model.param
    int layer;
    int rope; // index of its rotary table in model.rope; -1: it has none
} model_block;

// One of the model's rotary tables.
typedef struct model_rope_table {
    const graph *g; // a graph that has it
    size_t offset;  // bytes from the first table
} model_rope_table;

struct model {
    const model_family *family;
    graph_mode mode;
    dtype type;         // of activations
    int64_t batch, seq; // of a micro-batch
    graph_position position;
    bool splits_backward;
    int blocks;
    model_block *block; // [blocks]
    // The first block with a parameter that is not frozen. Blocks before it have no backward, and it
    // has no input gradient. `blocks`: every parameter is frozen.
    int first_backward;
    int graphs;
    graph **graph; // [graphs] owned
    int params;
    model_param *param; // [params] in the order of their first use
    int ropes;
    model_rope_table
        *rope; // [ropes] the rotary tables that differ, in the order of their first use
};

typedef struct model_options {
    graph_mode mode;
    dtype type;         // of activations, and of compute weights unless type_of is given
    int64_t batch, seq; // of a micro-batch
    recompute_mode recompute;
    graph_position position;
    bool splits_backward;      // the backward of a block can run as dgrad and wgrad
    const kernel_needs *needs; // as in graph_options, like the next two
    kernel_numerics numerics;
    int64_t cache_rows;
    bool documents; // as in graph_options, like the next one
    graph_loss_options loss;
    // Two functions of a tensor of model.safetensors. The pieces of one parameter must agree.
    // Returns whether the tensor is frozen. NULL: none is. Ignored unless GRAPH_TRAIN.
    bool (*is_frozen)(const void *arg, const char *tensor);
    // The type of the tensor's compute weight. NULL: `type`. An op computes in the type of its weight.
    dtype (*type_of)(const void *arg, const char *tensor);
    const void *tensor_arg; // of both; borrowed for the call of model_open
    // The adapter of a tensor that a linear layer reads. NULL: none has one.
    graph_adapter (*adapter_of)(const void *arg, const char *tensor);
    const void *adapter_arg; // borrowed for the call of model_open
} model_options;

// Traces every block. `config` need not outlive the call. E_USAGE names a misuse of the build
// functions, the size that the ranks of an axis do not divide, or two pieces of a parameter that differ
// in is_frozen or type_of; E_FIT: the model is too large.
status model_open(const model_family *f, const void *config, const model_options *o, model **out,
                  err *e);
void model_close(model *m); // NULL allowed

// Limits that the sizes of the model's tables set: token ids are below `tokens`, class labels below
// `classes`, and a sequence has at most `positions` tokens. INT32_MAX where there is no table.
typedef struct model_limits {
    int32_t tokens, classes, positions;
} model_limits;
model_limits model_get_limits(const model *m);

uint64_t model_param_count(const model *m); // elements of all full parameters
// Returns how many parameters that are neither frozen nor constant get no gradient from any block. Appends their names
// to a message:
// "a, b and 7 more" where they would not fit on a line.
int model_unused_params(const model *m, text *names);
// Returns whether parameter p is the weight of a linear layer, and nothing else. The tables of an embedding and the last
// layer, which the loss reads, are none.
bool model_param_is_linear(const model *m, int p);
// FLOPs of forward and backward of one micro-batch, on this rank.
double model_flops(const model *m);
double model_block_flops(const model *m, int block);

// ---- The rotary tables of all blocks, in one array of device memory (rope_tables.c)

size_t model_rope_bytes(const model *m); // 0: the model has none
// Computes the tables and copies them into `tables`, device memory of model_rope_bytes; waits for the stream.
status model_upload_rope(const model *m, device_stream *stream, float *tables, err *e);
// The table of a block, which graph_run.rope points to; NULL where it has none. A model of the same family and config
// has the same tables.
const float *model_block_rope(const model *m, int block, const float *tables);
// Notes the tables of the blocks, whose graphs are known. For model_open.
status model_note_ropes(model *m, err *e);

// Replaces "{}" by the number of the layer: "model.layers.{}.x" -> "model.layers.3.x".
void model_param_name_expand(char out[PARAM_NAME_BYTES], const char *pattern, int layer);

// ---- Initial values (params.c, shards.c)

// Draws elements first … first+count-1 of the full parameter p into out, device memory [count] F32.
// They depend on seed, p and the element only.
void model_param_init(const model *m, int p, uint64_t seed, int64_t first, int64_t count,
                      device_stream *on, float *out);
// The same for elements of the shard of the rank at `coord`: the values that model_param_init draws for the
// same elements of the full parameter.
void model_param_init_shard(const model *m, int p, const int coord[AXES], uint64_t seed,
                            int64_t first, int64_t count, device_stream *on, float *out);

// ---- The shards of ranks that compute blocks together, on the host, in F32 (shards.c)

// The size of parameter p's shard on the rank at `coord` [rows, cols]; a vector has 1 column. The full size
// where p is not sharded.
int64_t model_param_shard_rows(const model *m, int p, const int coord[AXES]);
int64_t model_param_shard_cols(const model *m, int p, const int coord[AXES]);
// The rows of the shard of the rank at `coord` that other ranks have, too.
model_shared model_param_shared(const model *m, int p, const int coord[AXES]);
// Is this rank the one that writes row `row` of its shard, where other ranks have it, too?
bool model_param_writes_row(const model *m, int p, const int coord[AXES], int64_t row);
// Copies the shard of the rank at `coord` out of the full parameter, or into it.
void model_param_take_shard(const model *m, int p, const int coord[AXES], const float *full,
                            float *shard);
void model_param_put_shard(const model *m, int p, const int coord[AXES], const float *shard,
                           float *full);
// Finds the beginning of row `row` of the shard in the full parameter. Returns how many rows from there on follow each
// other in the full parameter too, this one included.
int64_t model_param_shard_place(const model *m, int p, const int coord[AXES], int64_t row,
                                int64_t *full_row, int64_t *full_col);

// ---- Files of HuggingFace folders (params.c)

// Reads elements first … first + count-1 of parameter p, row by row, into out, host memory [count] F32. It reads
// no other elements of the files and allocates nothing. Tensors may lack the "transformer." or "model." before
// their names, or have the "language_model." of a model with other parts, or the "base_model.model." of PEFT. E_USAGE names a tensor that is missing or
// has another shape.
status model_param_load(const model *m, int p, const safetensors *from, int64_t first,
                        int64_t count, float *out, err *e);
// The use of a tensor of a folder.
typedef enum model_tensor_use {
    TENSOR_FOREIGN,   // none: the folder is of another model
    TENSOR_PIECE,     // a piece of a parameter
    TENSOR_TIED_COPY, // a copy of the token table, to which the output layer is tied
    TENSOR_CARRIED    // nothing of what the model computes: model_param_is_carried
} model_tensor_use;
typedef struct model_tensor_match {
    const safetensors_tensor *
        *piece; // [pieces] in the order of model_param_files; NULL: of an adapter; borrowed
    int pieces;
    model_tensor_use *use; // [safetensors_count]
} model_tensor_match;
// Finds a tensor by the name that the model has for it, or by a name that other folders have for it; NULL: there is none.
const safetensors_tensor *model_tensor_find(const safetensors *from, const char *name);
// Finds, without reading data, the tensors of every parameter but adapters in the right shapes, and the use of every tensor. E_USAGE
// names the first that is missing, has another shape, or is foreign. The owner calls model_param_match_clear, also
// after a failure.
status model_param_match(const model *m, const safetensors *from, model_tensor_match *out, err *e);
void model_param_match_clear(model_tensor_match *t);
// The same checks alone.
status model_param_check_all(const model *m, const safetensors *from, err *e);
// Returns whether a tensor that is no parameter belongs to a part of the folder that Trireme does not compute and keeps:
// images, sound, multi-token prediction, tables of old files.
bool model_param_is_carried(const safetensors *from, const safetensors_tensor *t);

// One tensor of a file: piece `piece` of parameter `param`, its rows from first_row on.
typedef struct model_param_file {
    char name[PARAM_NAME_BYTES];
    int param, piece;
    int64_t first_row;
} model_param_file;
typedef struct model_param_files {
    model_param_file *file;   // [count]
    safetensors_tensor *info; // [count] shapes and the type that is written; data NULL
    int count;
} model_param_files;
// Lists the tensors of all parameters. The caller frees the lists with model_param_files_clear.
status model_param_files_make(const model *m, dtype type, model_param_files *out, err *e);
void model_param_files_clear(model_param_files *f);
// Finds the tensor of a file in `from` by the model's name or another folder's. E_USAGE where it is missing or has another
// shape.
status model_param_find_file(const model *m, const model_param_file *f, const safetensors *from,
                             const safetensors_tensor **out, err *e);
// Finds the row of the file's tensor that has row `row` of a piece of parameter d. *follow gets how many rows from
// there on follow each other in both, this one included. The tensor is not transposed.
int64_t model_param_file_row(const graph_param *d, int piece, int64_t row, int64_t *follow);
// Returns whether the file has tensor f with its rows as columns.
bool model_param_file_is_transposed(const model *m, const model_param_file *f);
// in [rows, cols] -> out [cols, rows]
void model_param_transpose(const float *in, int64_t rows, int64_t cols, float *out);
// Copies tensor f out of the full parameter, or into it. Host memory, F32; the tensor has the file's
// order of elements.
void model_param_file_extract(const model *m, const model_param_file *f, const float *full,
                              float *tensor);
void model_param_file_insert(const model *m, const model_param_file *f, const float *tensor,
                             float *full);

#endif
