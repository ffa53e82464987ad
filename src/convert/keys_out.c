// keys_out.c -- the numbers of a model as keys of a GGUF file, and what the file cannot say. Export calls it. Facts of
// llama.cpp's converter: which keys it writes, and what its loader takes for granted.
#include "convert/families.h"

#include "model/decoder.h"
#include "model/schema.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEY_BYTES = 128 };

static const char *full(const convert_family *f, const char *name, char out[KEY_BYTES])
{
    (void)snprintf(out, KEY_BYTES, "%s.%s", f->arch, name);
    return out;
}

static void add_int(const convert_family *f, const char *name, int64_t value, gguf_keys *out)
{
    char key[KEY_BYTES];
    gguf_add_u32(out, full(f, name, key), (uint32_t)value);
}

static void add_real(const convert_family *f, const char *name, double value, gguf_keys *out)
{
    char key[KEY_BYTES];
    gguf_add_real(out, full(f, name, key), value);
}

static void add_word(const convert_family *f, const char *name, const char *value, gguf_keys *out)
{
    char key[KEY_BYTES];
    gguf_add_string(out, full(f, name, key), value, strlen(value));
}

bool convert_key_applies(const convert_family *f, const model_config *c, const convert_key *k)
{
    const bool layer_norm = c->family->decoder->layer_norm;
    return (!k->needs || f->flags & k->needs) && !(f->flags & k->unless) &&
           !(k->layer_norm && !layer_norm) && !(k->rms_norm && layer_norm);
}

static void add_table(const convert_family *f, const model_config *c, gguf_keys *out)
{
    for (int i = 0; i < CONVERT_KEY_COUNT; i++) {
        const convert_key *k = &CONVERT_KEYS[i];
        const void *member = (const char *)c + k->member;
        if (!convert_key_applies(f, c, k)) continue;
        if (k->type == CONVERT_INT) {
            const int64_t v = *(const int64_t *)member;
            if (v != 0 || !k->optional) add_int(f, k->name, v, out);
        } else {
            const double v = *(const double *)member;
            if (v != 0 || !k->optional) add_real(f, k->name, v, out);
        }
    }
}

// ---- Rotary positions

enum { HUNYUAN_TOKENS = 256 << 10 };

// Alpha makes the base grow; the file has the base that it makes. Published folders say 32k tokens and mean 256k.
static void fold_alpha(model_config *c)
{
    const double dims = (double)c->head_dim, theta = c->rope.theta;
    if (c->rope.kind != ROPE_DYNAMIC || c->rope.alpha == 0) return;
    c->rope.theta = theta * pow(c->rope.alpha, dims / (dims - 2));
    if (theta == 10000 && c->max_seq == 32 << 10) c->max_seq = HUNYUAN_TOKENS;
}

// The object of config.json that describes how positions are stretched; NULL: none.
static const json_t *rope_object(const json_t *root)
{
    const json_t *of_text = json_object_get(root, "text_config");
    const json_t *rope = json_object_get(root, "rope_parameters");
    if (!json_is_object(rope)) rope = json_object_get(root, "rope_scaling");
    if (!json_is_object(rope) && of_text) return rope_object(of_text);
    const json_t *full_attention = json_object_get(rope, "full_attention");
    return full_attention ? full_attention : rope;
}

static void add_given(const convert_family *f, const json_t *rope, const char *field,
                      const char *name, gguf_keys *out)
{
    const json_t *v = json_object_get(rope, field);
    if (json_is_number(v)) add_real(f, name, json_number_value(v), out);
}

static void add_yarn(const convert_family *f, const model_config *c, const json_t *rope,
                     gguf_keys *out)
{
    add_word(f, "rope.scaling.type", "yarn", out);
    add_real(f, "rope.scaling.factor", c->rope.factor, out);
    add_int(f, "rope.scaling.original_context_length", c->rope.original, out);
    add_given(f, rope, "attention_factor", "rope.scaling.yarn_attn_factor", out);
    add_given(f, rope, "beta_fast", "rope.scaling.yarn_beta_fast", out);
    add_given(f, rope, "beta_slow", "rope.scaling.yarn_beta_slow", out);
}

