// config.h -- a model in numbers: the fields of HuggingFace's config.json that change arithmetic, for
// the families that Trireme knows. Called by config/ (the job's model.* keys), and by whatever opens
// a model's folder. Knows nothing of graphs or weights.
#ifndef TRIREME_MODEL_CONFIG_H
#define TRIREME_MODEL_CONFIG_H

#include "base/err.h"
#include "base/text.h"
#include "device/kernels.h"

#include <jansson.h>

typedef enum model_family_kind {
    FAMILY_GPT2,
    FAMILY_LLAMA,
    FAMILY_MLP,
    FAMILIES
} model_family_kind;
typedef enum model_rope { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3, ROPES } model_rope;
typedef enum model_loss { LOSS_CROSS_ENTROPY, LOSS_MSE, LOSSES } model_loss;

enum {
    MORE_EOS = 15, // end tokens beside the first
    // The largest values of two fields:
    MODEL_LAYERS = 1 << 16,
    HEAD_DIM = 1 << 16
};

// Rotary position embeddings (llama). The numbers below `theta` are those of the kind.
typedef struct model_rope_config {
    model_rope kind;
    double theta; // base of the frequencies
    double factor, low, high;
    int64_t original; // positions that the model was trained for before it was stretched
} model_rope_config;

typedef struct model_dropout {
    double embed, attention, residual; // probabilities
} model_dropout;

// Of the family mlp: `layers` linear layers of width `hidden`; `vocab` classes, or targets of mse.
typedef struct model_mlp_config {
    int64_t features;
    model_loss loss;
} model_mlp_config;

typedef struct model_config {
    model_family_kind family;
    int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab, max_seq;
    kernel_activation act;
    double norm_eps, init_std;
    bool tie_embeddings;
    bool attention_bias, mlp_bias; // llama; gpt2 always has both
    bool scale_attention;          // gpt2: scores are divided by sqrt(head_dim)
    bool scale_by_layer;           // gpt2: scores are divided by the layer's number, from 1
    model_dropout dropout;
    model_rope_config rope;
    int64_t bos, eos, pad;      // token ids; -1: not given, or not in the vocabulary
    int64_t more_eos[MORE_EOS]; // further end tokens
    int more_eos_count;
    model_mlp_config mlp;
} model_config;

extern const char *const MODEL_FAMILY_NAMES[FAMILIES + 1]; // the job file's words; ended by NULL
extern const char *const MODEL_ROPE_WORDS[ROPES];          // of rope.kind
extern const char *const MODEL_LOSS_WORDS[LOSSES];         // of mlp.loss
const char *model_family_name(model_family_kind f);        // "gpt2", "llama", "mlp"
// HuggingFace's word: gelu, gelu_new, relu, silu or tanh.
const char *model_activation_name(kernel_activation a);
// Finds an activation by any of HuggingFace's words, of which some mean the same function. Returns
// false for an unknown word.
bool model_activation_find(const char *word, kernel_activation *out);

// Sets every field to the default of HuggingFace's configuration class of the family.
void model_config_defaults(model_family_kind f, model_config *c);

// Sets one field of c->family, by Trireme's name or HuggingFace's. The table is in config_fields.c.
// `value` is borrowed; null means "not given" where the table allows it. E_USAGE
// "field: found ..., valid are ...": the family has no such field (with a suggestion), or the value
// has a wrong type, is out of range, or is not supported.
status model_config_set(model_config *c, const char *field, const json_t *value, err *e);
// Appends what a field may be set to, worded to follow "valid are". Returns false for an unknown
// field.
bool model_config_describe(const char *field, text *out);
// Returns the other names of a field, one for each index from 0; NULL after the last.
const char *model_config_synonym(const char *field, int index);

// Sets the fields that follow from others, and checks how the fields depend on each other (E_USAGE).
//   layers, heads and ffn that are 0 follow from hidden as in the published models of the family;
//   kv_heads = heads, head_dim = hidden / heads, rope_original = max_seq, where they are not given;
//   token ids outside the vocabulary become -1
status model_config_finish(model_config *c, err *e);

// E_USAGE "found …" where the path is no folder; a name of the Hugging Face Hub gets the command that fetches it.
status model_folder_check(const char *folder, err *e);
// Reads a folder's config.json and finishes it. E_USAGE names a field whose value would change the
// arithmetic in a way that is not supported. Fields that do not change it are ignored.
status model_config_read(const char *folder, model_config *c, err *e);
// Returns a config.json that transformers 4 and 5 load. `dtype_word` is "float32", "bfloat16" or
// "float16", the type of the weights beside it. The caller frees the text.
status model_config_write(const model_config *c, const char *dtype_word, char **out, err *e);

#endif
