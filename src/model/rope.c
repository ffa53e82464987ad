// rope.c -- rotary positions in config.json, and their frequencies: rope_scaling of transformers 4, with
// rope_theta beside it, and rope_parameters of 5. The fields in the object are rows of the family with
// FIELD_OF_ROPE. Called by schema.c, config.c and the families.
#include "base/alloc.h"
#include "model/fields.h"

#include <stdlib.h>
#include <string.h>

const model_words MODEL_ROPE_WORDS = {
    "default, linear, llama3",
    {{"default", ROPE_DEFAULT}, {"linear", ROPE_LINEAR}, {"llama3", ROPE_LLAMA3}}};

static bool is_read(const model_config *c, const model_field *f)
{
    return f->flags & FIELD_OF_ROPE && (!f->kinds || f->kinds >> c->rope.kind & 1u);
}

// Sets the kind, and refuses what no kind has.
static status set_kind(model_config *c, const char *field, const json_t *value, err *e)
{
    status result = OK;
    char shown[SHOWN_BYTES];
    const char *key;
    json_t *part;
    json_object_foreach((json_t *)value, key, part)
    {
        if (json_is_object(part))
            FAIL(E_USAGE, "%s: %s: parameters by kind of layer are not supported", field, key);
    }
    json_t *type = json_object_get(value, "rope_type");
    if (!type) type = json_object_get(value, "type");
    if (type && model_config_set(c, "rope", type, e) != OK)
        FAIL(E_USAGE, "%s: rope_type: found %s, valid are default, linear and llama3", field,
             model_show_value(type, shown));
    json_t *partial = json_object_get(value, "partial_rotary_factor");
    if (partial && !json_is_null(partial) && json_number_value(partial) != 1)
        FAIL(E_USAGE, "%s: partial_rotary_factor: found %s, valid is 1", field,
             model_show_value(partial, shown));
done:
    return result;
}

status model_rope_set(model_config *c, const char *field, const json_t *value, err *e)
{
    status result = OK;
    char shown[SHOWN_BYTES];
    const model_field *rows[MODEL_FIELDS];
    const int count = model_fields_list(c->family, rows);
    c->rope.kind = ROPE_DEFAULT;
    if (json_is_null(value)) goto done;
    if (!json_is_object(value))
        FAIL(E_USAGE, "%s: found %s, valid are objects and null", field,
             model_show_value(value, shown));
    TRY(set_kind(c, field, value, e));
    for (int i = 0; i < count; i++) {
        const json_t *part = json_object_get(value, rows[i]->file[0]);
        if (!(rows[i]->flags & FIELD_OF_ROPE) || rows[i]->type == FIELD_WORD) continue;
        if (!part || json_is_null(part)) continue;
        result = model_field_set(c, rows[i], rows[i]->name, part, e);
        if (result == OK) continue;
        err_prefix(e, "%s: %s as ", field, rows[i]->file[0]); // names the key as the file does
        goto done;
    }
    for (int i = 0; i < count; i++)
        if (is_read(c, rows[i]) && rows[i]->flags & FIELD_OF_KIND &&
            !json_is_number(json_object_get(value, rows[i]->file[0])))
            FAIL(E_USAGE, "%s: %s: not given, but its type needs it", field, rows[i]->file[0]);
done:
    return result;
}

// As transformers 5: rope_scaling goes before rope_parameters unless it is empty, and a theta inside
// the object goes before rope_theta beside it.
status model_rope_read(model_config *c, const model_field *f, const json_t *root, err *e)
{
    status result = OK;
    const json_t *theta = json_object_get(root, "rope_theta");
    if (theta && !json_is_null(theta)) TRY(model_config_set(c, "rope_theta", theta, e));
    const char *field = f->file[1];
    const json_t *rope = json_object_get(root, field);
    if (!rope || model_value_is_neutral(rope, NAN))
        rope = json_object_get(root, field = f->file[0]);
    if (rope) TRY(model_rope_set(c, field, rope, e));
    const json_t *original = json_object_get(root, "original_max_position_embeddings");
    if (original && c->rope.kind == ROPE_LLAMA3)
        TRY(model_config_set(c, "rope_original", original, e));
done:
    return result;
}

// Adds {"rope_type": ..., ...}.
static void add_object(const model_config *c, bool with_theta, text *out)
{
    const char *before = "{";
    for (int i = 0; i < c->family->schema->count; i++) {
        const model_field *f = &c->family->schema->fields[i];
        const bool is_theta = f->member == offsetof(model_config, rope.theta);
        if (!is_read(c, f) || (is_theta && !with_theta)) continue;
        text_addf(out, "%s\"%s\": ", before, f->file[0]);
        model_field_add(c, f, true, out);
        before = ", ";
    }
    text_add(out, "}");
}

void model_rope_write(const model_config *c, const model_field *f, text *out)
{
    text_addf(out, ",\n  \"%s\": ", f->file[0]);
    add_object(c, true, out);
    text_addf(out, ",\n  \"%s\": ", f->file[1]);
    // Version 5 prefers rope_scaling where it is not null, and then reads rope_theta from beside it.
    if (c->rope.kind == ROPE_DEFAULT)
        text_add(out, "null");
    else
        add_object(c, false, out);
    text_add(out, ",\n  \"rope_theta\": ");
    model_field_add(c, model_field_named(c->family, "rope_theta"), true, out);
}

status model_rope_finish(model_config *c, err *e)
{
    if (c->rope.original == 0) c->rope.original = c->max_seq;
    if (c->rope.kind != ROPE_LLAMA3 || c->rope.high > c->rope.low) return OK;
    return err_set(e, E_USAGE, "rope_high: found %g, valid is more than rope_low (%g)",
                   c->rope.high, c->rope.low);
}

// One rotary frequency, in fp32 as HuggingFace computes it. llama3 divides the frequencies of long
// waves, keeps those of short waves, and blends between (Dubey et al. 2024).
static float rope_frequency(const model_config *c, int64_t i)
{
    float f = 1.0f / powf((float)c->rope.theta, (float)(2 * i) / (float)c->head_dim);
    if (c->rope.kind == ROPE_LINEAR) return f / (float)c->rope.factor;
    if (c->rope.kind != ROPE_LLAMA3) return f;
    float original = (float)c->rope.original, wave = 2 * (float)M_PI / f;
    if (wave < original / (float)c->rope.high) return f;
    if (wave > original / (float)c->rope.low) return f / (float)c->rope.factor;
    float s = (original / wave - (float)c->rope.low) / ((float)c->rope.high - (float)c->rope.low);
    return (1 - s) * f / (float)c->rope.factor + s * f;
}

graph_value *model_rope_build(graph *g, graph_value *qkv, const model_config *c)
{
    int64_t pairs = c->head_dim / 2;
    double *frequency = NULL;
    if (!graph_check(g, alloc_zeroed(&frequency, (size_t)pairs, sizeof *frequency, "", NULL)))
        return qkv;
    for (int64_t i = 0; i < pairs; i++) frequency[i] = (double)rope_frequency(c, i);
    graph_value *y =
        build_rope(g, qkv, c->heads + c->kv_heads, c->head_dim, c->max_seq, frequency, pairs);
    free(frequency);
    return y;
}