static status add_rope(const convert_family *f, const model_config *c, const json_t *rope,
                       gguf_keys *out, err *e)
{
    const char *word = MODEL_ROPE_WORDS.word[0].word;
    for (int i = 0; MODEL_ROPE_WORDS.word[i].word; i++)
        if (MODEL_ROPE_WORDS.word[i].value == (int)c->rope.kind) {
            word = MODEL_ROPE_WORDS.word[i].word;
            break;
        }
    switch (c->rope.kind) {
    case ROPE_DEFAULT:
        return OK;
    case ROPE_LINEAR:
        add_word(f, "rope.scaling.type", "linear", out);
        add_real(f, "rope.scaling.factor", c->rope.factor, out);
        return OK;
    case ROPE_YARN:
        add_yarn(f, c, rope, out);
        return OK;
    case ROPE_LONGROPE:
        if (!(f->flags & LONG_FACTORS)) break;
        return OK;
    case ROPE_LLAMA3:
        if (!(f->flags & ROPE_FACTORS)) break;
        return OK;
    case ROPE_DYNAMIC:
        if (!(f->flags & ALPHA_BASE) || c->rope.alpha == 0) break;
        add_word(f, "rope.scaling.type", "none", out);
        add_real(f, "rope.scaling.factor", 1, out);
        if (c->max_seq == HUNYUAN_TOKENS)
            add_int(f, "rope.scaling.original_context_length", HUNYUAN_TOKENS, out);
        return OK;
    default:
        break;
    }
    return err_set(e, E_USAGE,
                   "rope_scaling: %s: a GGUF file of a %s model cannot hold it, so llama.cpp would "
                   "compute another model; valid: another rope_type",
                   word, f->family);
}

static void add_long_rope(const convert_family *f, const model_config *c, const json_t *root,
                          gguf_keys *out)
{
    enum { USUAL = 4096 }; // of transformers' class
    const json_t *given = json_object_get(root, "original_max_position_embeddings");
    const double scale = (double)c->max_seq / (double)c->rope.original;
    add_int(f, "rope.scaling.original_context_length",
            json_is_integer(given) ? json_integer_value(given) : USUAL, out);
    if (c->rope.kind != ROPE_LONGROPE) return;
    add_real(f, "rope.scaling.attn_factor",
             scale > 1 ? sqrt(1 + log(scale) / log((double)c->rope.original)) : 1, out);
}

// In fp32 and in this order, as the converter.
int convert_rope_factors(const convert_family *f, const model_config *c, float *out)
{
    const int pairs = (int)c->head_dim / 2;
    if (c->rope.kind != ROPE_LLAMA3 || !(f->flags & ROPE_FACTORS) || pairs > MODEL_ROPE_FACTORS)
        return 0;
    const float base = (float)c->rope.theta, original = (float)c->rope.original;
    const double low_wave = (double)c->rope.original / c->rope.low,
                 high_wave = (double)c->rope.original / c->rope.high;
    for (int i = 0; i < pairs; i++) {
        const float frequency = 1.0f / powf(base, (float)(2 * i) / (float)c->head_dim);
        const float wave = 1.0f / frequency * (float)(2 * M_PI);
        if ((double)wave < high_wave) {
            out[i] = 1;
        } else if ((double)wave > low_wave) {
            out[i] = (float)c->rope.factor;
        } else {
            const float smooth =
                (1.0f / wave * original - (float)c->rope.low) / (float)(c->rope.high - c->rope.low);
            out[i] = 1.0f / ((1.0f - smooth) / (float)c->rope.factor + smooth);
        }
    }
    return pairs;
}

// ---- What llama.cpp takes for granted

static bool has_window(const model_config *c)
{
    for (int64_t i = 0; i < c->layers && c->window > 0 && c->window < c->max_seq; i++)
        if (model_layer_has(&c->sliding, i)) return true;
    return false;
}

static status check_sameness(const convert_family *f, const model_config *c, err *e)
{
    status result = OK;
    model_config usual;
    model_config_defaults(c->family, &usual);
    if (c->act != usual.act)
        FAIL(E_USAGE, "hidden_act: a GGUF file of a %s model cannot hold another than the family's",
             f->family);
    if (c->scale_attention != usual.scale_attention || c->scale_by_layer != usual.scale_by_layer)
        FAIL(E_USAGE,
             "scale_attn_weights, scale_attn_by_inverse_layer_idx: a GGUF file of a %s "
             "model cannot hold other values than the family's",
             f->family);
    if (c->conv_bias)
        FAIL(E_USAGE,
             "conv_bias: llama.cpp reads no biases of convolutions of a %s model; valid: "
             "false",
             f->family);
done:
    return result;
}

