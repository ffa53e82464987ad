// config_rope.c -- reads rotary positions as HuggingFace writes them: rope_scaling of transformers 4
// and rope_parameters of 5. Called by config_fields.c and config_read.c. Does not know how the
// frequencies are computed (llama.c).
#include "model/config_fields.h"

#include <string.h>

// The object's keys, and Trireme's names of the fields that they set.
static const struct {
    const char *key, *field;
} KEYS[] = {
    {"rope_theta", "rope_theta"},
    {"factor", "rope_factor"},
    {"low_freq_factor", "rope_low"},
    {"high_freq_factor", "rope_high"},
    {"original_max_position_embeddings", "rope_original"},
};

// Checks that the numbers that the type of rope needs are given.
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

status model_config_set_rope(model_config *c, const char *field, const json_t *value, err *e)
{
    status result = OK;
    char shown[SHOWN_BYTES];
    c->rope = ROPE_DEFAULT;
    if (json_is_null(value)) goto done;
    if (!json_is_object(value))
        FAIL(E_USAGE, "%s: found %s, valid are objects and null", field,
             model_show_value(value, shown));
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
    for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++) {
        part = json_object_get(value, KEYS[i].key);
        if (!part || json_is_null(part)) continue;
        if (model_config_set(c, KEYS[i].field, part, e) != OK) {
            err_prefix(e, "%s: %s as ", field, KEYS[i].key); // names the key as the file does
            result = E_USAGE;
            goto done;
        }
    }
    TRY(check_needed(c, field, value, e));
done:
    return result;
}
