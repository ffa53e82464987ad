// keys_in.c -- reads the numbers of a model out of a GGUF file's keys and tensors. Import calls it. It walks the table that
// export writes.
#include "convert/families.h"

#include "model/decoder.h"
#include "model/schema.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const gguf_value *find(const convert_family *f, const gguf *from, const char *name)
{
    char key[128];
    (void)snprintf(key, sizeof key, "%s.%s", f->arch, name);
    return gguf_value_find(from, key);
}

// Sets *out where the key is there. E_USAGE where it has no number from `least` on.
static status take_int(const convert_family *f, const gguf *from, const char *name, int64_t least,
                       int64_t *out, err *e)
{
    const gguf_value *v = find(f, from, name);
    if (!v) return OK;
    if (v->is_array || !gguf_value_int(v, 0, out) || *out < least || *out > INT32_MAX)
        return err_set(e, E_USAGE, "%s: %s.%s: found no whole number from %" PRId64 " to 2^31 - 1",
                       gguf_path(from), f->arch, name, least);
    return OK;
}

static status take_real(const convert_family *f, const gguf *from, const char *name, double *out,
                        err *e)
{
    const gguf_value *v = find(f, from, name);
    if (!v) return OK;
    if (v->is_array || !gguf_value_real(v, 0, out) || !isfinite(*out))
        return err_set(e, E_USAGE, "%s: %s.%s: found no number", gguf_path(from), f->arch, name);
    return OK;
}

// The shortest decimal that is the same fp32: files have fp32 where config.json says 1e-05.
static double shortest(double value)
{
    char text_of[40];
    for (int digits = 1; digits < 9; digits++) {
        (void)snprintf(text_of, sizeof text_of, "%.*g", digits, value);
        double back;
        if (sscanf(text_of, "%lf", &back) == 1 && (float)back == (float)value) return back;
    }
    return value;
}

static status take_table(const convert_family *f, const gguf *from, model_config *c, err *e)
{
    status result = OK;
    for (int i = 0; i < CONVERT_KEY_COUNT; i++) {
        const convert_key *k = &CONVERT_KEYS[i];
        void *member = (char *)c + k->member;
        if (!convert_key_applies(f, c, k) || strcmp(k->name, "vocab_size") == 0) continue;
        if (!k->optional && !find(f, from, k->name))
            FAIL(E_USAGE, "%s: key %s.%s is missing", gguf_path(from), f->arch, k->name);
        if (k->type == CONVERT_INT) {
            TRY(take_int(f, from, k->name, k->optional ? 0 : 1, member, e));
        } else {
            TRY(take_real(f, from, k->name, member, e));
            *(double *)member = shortest(*(double *)member);
        }
    }
    if (c->layers > MODEL_LAYERS)
        FAIL(E_USAGE, "%s: key %s.block_count: found %" PRId64 "; valid: at most %d",
             gguf_path(from), f->arch, c->layers, MODEL_LAYERS);
done:
    return result;
}

static bool has(const gguf *from, const char *name)
{
    return gguf_tensor_find(from, name) != NULL;
}

// Returns whether a layer has a tensor.
static bool has_part(const gguf *from, const char *part)
{
    for (size_t i = 0; i < gguf_tensor_count(from); i++) {
        const char *name = gguf_tensor_get(from, i)->name;
        const char *dot = strncmp(name, "blk.", 4) == 0 ? strchr(name + 4, '.') : NULL;
        if (dot && strcmp(dot + 1, part) == 0) return true;
    }
    return false;
}

// Flags that follow from the tensors that are there.
static status take_tensors(const gguf *from, model_config *c, err *e)
{
    status result = OK;
    const gguf_tensor *table = gguf_tensor_find(from, "token_embd.weight");
    if (!table || table->dims != 2 || table->dim[1] > INT32_MAX)
        FAIL(E_USAGE, "%s: tensor token_embd.weight is missing or no matrix", gguf_path(from));
    c->vocab = table->dim[1];
    c->tie_embeddings = !has(from, "output.weight");
    c->attention_bias = has_part(from, "attn_q.bias") || has_part(from, "attn_qkv.bias");
    c->output_bias = has_part(from, "attn_output.bias");
    c->mlp_bias = has_part(from, "ffn_down.bias");
    c->qk_norm = has_part(from, "attn_q_norm.weight");
done:
    return result;
}

