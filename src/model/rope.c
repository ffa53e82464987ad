// rope.c -- rotary positions in config.json, and their frequencies: rope_scaling of transformers 4, with
// rope_theta beside it, and rope_parameters of 5. The fields in the object are rows of the family with
// FIELD_OF_ROPE. Families whose layers with a window rotate by a table of their own have one object for each kind
// of layer. Called by schema.c, config.c and decoder.c.
#include "base/alloc.h"
#include "model/decoder.h"
#include "model/fields.h"

#include <stdlib.h>
#include <string.h>

const model_words MODEL_ROPE_WORDS = {
    "default, linear, dynamic, yarn, longrope, llama3 and proportional",
    {{"default", ROPE_DEFAULT},
     {"linear", ROPE_LINEAR},
     {"dynamic", ROPE_DYNAMIC},
     {"yarn", ROPE_YARN},
     {"longrope", ROPE_LONGROPE},
     {"llama3", ROPE_LLAMA3},
     {"proportional", ROPE_PROPORTIONAL},
     {"su", ROPE_LONGROPE}}};

static const char FULL[] = "full_attention", SLIDING[] = "sliding_attention";

static bool is_read(const model_config *c, const model_field *f)
{
    return f->flags & FIELD_OF_ROPE && model_field_is_read(c, f);
}

// Returns whether the value is a list of objects, one for each kind of layer.
static bool is_by_layer(const json_t *value)
{
    const char *key;
    json_t *part;
    json_object_foreach((json_t *)value, key, part)
    {
        if (json_is_object(part)) return true;
    }
    return false;
}

// The layers with a window rotate by the default kind; what differs is theta.
static status set_local(model_config *c, const char *field, const json_t *value, err *e)
{
    status result = OK;
    char shown[SHOWN_BYTES];
    const json_t *type = json_object_get(value, "rope_type"),
                 *theta = json_object_get(value, "rope_theta");
    const char *word = type ? json_string_value(type) : "default";
    if (!word || strcmp(word, "default") != 0)
        FAIL(E_USAGE, "%s: %s: rope_type: found %s, valid is default", field, SLIDING,
             model_show_value(type, shown));
    if (!theta) return OK; // the family's
    if (!(json_number_value(theta) >= 1 && json_number_value(theta) <= 1e15))
        FAIL(E_USAGE, "%s: %s: rope_theta: found %s, valid are numbers from 1 to 1e+15", field,
             SLIDING, model_show_value(theta, shown));
    c->rope.local_theta = json_number_value(theta);
done:
    return result;
}

static status set_kind(model_config *c, const char *field, const json_t *value, err *e)
{
    char shown[SHOWN_BYTES];
    json_t *type = json_object_get(value, "rope_type");
    if (!type) type = json_object_get(value, "type");
    if (!type || model_config_set(c, "rope", type, e) == OK) return OK;
    return err_set(e, E_USAGE, "%s: rope_type: found %s, valid are %s", field,
                   model_show_value(type, shown), MODEL_ROPE_WORDS.valid);
}

// Sets the fields of one object. Those that it lacks get the default of their rows, but for those beside it.
static status set_object(model_config *c, const char *field, const json_t *value, err *e)
{
    status result = OK;
    char shown[SHOWN_BYTES];
    const model_field *rows[MODEL_FIELDS];
    const int count = model_fields_list(c->family, rows);
    TRY(set_kind(c, field, value, e));
    for (int i = 0; i < count; i++) {
        const json_t *part = json_object_get(value, rows[i]->file[0]);
        if (!(rows[i]->flags & FIELD_OF_ROPE) || rows[i]->type == FIELD_WORD) continue;
        if (!part || json_is_null(part)) {
            if (!(rows[i]->flags & FIELD_BESIDE)) model_field_set_default(c, rows[i]);
            continue;
        }
        result = model_field_set(c, rows[i], rows[i]->name, part, e);
        if (result == OK) continue;
        err_prefix(e, "%s: %s as ", field, rows[i]->file[0]); // names the key as the file does
        goto done;
    }
    for (int i = 0; i < count; i++)
        if (rows[i]->needed >> c->rope.kind & 1u &&
            json_is_null(json_object_get(value, rows[i]->file[0]) ?: json_null()))
            FAIL(E_USAGE, "%s: %s: not given, but its type needs it", field, rows[i]->file[0]);
    const json_t *partial = json_object_get(value, "partial_rotary_factor");
    if (partial && !model_field_named(c->family, "rope_partial") &&
        !model_value_is_neutral(partial, 1))
        FAIL(E_USAGE, "%s: partial_rotary_factor: found %s, valid is 1", field,
             model_show_value(partial, shown));
done:
    return result;
}

