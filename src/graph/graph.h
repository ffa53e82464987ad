// graph.h -- one block of a model as a graph of operations. A model family writes the forward pass;
// everything else is derived from it.
//
// A family calls the build_* functions once per kind of block. This is the trace. graph_finish then derives
// the backward list, decides which forward values are saved and which are recomputed, gives every value its
// memory, and counts FLOPs and bytes. execute.h runs the two lists.
//
// The graph is in single-assignment form. A value owns no memory: it has a region and an offset. Under tensor
// parallelism a graph is one rank's shard of the block, and under context parallelism one rank's tokens of
// each sequence. A graph knows nothing of other ranks, of optimizers, or of the device that will run it.
#ifndef TRIREME_GRAPH_GRAPH_H
#define TRIREME_GRAPH_GRAPH_H

#include "base/err.h"
#include "base/mesh.h"
#include "base/recompute.h"
#include "comm/segment.h"
#include "device/kernel_needs.h"
#include "graph/loss_rows.h"
#include "graph/ops.h"
#include "graph/param.h"

typedef struct graph graph;
typedef struct graph_value graph_value;
typedef struct graph_node graph_node;

enum { GRAPH_DIMS = 4, NODE_INPUTS = 8, NODE_OUTPUTS = 7 };

// The memory region that a value lives in while a list runs. The caller of execute.h provides all but NONE and PARAM.
typedef enum graph_region {
    REGION_NONE,            // not yet laid out
    REGION_INPUT,           // activations from the block before
    REGION_OUTPUT,          // activations for the next block
    REGION_OUTPUT_GRAD,     // activation gradient from the next block
    REGION_INPUT_GRAD,      // activation gradient for the block before
    REGION_SAVED,           // saved from a block's forward to its backward
    REGION_SAVED_FOR_WGRAD, // saved from a block's dgrad to its wgrad
    REGION_WORKSPACE,       // scratch that all blocks share; dies with the list
    REGION_CACHE,           // GRAPH_DECODE: keys and values of earlier tokens
    REGION_STATE, // GRAPH_DECODE: what a block remembers of earlier tokens, of a fixed size
    REGION_IDS,   // token ids, or the features of a model without tokens
    REGION_LABELS,
    REGION_PARAM, // a compute weight
    REGIONS
} graph_region;

// The axes over which each dimension of a value is sharded. None: this rank has all of it. Rows over
// cp: the rank's tokens of each sequence. Rows over tp (sequence parallelism): a run of those rows.
// Columns: those of this rank's shard of a weight (its heads, its share of the inner width).
typedef struct graph_sharding {
    mesh_axes rows, cols;
} graph_sharding;

struct graph_value {
    int id; // index in graph->values.value
    const char *name;
    dtype type;
    int dims;
    int64_t dim[GRAPH_DIMS]; // of this rank's shard
    graph_node *producer;    // NULL for inputs and parameters
    int param;               // index in graph->param, or -1; also of a parameter's conversion
    graph_value *grad;       // its gradient; NULL before graph_finish, or where there is none
    // The backward list computes its gradient: the block's input needs one, or the block computes the
    // value from a parameter that is not frozen. Set by graph_finish; false for parameters.
    bool requires_grad;
    graph_sharding sharding;
    graph_value *copied_to[AXES]; // graph_copy_to's results for this value, or NULL
    // Memory, final after graph_finish:
    graph_value *root;   // the value whose memory this one shares; itself if it shares none
    graph_region region; // of the root
    size_t offset;       // of the root, in bytes from the region's start
    size_t view_offset;  // bytes from the root's start to this value
};

// Logits of outputs x of the last linear layer: scale * x, or softcap * tanh(scale * x / softcap).
typedef struct graph_logits {
    float scale, softcap; // softcap 0: none
} graph_logits;

