// graph.h -- one block of a model as a graph of ops: written forward only, everything else is
// derived.
//
// A model family calls the build_* functions once per kind of block (the trace). graph_finish then
// derives the backward list, which forward values to keep or to compute again, the places of all
// values in memory, FLOPs and bytes. execute.h executes the two lists. Values are in
// single-assignment form; a value owns no memory, it has a place.
//
// A graph may be one rank's part of a graph that is cut over the ranks of tensor parallelism: see
// tensor_parallel.c. It knows nothing of other ranks, of optimizers, or of which device will run it.
#ifndef TRIREME_GRAPH_GRAPH_H
#define TRIREME_GRAPH_GRAPH_H

#include "base/err.h"
#include "device/kernels.h"

typedef struct graph graph;
typedef struct graph_value graph_value;
typedef struct graph_node graph_node;

enum {
    GRAPH_DIMS = 4,
    NODE_INPUTS = 8,
    NODE_OUTPUTS = 4,
    PARAM_DIMS = 2,
    PARAM_PIECES = 3,
    PARAM_NAME_BYTES = 96
};

// Where a value lives while a list runs. WORK is shared by all blocks, SAVED lasts from a block's
// forward to its backward, HELD from one half of the backward to the other, INPUT … DIN are handed
// over between blocks, CACHE holds keys and values of earlier tokens.
typedef enum graph_region {
    REGION_NONE,
    REGION_INPUT,
    REGION_OUTPUT,
    REGION_OUTPUT_GRAD,
    REGION_INPUT_GRAD,
    REGION_SAVED,
    REGION_SAVED_FOR_WGRAD,
    REGION_WORKSPACE,
    REGION_CACHE,
    REGION_IDS,
    REGION_LABELS,
    REGION_PARAM,
    REGIONS
} graph_region;

typedef enum graph_op {
    OP_EMBEDDING,
    OP_LINEAR,
    OP_NORM,
    OP_ROPE,
    OP_ATTENTION,
    OP_ACTIVATION,
    OP_GLU,
    OP_ADD,
    OP_DROPOUT,
    OP_CONVERT,
    OP_COPY_TO_TP,
    OP_REDUCE_FROM_TP,
    OP_GATHER_FROM_SP,
    OP_SCATTER_TO_SP,
    OP_LINEAR_CROSS_ENTROPY,
    OP_LINEAR_SQUARE_ERROR,
    OP_EMBEDDING_GRAD,
    OP_LINEAR_GRAD_INPUT,
    OP_LINEAR_GRAD_WEIGHT,
    OP_NORM_GRAD,
    OP_ATTENTION_GRAD,
    OP_ACTIVATION_GRAD,
    OP_GLU_GRAD,
    OPS
} graph_op;

// What a dimension of a parameter is; tensor parallelism splits by role.
typedef enum graph_role { ROLE_NONE, ROLE_VOCAB, ROLE_EMBED, ROLE_HEADS, ROLE_MLP } graph_role;
typedef enum graph_init { INIT_NORMAL, INIT_ONES, INIT_ZEROS } graph_init;

// A parameter as a block declares it. `piece` says which tensors of a HuggingFace folder it is made
// of, rows after rows; "{}" in a name stands for the layer's number. Parameters of equal name are
// one parameter.
typedef struct graph_param {
    char name[PARAM_NAME_BYTES];
    int dims;
    int64_t dim[PARAM_DIMS];
    graph_role roles[PARAM_DIMS];
    graph_init init;
    float std;
    int pieces;
    struct {
        char name[PARAM_NAME_BYTES];
        int64_t rows;    // of dim[0]
        bool transposed; // stored [dim[1], rows]
    } piece[PARAM_PIECES];
    // dim is the whole's; these are set when the graph is cut.
    int shard_dim;                 // the dimension of which each rank has a part, or -1
    int sections;                  // of split 0: blocks of rows of which each gives its part,
    int64_t section[PARAM_PIECES]; // and their rows; 0 sections: the pieces
    bool grad_full, grad_partial;  // not split: a rank's gradient is the whole, or a summand
} graph_param;

