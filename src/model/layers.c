// layers.c -- which layer of a decoder is what: sets of layers, as lists in config.json and in a job, or by a rule
// of the family. Called by schema.c and config.c.
#include "model/decoder.h"
#include "model/schema.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

const model_words MODEL_WINDOW_WORDS = {"full_attention and sliding_attention",
                                        {{"full_attention", 0}, {"sliding_attention", 1}}};
// As transformers writes them: 1 is a layer that rotates.
const model_words MODEL_ROTATION_WORDS = {"0 and 1", {{"0", 0}, {"1", 1}}};

// Layers with attention: the others have a short convolution.
const model_words MODEL_CONV_WORDS = {"full_attention and conv",
                                      {{"conv", 0}, {"full_attention", 1}}};

// Layers with attention: the others have a gated delta rule.
const model_words MODEL_LINEAR_WORDS = {"full_attention and linear_attention",
                                        {{"linear_attention", 0}, {"full_attention", 1}}};

enum { BY_NUMBERS = -1 }; // count of a set whose layers are listed by their numbers

bool model_layer_has(const model_layer_set *s, int64_t layer)
{
    return s->bits[layer / 64] >> layer % 64 & 1u;
}

static void put(model_layer_set *s, int64_t layer, bool in)
{
    if (in) s->bits[layer / 64] |= UINT64_C(1) << layer % 64;
}

status model_layers_set(const model_field *f, const char *name, model_layer_set *s,
                        const json_t *value, err *e)
{
    status result = OK;
    char shown[SHOWN_BYTES];
    const size_t count = json_array_size(value);
    *s = (model_layer_set){0};
    if (!(json_is_array(value) || json_is_null(value)) || count > MODEL_LAYERS)
        FAIL(E_USAGE, "%s: found %s, valid are lists with %s for each layer, or null", name,
             model_show_value(value, shown), f->words->valid);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(value, i);
        int in = 0;
        if (!model_word_find(f->words, item, &in))
            FAIL(E_USAGE, "%s: found %s for layer %zu, valid are %s", name,
                 model_show_value(item, shown), i, f->words->valid);
        put(s, s->count++, in);
    }
done:
    return result;
}

// A list with a word for each layer goes before.
status model_layers_set_numbers(const model_field *f, const char *name, model_layer_set *s,
                                const json_t *value, err *e)
{
    status result = OK;
    char shown[SHOWN_BYTES];
    if (json_is_null(value) || s->count > 0) return OK;
    if (!json_is_array(value))
        FAIL(E_USAGE, "%s: found %s, valid are lists of numbers of layers, from 0, or null", name,
             model_show_value(value, shown));
    *s = (model_layer_set){.count = BY_NUMBERS};
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        const json_int_t layer = json_integer_value(item);
        if (!json_is_integer(item) || layer < 0 || layer >= MODEL_LAYERS)
            FAIL(E_USAGE, "%s: found %s, valid are whole numbers from 0 to %d", name,
                 model_show_value(item, shown), MODEL_LAYERS - 1);
        put(s, layer, true);
    }
    (void)f;
done:
    return result;
}

static void add_numbers(const model_layer_set *s, text *out)
{
    const char *comma = "";
    for (int64_t i = 0; i < s->count; i++) {
        if (!model_layer_has(s, i)) continue;
        text_addf(out, "%s%" PRId64, comma, i);
        comma = ", ";
    }
}

void model_layers_add(const model_field *f, const model_layer_set *s, bool json, text *out)
{
    text_add(out, "[");
    if (f->type == FIELD_LAYER_NUMBERS) add_numbers(s, out);
    for (int64_t i = 0; i < s->count && f->type == FIELD_LAYERS; i++) {
        if (i) text_add(out, ", ");
        model_word_add(f->words->word[model_layer_has(s, i)].word, json, out);
    }
    text_add(out, "]");
}

int64_t model_head_dim(const model_config *c, int64_t layer)
{
    return c->full_head_dim && model_layer_has(&c->wide, layer) ? c->full_head_dim : c->head_dim;
}

int64_t model_kv_heads(const model_config *c, int64_t layer)
{
    return c->full_kv_heads && model_layer_has(&c->wide, layer) ? c->full_kv_heads : c->kv_heads;
}

// Sets one number of the layers in `wide`, which all have the same; NULL: not given.
static status set_wide_number(const char *name, const char *layer, const json_t *value,
                              int64_t *number, err *e)
{
    char shown[SHOWN_BYTES];
    const int64_t found = json_integer_value(value);
    if (!value) return OK;
    if (!json_is_integer(value) || found < 1 || found > 1 << 16 || (*number && *number != found))
        return err_set(e, E_USAGE, "%s: layer %s: found %s, valid is one number for all layers",
                       name, layer, model_show_value(value, shown));
    *number = found;
    return OK;
}