// Attributes of a node. Each op reads its own member of the union.
typedef struct graph_node_attr {
    union {
        struct {
            float eps, alpha, beta; // alpha and beta are of OP_ADD_NORM
            bool is_rms, unit_offset;
        } norm;
        struct {
            int64_t heads, kv_heads, head_dim; // of this rank
            float eps;
            bool full_width, layer_norm, unit_offset;
        } qk_norm;
        struct {
            int64_t heads, kv_heads, head_dim; // of this rank
            float eps;
            bool of_keys;
        } value_norm;
        struct {
            int64_t heads, kv_heads, head_dim; // of this rank
            int64_t full_heads;                // of the unsharded layer
            float scale, dropout;
            kernel_attention_form form;
        } attention;
        struct {
            int64_t heads, head_dim;
            int64_t growing; // the first heads, which rotate by the second table; 0: there is none
            int64_t rot;     // columns of a head that are rotated
            bool interleaved, inverse;
        } rope;
        struct {
            axis axis;                   // that the node communicates over
            int64_t first_col, cols;     // cp: the columns of the input that are gathered
            const comm_segment *segment; // cp: [segments] of what is gathered
            int segments;
            int64_t window; // cp: of the attention, where the ranks exchange what it sees instead
            const size_t *gives, *takes; // [ranks] elements for each rank, and from each
        } over;
        struct {
            bool gated, silu;
        } conv;
        struct {
            int64_t heads, key_heads, key_dim, value_dim; // of this rank
            float scale, eps;
        } delta;
        struct {
            int64_t head_dim;
            float eps;
            bool silu;
        } gate;
        struct {
            int64_t first, cols;
        } take;
        kernel_activation act;
        struct {
            float alpha, beta;
        } add;
        float dropout;
        float scale; // embedding
        struct {
            graph_logits logits;
            bool squared; // squared error; else cross-entropy
        } loss;
        struct {
            int64_t first_col, cols; // of the output: those of the piece
        } low_rank;
        bool skip_bias; // linear: y is a summand, and another rank's summand has the bias
    } u;
} graph_node_attr;

struct graph_node {
    graph_op op;
    graph_value *in[NODE_INPUTS]; // an entry may be NULL where the op says optional
    graph_value *out[NODE_OUTPUTS];
    graph_node_attr attr;
    // Position among the forward nodes of the unsharded graph; keys random numbers. A gradient node
    // has the number of its forward node. Nodes of adapters have numbers of their own. -1: the node exists under tensor parallelism only.
    int number;
    int param[2];           // parameters whose gradients the node writes, or -1
    bool recomputed;        // a forward node that runs again in the backward list
    graph_value *workspace; // of its kernels; NULL: they need none. Known after graph_finish
};

typedef enum graph_mode { GRAPH_TRAIN, GRAPH_EVAL, GRAPH_DECODE } graph_mode;

// The position of a rank on the mesh. Axes that no role of a parameter and no row of a value is sharded over do
// not matter. Zeros: one rank.
typedef struct graph_position {
    mesh mesh; // sizes of 0 count as 1
    int coord[AXES];
    // Between two tensor-parallel regions the values are sharded by rows (sequence parallelism,
    // Korthikanti et al. 2022). Ignored without tensor parallelism.
    bool sequence_parallel;
} graph_position;

// Returns the adapter of a tensor of files, a piece of a linear layer's weight. Its name may have a "{}".
typedef graph_adapter (*graph_adapter_lookup)(const void *arg, const char *tensor);

typedef struct graph_options {
    graph_mode mode;
    dtype type;         // of activations, and of compute weights unless graph_param.type is set
    int64_t batch, seq; // sequences of a micro-batch and tokens of a sequence (seq 1: no sequences)
    graph_position position;
    bool splits_backward; // the backward can run as dgrad and wgrad; ignored unless GRAPH_TRAIN
    const kernel_needs *needs; // of the device that will run it; NULL: its kernels need nothing
    kernel_numerics numerics;
    int64_t cache_rows;       // GRAPH_DECODE: tokens of a sequence, at most
    bool input_needs_no_grad; // no earlier block has a parameter that trains
    bool documents;           // sequences are packed documents: a run brings graph_run.documents
    graph_loss_options loss;  // of the last block
    graph_adapter_lookup find_adapter; // NULL: no tensor has one
    const void *adapter_arg;           // borrowed while the build functions are called
} graph_options;