// What a rank's value holds of the whole one: all of it, the columns of its part of the weight (its
// heads, its part of the inner width), or its part of the rows.
typedef enum graph_tp_sharding { TP_REPLICATE, TP_SHARD_COLS, TP_SHARD_ROWS } graph_tp_sharding;

struct graph_value {
    int id;
    const char *name;
    dtype type;
    int dims;
    int64_t dim[GRAPH_DIMS];
    graph_node *producer; // NULL for inputs and parameters
    int param;            // index in graph->param, or -1
    graph_value *grad;    // its gradient, once derived
    graph_value *root;    // the value whose memory it shares; itself when its own
    graph_tp_sharding tp_sharding;
    graph_value *copied_to_tp; // the same for a tensor-parallel region, once something asked for it
    size_t view;               // bytes from the root's start (a part of the root's rows)
    graph_region place;        // of the root
    size_t offset;             // bytes from the place's start
};

// Attributes of a node; each op reads its own part.
typedef struct graph_node_attr {
    union {
        struct {
            float eps;
            bool is_rms;
        } norm;
        struct {
            int64_t heads, kv_heads, head_dim, all_heads; // all: of the whole layer
            float scale, dropout;
        } attention;
        struct {
            int64_t heads, head_dim, rot;
            bool inverse;
        } rope;
        kernel_activation act;
        struct {
            float alpha, beta;
        } add;
        float dropout;
        float scale;     // embedding, cross entropy
        bool other_bias; // linear: another rank's product adds the bias of their sum
    } u;
} graph_node_attr;

struct graph_node {
    graph_op op;
    graph_value *in[NODE_INPUTS]; // a slot may be NULL where the op says optional
    graph_value *out[NODE_OUTPUTS];
    graph_node_attr attr;
    int number;   // of forward nodes, in order; keys random numbers. -1 where only a cut graph has
                  // the node, so that the others have the numbers of the whole one. Of a gradient
                  // node: its forward's
    int param[2]; // gradient nodes: parameters whose gradients it adds to, or -1
    bool recomputed; // a forward node run again in the backward list
};

typedef enum graph_mode { GRAPH_TRAIN, GRAPH_EVAL, GRAPH_DECODE } graph_mode;
typedef enum graph_recompute {
    RECOMPUTE_NONE,
    RECOMPUTE_SELECTIVE,
    RECOMPUTE_FULL,
    RECOMPUTES
} graph_recompute;

// How a graph is cut over the ranks of tensor parallelism; zeros: not at all. `sequence`: what lies
// between two tensor-parallel regions is split by rows, too (Korthikanti et al. 2022).
typedef struct graph_tp {
    int ranks, rank;
    bool sequence;
} graph_tp;

typedef struct graph_options {
    graph_mode mode;
    dtype type;         // of activations and compute weights
    int64_t batch, seq; // sequences of a micro-batch and their tokens (seq 1 for other samples)
    graph_tp tp;
    bool splits_backward; // the backward can be run in two halves
} graph_options;

typedef struct graph_node_list {
    graph_node **node;
    int count;
    size_t room;
} graph_node_list;

struct graph {
    graph_mode mode;
    dtype type;         // of activations and compute weights; the residual stream is F32
    int64_t batch, seq; // rows of every activation are batch * seq
    graph_tp tp;
    bool splits_backward;
    err trouble;        // the first misuse of a build function, or E_MEMORY
    bool not_divisible; // trouble says what does not divide over the ranks; by model_family.name
    int numbered;       // forward nodes that have a number

    graph_param *param;
    int params;
    size_t param_room;
    graph_value **value;
    int values;
    size_t value_room;
    graph_node_list forward, backward;
    graph_value no_value; // what a build function returns when memory lacks;
    graph_node no_node;   // graph_finish then fails before either is read

    graph_value *input, *ids, *labels; // NULL where the block has none
    graph_value *output;               // NULL in the last block
    graph_value *logits;               // the last block of a GRAPH_DECODE graph
    bool input_grad_in_place;          // the gradient of the input replaces that of the output
    bool input_grad_unused;            // the block has no differentiable input
    int dgrad_nodes; // with halves: how many nodes of `backward` are the first half
    bool
        output_grad_saved; // with halves: the second one, too, reads the gradient that was handed in

