// lora_file.c -- PEFT's adapter_config.json. See lora.h. It knows no tensors.
#include "model/lora.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

status model_lora_in_folder(const char *folder, bool *found, err *e)
{
    char *path = NULL;
    const status result = file_join(folder, MODEL_LORA_CONFIG, &path, e);
    *found = result == OK && file_exists(path);
    free(path);
    return result;
}

// ---- Reading

// Settings of PEFT that change what is computed, and the value with which they do not. null never does.
typedef struct lora_refused {
    const char *key, *harmless;
} lora_refused;
static const lora_refused REFUSED[] = {
    {"use_dora", "false"},         {"bias", "\"none\""},
    {"lora_bias", "false"},        {"layer_replication", "null"},
    {"target_parameters", "[]"},   {"trainable_token_indices", "null"},
    {"use_qalora", "false"},       {"alora_invocation_tokens", "null"},
    {"use_bdlora", "null"},        {"kasa_config", "null"},
    {"monteclora_config", "null"}, {"velora_config", "null"},
    {"arrow_config", "null"},      {"megatron_config", "null"},
    {"layers_pattern", "[]"}};

static status check_refused(const json_t *root, err *e)
{
    status result = OK;
    char *found = NULL;
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        const json_t *x = json_object_get(root, REFUSED[i].key);
        if (!x || json_is_null(x)) continue;
        found = json_dumps(x, JSON_ENCODE_ANY | JSON_COMPACT);
        if (!found) FAIL(E_MEMORY, "no memory for %s", REFUSED[i].key);
        if (strcmp(found, REFUSED[i].harmless) != 0 && strcmp(found, "{}") != 0)
            FAIL(E_USAGE, "%s: found %.*s; valid: %s", REFUSED[i].key, TEXT_CUT(found, 80),
                 REFUSED[i].harmless);
        free(found);
        found = NULL;
    }
done:
    free(found);
    return result;
}

static status wrong(const char *key, const char *valid, err *e)
{
    return err_set(e, E_USAGE, "%s: found another type; valid: %s", key, valid);
}

static status read_number(const json_t *root, const char *key, double least, double most,
                          double *out, err *e)
{
    const json_t *x = json_object_get(root, key);
    if (!x) return OK;
    if (!json_is_number(x)) return wrong(key, "a number", e);
    *out = json_number_value(x);
    if (*out >= least && *out <= most) return OK;
    return err_set(e, E_USAGE, "%s: found %g; valid: %g to %g", key, *out, least, most);
}

// A string, or a list of them.
static status read_names(const json_t *root, const char *key, char ***out, size_t *count, err *e)
{
    status result = OK;
    const json_t *x = json_object_get(root, key);
    if (!x || json_is_null(x)) return OK;
    const size_t items = json_is_array(x) ? json_array_size(x) : 1;
    if (!json_is_array(x) && !json_is_string(x))
        return wrong(key, "a string, or a list of strings", e);
    TRY(alloc_zeroed(out, items, sizeof **out, "an adapter's names", e));
    for (size_t i = 0; i < items; i++) {
        const char *s = json_string_value(json_is_array(x) ? json_array_get(x, i) : x);
        if (!s) {
            result = wrong(key, "a string, or a list of strings", e);
            goto done;
        }
        TRY(text_copy(s, &(*out)[i], e));
        (*count)++;
    }
done:
    return result;
}

static status read_layers(const json_t *root, model_lora *l, err *e)
{
    status result = OK;
    static const char key[] = "layers_to_transform";
    const json_t *x = json_object_get(root, key);
    if (!x || json_is_null(x)) return OK;
    const size_t items = json_is_array(x) ? json_array_size(x) : 1;
    TRY(alloc_zeroed(&l->layers, items, sizeof *l->layers, "an adapter's layers", e));
    for (size_t i = 0; i < items; i++) {
        const json_t *one = json_is_array(x) ? json_array_get(x, i) : x;
        if (!json_is_integer(one) || json_integer_value(one) < 0 ||
            json_integer_value(one) > MODEL_LAYERS) {
            result = wrong(key, "a layer's number, or a list of them", e);
            goto done;
        }
        l->layers[l->layer_count++] = (int)json_integer_value(one);
    }
done:
    return result;
}