typedef struct graph_node_list {
    graph_node **node;
    int count;
    size_t room;
} graph_node_list;

typedef struct graph_value_list {
    graph_value **value;
    int count;
    size_t room;
} graph_value_list;

// The backward as two parts, dgrad and wgrad.
typedef struct graph_split {
    bool on;
    int dgrad_nodes;        // backward.node[0 … dgrad_nodes-1] are dgrad
    bool saves_output_grad; // wgrad reads the output gradient too
} graph_split;

typedef struct graph_input_grad {
    bool in_place; // the input gradient overwrites the output gradient in its memory
    bool unused;   // there is none: the block has no input, or the input needs no gradient
} graph_input_grad;

// A rotary table: cosines and sines of frequency * position, for pairs of columns of a head.
typedef struct graph_rope {
    int64_t rows;            // positions
    int64_t pairs;           // 2 * pairs columns of a head are rotated, the first ones
    const double *frequency; // [pairs]
    double scale; // factor of cosines and sines (attention scaling of yarn and longrope); else 1
    // With a growth, the first `queries` heads are multiplied by 1 + growth * log(1 + floor(position / period)), too.
    int64_t queries; // of the unsharded layer
    double growth;
    int64_t period;
} graph_rope;

// The sequences of a micro-batch, and this rank's tokens of them.
typedef struct graph_sequences {
    kernel_tokens tokens; // without documents: graph_run_tokens adds them
    bool documents;       // as in graph_options, like the next one
    int64_t cache_rows;
    struct graph_table *table; // of collectives; owned; op.h
} graph_sequences;

// The key-value cache of a GRAPH_DECODE block. Where all attention of the block has a window, it need not hold all
// tokens: it has about 2 windows of rows, and when these are full the rows that are still seen move to its start.
typedef struct graph_cache {
    int64_t rows;   // each of graph_bytes.cache_row
    int64_t most;   // tokens of a run
    int64_t window; // rows that the attention of the latest token reads, its own among them; 0: all
} graph_cache;

// Sizes of the regions, for one micro-batch.
typedef struct graph_bytes {
    size_t input, output, saved, workspace;
    size_t saved_for_wgrad; // 0 unless the backward is split
    size_t cache_row;       // GRAPH_DECODE: bytes of a row of the block's key-value cache
    size_t state;           // GRAPH_DECODE: of REGION_STATE, zeros before the first token
} graph_bytes;

// FLOPs of matrix products and attention, for one micro-batch.
typedef struct graph_flops {
    double forward, backward;
} graph_flops;

// What build functions need of each other.
typedef struct graph_tracing {
    int next_number;    // of the next forward node
    int adapter_nodes;  // nodes that have numbers of their own
    bool not_divisible; // first_error says which size the ranks of an axis do not divide
    graph_adapter_lookup find_adapter;
    const void *adapter_arg;
    // What they return without memory. graph_finish then fails before either is read.
    graph_value no_value;
    graph_node no_node;
} graph_tracing;

struct graph {
    graph_mode mode;
    dtype type;                // of activations; the residual is F32
    int64_t batch;             // sequences of a micro-batch
    const kernel_needs *needs; // borrowed; NULL: none
    kernel_numerics numerics;
    graph_sequences sequences;
    graph_loss_options loss;
    graph_position position;
    err first_error; // the first misuse of a build function, or E_MEMORY

    graph_param *param;
    int params;
    size_t param_room;
    graph_value_list values;
    graph_node_list forward, backward; // own their nodes
    graph_tracing tracing;

    graph_value *input, *ids, *labels; // NULL where the block has none
    graph_value *output;               // NULL in the last block
    graph_value *logits;               // the last block of a GRAPH_DECODE graph
    graph_logits logits_of;            // what is still to be computed of `logits`
    graph_input_grad input_grad;
    graph_split split;
    graph_rope rope;   // the block's one rotary table; owned. frequency NULL: the block has none
    graph_cache cache; // of the finished graph
    graph_bytes bytes;
    graph_flops flops;
};

