// config_rope.c -- rotary positions as HuggingFace describes them: rope_scaling and rope_theta of
// transformers 4, rope_parameters of 5. Called through config_fields.c and config_read.c. Does not
// know how frequencies are computed (llama.c).
#include "model/config_fields.h"

#include <string.h>

// Keys of the object, by Trireme's field.
static const struct {
    const char *key, *word;
} PARTS[] = {
    {"rope_theta", "rope_theta"},
    {"factor", "rope_factor"},
    {"low_freq_factor", "rope_low"},
    {"high_freq_factor", "rope_high"},
    {"original_max_position_embeddings", "rope_original"},
};

// Sets one part, and names it in the message as the file does.
static status set_part(model_config *c, const char *word, const json_t *value, err *e)
{
    return json_is_null(value) ? OK : model_config_set(c, word, value, e);
}

static status check_needed(const model_config *c, const char *field, const json_t *value, err *e)
{
    status result = OK;
    static const char *const NEEDED[] = {"factor", "low_freq_factor", "high_freq_factor"};
    int needed = c->rope == ROPE_LLAMA3 ? 3 : c->rope == ROPE_LINEAR ? 1 : 0;
    for (int i = 0; i < needed; i++)
        if (!json_is_number(json_object_get(value, NEEDED[i])))
            FAIL(E_USAGE, "%s: %s: not given, but its type needs it", field, NEEDED[i]);
done:
    return result;
}

status config_set_rope(model_config *c, const char *field, const json_t *value, err *e)
{
    status result = OK;
    char shown[SHOWN_BYTES];
    c->rope = ROPE_DEFAULT;
    if (json_is_null(value)) goto done;
    if (!json_is_object(value))
        FAIL(E_USAGE, "%s: found %s, valid are objects and null", field, config_show(value, shown));
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
             config_show(type, shown));
    json_t *partial = json_object_get(value, "partial_rotary_factor");
    if (partial && !json_is_null(partial) && json_number_value(partial) != 1)
        FAIL(E_USAGE, "%s: partial_rotary_factor: found %s, valid is 1", field,
             config_show(partial, shown));
    for (size_t i = 0; i < sizeof PARTS / sizeof PARTS[0]; i++) {
        part = json_object_get(value, PARTS[i].key);
        if (part && set_part(c, PARTS[i].word, part, e) != OK) {
            err_prefix(e, "%s: %s as ", field, PARTS[i].key);
            result = E_USAGE;
            goto done;
        }
    }
    TRY(check_needed(c, field, value, e));
done:
    return result;
}