status model_rope_set(model_config *c, const char *field, const json_t *value, err *e)
{
    status result = OK;
    char shown[SHOWN_BYTES];
    c->rope.kind = ROPE_DEFAULT;
    if (json_is_null(value)) goto done;
    if (!json_is_object(value))
        FAIL(E_USAGE, "%s: found %s, valid are objects and null", field,
             model_show_value(value, shown));
    if (is_by_layer(value)) {
        const json_t *full = json_object_get(value, FULL), *local = json_object_get(value, SLIDING);
        if (!c->family->decoder->local_rope)
            FAIL(E_USAGE, "%s: %s: parameters by kind of layer are not supported in %s models",
                 field, full ? FULL : SLIDING, c->family->name);
        if (local) TRY(set_local(c, field, local, e));
        value = full ? full : json_null();
    }
    if (json_is_object(value)) TRY(set_object(c, field, value, e));
done:
    return result;
}

// Sets the fields that stand beside the object: original_max_position_embeddings where the kind reads it, or all others.
static status read_beside(model_config *c, const json_t *root, bool original, err *e)
{
    status result = OK;
    const model_schema *s = c->family->schema;
    for (int i = 0; i < s->count; i++) {
        const model_field *f = &s->fields[i];
        const bool is_original = f->member == offsetof(model_config, rope.original);
        if (!(f->flags & FIELD_OF_ROPE) || f->type == FIELD_WORD || is_original != original ||
            (original && !model_field_is_read(c, f)))
            continue;
        for (int k = 0; k < 2 && f->file[k]; k++) {
            const json_t *value = json_object_get(root, f->file[k]);
            if (!value || json_is_null(value)) continue;
            TRY(model_config_set(c, f->name, value, e));
        }
    }
done:
    return result;
}

// As transformers 5: rope_scaling goes before rope_parameters unless it is empty, and a theta inside
// the object goes before rope_theta beside it.
status model_rope_read(model_config *c, const model_field *f, const json_t *root, err *e)
{
    status result = OK;
    TRY(read_beside(c, root, false, e));
    const char *field = f->file[1];
    const json_t *rope = json_object_get(root, field);
    if (!rope || model_value_is_neutral(rope, NAN))
        rope = json_object_get(root, field = f->file[0]);
    if (rope) TRY(model_rope_set(c, field, rope, e));
    TRY(read_beside(c, root, true, e));
done:
    return result;
}

static bool is_given(const model_config *c, const model_field *f)
{
    const void *member = (const char *)c + f->member;
    if (!(f->flags & FIELD_ZERO_IS_NULL)) return true;
    return f->type == FIELD_NUMBERS ? ((const model_numbers *)member)->count > 0
                                    : *(const double *)member != 0;
}

// Adds {"rope_type": ..., ...}. `beside`: without the fields that transformers 4 has beside it.
static void add_object(const model_config *c, bool beside, text *out)
{
    const char *before = "{";
    for (int i = 0; i < c->family->schema->count; i++) {
        const model_field *f = &c->family->schema->fields[i];
        if (!is_read(c, f) || !is_given(c, f) || (beside && f->flags & FIELD_BESIDE) ||
            f->member == offsetof(model_config, rope.local_theta))
            continue;
        text_addf(out, "%s\"%s\": ", before, f->file[0]);
        model_field_add(c, f, true, out);
        before = ", ";
    }
    text_add(out, "}");
}

// Adds the object of the layers with a window.
static void add_local(const model_config *c, text *out)
{
    const size_t theta = c->rope.local_theta > 0 ? offsetof(model_config, rope.local_theta)
                                                 : offsetof(model_config, rope.theta);
    text_add(out, "{\"rope_type\": \"default\", \"rope_theta\": ");
    model_field_add(c, &(model_field){.type = FIELD_REAL, .member = theta}, true, out);
    text_add(out, "}");
}