status graph_open(const graph_options *o, graph **out, err *e);
void graph_close(graph *g); // NULL allowed

// ---- What a model family calls
//
// Values belong to the graph. The first misuse, or a lack of memory, is kept in g->first_error, and
// graph_finish returns it, so that a forward pass reads without checks. Shapes below are those of
// the unsharded graph, with rows = batch * seq.

// -> [rows, cols] from the block before, in the compute type
graph_value *build_input(graph *g, int64_t cols);
// -> [rows, cols] F32: the residual from the block before
graph_value *build_residual(graph *g, int64_t cols);
// -> [rows] I32: token ids
graph_value *build_ids(graph *g);
// -> [rows, cols]: the features of a dataset without tokens
graph_value *build_features(graph *g, int64_t cols);
// x becomes the input of the next block.
void build_output(graph *g, graph_value *x);

// Declares a parameter -> [rows, cols], or [rows] where cols is 0. `std` is the deviation of INIT_NORMAL, or the
// number of INIT_CONSTANT.
graph_value *build_weight(graph *g, const char *name, int64_t rows, int64_t cols, graph_init init,
                          double std);
// Gives the dimensions of a parameter their roles; call it right after build_weight. Where a role is
// sharded the value then has the sizes of this rank's shard; the declaration keeps the full ones.
void build_roles(graph *g, graph_value *param, graph_role rows, graph_role cols);
// Training does not change the parameter, as a buffer of PyTorch. It has no gradient.
void build_constant(graph *g, graph_value *param);
// Files hold the parameter, a vector of 1, as a tensor without dimensions.
void build_scalar(graph *g, graph_value *param);
// Says that the rows are sections of so many rows and heads each, before build_roles. Where the ranks that shard them are
// a multiple of a section's heads, adjacent ranks have the same head of it. A section of 0 rows ends the list.
void build_sections(graph *g, graph_value *param, const int64_t rows[PARAM_SECTIONS],
                    const int64_t heads[PARAM_SECTIONS]);
// Files hold the parameter as [cols, rows] (GPT-2's Conv1D).
void build_transposed(graph *g, graph_value *param);
// Files hold the parameter as [rows, 1, cols] (the weight of a depthwise Conv1d).
void build_conv_weight(graph *g, graph_value *param);
// Appends a piece: the parameter's next `rows` rows are tensor `name` of a file. Without: one tensor.
void build_piece(graph *g, graph_value *param, const char *name, int64_t rows);
// The last piece is up to PARAM_SECTIONS parts, of which the file holds run[i] rows each in turn; the others are 0: a key
// head's queries, keys and values.
void build_turns(graph *g, graph_value *param, const int64_t run[PARAM_SECTIONS]);
// The same of two halves, `run` rows of each: a head's queries and then its gates (run: head_dim), or gate and up row by
// row (run: 1).
void build_interleaved(graph *g, graph_value *param, int64_t run);

// y[r,:] = scale * tokens[ids[r],:] + positions[position of row r,:]
//   ids [rows]   tokens [vocab, cols]   positions [max_seq, cols] or NULL   -> y [rows, cols] F32
graph_value *build_embedding(graph *g, graph_value *ids, graph_value *tokens,
                             graph_value *positions, double scale);
// y = x w^T + bias
//   x [rows, in]   w [out, in]   bias [out] or NULL   -> y [rows, out]
graph_value *build_linear(graph *g, graph_value *x, graph_value *w, graph_value *bias);
// x [rows, cols]   gain, bias [cols], each may be NULL   -> [rows, cols] in the compute type
typedef struct graph_norm {
    double eps;
    bool is_rms;      // RMS norm; else layer norm
    bool unit_offset; // the factor is 1 + gain
} graph_norm;
graph_value *build_norm(graph *g, graph_value *x, graph_value *gain, graph_value *bias,
                        const graph_norm *form);