// ---- Rotary positions

// llama3's numbers are not in the file, only the divisors that they make. Nearly all files have those of the numbers that
// Meta published. Others become longrope's, which are a list of divisors.
static status take_llama3(const convert_family *f, const gguf *from, model_config *c, err *e)
{
    float made[MODEL_ROPE_FACTORS];
    const gguf_tensor *t = gguf_tensor_find(from, "rope_freqs.weight");
    const int64_t pairs = c->head_dim / 2;
    model_numbers have = {.count = (int)pairs};
    if (t->dims != 1 || t->dim[0] != pairs || pairs < 1 || pairs > MODEL_ROPE_FACTORS)
        return err_set(e, E_USAGE,
                       "%s: rope_freqs.weight has %" PRId64 " elements; valid: %" PRId64
                       ", one for each pair of a head",
                       gguf_path(from), t->dim[0], pairs);
    gguf_dequantize(t->kind, t->data, 0, pairs, have.number);
    c->rope.kind = ROPE_LLAMA3;
    c->rope.factor = have.number[pairs - 1];
    c->rope.low = 1;
    c->rope.high = 4;
    c->rope.original = 8192;
    const int n = convert_rope_factors(f, c, made);
    bool same = n == pairs;
    for (int i = 0; same && i < n; i++)
        same = fabsf(have.number[i] - made[i]) <= 1e-5f * fabsf(have.number[i]);
    if (same) return OK;
    c->rope.kind = ROPE_LONGROPE;
    c->rope.shorter = c->rope.longer = have;
    c->rope.original = c->max_seq;
    c->rope.attention = c->rope.factor = 1;
    return OK;
}

static status take_factors(const gguf *from, const char *name, model_numbers *out, err *e)
{
    const gguf_tensor *t = gguf_tensor_find(from, name);
    if (!t || t->dims != 1 || t->dim[0] > MODEL_ROPE_FACTORS)
        return err_set(e, E_USAGE, "%s: tensor %s is missing or has more than %d elements",
                       gguf_path(from), name, MODEL_ROPE_FACTORS);
    out->count = (int)t->dim[0];
    gguf_dequantize(t->kind, t->data, 0, t->dim[0], out->number);
    return OK;
}

static status take_yarn(const convert_family *f, const gguf *from, model_config *c, err *e)
{
    status result = OK;
    c->rope.kind = ROPE_YARN;
    TRY(take_real(f, from, "rope.scaling.yarn_attn_factor", &c->rope.attention, e));
    TRY(take_real(f, from, "rope.scaling.yarn_beta_fast", &c->rope.fast, e));
    TRY(take_real(f, from, "rope.scaling.yarn_beta_slow", &c->rope.slow, e));
    c->rope.attention = shortest(c->rope.attention);
    c->rope.fast = shortest(c->rope.fast);
    c->rope.slow = shortest(c->rope.slow);
done:
    return result;
}

static status take_stretched(const convert_family *f, const gguf *from, model_config *c, err *e)
{
    status result = OK;
    const gguf_value *v = find(f, from, "rope.scaling.type");
    const gguf_string none = {"none", 4},
                      *kind = v && v->type == GGUF_STRING && !v->is_array ? v->strings : &none;
    c->rope.kind = ROPE_DEFAULT;
    TRY(take_int(f, from, "rope.scaling.original_context_length", 1, &c->rope.original, e));
    TRY(take_real(f, from, "rope.scaling.factor", &c->rope.factor, e));
    c->rope.factor = shortest(c->rope.factor);
    if (gguf_string_is(kind, "linear"))
        c->rope.kind = ROPE_LINEAR;
    else if (gguf_string_is(kind, "yarn"))
        TRY(take_yarn(f, from, c, e));
    else if (gguf_string_is(kind, "longrope") || has(from, "rope_factors_long.weight"))
        c->rope.kind = ROPE_LONGROPE;
    else if (!gguf_string_is(kind, "none"))
        FAIL(E_USAGE,
             "%s: %s.rope.scaling.type: found another word; valid: none, linear, yarn, longrope",
             gguf_path(from), f->arch);
    else if (has(from, "rope_freqs.weight"))
        TRY(take_llama3(f, from, c, e));
    if (c->rope.kind == ROPE_LONGROPE && !c->rope.longer.count) {
        TRY(take_factors(from, "rope_factors_short.weight", &c->rope.shorter, e));
        TRY(take_factors(from, "rope_factors_long.weight", &c->rope.longer, e));
    }
done:
    return result;
}