void model_rope_write(const model_config *c, const model_field *f, text *out)
{
    const bool by_layer = c->family->decoder->local_rope;
    text_addf(out, ",\n  \"%s\": %s", f->file[0], by_layer ? "{\"full_attention\": " : "");
    add_object(c, false, out);
    if (by_layer) {
        text_add(out, ", \"sliding_attention\": ");
        add_local(c, out);
        text_add(out, "}");
    }
    // Version 4 does not have this kind, and version 5 takes a rope_scaling of null for rope_parameters.
    if (c->rope.kind == ROPE_PROPORTIONAL) return;
    text_addf(out, ",\n  \"%s\": ", f->file[1]);
    // Version 5 prefers rope_scaling where it is not null, and then reads rope_theta from beside it.
    if (c->rope.kind == ROPE_DEFAULT)
        text_add(out, "null");
    else
        add_object(c, true, out);
    for (int i = 0; i < c->family->schema->count; i++) {
        const model_field *b = &c->family->schema->fields[i];
        if (!(b->flags & FIELD_BESIDE)) continue;
        text_addf(out, ",\n  \"%s\": ", b->file[0]);
        model_field_add(c, b, true, out);
    }
}

// The rotary positions of a layer.
typedef struct rope_layer {
    const model_rope_config *numbers; // of its kind
    model_rope kind;
    double theta;
    int64_t pairs, turning; // pairs of the table, and how many of them turn
    int64_t max_seq;
    int64_t tokens; // of the longest sequence
} rope_layer;

// The pairs of a head that rotate.
static int64_t rotating_pairs(const model_config *c, int64_t head_dim)
{
    return (int64_t)((double)head_dim * c->rope.partial) / 2;
}

// The pairs of a head that the table has. Proportional ones are those of the whole head, of which some do not turn.
static int64_t pairs_of(const model_config *c, int64_t head_dim)
{
    return c->rope.kind == ROPE_PROPORTIONAL ? head_dim / 2 : rotating_pairs(c, head_dim);
}

status model_rope_finish(model_config *c, err *e)
{
    status result = OK;
    const model_rope_config *r = &c->rope;
    if (r->original == 0) c->rope.original = c->max_seq;
    const int64_t pairs = pairs_of(c, c->head_dim);
    if (pairs < 1 ||
        (r->kind != ROPE_PROPORTIONAL && (int64_t)((double)c->head_dim * r->partial) % 2))
        FAIL(E_USAGE, "rope_partial: found %g, valid are those that give an even number of columns",
             r->partial);
    // As transformers: yarn and longrope stretch the model to max_seq where no factor is given.
    if (r->factor == 0 && (r->kind == ROPE_YARN || r->kind == ROPE_LONGROPE))
        c->rope.factor = (double)c->max_seq / (double)c->rope.original;
    if (r->factor == 0 && r->kind != ROPE_DEFAULT && r->kind != ROPE_PROPORTIONAL)
        FAIL(E_USAGE, "rope_factor: not given, but model.rope needs it");
    if (r->kind == ROPE_LLAMA3 && r->high <= r->low)
        FAIL(E_USAGE, "rope_high: found %g, valid is more than rope_low (%g)", r->high, r->low);
    if (r->kind == ROPE_LONGROPE && (r->shorter.count != pairs || r->longer.count != pairs))
        FAIL(E_USAGE, "rope_short: found %d and %d factors, valid is one for each of the %d pairs",
             r->shorter.count, r->longer.count, (int)pairs);
done:
    return result;
}

// The pair that turns this often within `original` positions (Peng et al. 2023).
static double yarn_pair(const rope_layer *l, double turns)
{
    const double columns = 2 * (double)l->pairs;
    return columns * log((double)l->numbers->original / (turns * 2 * M_PI)) / (2 * log(l->theta));
}

// Frequencies of pairs that turn often stay, those of pairs that turn seldom are divided.
static float yarn(const rope_layer *l, float power, int64_t i)
{
    const model_rope_config *r = l->numbers;
    double low = yarn_pair(l, r->fast), high = yarn_pair(l, r->slow);
    if (r->truncate) low = floor(low), high = ceil(high);
    low = low > 0 ? low : 0;
    high = high < (double)(2 * l->pairs - 1) ? high : (double)(2 * l->pairs - 1);
    if (low == high) high += 0.001;
    float ramp = ((float)i - (float)low) / (float)(high - low);
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    const float kept = 1 - ramp;
    return 1.0f / ((float)r->factor * power) * (1 - kept) + 1.0f / power * kept;
}

// llama3 divides the frequencies of long waves, keeps those of short waves, and blends between (Dubey et al. 2024).
static float llama3(const model_rope_config *r, float f)
{
    float original = (float)r->original, wave = 2 * (float)M_PI / f;
    if (wave < original / (float)r->high) return f;
    if (wave > original / (float)r->low) return f / (float)r->factor;
    float s = (original / wave - (float)r->low) / ((float)r->high - (float)r->low);
    return (1 - s) * f / (float)r->factor + s * f;
}

