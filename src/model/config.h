// config.h -- what a model is, in numbers: the fields of HuggingFace's config.json that change
// arithmetic, for the families that Trireme knows.
#ifndef TRIREME_MODEL_CONFIG_H
#define TRIREME_MODEL_CONFIG_H

#include "base/err.h"
#include "base/text.h"
#include "device/kernels.h"

#include <jansson.h>

typedef enum family { FAMILY_GPT2, FAMILY_LLAMA, FAMILY_MLP, FAMILIES } family;
typedef enum rope_kind { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3 } rope_kind;
typedef enum loss_kind { LOSS_CROSS_ENTROPY, LOSS_MSE } loss_kind;

enum { MORE_EOS = 15, MODEL_LAYERS = 1 << 16, HEAD_DIM = 1 << 16 }; // the last two: at most

typedef struct model_config {
    family family;
    int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab, max_seq;
    kernel_activation act;
    double norm_eps, init_std;
    bool tie_embeddings;
    bool attention_bias, mlp_bias;        // llama; gpt2 always has both
    bool scale_attention, scale_by_layer; // gpt2: 1/sqrt(D) and 1/(layer+1)
    double drop_embed, drop_attention, drop_residual;
    rope_kind rope;
    double rope_theta, rope_factor, rope_low, rope_high;
    int64_t rope_original;
    int64_t bos, eos, pad;      // token ids, -1 when not given or not in the vocabulary
    int64_t more_eos[MORE_EOS]; // the rest of a list of end tokens
    int more_eos_count;
    // mlp: layers counts linear layers, hidden their width, vocab the number of classes (1 and mse:
    // regression)
    int64_t features;
    loss_kind loss;
} model_config;

const char *family_name(family f); // "gpt2" …
const char *
activation_label(kernel_activation a); // HuggingFace's word: gelu, gelu_new, relu, silu, tanh
// Also HuggingFace's other words for the same functions: gelu_python, gelu_pytorch_tanh,
// gelu_python_tanh, gelu_accurate, gelu_fast, swish. False for any other.
bool activation_find(const char *word, kernel_activation *out);

// The defaults of a family (those of HuggingFace's configuration class).
void model_config_defaults(family f, model_config *c);
// One field of c->family by Trireme's name (layers, hidden, heads, kv_heads, head_dim, ffn, vocab,
// max_seq, tie_embeddings, activation, norm_eps, init_std, attention_bias, mlp_bias,
// scale_attention, scale_by_layer, drop_embed, drop_attention, drop_residual, rope, rope_theta,
// rope_factor, rope_low, rope_high, rope_original, bos, eos, pad; mlp: features, classes = vocab,
// loss) or HuggingFace's. `value` is borrowed; null means "not given" where that is possible.
// E_USAGE "field: found …, valid …": unknown field of this family (with did-you-mean), wrong type,
// value out of range or not supported.
status model_config_set(model_config *c, const char *field, const json_t *value, err *e);
// What a field may be set to, as it follows "valid are"; false: there is no such field.
bool model_config_describe(const char *word, text *out);
// The other names of a field, one by one from index 0; NULL after the last.
const char *model_config_synonym(const char *word, int index);
// Sets what follows from the rest (kv_heads = heads, head_dim = hidden/heads, ffn = 4*hidden for
// gpt2, rope_original = max_seq, token ids outside the vocabulary to -1) and checks every relation
// (heads divide hidden, kv_heads divide heads, head_dim even for rope, products that overflow).
status model_config_finish(model_config *c, err *e);
// From config.json, finished. Refuses by name every field value that would change arithmetic and is
// not supported; ignores the fields that do not.
status model_config_read(const char *folder, model_config *c, err *e);
// As config.json that transformers (4 and 5) loads; `dtype_word` "float32" | "bfloat16" | "float16"
// is the type of the weights beside it. Caller frees.
status model_config_write(const model_config *c, const char *dtype_word, char **out, err *e);

#endif