// Norms of queries and keys, before or after build_rope.
//   qkv [rows, (heads + 2 * kv_heads) * head_dim]: queries, keys, values   -> the same; values are copied
// Per head, the head_dim columns of each head are normed by themselves, and gains are [head_dim]. At full
// width all queries are normed together and all keys, with gains [heads * head_dim] and
// [kv_heads * head_dim], whose role is ROLE_HEADS. Layer norms are per head, and have such gains, too.
typedef struct graph_qk_norm {
    int64_t heads, kv_heads, head_dim;
    graph_value *q_gain, *k_gain; // each may be NULL
    double eps;
    bool full_width;
    bool layer_norm;  // else RMS norms
    bool unit_offset; // the factors are 1 + gain
} graph_qk_norm;
graph_value *build_qk_norm(graph *g, graph_value *qkv, const graph_qk_norm *form);
// RMS norms of values, without a gain, before build_qk_norm.
//   x [rows, (heads + 2 * kv_heads) * head_dim]: queries, keys, values; with of_keys without the values, and those of
//   the result are the norms of the keys   -> the former
typedef struct graph_value_norm {
    int64_t heads, kv_heads, head_dim;
    double eps;
    bool of_keys;
} graph_value_norm;
graph_value *build_value_norm(graph *g, graph_value *x, const graph_value_norm *form);
// Rotates the first `heads` heads of each row of x by rotary positions. A pair is columns i and
// i + table->pairs of a head, or neighbours, 2i and 2i + 1, where `interleaved`. Works in the memory of x,
// so x must have no other reader. The table is copied; all calls in a block must have the same one.
//   x [rows, >= heads * head_dim]   2 * table->pairs <= head_dim, and equal to it with a growth
graph_value *build_rope(graph *g, graph_value *x, int64_t heads, int64_t head_dim,
                        const graph_rope *table, bool interleaved);
// Causal self-attention, as kernel_attention.h specifies it.
typedef struct graph_attention {
    int64_t heads, kv_heads, head_dim;
    double scale, dropout;
    int64_t window;     // tokens that a token sees, itself the last of them; 0: all before it
    double softcap;     // of the scaled scores; 0: none
    graph_value *sinks; // a parameter [heads] whose rows are ROLE_HEADS; NULL: none
} graph_attention;
//   qkv [rows, (heads + 2 * kv_heads) * head_dim]   -> [rows, heads * head_dim]
graph_value *build_attention(graph *g, graph_value *qkv, const graph_attention *a);
graph_value *build_activation(graph *g, graph_value *x, kernel_activation act);
// act(gate) * up:   gate_up [rows, 2 * cols], gate first   -> [rows, cols]
graph_value *build_glu(graph *g, graph_value *gate_up, kernel_activation act);
// xIELU, as kernel_xielu.h specifies it. The numbers are parameters [1].
typedef struct graph_xielu {
    graph_value *alpha_p, *alpha_n, *beta, *eps;
} graph_xielu;
graph_value *build_xielu(graph *g, graph_value *x, const graph_xielu *numbers);
// y = alpha * a + beta * b, of equal shapes. y has the type of a, which may be the F32 residual while
// b has the compute type.
graph_value *build_add(graph *g, graph_value *a, graph_value *b, double alpha, double beta);
// y = factor * x. The factor is a parameter [1] that is constant.
graph_value *build_scaled(graph *g, graph_value *x, graph_value *factor);
// Returns x itself where p is 0 or the graph does not train.
graph_value *build_dropout(graph *g, graph_value *x, double p);
// x converted to F32; x itself where it is F32.
graph_value *build_as_residual(graph *g, graph_value *x);
// The last row of x -> [1, cols], in the memory of x. The batch must be 1.
graph_value *build_last_row(graph *g, graph_value *x);
// Ends the last block with the loss of logits against labels. The logits are z = scale * (x w^T + bias), or
// softcap * tanh(z / softcap) where softcap is not 0. In a GRAPH_DECODE graph the output is instead
// x w^T + bias of the last row, of which graph_finish_logits makes the logits.
//   x [rows, in]   w [classes, in]   bias [classes] or NULL   labels [rows] I32
void build_linear_cross_entropy(graph *g, graph_value *x, graph_value *w, graph_value *bias,
                                double scale, double softcap);