static status read_numbers(json_t *root, const char *key, model_lora_number **out, size_t *count,
                           err *e)
{
    status result = OK;
    json_t *x = json_object_get(root, key), *value;
    const char *name;
    if (!x || json_is_null(x)) return OK;
    if (!json_is_object(x)) return wrong(key, "an object of numbers", e);
    TRY(alloc_zeroed(out, json_object_size(x), sizeof **out, "an adapter's numbers", e));
    json_object_foreach(x, name, value)
    {
        if (!json_is_number(value)) {
            result = wrong(key, "an object of numbers", e);
            goto done;
        }
        TRY(text_copy(name, &(*out)[*count].name, e));
        (*out)[(*count)++].value = json_number_value(value);
    }
done:
    return result;
}

static status read_settings(json_t *root, model_lora *l, err *e)
{
    status result = OK;
    const json_t *type = json_object_get(root, "peft_type");
    double rank = 8;
    if (!json_is_string(type) || strcmp(json_string_value(type), "LORA") != 0)
        FAIL(E_USAGE, "peft_type: found %s; valid: LORA",
             json_is_string(type) ? json_string_value(type) : "none");
    TRY(check_refused(root, e));
    l->alpha = 8; // defaults of PEFT
    TRY(read_number(root, "r", 1, 65536, &rank, e));
    l->rank = (int64_t)rank;
    TRY(read_number(root, "lora_alpha", 0, 1e9, &l->alpha, e));
    TRY(read_number(root, "lora_dropout", 0, 0.999999, &l->dropout, e));
    l->transposed = json_is_true(json_object_get(root, "fan_in_fan_out"));
    l->rslora = json_is_true(json_object_get(root, "use_rslora"));
    TRY(read_names(root, "target_modules", &l->targets, &l->target_count, e));
    TRY(read_names(root, "exclude_modules", &l->excluded, &l->excluded_count, e));
    TRY(read_names(root, "modules_to_save", &l->saved, &l->saved_count, e));
    TRY(read_layers(root, l, e));
    TRY(read_numbers(root, "rank_pattern", &l->ranks, &l->rank_count, e));
    TRY(read_numbers(root, "alpha_pattern", &l->alphas, &l->alpha_count, e));
    const char *key;
    result = model_lora_check(l, &key, e);
    if (result != OK) err_prefix(e, "%s: ", key);
done:
    return result;
}

status model_lora_read(const char *folder, model_lora *out, char **base, err *e)
{
    status result = OK;
    char *path = NULL, *content = NULL;
    size_t bytes;
    json_t *root = NULL;
    json_error_t problem;
    *out = (model_lora){.rank = 0};
    if (base) *base = NULL;
    TRY(file_join(folder, MODEL_LORA_CONFIG, &path, e));
    TRY(file_read_small(path, FILE_MOST_CONFIG, &content, &bytes, e));
    root = json_load_python(content, bytes, JSON_REJECT_DUPLICATES, &problem);
    if (!json_is_object(root))
        FAIL(E_USAGE, "%s:%d: %s; valid: a JSON object", path, root ? 1 : problem.line,
             root ? "found another value" : problem.text);
    result = read_settings(root, out, e);
    if (result != OK) err_prefix(e, "%s: ", path);
    const char *name = json_string_value(json_object_get(root, "base_model_name_or_path"));
    if (result == OK && base && name && *name) TRY(text_copy(name, base, e));
done:
    if (result != OK) model_lora_clear(out);
    json_decref(root);
    free(content);
    free(path);
    return result;
}

// ---- Writing

static json_t *json_of_names(char *const *names, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) json_array_append_new(list, json_of_text(names[i]));
    return list;
}

static json_t *json_of_number(double x)
{
    return x == (double)(json_int_t)x ? json_integer((json_int_t)x) : json_real(x);
}

static json_t *json_of_numbers(const model_lora_number *numbers, size_t count)
{
    json_t *map = json_object();
    for (size_t i = 0; i < count; i++)
        json_object_set_new(map, numbers[i].name, json_of_number(numbers[i].value));
    return map;
}

// A list of names while it grows.
typedef struct lora_names {
    char **items;
    size_t count, room;
} lora_names;

static void clear_names(lora_names *n)
{
    for (size_t i = 0; i < n->count; i++) free(n->items[i]);
    free(n->items);
}

// Adds a copy of a name that is not there.
static status add_name(lora_names *n, const char *name, err *e)
{
    status result = OK;
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->items[i], name) == 0) return OK;
    TRY(alloc_grow(&n->items, &n->room, n->count + 1, sizeof *n->items, "an adapter's names", e));
    TRY(text_copy(name, &n->items[n->count], e));
    n->count++;
done:
    return result;
}

