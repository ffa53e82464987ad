// config.c -- the names of families and activations, the defaults of model_config, and the relations
// that must hold between its fields.
//
// Called by config/ and by whatever opens a model's folder. Does not know files (config_read.c,
// config_write.c) nor how fields are spelled (config_fields.c).
#include "model/config.h"

#include <inttypes.h>
#include <string.h>

const char *const MODEL_FAMILY_NAMES[FAMILIES + 1] = {
    [FAMILY_GPT2] = "gpt2", [FAMILY_LLAMA] = "llama", [FAMILY_MLP] = "mlp"};

const char *model_family_name(model_family_kind f)
{
    return MODEL_FAMILY_NAMES[f];
}

static const struct {
    const char *word;
    kernel_activation act;
} ACTIVATION_WORDS[] = {
    // model_activation_name returns the first word of each function.
    {"gelu", ACT_GELU},
    {"gelu_new", ACT_GELU_TANH},
    {"relu", ACT_RELU},
    {"silu", ACT_SILU},
    {"tanh", ACT_TANH},
    {"gelu_python", ACT_GELU},
    {"gelu_pytorch_tanh", ACT_GELU_TANH},
    {"gelu_python_tanh", ACT_GELU_TANH},
    {"gelu_accurate", ACT_GELU_TANH},
    {"gelu_fast", ACT_GELU_TANH},
    {"swish", ACT_SILU},
};
enum { ACTIVATION_WORD_COUNT = sizeof ACTIVATION_WORDS / sizeof ACTIVATION_WORDS[0] };

const char *model_activation_name(kernel_activation a)
{
    for (int i = 0; i < ACTIVATION_WORD_COUNT; i++)
        if (ACTIVATION_WORDS[i].act == a) return ACTIVATION_WORDS[i].word;
    return NULL;
}

bool model_activation_find(const char *word, kernel_activation *out)
{
    for (int i = 0; i < ACTIVATION_WORD_COUNT; i++) {
        if (strcmp(ACTIVATION_WORDS[i].word, word) == 0) {
            *out = ACTIVATION_WORDS[i].act;
            return true;
        }
    }
    return false;
}

void model_config_defaults(model_family_kind f, model_config *c)
{
    static const model_config gpt2 = {.layers = 12,
                                      .hidden = 768,
                                      .heads = 12,
                                      .vocab = 50257,
                                      .max_seq = 1024,
                                      .act = ACT_GELU_TANH,
                                      .norm_eps = 1e-5,
                                      .tie_embeddings = true,
                                      .attention_bias = true,
                                      .mlp_bias = true,
                                      .scale_attention = true,
                                      .dropout.embed = 0.1,
                                      .dropout.attention = 0.1,
                                      .dropout.residual = 0.1,
                                      .bos = 50256,
                                      .eos = 50256};
    static const model_config llama = {.layers = 32,
                                       .hidden = 4096,
                                       .heads = 32,
                                       .ffn = 11008,
                                       .vocab = 32000,
                                       .max_seq = 2048,
                                       .act = ACT_SILU,
                                       .norm_eps = 1e-6,
                                       .scale_attention = true,
                                       .bos = 1,
                                       .eos = 2};
    static const model_config mlp = {
        .layers = 2, .hidden = 128, .act = ACT_RELU, .bos = -1, .eos = -1};
    *c = f == FAMILY_GPT2 ? gpt2 : f == FAMILY_LLAMA ? llama : mlp;
    c->family = f;
    c->init_std = 0.02;
    c->pad = -1;
    c->rope.theta = 10000;
    c->rope.factor = c->rope.low = 1;
    c->rope.high = 4;
}

// Drops token ids that the vocabulary lacks: HuggingFace's defaults stay in a small model's config.
static void drop_foreign_tokens(model_config *c)
{
    int kept = 0;
    for (int i = 0; i < c->more_eos_count; i++)
        if (c->more_eos[i] < c->vocab) c->more_eos[kept++] = c->more_eos[i];
    c->more_eos_count = kept;
    if (c->bos >= c->vocab) c->bos = -1;
    if (c->pad >= c->vocab) c->pad = -1;
    if (c->eos >= c->vocab) c->eos = -1;
    if (c->eos < 0 && c->more_eos_count > 0) c->eos = c->more_eos[--c->more_eos_count];
}

// The published models of a family, by width. Below the first, the number of layers falls with the width.
typedef struct published_model {
    int64_t hidden, layers;
} published_model;
static const published_model GPT2_MODELS[] = {
    {768, 12}, {1024, 24}, {1280, 36}, {1600, 48}, {INT64_MAX, 48}};