status model_wide_set(model_config *c, const char *name, const json_t *value, err *e)
{
    status result = OK;
    char shown[SHOWN_BYTES];
    const char *layer;
    json_t *part;
    c->full_head_dim = c->full_kv_heads = 0;
    c->wide = (model_layer_set){.count = MODEL_LAYERS};
    if (!json_is_object(value))
        FAIL(E_USAGE, "%s: found %s, valid are objects", name, model_show_value(value, shown));
    json_object_foreach((json_t *)value, layer, part)
    {
        int64_t number = -1;
        if (!text_to_count(layer, &number) || number < 0 || number >= MODEL_LAYERS)
            FAIL(E_USAGE, "%s: found layer %s, valid are numbers of layers from 0", name, layer);
        TRY(set_wide_number(name, layer, json_object_get(part, "head_dim"), &c->full_head_dim, e));
        TRY(set_wide_number(name, layer, json_object_get(part, "num_key_value_heads"),
                            &c->full_kv_heads, e));
        put(&c->wide, number, true);
    }
done:
    return result;
}

void model_wide_add(const model_config *c, text *out)
{
    const char *before = "{";
    for (int64_t i = 0; i < c->layers; i++) {
        if (!model_layer_has(&c->wide, i)) continue;
        text_addf(out, "%s\"%" PRId64 "\": {\"head_dim\": %" PRId64, before, i,
                  model_head_dim(c, i));
        text_addf(out, ", \"num_key_value_heads\": %" PRId64 "}", model_kv_heads(c, i));
        before = ", ";
    }
    text_add(out, *before == '{' ? "{}" : "}");
}

static status check_count(int64_t count, const char *name, int64_t layers, err *e)
{
    if (count == 0 || count == layers) return OK;
    return err_set(e, E_USAGE,
                   "%s: found %" PRId64 " items, valid is one for each of the %" PRId64 " layers",
                   name, count, layers);
}

// Layers with a window by their number, where no list says which.
static void fill_sliding(model_config *c)
{
    const int64_t last = c->family->decoder->first_sees_all ? 0 : 1;
    for (int64_t i = 0; i < c->layers; i++)
        put(&c->sliding, i,
            i >= c->window_from && !(c->window_pattern && (i + last) % c->window_pattern == 0));
    c->sliding.count = c->layers;
}

static void fill_rotating(model_config *c)
{
    const bool by_window = c->window && c->family->decoder->rotates_with_window;
    const model_numbers *theta = &c->rope.layer_theta;
    for (int64_t i = 0; i < c->layers; i++)
        put(&c->rotating, i,
            theta->count ? theta->number[i] > 0
            : by_window  ? model_layer_has(&c->sliding, i)
                         : !c->rotary_pattern || (i + 1) % c->rotary_pattern != 0);
    c->rotating.count = c->layers;
}

static void fill_attending(model_config *c)
{
    for (int64_t i = 0; i < c->layers; i++)
        put(&c->attending, i, !c->attention_pattern || (i + 1) % c->attention_pattern == 0);
    c->attending.count = c->layers;
}

// Checks the numbers of layers with attention.
static status check_numbers(model_config *c, err *e)
{
    for (int64_t i = c->layers; i < MODEL_LAYERS; i++)
        if (model_layer_has(&c->attending, i))
            return err_set(e, E_USAGE,
                           "full_attn_idxs: found %" PRId64 ", valid are numbers below %" PRId64
                           ", the number of layers",
                           i, c->layers);
    c->attending.count = c->layers;
    return OK;
}

status model_layers_finish(model_config *c, err *e)
{
    status result = OK;
    if (!c->use_window) c->window = 0;
    TRY(check_count(c->sliding.count, "layer_types", c->layers, e));
    TRY(check_count(c->rotating.count, "no_rope_layers", c->layers, e));
    TRY(check_count(c->rope.layer_theta.count, "layer_rope_theta", c->layers, e));
    if (c->attending.count == BY_NUMBERS) TRY(check_numbers(c, e));
    TRY(check_count(c->attending.count, "layer_types", c->layers, e));
    if (!c->attending.count) fill_attending(c);
    if (!c->window) c->sliding = (model_layer_set){.count = c->layers};
    if (!c->sliding.count) fill_sliding(c);
    if (!c->rotating.count) fill_rotating(c);
    if (c->full_kv_heads && c->heads % c->full_kv_heads)
        FAIL(E_USAGE, "full_kv_heads: found %" PRId64 ", valid are divisors of heads (%" PRId64 ")",
             c->full_kv_heads, c->heads);
    for (int64_t i = 0; !c->wide.count && i < c->layers; i++)
        put(&c->wide, i, !model_layer_has(&c->sliding, i));
done:
    return result;
}