// Lists the names of the modules with adapters, or their last words: *whole becomes true where a word is also that of a
// module without one.
static status list_modules(const model *m, bool *whole, lora_names *out, err *e)
{
    status result = OK;
    char name[PARAM_NAME_BYTES];
    lora_names without = {.count = 0};
    for (int p = 0; p < m->params; p++)
        for (int i = 0; i < m->param[p].decl->pieces; i++) {
            const graph_piece *k = &m->param[p].decl->piece[i];
            if (m->param[p].decl->is_adapter) continue;
            model_param_name_expand(name, k->name, m->param[p].layer);
            char *end = strrchr(name, '.');
            if (!end || strcmp(end, ".weight") != 0) continue;
            *end = 0;
            const char *last = strrchr(name, '.');
            TRY(add_name(k->adapter.rank > 0 ? out : &without, last && !*whole ? last + 1 : name,
                         e));
        }
    const size_t with = out->count;
    for (size_t i = 0; i < without.count && !*whole; i++) {
        TRY(add_name(out, without.items[i], e));
        if (out->count < with + i + 1) *whole = true;
    }
    while (out->count > with) free(out->items[--out->count]);
done:
    clear_names(&without);
    return result;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// The names of all linear layers: PEFT's own all-linear would take other layers, too.
static status json_of_all_linear(const model *m, json_t **out, err *e)
{
    status result = OK;
    lora_names names = {.count = 0};
    bool whole = false;
    TRY(list_modules(m, &whole, &names, e));
    if (whole) {
        clear_names(&names);
        names = (lora_names){.count = 0};
        TRY(list_modules(m, &whole, &names, e));
    }
    if (names.count > 1) qsort(names.items, names.count, sizeof *names.items, by_text);
    *out = json_of_names(names.items, names.count);
done:
    clear_names(&names);
    return result;
}

// Names, or one regular expression.
static json_t *json_of_modules(char *const *names, size_t count)
{
    if (count == 0) return json_null();
    return count == 1 && model_lora_is_regex(names[0]) ? json_of_text(names[0])
                                                       : json_of_names(names, count);
}

static status json_of_targets(const model_lora *l, const model *m, json_t **out, err *e)
{
    if (l->target_count == 1 && strcmp(l->targets[0], "all-linear") == 0)
        return json_of_all_linear(m, out, e);
    *out = json_of_modules(l->targets, l->target_count);
    return OK;
}

static bool is_transposed(const model *m)
{
    for (int p = 0; p < m->params; p++)
        for (int i = 0; i < m->param[p].decl->pieces; i++)
            if (m->param[p].decl->piece[i].adapter.rank > 0 &&
                m->param[p].decl->piece[i].transposed)
                return true;
    return false;
}

static json_t *json_of_layers(const model_lora *l)
{
    json_t *list = json_array();
    for (size_t i = 0; i < l->layer_count; i++)
        json_array_append_new(list, json_integer(l->layers[i]));
    return list;
}

status model_lora_write(const model_lora *l, const model *m, const char *base, char **json, err *e)
{
    status result = OK;
    json_t *root = NULL, *targets = NULL;
    TRY(json_of_targets(l, m, &targets, e));
    root =
        json_pack("{s:s, s:s, s:o, s:b, s:b, s:b, s:s, s:I, s:o, s:f, s:b, s:b}", "peft_type",
                  "LORA", "task_type", "CAUSAL_LM", "base_model_name_or_path",
                  base ? json_of_text(base) : json_null(), "inference_mode", 1, "init_lora_weights",
                  1, "fan_in_fan_out", is_transposed(m), "bias", "none", "r", (json_int_t)l->rank,
                  "lora_alpha", json_of_number(l->alpha > 0 ? l->alpha : (double)l->rank),
                  "lora_dropout", l->dropout, "use_rslora", l->rslora, "use_dora", 0);
    json_object_set(root, "target_modules", targets);
    json_object_set_new(root, "exclude_modules", json_of_modules(l->excluded, l->excluded_count));
    json_object_set_new(root, "modules_to_save", json_of_modules(l->saved, l->saved_count));
    json_object_set_new(root, "layers_to_transform",
                        l->layer_count == 0 ? json_null() : json_of_layers(l));
    json_object_set_new(root, "rank_pattern", json_of_numbers(l->ranks, l->rank_count));
    json_object_set_new(root, "alpha_pattern", json_of_numbers(l->alphas, l->alpha_count));
    *json = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    if (!*json) FAIL(E_MEMORY, "no memory for " MODEL_LORA_CONFIG);
done:
    json_decref(targets);
    json_decref(root);
    return result;
}