// The same with squared error against targets.
//   x [rows, in]   w [outputs, in]   bias [outputs] or NULL   labels [rows * outputs] F32
void build_linear_square_error(graph *g, graph_value *x, graph_value *w, graph_value *bias);

// Derives the backward list, the memory layout, FLOPs and bytes. Returns the first misuse of a build
// function: E_USAGE, or E_FIT for a value that is too large; or E_MEMORY.
status graph_finish(graph *g, recompute_mode recompute, err *e);

// ---- Facts about a finished graph

// The sizes of the loss, for the unsharded model.
typedef struct graph_loss_dims {
    int64_t outputs;      // logits or predictions of a position
    int64_t inputs;       // columns that the last linear layer reads
    bool classes;         // outputs are logits of classes; else predictions of targets
    bool outputs_sharded; // each rank has the outputs that graph_shard(ROLE_VOCAB, …) says
} graph_loss_dims;
// Returns false when the graph does not end in a loss.
bool graph_loss_shape(const graph *g, graph_loss_dims *out);

// The arrays behind the labels of a cross-entropy.
graph_loss_arrays graph_loss_arrays_of(const graph *g);
// The rows that a run computes of `labelled` rows with a label: some more, without one, make the chunks of products full.
int64_t graph_loss_run_rows(const graph *g, int64_t labelled);

// Does parameter p get a gradient? False where it is frozen. The graph is a finished GRAPH_TRAIN graph.
bool graph_gives_gradient(const graph *g, int p);
// Returns whether the forward list uses parameter p as the weight of linear layers, and for nothing else.
bool graph_param_is_linear(const graph *g, int p);
// Has the backward list any node? A loss that is the block's only op computes all in its forward.
bool graph_has_backward(const graph *g);

// The axes over which a dimension of role r is sharded.
mesh_axes graph_role_axes(graph_role r);
// The shard that the rank at these coordinates has of `count` elements of a dimension of role r: returns how
// many elements it has, and *first (NULL allowed) gets the first one. Shards are equal, but for a
// vocabulary's last one, which may be shorter.
int64_t graph_shard(graph_role r, int64_t count, const mesh *m, const int coord[AXES],
                    int64_t *first);
// The same of a section of rows. graph_section_copies adjacent ranks have the same shard; else 1.
int64_t graph_shard_section(graph_role r, const graph_part *s, const mesh *m, const int coord[AXES],
                            int64_t *first);
int graph_section_copies(graph_role r, const graph_part *s, const mesh *m);
// The axes with several ranks over which dimension `dim` of the parameter is sharded.
mesh_axes graph_param_sharding(const mesh *m, const graph_param *p, int dim);

// Returns whether two rotary tables hold the same numbers.
bool graph_rope_equal(const graph_rope *a, const graph_rope *b);

// The tokens of a sequence of `seq` tokens that context-parallel rank `rank` of `ranks` has. The ranks
// must divide the sequence (graph_open).
kernel_tokens graph_tokens(int64_t seq, int ranks, int rank);
// How the rows of a block's input and output are sharded.
mesh_axes graph_row_sharding(const graph *g);
int64_t graph_rows(const graph *g); // rows of this rank before sequence parallelism shards them

size_t graph_value_bytes(const graph_value *v);
int64_t graph_value_count(const graph_value *v); // elements
int64_t graph_value_rows(const graph_value *v);  // product of all dims but the last
int64_t graph_value_cols(const graph_value *v);
int64_t graph_param_cols(const graph_param *p); // of the full parameter; 1 for a vector

// ---- For the build_* functions, which live in the files of the ops and in api/

// Keeps the first misuse of a build function in g->first_error.
void graph_misuse(graph *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
// False when `s` is not OK: then it is kept in g->first_error.
bool graph_check(graph *g, status s);
// Returns what is kept in g->first_error.
status graph_first_error(const graph *g, err *e);

#endif
