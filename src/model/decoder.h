// decoder.h -- a transformer's decoder as data. decoder.c builds the blocks of every family of text models from
// two records: the form, a constant of the family, says how a layer is put together and what its tensors are called in
// a HuggingFace folder; the model_config says the numbers. Blocks: the embedding, the layers, the head.
#ifndef TRIREME_MODEL_DECODER_H
#define TRIREME_MODEL_DECODER_H

#include "model/model.h"

// The norms of a layer, by the place where they stand. Those that a family lacks have no name.
enum { BEFORE_ATTENTION, AFTER_ATTENTION, BEFORE_MLP, AFTER_MLP, DECODER_NORMS };

enum { DECODER_PIECES = 3 }; // tensors of a linear layer, at most

// What mixes the tokens of a layer.
typedef enum decoder_mixer { MIXER_ATTENTION, MIXER_CONV, MIXER_DELTA, MIXERS } decoder_mixer;

// A parameter and the tensors of a file that it is made of, one after the other along its rows. Without pieces the
// file has one tensor of the parameter's name. Names lack ".weight" and ".bias".
typedef struct decoder_tensor {
    const char *name, *piece[DECODER_PIECES];
} decoder_tensor;

// A gated delta rule.
typedef struct decoder_delta {
    decoder_tensor qkv, gate, ba,
        output; // gate: of the output; without a name it is the last part of qkv
    const char *log_decay, *a_bias; // full names
    const char *norm;               // of the output
} decoder_delta;

typedef struct decoder_names {
    const char *embedding, *final_norm, *head;
    const char *positions;             // learned positions; NULL: none
    const char *norm[DECODER_NORMS];   // NULL: the layer has no such norm
    decoder_tensor qkv, output;        // of attention
    const char *query_norm, *key_norm; // NULL: none
    const char *sinks;                 // of attention, NAME.sinks; NULL: none
    decoder_tensor conv_in;  // of a short convolution: the gates before and after it, and its input
    decoder_tensor conv_out; // its output
    const char *taps;        // of a convolution
    decoder_delta delta;
    decoder_tensor up, down; // of the MLP; with a gate, `up` is gate and up
    // A factor of the layer's result that is not trained, NAME.layer_scalar; NULL: none
    const char *scalar;
    const char *xielu; // the activation's activation's numbers, NAME.alpha_p and so on; NULL: none
} decoder_names;

typedef enum decoder_qk_norm {
    QK_NORM_NONE,
    QK_NORM_HEAD, // each head by itself
    QK_NORM_FULL, // all queries together, all keys together
    // Layer norms of each head with gains of its own:
    QK_NORM_OWN_GAINS,  // one tensor [heads, head_dim]
    QK_NORM_OWN_TENSORS // a tensor of each head, NAME.0 and so on
} decoder_qk_norm;

struct decoder_form {
    decoder_names names;
    bool layer_norm;     // norms subtract the mean; else RMS norm
    bool norm_bias;      // norms have a bias
    bool unit_offset;    // the gain of a norm is 1 + its weight
    decoder_mixer mixer; // of the layers without attention
    // Attention's output has gates; a file holds a head's queries and then its gates.
    bool output_gate;
    decoder_qk_norm qk_norm;
    bool qk_norm_after_rope;
    bool norms_values;        // values are normed, without a gain
    bool first_sees_all;      // of window_pattern layers the first has no window; else the last
    bool rotates_with_window; // where some layers have a window, only these rotate
    bool local_rope;  // layers with a window rotate by a table of their own, which is not stretched
    bool interleaved; // rope rotates neighbours: columns 2i and 2i + 1 of a head
    bool output_bias; // attention's projection has a bias where queries, keys and values have one
    bool mlp_has_same_bias; // the MLP's projections have biases where attention's have
    bool gated;             // the MLP is act(gate) * up
    bool transposed;        // files hold the transpose of the layers' matrices (Conv1D of GPT-2)
    // Projections to the residual start with a deviation of init_std / sqrt(2 layers).
    bool scaled_init;
    bool scales_embedding; // embeddings are multiplied by sqrt(hidden)
    bool divides_logits;   // logits are divided by scales.logits, not multiplied
};

#define PLAIN_LAYER(part) "model.layers.{}." part
// The names that most families share.
// clang-format off
#define PLAIN_QKV {PLAIN_LAYER("self_attn.qkv"), {PLAIN_LAYER("self_attn.q_proj"), PLAIN_LAYER("self_attn.k_proj"), PLAIN_LAYER("self_attn.v_proj")}}
#define PLAIN_GATE_UP {PLAIN_LAYER("mlp.gate_up"), {PLAIN_LAYER("mlp.gate_proj"), PLAIN_LAYER("mlp.up_proj")}}
#define PLAIN_OUTPUT {PLAIN_LAYER("self_attn.o_proj"), {NULL}}
#define PLAIN_DOWN {PLAIN_LAYER("mlp.down_proj"), {NULL}}
#define DECODER_ENDS .embedding = "model.embed_tokens", .final_norm = "model.norm", .head = "lm_head"
#define PLAIN_NAMES DECODER_ENDS, .qkv = PLAIN_QKV, .output = PLAIN_OUTPUT, .up = PLAIN_GATE_UP, .down = PLAIN_DOWN
#define PLAIN_QK_NORMS .query_norm = PLAIN_LAYER("self_attn.q_norm"), .key_norm = PLAIN_LAYER("self_attn.k_norm")
#define PRE_NORMS .norm = {[BEFORE_ATTENTION] = PLAIN_LAYER("input_layernorm"), [BEFORE_MLP] = PLAIN_LAYER("post_attention_layernorm")}
#define POST_NORMS .norm = {[AFTER_ATTENTION] = PLAIN_LAYER("post_attention_layernorm"), [AFTER_MLP] = PLAIN_LAYER("post_feedforward_layernorm")}
#define SANDWICH_NORMS \
    .norm = {[BEFORE_ATTENTION] = PLAIN_LAYER("input_layernorm"), [AFTER_ATTENTION] = PLAIN_LAYER("post_attention_layernorm"), \
             [BEFORE_MLP] = PLAIN_LAYER("pre_feedforward_layernorm"), [AFTER_MLP] = PLAIN_LAYER("post_feedforward_layernorm")}
// clang-format on

int decoder_blocks(const void *config);
int decoder_key(const void *config, int block);
int decoder_layer(const void *config, int block);
void decoder_trace(graph *g, const void *config, int block);

// A family of decoders.
#define DECODER_FAMILY(word, its_schema, its_form)                                                 \
    const model_family word##_family = {.name = #word,                                             \
                                        .schema = &(its_schema),                                   \
                                        .decoder = &(its_form),                                    \
                                        .blocks = decoder_blocks,                                  \
                                        .key = decoder_key,                                        \
                                        .trace = decoder_trace,                                    \
                                        .layer = decoder_layer}

#endif