// ---- The rest

static status take_heads(const convert_family *f, const gguf *from, model_config *c, err *e)
{
    status result = OK;
    int64_t rotated = 0;
    if (f->flags & NO_KV_HEADS) c->kv_heads = c->heads;
    c->head_dim = c->hidden / c->heads;
    TRY(take_int(f, from, "attention.key_length", 1, &c->head_dim, e));
    TRY(take_int(f, from, "rope.dimension_count", 1, &rotated, e));
    if (f->flags & PARTIAL_ROPE && rotated > 0)
        c->rope.partial = (double)rotated / (double)c->head_dim;
    else if (rotated > 0 && rotated != c->head_dim)
        FAIL(E_USAGE,
             "%s: %s.rope.dimension_count: found %" PRId64
             ", valid for %s models: the head's %" PRId64,
             gguf_path(from), f->arch, rotated, f->family, c->head_dim);
    if (f->flags & QUERY_RULE)
        c->query_scalar = c->layers == f->big_layers ? c->hidden / c->heads : c->head_dim;
done:
    return result;
}

// Reads a list with a flag for each layer. *out stays as it is where the key is missing.
static status take_flags(const convert_family *f, const gguf *from, const char *name,
                         const model_config *c, model_layer_set *out, err *e)
{
    const gguf_value *v = find(f, from, name);
    if (!v) return OK;
    if (!v->is_array || v->type != GGUF_BOOL || v->count != (uint64_t)c->layers)
        return err_set(e, E_USAGE, "%s: %s.%s: found no list of %" PRId64 " flags", gguf_path(from),
                       f->arch, name, c->layers);
    *out = (model_layer_set){.count = c->layers};
    for (int64_t i = 0; i < c->layers; i++)
        if (v->data[i]) out->bits[i / 64] |= UINT64_C(1) << i % 64;
    return OK;
}

// Layers that do not rotate have the base 0.
static status take_rotating(const convert_family *f, const gguf *from, model_config *c, err *e)
{
    status result = OK;
    model_layer_set rotating = {.count = 0};
    TRY(take_flags(f, from, "attention.rope_pattern", c, &rotating, e));
    if (rotating.count == 0) goto done;
    if (c->layers > MODEL_ROPE_FACTORS)
        FAIL(E_USAGE, "%s: %s.attention.rope_pattern: found %" PRId64 " layers; valid: at most %d",
             gguf_path(from), f->arch, c->layers, MODEL_ROPE_FACTORS);
    c->rope.layer_theta.count = (int)c->layers;
    for (int64_t i = 0; i < c->layers; i++)
        c->rope.layer_theta.number[i] = model_layer_has(&rotating, i) ? (float)c->rope.theta : 0;
done:
    return result;
}

// Layers with heads of keys have attention.
static status take_attending(const convert_family *f, const gguf *from, model_config *c, err *e)
{
    status result = OK;
    json_t *no = json_false();
    const gguf_value *v = find(f, from, "attention.head_count_kv");
    if (!v || !v->is_array || v->count != (uint64_t)c->layers)
        FAIL(E_USAGE, "%s: %s.attention.head_count_kv: found no list of %" PRId64 " numbers",
             gguf_path(from), f->arch, c->layers);
    c->attending = (model_layer_set){.count = c->layers};
    for (int64_t i = 0; i < c->layers; i++) {
        int64_t heads;
        if (!gguf_value_int(v, (uint64_t)i, &heads) || heads < 0 || heads > INT32_MAX)
            FAIL(E_USAGE, "%s: %s.attention.head_count_kv[%" PRId64 "]: found no whole number",
                 gguf_path(from), f->arch, i);
        if (heads == 0) continue;
        c->kv_heads = heads;
        c->attending.bits[i / 64] |= UINT64_C(1) << i % 64;
    }
    // The file has the width of the MLP as it is.
    TRY(model_config_set(c, "block_auto_adjust_ff_dim", no, e));
done:
    json_decref(no);
    return result;
}

