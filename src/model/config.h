// config.h -- a model in numbers: the fields of HuggingFace's config.json that change arithmetic.
// Called by config/ (the job's model.* keys), and by all that open a model's folder. Knows nothing of
// graphs or weights. schema.h says how a family declares its fields.
#ifndef TRIREME_MODEL_CONFIG_H
#define TRIREME_MODEL_CONFIG_H

#include "base/err.h"
#include "base/text.h"
#include "device/kernels.h"

#include <jansson.h>

typedef struct model_family model_family;
typedef enum model_rope {
    ROPE_DEFAULT,
    ROPE_LINEAR,
    ROPE_DYNAMIC,
    ROPE_YARN,
    ROPE_LONGROPE,
    ROPE_LLAMA3,
    ROPE_PROPORTIONAL
} model_rope;

enum {
    MORE_EOS = 15,           // end tokens beside the first
    MODEL_OWN = 8,           // numbers of a family's own
    MODEL_LAYERS = 1 << 16,  // at most
    MODEL_ROPE_FACTORS = 256 // pairs of a head that longrope has factors for, at most
};

// A list of numbers; count 0: not given.
typedef struct model_numbers {
    int count;
    float number[MODEL_ROPE_FACTORS];
} model_numbers;

// Rotary position embeddings. The numbers below `theta` are those of the kind.
typedef struct model_rope_config {
    model_rope kind;
    double theta; // base of the frequencies
    double
        local_theta; // of the layers with a window, which are not stretched; 0: they rotate as the others do
    model_numbers layer_theta; // in place of theta, for each layer; 0: the layer does not rotate
    double partial;            // share of a head's columns that is rotated
    double factor, low, high;
    int64_t original; // positions that the model was trained for before it was stretched
    // yarn: rotations within `original` from which frequencies stay, and below which they are divided
    double fast, slow;
    double mscale, mscale_all; // yarn: they set `attention` where it is not given; 0: not given
    double alpha;              // dynamic: theta grows with it; 0: not given
    double attention;          // factor of cosine and sine; 0: that of the kind
    double query_growth;       // of queries by position, as graph_rope.growth; 0: none
    bool truncate;             // yarn: the bounds are whole pairs
    model_numbers shorter,
        longer; // longrope: divisors of the frequencies, for up to `original` tokens and for more
} model_rope_config;

// A set of layers. `count` 0: not given, and it follows from other fields.
typedef struct model_layer_set {
    int64_t count; // of the layers that the list spoke of
    uint64_t bits[MODEL_LAYERS / 64];
} model_layer_set;

// Factors; 0: not given.
typedef struct model_scales {
    double embedding, residual; // of embeddings, and of what attention and MLP add to the residual
    double attention;           // of the scores of attention
    double logits;              // of logits, or, in a family that divides, their divisor
} model_scales;

// The gated delta rule; heads and head_dim are those of values.
typedef struct model_delta_config {
    int64_t key_heads, heads, key_dim, head_dim;
} model_delta_config;

typedef struct model_dropout {
    double embed, attention, residual; // probabilities
} model_dropout;

typedef union model_number {
    int64_t integer;
    double real;
    bool flag;
    int word;
} model_number;

// Help and explain list fields in the order of these members.
typedef struct model_config {
    const model_family *family;
    int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab, max_seq;
    // Of the layers in `wide`; 0: as the others.
    int64_t full_head_dim, full_kv_heads;
    bool keys_are_values; // in those layers, values are the norms of the keys
    model_layer_set wide;
    kernel_activation act;
    double norm_eps, init_std;
    bool tie_embeddings;
    bool attention_bias, output_bias,
        mlp_bias;           // of queries, keys and values; of attention's projection; of the MLP
    bool qk_norm;           // queries and keys are normed, where the family has norms of them
    bool parallel;          // attention and MLP read the same norm, and both add to the residual
    bool use_window;        // false: no layer has a window
    int64_t window;         // tokens that the layers of `sliding` see; 0: all
    int64_t window_pattern; // every so many layers one sees all tokens; 0: none does
    int64_t window_from;    // the first layer with a window
    model_layer_set sliding;
    int64_t rotary_pattern; // every so many layers one does not rotate; 0: all rotate
    model_layer_set rotating;
    int64_t attention_pattern; // every so many layers one has attention; 0: all have
    model_layer_set attending; // the others have the mixer of the family
    int64_t conv_width;        // tokens that a convolution sees, the token itself the last of them
    model_delta_config delta;
    model_layer_set dense; // layers whose MLP has no experts where the others have
    bool conv_bias;        // of the projections and the taps of short convolutions
    double attention_softcap, logit_softcap; // 0: none
    int64_t query_scalar; // scores are divided by its square root; 0: by that of head_dim
    model_scales scales;
    bool scale_attention; // scores are divided by sqrt(head_dim)
    bool scale_by_layer;  // scores are divided by the layer's number, from 1
    model_dropout dropout;
    model_rope_config rope;
    int64_t bos, eos, pad;      // token ids; -1: not given, or not in the vocabulary
    int64_t more_eos[MORE_EOS]; // further end tokens
    int more_eos_count;
    model_number own[MODEL_OWN]; // numbers that only this family has
} model_config;

extern const model_family *const MODEL_FAMILIES[];       // ended by NULL, as the next
extern const char *const MODEL_FAMILY_NAMES[];           // the job file's words, in the same order
const model_family *model_family_find(const char *name); // NULL: unknown

// Sets every field to the default of HuggingFace's configuration class of the family.
void model_config_defaults(const model_family *f, model_config *c);
// The same without the sizes that follow from the width (0) and without HuggingFace's token ids, which
// other vocabularies do not have.
void model_config_defaults_of_job(const model_family *f, model_config *c);

// Sets one field of c->family, by Trireme's name or HuggingFace's. `value` is borrowed; null means
// "not given" where the schema allows it. E_USAGE "field: found ..., valid are ...": the family has no
// such field (with a suggestion), or the value has a wrong type, is out of range, or is not supported.
status model_config_set(model_config *c, const char *field, const json_t *value, err *e);

// Sets the fields that follow from others, and checks how the fields depend on each other (E_USAGE).
//   layers, heads and ffn that are 0 follow from hidden as in the published models of the family;
//   kv_heads = heads, head_dim = hidden / heads, rope_original = max_seq, where they are not given;
//   token ids outside the vocabulary become -1
status model_config_finish(model_config *c, err *e);

// Returns whether sequences may be longer than max_seq: rotary positions stretch with them.
bool model_config_stretches(const model_config *c);

// E_USAGE "found …" where the path is no folder; a name of the Hugging Face Hub gets the command that fetches it.
status model_folder_check(const char *folder, err *e);
// Reads a folder's config.json and finishes it. E_USAGE names a field whose value would change the
// arithmetic in a way that the family does not support. Fields that do not change it are ignored.
status model_config_read(const char *folder, model_config *c, err *e);
// Returns a config.json that transformers 4 and 5 load. `dtype_word` is "float32", "bfloat16" or
// "float16", the type of the weights beside it. The caller frees the text.
status model_config_write(const model_config *c, const char *dtype_word, char **out, err *e);

#endif