bool model_config_stretches(const model_config *c)
{
    return c->family->decoder && c->rope.kind == ROPE_DYNAMIC && c->rope.alpha == 0;
}

// The base of the frequencies. ROPE_DYNAMIC raises it where sequences are longer than max_seq (bloc97 2023), or by a
// constant alpha (HunYuan).
static double theta_of(const rope_layer *l)
{
    const double columns = 2 * (double)l->pairs, factor = l->numbers->factor;
    if (l->kind != ROPE_DYNAMIC || (l->numbers->alpha == 0 && l->tokens <= l->max_seq))
        return l->theta;
    const double longer = factor * (double)l->tokens / (double)l->max_seq - (factor - 1);
    return l->theta *
           pow(l->numbers->alpha > 0 ? l->numbers->alpha : longer, columns / (columns - 2));
}

// The frequency of pair i, in fp32 as HuggingFace computes it.
static float frequency_of(const rope_layer *l, int64_t i)
{
    const model_rope_config *r = l->numbers;
    const float columns = (float)(2 * l->pairs);
    const float power = powf((float)theta_of(l), (float)(2 * i) / columns);
    if (i >= l->turning) return 0;
    switch (l->kind) {
    case ROPE_LINEAR:
        return 1.0f / power / (float)r->factor;
    case ROPE_YARN:
        return yarn(l, power, i);
    case ROPE_LONGROPE:
        return 1.0f / ((l->tokens > r->original ? r->longer : r->shorter).number[i] * power);
    case ROPE_LLAMA3:
        return llama3(r, 1.0f / power);
    case ROPE_PROPORTIONAL:
        return 1.0f / power / (r->factor > 0 ? (float)r->factor : 1);
    default:
        return 1.0f / power;
    }
}

static double mscale(double factor, double scale)
{
    return factor <= 1 ? 1 : 0.1 * scale * log(factor) + 1;
}

// The factor of cosine and sine, which is that of queries and of keys.
static double attention_factor(const rope_layer *l)
{
    const model_rope_config *r = l->numbers;
    const double original = (double)r->original;
    const double factor = r->factor;
    if (l->kind != ROPE_YARN && l->kind != ROPE_LONGROPE) return 1;
    if (r->attention > 0) return r->attention;
    if (l->kind == ROPE_LONGROPE) return factor <= 1 ? 1 : sqrt(1 + log(factor) / log(original));
    return r->mscale > 0 && r->mscale_all > 0
               ? mscale(factor, r->mscale) / mscale(factor, r->mscale_all)
               : mscale(factor, 1);
}

static rope_layer layer_of(const graph *g, const model_config *c, int layer)
{
    const int64_t head_dim = model_head_dim(c, layer);
    rope_layer l = {.numbers = &c->rope,
                    .kind = c->rope.kind,
                    .theta = c->rope.theta,
                    .pairs = pairs_of(c, head_dim),
                    .turning = rotating_pairs(c, head_dim),
                    .max_seq = c->max_seq,
                    .tokens = g->mode == GRAPH_DECODE ? g->sequences.cache_rows
                                                      : g->sequences.tokens.full_seq};
    if (c->rope.layer_theta.count) l.theta = c->rope.layer_theta.number[layer];
    if (!c->family->decoder->local_rope || !model_layer_has(&c->sliding, layer)) return l;
    l.kind = ROPE_DEFAULT;
    if (c->rope.kind == ROPE_PROPORTIONAL) l.turning = l.pairs;
    if (c->rope.local_theta > 0) l.theta = c->rope.local_theta;
    return l;
}

graph_value *model_rope_build(graph *g, graph_value *qkv, const model_config *c, int layer)
{
    const rope_layer l = layer_of(g, c, layer);
    double *frequency = NULL;
    if (!graph_check(g, alloc_zeroed(&frequency, (size_t)l.pairs, sizeof *frequency, "", NULL)))
        return qkv;
    for (int64_t i = 0; i < l.pairs; i++) frequency[i] = (double)frequency_of(&l, i);
    const bool longer = model_config_stretches(c) && l.tokens > c->max_seq;
    const graph_rope table = {.rows = longer ? l.tokens : c->max_seq,
                              .pairs = l.pairs,
                              .frequency = frequency,
                              .scale = attention_factor(&l),
                              .queries = c->heads,
                              .growth = c->rope.query_growth,
                              .period = c->rope.original};
    graph_value *y = build_rope(g, qkv, c->heads + model_kv_heads(c, layer),
                                model_head_dim(c, layer), &table, c->family->decoder->interleaved);
    free(frequency);
    return y;
}