static const published_model LLAMA_MODELS[] = {{2048, 16},   {3072, 28},      {4096, 32},
                                               {5120, 40},   {6656, 60},      {8192, 80},
                                               {16384, 126}, {INT64_MAX, 126}};

static int64_t layers_of(const model_config *c)
{
    const published_model *m = c->family == FAMILY_LLAMA ? LLAMA_MODELS : GPT2_MODELS;
    if (c->hidden < m->hidden) {
        const int64_t layers = m->layers * c->hidden / m->hidden;
        return layers > 2 ? layers : 2;
    }
    while (m[1].hidden <= c->hidden) m++;
    return m->layers;
}

// Heads of 64 numbers, of 128 in the larger Llama models. Where this does not divide the width, fewer heads.
static int64_t heads_of(const model_config *c)
{
    const int64_t usual = c->family == FAMILY_LLAMA && c->hidden >= 3072 ? 128 : 64;
    const int64_t each = c->head_dim ? c->head_dim : usual, kv = c->kv_heads ? c->kv_heads : 1;
    const int64_t most = c->hidden > each ? c->hidden / each : 1;
    const int64_t even = c->family == FAMILY_LLAMA ? 2 : 1; // rotary positions need even widths
    for (int64_t heads = most; heads > 1; heads--)
        if (c->hidden % (heads * even) == 0 && heads % kv == 0) return heads;
    return 1;
}

// Llama's gated layers have three matrices of 8/3 hidden where GPT-2's have two of 4 hidden.
static int64_t ffn_of(const model_config *c)
{
    const int64_t multiple = c->hidden < 1024 ? 32 : 256, ffn = 8 * c->hidden / 3;
    return c->family == FAMILY_LLAMA ? (ffn + multiple - 1) / multiple * multiple : 4 * c->hidden;
}

static status finish_attention(model_config *c, err *e)
{
    status result = OK;
    if (c->layers == 0) c->layers = layers_of(c);
    if (c->heads == 0) c->heads = heads_of(c);
    if (c->ffn == 0) c->ffn = ffn_of(c);
    if (c->kv_heads == 0) c->kv_heads = c->heads;
    if (c->hidden % c->heads)
        FAIL(E_USAGE, "hidden: found %" PRId64 ", valid are multiples of heads (%" PRId64 ")",
             c->hidden, c->heads);
    if (c->heads % c->kv_heads)
        FAIL(E_USAGE, "kv_heads: found %" PRId64 ", valid are divisors of heads (%" PRId64 ")",
             c->kv_heads, c->heads);
    if (c->head_dim == 0) c->head_dim = c->hidden / c->heads;
    if (c->family != FAMILY_LLAMA) goto done;
    if (c->head_dim % 2)
        FAIL(E_USAGE, "head_dim: found %" PRId64 ", valid are even numbers (rotary positions)",
             c->head_dim);
    if (c->rope.original == 0) c->rope.original = c->max_seq;
    if (c->rope.kind == ROPE_LLAMA3 && c->rope.high <= c->rope.low)
        FAIL(E_USAGE, "rope_high: found %g, valid is more than rope_low (%g)", c->rope.high,
             c->rope.low);
done:
    return result;
}

// Every size is below 2^31, so that a product of two fits in 64 bits. The number of parameters may
// not, and is bounded here.
static status check_size(const model_config *c, err *e)
{
    double hidden = (double)c->hidden, all_heads = (double)(c->heads * c->head_dim);
    double layer = c->family == FAMILY_MLP ? hidden * hidden
                                           : 4 * hidden * all_heads + 3 * hidden * (double)c->ffn;
    double count = (double)c->layers * layer +
                   hidden * (2 * (double)c->vocab + (double)c->max_seq + (double)c->mlp.features);
    if (count < 0x1p56) return OK;
    return err_set(e, E_USAGE,
                   "layers, hidden and vocab make %.3g parameters, valid are below %.3g", count,
                   0x1p56);
}

status model_config_finish(model_config *c, err *e)
{
    status result = OK;
    if (c->vocab < 1)
        FAIL(E_USAGE, "%s: not given, valid are whole numbers from 1",
             c->family == FAMILY_MLP ? "classes" : "vocab");
    if (c->family == FAMILY_MLP) {
        if (c->mlp.features < 1)
            FAIL(E_USAGE, "features: not given, valid are whole numbers from 1");
        if (c->mlp.loss == LOSS_CROSS_ENTROPY && c->vocab < 2)
            FAIL(E_USAGE, "classes: found 1, valid with loss cross_entropy are numbers from 2");
    } else {
        TRY(finish_attention(c, e));
    }
    drop_foreign_tokens(c);
    TRY(check_size(c, e));
done:
    return result;
}
