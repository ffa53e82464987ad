// config_read.c -- reads a model folder's config.json. It refuses by name every field with which
// HuggingFace would compute something else from the same weights.
//
// Called by config/ and by the commands that open a model's folder. Does not know the names of the
// weights.
#include "base/file.h"
#include "base/json.h"
#include "model/config_fields.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Fields that change the arithmetic of some model of HuggingFace. null, false and empty lists or
// objects are allowed, and the number `neutral`; NAN allows 0 alone.
static const struct {
    const char *key;
    double neutral;
} NOT_SUPPORTED[] = {
    {"add_cross_attention", NAN},
    {"is_encoder_decoder", NAN},
    {"cross_attention_hidden_size", NAN},
    {"pruned_heads", NAN},
    {"quantization_config", NAN},
    {"compression_config", NAN},
    {"sliding_window", NAN},
    {"use_sliding_window", NAN},
    {"attention_chunk_size", NAN},
    {"no_rope_layers", NAN},
    {"use_qk_norm", NAN},
    {"qk_layernorm", NAN},
    {"alibi", NAN},
    {"clip_qkv", NAN},
    {"attn_logit_softcapping", NAN},
    {"final_logit_softcapping", NAN},
    {"num_local_experts", NAN},
    {"num_experts", NAN},
    {"n_routed_experts", NAN},
    {"pretraining_tp", 1},
    {"partial_rotary_factor", 1},
    {"rotary_pct", 1},
    {"embedding_multiplier", 1},
    {"attention_multiplier", NAN},
    {"residual_multiplier", 1},
    {"logits_scaling", 1},
    {"logit_scale", 1},
};

static bool is_neutral(const json_t *value, double neutral)
{
    if (json_is_number(value)) {
        double v = json_number_value(value);
        return v == 0 ? isnan(neutral) : v == neutral;
    }
    return json_is_null(value) || json_is_false(value) ||
           (json_is_object(value) && json_object_size(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0);
}

static status check_supported(const json_t *root, err *e)
{
    status result = OK;
    char shown[SHOWN_BYTES];
    for (size_t i = 0; i < sizeof NOT_SUPPORTED / sizeof NOT_SUPPORTED[0]; i++) {
        const json_t *value = json_object_get(root, NOT_SUPPORTED[i].key);
        if (value && !is_neutral(value, NOT_SUPPORTED[i].neutral))
            FAIL(E_USAGE, "%s: found %s, which changes the model and is not supported; valid is %s",
                 NOT_SUPPORTED[i].key, model_show_value(value, shown),
                 isnan(NOT_SUPPORTED[i].neutral) ? "null" : "1");
    }
    const json_t *types = json_object_get(root, "layer_types");
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (!type || strcmp(type, "full_attention"))
            FAIL(E_USAGE, "layer_types: found %s, valid is full_attention",
                 model_show_value(json_array_get(types, i), shown));
    }
    const json_t *map = json_object_get(root, "auto_map");
    if (json_object_get(map, "AutoModelForCausalLM") || json_object_get(map, "AutoModel"))
        FAIL(E_USAGE, "auto_map: the model is computed by Python code of its own, which is not "
                      "supported");
done:
    return result;
}

static const struct {
    const char *word;
    model_family_kind family;
    const char *architectures[2];
} MODEL_TYPES[] = {
    {"gpt2", FAMILY_GPT2, {"GPT2LMHeadModel", "GPT2Model"}},
    {"llama", FAMILY_LLAMA, {"LlamaForCausalLM", "LlamaModel"}},
    {"trireme_mlp", FAMILY_MLP, {"TriremeMLP", "TriremeMLP"}},
};