// Returns whether the layers with a window are those of the family's published models.
static bool has_usual_windows(const model_config *c)
{
    model_config usual;
    model_config_defaults(c->family, &usual);
    const int64_t pattern = usual.window_pattern, first = usual.window_from;
    usual = *c;
    usual.window_pattern = pattern;
    usual.window_from = first;
    usual.sliding.count = 0;
    if (model_layers_finish(&usual, NULL) != OK) return false;
    for (int64_t i = 0; i < c->layers; i++)
        if (model_layer_has(&usual.sliding, i) != model_layer_has(&c->sliding, i)) return false;
    return true;
}

static void warn_rope(const convert_family *f, const model_config *c, text *out)
{
    if (c->rope.kind == ROPE_YARN && c->rope.mscale != 0 && !(f->flags & TEMPERATURE))
        text_addf(out, "mscale: a GGUF file of a %s model cannot hold it\n", f->family);
    if (f->flags & NO_ROPE && !c->family->decoder->names.positions && c->rope.theta != 10000)
        text_addf(out,
                  "rope_theta: a GGUF file of a %s model cannot hold it, so llama.cpp takes "
                  "10000\n",
                  f->family);
    for (int i = 0; i < c->rope.layer_theta.count; i++)
        if (c->rope.layer_theta.number[i] != 0 &&
            c->rope.layer_theta.number[i] != (float)c->rope.theta) {
            text_addf(out,
                      "layer_rope_theta: a GGUF file of a %s model cannot hold a base for each "
                      "layer, so llama.cpp takes %g\n",
                      f->family, c->rope.theta);
            break;
        }
    for (int64_t i = 0; i < c->layers && c->rotary_pattern != 0; i++)
        if (model_layer_has(&c->rotating, i) != ((i + 1) % 4 != 0)) {
            text_addf(out,
                      "no_rope_layers: llama.cpp rotates all layers of a %s model but every "
                      "fourth\n",
                      f->family);
            break;
        }
}

static void warn(const convert_family *f, const model_config *c, text *out)
{
    warn_rope(f, c, out);
    if (f->flags & DELTA_RULE && c->delta.head_dim != c->delta.key_dim)
        text_addf(out, "linear_value_head_dim: llama.cpp takes it to be linear_key_head_dim, so it "
                       "refuses the file\n");
    if (c->mlp_bias && f->flags & NO_MLP_BIAS)
        text_addf(out,
                  "use_bias: llama.cpp reads no biases of the MLP of a %s model, so it refuses the "
                  "file\n",
                  f->family);
    if (has_window(c) && !(f->flags & WINDOW_KEY))
        text_addf(out,
                  "sliding_window: a GGUF file of a %s model cannot hold it, so llama.cpp "
                  "attends to more than the last %" PRId64 " tokens\n",
                  f->family, c->window);
    if (f->flags & WINDOW_KEY && !(f->flags & PATTERN) && !has_usual_windows(c))
        text_addf(out,
                  "layer_types: llama.cpp gives a window to the layers of published %s models, the "
                  "folder to others\n",
                  f->family);
    const int64_t divisor = c->layers == f->big_layers ? c->hidden / c->heads : c->head_dim;
    if (f->flags & QUERY_RULE && c->query_scalar != divisor)
        text_addf(out,
                  "query_pre_attn_scalar: llama.cpp divides by the square root of %" PRId64
                  " in a model of this size, the folder says %" PRId64 "\n",
                  divisor, c->query_scalar);
}

// ---- All of it

static void add_layers(const convert_family *f, const model_config *c, const char *name,
                       const model_layer_set *set, gguf_keys *out)
{
    char key[KEY_BYTES];
    gguf_add_array(out, full(f, name, key), GGUF_BOOL, (uint64_t)c->layers);
    for (int64_t i = 0; i < c->layers; i++) {
        const uint8_t flag = model_layer_has(set, i);
        gguf_put(out, &flag, sizeof flag);
    }
}