    int64_t rope_rows, rope_half;
    double *rope_frequency; // [rope_half] of the one rotary table that the block uses

    size_t input_bytes, output_bytes, saved_bytes, workspace_bytes;
    size_t saved_for_wgrad_bytes; // with halves; else 0
    size_t cache_row_bytes;       // GRAPH_DECODE: bytes per token of the block's key-value cache
    double forward_flops, backward_flops; // of matrix products and attention, one micro-batch
};

status graph_open(const graph_options *o, graph **out, err *e);
void graph_close(graph *g); // NULL allowed

// ---- What a model family calls. Values are borrowed from the graph. Misuse and lack of memory
// are kept in g->trouble and returned by graph_finish, so that a forward pass reads without checks.

graph_value *build_input(graph *g, int64_t cols); // [batch*seq, cols] from the block before
graph_value *build_residual(graph *g,
                            int64_t cols); // the same for the residual: F32 whatever g->type is
graph_value *build_ids(graph *g);          // [batch*seq] token ids (I32)
// [batch*seq, cols] of the data itself (F32 on the host's side)
graph_value *build_features(graph *g, int64_t cols);
void build_output(graph *g, graph_value *x); // what the next block reads

// Parameters. `rows`, `cols`; a vector has cols 0. The last declared piece list is one tensor of
// the same name.
graph_value *build_weight(graph *g, const char *name, int64_t rows, int64_t cols, graph_init init,
                          double std);
// Which dimensions are cut over the ranks of tensor parallelism; right after build_weight. From
// then on the value has the sizes of this rank's part, the declaration keeps the whole ones.
void build_roles(graph *g, graph_value *param, graph_role rows, graph_role cols);
void build_transposed(graph *g,
                      graph_value *param); // stored [cols, rows] in files (GPT-2's Conv1D)
// The parameter is a concatenation of `rows` rows of tensor `name`, then of the next piece.
void build_piece(graph *g, graph_value *param, const char *name, int64_t rows);

// y[r,:] = scale * tokens[ids[r],:] + positions[r % seq,:]      positions NULL for none; y is a
// stream (F32)
graph_value *build_embedding(graph *g, graph_value *ids, graph_value *tokens,
                             graph_value *positions, double scale);
// y = x w^T + bias      x [rows, in], w [out, in], bias [out] or NULL
graph_value *build_linear(graph *g, graph_value *x, graph_value *w, graph_value *bias);
graph_value *build_layer_norm(graph *g, graph_value *x, graph_value *gain, graph_value *bias,
                              double eps);
graph_value *build_rms_norm(graph *g, graph_value *x, graph_value *gain, double eps);
// Rotates the first `heads` heads of each row of x, in its own memory: x must have no other reader.
graph_value *build_rope(graph *g, graph_value *x, int64_t heads, int64_t head_dim, int64_t rows,
                        const double *frequency, int64_t half);
// Causal self-attention. qkv [rows, (heads + 2 kv_heads) * head_dim] -> [rows, heads * head_dim]
graph_value *build_attention(graph *g, graph_value *qkv, int64_t heads, int64_t kv_heads,
                             int64_t head_dim, double scale, double dropout);
graph_value *build_activation(graph *g, graph_value *x, kernel_activation act);
graph_value *build_glu(graph *g, graph_value *gate_up,
                       kernel_activation act); // [rows, 2F] -> [rows, F]
// y has a's type: a stream (F32) takes what a half-block adds to it in the compute type.
graph_value *build_add(graph *g, graph_value *a, graph_value *b, double alpha, double beta);
graph_value *build_dropout(graph *g, graph_value *x,
                           double p); // x itself when p is 0 or the graph does not train
// x as a stream (F32): x itself when it is one.
graph_value *build_as_residual(graph *g, graph_value *x);
// The last row of each sequence [batch, cols], in the memory of x; batch must be 1.
graph_value *build_last_row(graph *g, graph_value *x);
// The loss of logits = scale * (x w^T + bias) against labels; ends the last block. In a
// GRAPH_DECODE graph: the unscaled logits of the last row, as the block's output.
void build_linear_cross_entropy(graph *g, graph_value *x, graph_value *w, graph_value *bias,
                                double scale);