static status read_family(const json_t *root, model_family_kind *out, err *e)
{
    status result = OK;
    char shown[SHOWN_BYTES];
    const json_t *type = json_object_get(root, "model_type");
    if (!type) FAIL(E_USAGE, "model_type: not given, valid are gpt2, llama and trireme_mlp");
    const json_t *names = json_object_get(root, "architectures");
    for (size_t k = 0; k < sizeof MODEL_TYPES / sizeof MODEL_TYPES[0]; k++) {
        if (!json_is_string(type) || strcmp(json_string_value(type), MODEL_TYPES[k].word)) continue;
        for (size_t i = 0; i < json_array_size(names); i++) {
            const char *name = json_string_value(json_array_get(names, i));
            if (!name || (strcmp(name, MODEL_TYPES[k].architectures[0]) &&
                          strcmp(name, MODEL_TYPES[k].architectures[1])))
                FAIL(E_USAGE, "architectures: found %s, valid is %s",
                     model_show_value(json_array_get(names, i), shown),
                     MODEL_TYPES[k].architectures[0]);
        }
        *out = MODEL_TYPES[k].family;
        goto done;
    }
    FAIL(E_USAGE, "model_type: found %s, valid are gpt2, llama and trireme_mlp",
         model_show_value(type, shown));
done:
    return result;
}

// As transformers 5: rope_scaling goes before rope_parameters unless it is empty, and a theta inside
// the object goes before rope_theta beside it.
static status read_rope(const json_t *root, model_config *c, err *e)
{
    status result = OK;
    const json_t *theta = json_object_get(root, "rope_theta");
    if (theta && !json_is_null(theta)) TRY(model_config_set(c, "rope_theta", theta, e));
    const char *field = "rope_scaling";
    const json_t *rope = json_object_get(root, field);
    if (!rope || is_neutral(rope, NAN)) rope = json_object_get(root, field = "rope_parameters");
    if (rope) TRY(model_config_set_rope(c, field, rope, e));
    const json_t *original = json_object_get(root, "original_max_position_embeddings");
    if (original && c->rope.kind == ROPE_LLAMA3)
        TRY(model_config_set(c, "rope_original", original, e));
done:
    return result;
}

static status read_object(const json_t *root, model_config *c, err *e)
{
    status result = OK;
    model_family_kind f = FAMILY_GPT2;
    if (!json_is_object(root)) FAIL(E_USAGE, "not an object");
    TRY(read_family(root, &f, e));
    TRY(check_supported(root, e));
    model_config_defaults(f, c);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)root, key, value)
    {
        if (model_field_in_file(f, key)) TRY(model_config_set(c, key, value, e));
    }
    if (f == FAMILY_LLAMA) TRY(read_rope(root, c, e));
    TRY(model_config_finish(c, e));
done:
    return result;
}

// Returns whether the text has the form OWNER/NAME of a model of the Hub, and OWNER is no folder here.
static bool is_hub_name(const char *name)
{
    static const char ALLOWED[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    char owner[128];
    const size_t first = strspn(name, ALLOWED),
                 second = name[first] == '/' ? strspn(name + first + 1, ALLOWED) : 0;
    if (!first || !second || name[first + 1 + second] || first >= sizeof owner) return false;
    snprintf(owner, sizeof owner, "%.*s", (int)first, name);
    return !file_is_directory(owner);
}

status model_folder_check(const char *folder, err *e)
{
    const char *shown = file_shown(folder);
    if (file_is_directory(folder)) return OK;
    if (is_hub_name(shown))
        return err_set(
            e, E_USAGE,
            "found %.*s, which is not a folder on this machine; `hf download %.*s --local-dir DIR` "
            "fetches the model of that name from the Hugging Face Hub to the folder DIR",
            TEXT_CUT(shown, 200), TEXT_CUT(shown, 200));
    return err_set(e, E_USAGE,
                   "found %s, which is not a folder; valid: a HuggingFace folder on this machine",
                   folder);
}

status model_config_read(const char *folder, model_config *c, err *e)
{
    status result = OK;
    char *path = NULL, *content = NULL;
    size_t bytes;
    json_t *root = NULL;
    json_error_t problem;
    TRY(model_folder_check(folder, e));
    TRY(file_join(folder, "config.json", &path, e));
    TRY(file_read_small(path, FILE_MOST_CONFIG, &content, &bytes, e));
    root = json_load_python(content, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
    if (!root)
        FAIL(E_USAGE, "%s:%d:%d: not valid JSON: %s", path, problem.line, problem.column,
             problem.text);
    if (read_object(root, c, e) != OK) {
        err_prefix(e, "%s: ", path);
        result = E_USAGE;
    }
done:
    json_decref(root);
    free(content);
    free(path);
    return result;
}
