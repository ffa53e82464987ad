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

typedef struct model_config {
    family family;
    int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab, max_seq;
    activation act;
    double norm_eps, init_std;
    bool tie_embeddings;
    bool attention_bias, mlp_bias;        // llama; gpt2 always has both
    bool scale_attention, scale_by_layer; // gpt2: 1/sqrt(D) and 1/(layer+1)
    double drop_embed, drop_attention, drop_residual;
    rope_kind rope;
    double rope_theta, rope_factor, rope_low, rope_high;
    int64_t rope_original;
    int64_t bos, eos; // -1 when not given
    // mlp: layers counts linear layers, hidden their width, vocab the number of classes (1 and mse:
    // regression)
    int64_t features;
    loss_kind loss;
} model_config;

const char *family_name(family f);          // "gpt2" …
const char *activation_label(activation a); // HuggingFace's word: gelu, gelu_new, relu, silu, tanh
bool activation_find(const char *word,
                     activation *out); // also gelu_pytorch_tanh, gelu_fast?, swish

// The defaults of a family (those of HuggingFace's configuration class).
void model_config_defaults(family f, model_config *c);
// One field by Trireme's name (layers, hidden, heads, kv_heads, head_dim, ffn, vocab, max_seq,
// tie_embeddings, activation, norm_eps, rope_theta, …) or HuggingFace's. `value` is borrowed.
// E_USAGE: unknown field (with did-you-mean), wrong type, value not supported (says which are).
status model_config_set(model_config *c, const char *field, const json_t *value, err *e);
// Sets what follows from the rest (kv_heads = heads, head_dim = hidden/heads, ffn = 4*hidden for
// gpt2) and checks every relation (heads divide hidden, kv_heads divide heads, head_dim even for
// rope, positive sizes, products that overflow).
status model_config_finish(model_config *c, err *e);
// From config.json. Refuses by name every field value that would change arithmetic and is not
// supported; ignores those that do not.
status model_config_read(const char *folder, model_config *c, err *e);
// As config.json that transformers loads; `dtype_word` "float32" | "bfloat16". Caller frees.
char *model_config_write(const model_config *c, const char *dtype_word);

#endif