void build_linear_square_error(graph *g, graph_value *x, graph_value *w, graph_value *bias);

// Derives everything. E_USAGE with the first misuse of a build function, E_MEMORY; E_INTERNAL when the graph
// cannot be laid out.
status graph_finish(graph *g, graph_recompute keep, err *e);

// What the loss is of, of the whole model where the graph is cut: how many logits or predictions a
// position has, and how many columns the last linear layer reads.
typedef struct graph_loss_dims {
    int64_t outputs, inputs;
    bool classes;       // outputs are logits of classes; else predictions of targets
    bool outputs_split; // over the ranks of the cut, as graph_shard says
} graph_loss_dims;
// False when the graph ends in no loss.
bool graph_loss_shape(const graph *g, graph_loss_dims *out);

// Does parameter p get a gradient? (Of a finished GRAPH_TRAIN graph.)
bool graph_gives_gradient(const graph *g, int p);

// Bytes that this rank of a cut graph sends to the others while nodes first … last-1 of one of its
// lists run, by the formulas of a ring.
double graph_sent_bytes(const graph *g, const graph_node_list *l, int first, int last);

// ---- For the files of this folder.

// ---- A graph that is cut (tensor_parallel.c, op_tensor_parallel.c)

// Does each rank have a part of dimension `dim` of parameter w?
bool graph_is_sharded(const graph *g, const graph_value *w, int dim);
// How much of a whole of `count` rank `rank` has, and where it starts: equal parts, but a
// vocabulary's last one may be shorter.
int64_t graph_shard(graph_role r, int64_t count, int ranks, int rank, int64_t *first);
// The row of the whole table that is row 0 of w.
int64_t graph_first_row(const graph *g, const graph_value *w);
// x as every rank of a tensor-parallel region reads it; its gradient is the sum of theirs.
graph_value *graph_copy_to_tp(graph *g, graph_value *x);
// The sum of what the ranks have of x; with `sequence`, each rank's rows of it.
graph_value *graph_reduce_from_tp(graph *g, graph_value *x);
// qkv or gate_up comes from a linear layer whose rows are such blocks: each is cut by itself.
void graph_sections(graph *g, const graph_value *x, const char *who, int count,
                    const int64_t *rows);
// How many of `whole` heads this rank has of x.
int64_t graph_local_heads(const graph *g, const graph_value *x, int64_t whole);
// Notes whether this use gives parameter w its whole gradient or a summand; x is what it meets.
void graph_note_use(graph *g, const graph_value *w, const graph_value *x);
void graph_not_divisible(graph *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
// What divides `count`: "1, 2, 4".
const char *graph_divisors(int64_t count, char out[96]);
void graph_check_tp(graph *g);

// x in the compute type: itself, or converted from a stream.
graph_value *graph_as_compute(graph *g, graph_value *x);
// A new node at the end of the forward list, or of list l. Without memory it is g->no_node.
graph_node *graph_new_node(graph *g, graph_op kind);
graph_node *graph_add_node(graph *g, graph_node_list *l, graph_op kind);
graph_value *graph_new_value(graph *g, const char *name, dtype type, int dims, const int64_t *dim);
graph_value *graph_new_like(graph *g, const char *name, const graph_value *v);
void graph_misuse(graph *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Appends a node and owns it from now on. Without memory the node is freed.
void graph_node_list_add(graph *g, graph_node_list *l, graph_node *n);
// False when `s` is not OK: then it is kept in g->trouble.
bool graph_check(graph *g, status s);
status graph_trouble(const graph *g, err *e);
size_t graph_value_bytes(const graph_value *v);
int64_t graph_value_rows(const graph_value *v); // product of all dims but the last
int64_t graph_value_cols(const graph_value *v);
int64_t graph_loss_chunk_rows(const graph *g, int64_t vocab);

status graph_derive(graph *g, err *e);
status graph_plan_recompute(graph *g, graph_recompute keep, err *e);
status graph_split_backward(graph *g, err *e);
status graph_layout(graph *g, err *e);

#endif