static status take_delta(const convert_family *f, const gguf *from, model_config *c, err *e)
{
    status result = OK;
    int64_t inner = 0;
    model_layer_set recurrent = {.count = 0};
    TRY(take_int(f, from, "ssm.inner_size", 1, &inner, e));
    if (inner == 0 || inner % c->delta.heads || c->delta.heads % c->delta.key_heads)
        FAIL(E_USAGE,
             "%s: %s.ssm.inner_size, .time_step_rank, .group_count: found %" PRId64 ", %" PRId64
             ", %" PRId64 "; valid: multiples of the next one",
             gguf_path(from), f->arch, inner, c->delta.heads, c->delta.key_heads);
    c->delta.head_dim = inner / c->delta.heads;
    TRY(take_int(f, from, "full_attention_interval", 1, &c->attention_pattern, e));
    TRY(take_flags(f, from, "attention.recurrent_layers", c, &recurrent, e));
    if (recurrent.count == 0) goto done;
    c->attending = recurrent;
    for (int64_t i = 0; i < c->layers; i++) c->attending.bits[i / 64] ^= UINT64_C(1) << i % 64;
done:
    return result;
}

static status take_lists(const convert_family *f, const gguf *from, model_config *c, err *e)
{
    status result = OK;
    const gguf_value *parallel = find(f, from, "use_parallel_residual");
    if (f->flags & PATTERN)
        TRY(take_flags(f, from, "attention.sliding_window_pattern", c, &c->sliding, e));
    if (f->flags & ROPE_PATTERN) TRY(take_rotating(f, from, c, e));
    if (f->flags & SHORT_CONV) TRY(take_attending(f, from, c, e));
    if (f->flags & DELTA_RULE) TRY(take_delta(f, from, c, e));
    if (f->flags & PARALLEL && parallel && !gguf_value_bool(parallel, &c->parallel))
        FAIL(E_USAGE, "%s: %s.use_parallel_residual is no flag", gguf_path(from), f->arch);
done:
    return result;
}

static status take_tokens(const gguf *from, model_config *c, err *e)
{
    static const struct {
        const char *key;
        size_t member;
    } ids[] = {{"tokenizer.ggml.bos_token_id", offsetof(model_config, bos)},
               {"tokenizer.ggml.eos_token_id", offsetof(model_config, eos)},
               {"tokenizer.ggml.padding_token_id", offsetof(model_config, pad)}};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        int64_t *id = (int64_t *)((char *)c + ids[i].member);
        const gguf_value *v = gguf_value_find(from, ids[i].key);
        *id = -1;
        if (v && (v->is_array || !gguf_value_int(v, 0, id) || *id < 0 || *id >= c->vocab))
            return err_set(e, E_USAGE, "%s: %s: found no id of one of the %" PRId64 " tokens",
                           gguf_path(from), ids[i].key, c->vocab);
    }
    c->more_eos_count = 0;
    return OK;
}

status convert_keys_read(const convert_family *f, const gguf *from, model_config *c, err *e)
{
    status result = OK;
    model_config_defaults(model_family_find(f->family), c);
    TRY(take_table(f, from, c, e));
    TRY(take_tensors(from, c, e));
    TRY(take_heads(f, from, c, e));
    TRY(take_lists(f, from, c, e));
    TRY(take_stretched(f, from, c, e));
    TRY(take_tokens(from, c, e));
    result = model_config_finish(c, e);
    if (result != OK) err_prefix(e, "%s: ", gguf_path(from));
done:
    return result;
}
