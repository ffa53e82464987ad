// composite.c -- see composite.h. A model of several parts is a row of a table. The names of its tensors are known to
// params.c.
#include "model/composite.h"
#include "model/schema.h"

#include <string.h>

typedef struct model_composite {
    const char *model_type, *architecture;
    const char *text_type; // model_type of a text_config that does not give it
    bool tied;             // tie_word_embeddings of a config.json that does not give it
    const char *ignored;   // a field of text_config that the outer class does not read; NULL: none
} model_composite;

static const model_composite COMPOSITES[] = {
    {"gemma3", "Gemma3ForConditionalGeneration", "gemma3_text", true, "final_logit_softcapping"},
    {"gemma4", "Gemma4ForConditionalGeneration", "gemma4_text", true, NULL},
    {"mistral3", "Mistral3ForConditionalGeneration", "mistral", false, NULL},
    {"qwen3_5", "Qwen3_5ForConditionalGeneration", "qwen3_5_text", false, NULL},
};

static const model_composite *find(const json_t *root)
{
    const char *type = json_string_value(json_object_get(root, "model_type"));
    for (size_t i = 0; type && i < sizeof COMPOSITES / sizeof *COMPOSITES; i++)
        if (strcmp(type, COMPOSITES[i].model_type) == 0) return &COMPOSITES[i];
    return NULL;
}

static bool is_given(const json_t *of, const char *key)
{
    const json_t *value = json_object_get(of, key);
    return value && !json_is_null(value);
}

// The outer class ties the token table to the output layer, and its tokens are those of the text. The outer values of
// the first fields win, those of the second fill what text_config lacks.
static status take_shared(const model_composite *of, json_t *root, json_t *to, err *e)
{
    static const char *const wins[] = {"tie_word_embeddings", "quantization_config",
                                       "compression_config", "auto_map"};
    static const char *const fills[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
    int failed = 0;
    for (size_t i = 0; i < sizeof wins / sizeof *wins; i++)
        if (is_given(root, wins[i]))
            failed |= json_object_set(to, wins[i], json_object_get(root, wins[i]));
    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++)
        if (!is_given(to, fills[i]) && is_given(root, fills[i]))
            failed |= json_object_set(to, fills[i], json_object_get(root, fills[i]));
    if (!is_given(to, "tie_word_embeddings"))
        failed |= json_object_set_new(to, "tie_word_embeddings", json_boolean(of->tied));
    if (!is_given(to, "model_type"))
        failed |= json_object_set_new(to, "model_type", json_string(of->text_type));
    json_object_del(to, "architectures"); // the outer ones count
    if (of->ignored) json_object_del(to, of->ignored);
    return failed ? err_set(e, E_MEMORY, "text_config: out of memory") : OK;
}

status model_composite_text(json_t *root, json_t **out, err *e)
{
    status result = OK;
    char shown[SHOWN_BYTES];
    const model_composite *of = find(root);
    const json_t *names = json_object_get(root, "architectures"),
                 *inner = json_object_get(root, "text_config");
    json_t *merged = NULL;
    if (!of) {
        *out = json_incref(root);
        return OK;
    }
    for (size_t i = 0; i < json_array_size(names); i++) {
        const json_t *name = json_array_get(names, i);
        if (!json_is_string(name) || strcmp(json_string_value(name), of->architecture) != 0)
            FAIL(E_USAGE, "architectures: found %s, valid is %s", model_show_value(name, shown),
                 of->architecture);
    }
    if (!json_is_object(inner))
        FAIL(E_USAGE, "text_config: %s%s; valid: an object, the config of the text model",
             inner ? "found " : "not given", inner ? model_show_value(inner, shown) : "");
    merged = json_copy((json_t *)inner);
    if (!merged) FAIL(E_MEMORY, "text_config: out of memory");
    TRY(take_shared(of, root, merged, e));
    *out = merged;
    merged = NULL;
done:
    json_decref(merged);
    return result;
}