// The heads of keys: none in layers without attention.
static void add_kv_heads(const convert_family *f, const model_config *c, gguf_keys *out)
{
    char key[KEY_BYTES];
    gguf_add_array(out, full(f, "attention.head_count_kv", key), GGUF_I32, (uint64_t)c->layers);
    for (int64_t i = 0; i < c->layers; i++) {
        const int32_t heads = model_layer_has(&c->attending, i) ? (int32_t)c->kv_heads : 0;
        gguf_put(out, &heads, sizeof heads);
    }
}

// llama.cpp takes heads of values to be as wide as those of keys. It reads sections of rotary positions, which only images
// need: those of published models.
static void add_delta(const convert_family *f, const model_config *c, gguf_keys *out)
{
    enum { SECTIONS = 4, USUAL = 4 };
    static const int32_t sections[SECTIONS] = {11, 11, 10, 0};
    char key[KEY_BYTES];
    model_layer_set recurrent = c->attending;
    for (size_t i = 0; i < sizeof recurrent.bits / sizeof *recurrent.bits; i++)
        recurrent.bits[i] = ~recurrent.bits[i];
    add_int(f, "ssm.inner_size", c->delta.heads * c->delta.head_dim, out);
    add_layers(f, c, "attention.recurrent_layers", &recurrent, out);
    add_int(f, "full_attention_interval", c->attention_pattern ? c->attention_pattern : USUAL, out);
    gguf_add_array(out, full(f, "rope.dimension_sections", key), GGUF_I32, SECTIONS);
    gguf_put(out, sections, sizeof sections);
}

static bool all_rotate(const model_config *c)
{
    for (int64_t i = 0; i < c->layers; i++)
        if (!model_layer_has(&c->rotating, i)) return false;
    return true;
}

// Phi's window is written as 0 where there is none.
static void add_rest(const convert_family *f, const model_config *c, const json_t *root,
                     gguf_keys *out)
{
    char key[KEY_BYTES];
    const json_t *of_text = json_object_get(root, "text_config");
    const bool given = json_is_integer(json_object_get(root, "head_dim")) ||
                       json_is_integer(json_object_get(of_text, "head_dim")),
               usual = c->head_dim * c->heads == c->hidden;
    if (f->flags & KEY_LENGTH || !usual || (given && !(f->flags & USUAL_HEADS))) {
        add_int(f, "attention.key_length", c->head_dim, out);
        add_int(f, "attention.value_length", c->head_dim, out);
    }
    if (f->flags & ROPE_DIMS)
        add_int(f, "rope.dimension_count", (int64_t)(c->rope.partial * (double)c->head_dim), out);
    if (f->flags & LONG_FACTORS) add_long_rope(f, c, root, out);
    if (f->flags & LONG_FACTORS && c->window == 0) add_int(f, "attention.sliding_window", 0, out);
    if (f->flags & PATTERN && c->window > 0)
        add_layers(f, c, "attention.sliding_window_pattern", &c->sliding, out);
    if (f->flags & ROPE_PATTERN && !all_rotate(c))
        add_layers(f, c, "attention.rope_pattern", &c->rotating, out);
    if (f->flags & SHORT_CONV) add_kv_heads(f, c, out);
    if (f->flags & DELTA_RULE) add_delta(f, c, out);
    if (f->flags & PARALLEL) gguf_add_bool(out, full(f, "use_parallel_residual", key), c->parallel);
    if (f->flags & SCALING_NONE) add_word(f, "rope.scaling.type", "none", out);
}

status convert_keys_write(const convert_family *f, const model_config *c, const json_t *root,
                          gguf_keys *out, text *warnings, err *e)
{
    status result = OK;
    model_config folded = *c;
    if (f->flags & ALPHA_BASE) fold_alpha(&folded);
    TRY(check_sameness(f, c, e));
    warn(f, c, warnings);
    TRY(text_check(warnings, e));
    add_table(f, &folded, out);
    TRY(add_rope(f, &folded, rope_object(root), out, e));
    add_rest(f, &folded, root, out);
    TRY(text_check(&out->bytes, e));
done:
    return result;
}
