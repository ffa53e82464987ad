// config.c -- reads and writes a folder's config.json by walking the family's schema, refuses by name the
// fields with which HuggingFace would compute something else from the same weights, and checks how fields
// depend on each other. Where versions 4 and 5 of transformers read different fields, both are written:
// torch_dtype and dtype, rope_theta with rope_scaling and rope_parameters.
//
// Called by config/ and by all that open a model's folder. Does not know the names of the weights.
#include "base/file.h"
#include "base/json.h"
#include "model/composite.h"
#include "model/model.h"
#include "model/schema.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Drops token ids that the vocabulary lacks: HuggingFace's defaults stay in a small model's config.
static void drop_foreign_tokens(model_config *c)
{
    int kept = 0;
    for (int i = 0; i < c->more_eos_count; i++)
        if (c->more_eos[i] < c->vocab) c->more_eos[kept++] = c->more_eos[i];
    c->more_eos_count = kept;
    if (c->bos >= c->vocab) c->bos = -1;
    if (c->pad >= c->vocab) c->pad = -1;
    if (c->eos >= c->vocab) c->eos = -1;
    if (c->eos < 0 && c->more_eos_count > 0) c->eos = c->more_eos[--c->more_eos_count];
}

// The layers of the family's published model of this width. Below the first, their number falls with the width.
static int64_t layers_of(const model_config *c)
{
    const int64_t(*m)[2] = c->family->schema->sizes->published;
    if (c->hidden < m[0][0]) {
        const int64_t layers = m[0][1] * c->hidden / m[0][0];
        return layers > 2 ? layers : 2;
    }
    while (m[1][0] && m[1][0] <= c->hidden) m++;
    return m[0][1];
}

// There are fewer heads where the usual width of a head does not divide the width.
static int64_t heads_of(const model_config *c)
{
    const model_sizes *s = c->family->schema->sizes;
    const int64_t usual = s->wide_heads && c->hidden >= s->wide_heads ? 128 : 64;
    const int64_t each = c->head_dim ? c->head_dim : usual, kv = c->kv_heads ? c->kv_heads : 1;
    const int64_t most = c->hidden > each ? c->hidden / each : 1;
    for (int64_t heads = most; heads > 1; heads--)
        if (c->hidden % (heads * (s->rotary ? 2 : 1)) == 0 && heads % kv == 0) return heads;
    return 1;
}

static int64_t ffn_of(const model_config *c)
{
    const int64_t multiple = c->hidden < 1024 ? 32 : 256, ffn = 8 * c->hidden / 3;
    return c->family->schema->sizes->gated ? (ffn + multiple - 1) / multiple * multiple
                                           : 4 * c->hidden;
}

static status finish_attention(model_config *c, err *e)
{
    status result = OK;
    if (c->layers == 0) c->layers = layers_of(c);
    if (c->heads == 0) c->heads = heads_of(c);
    if (c->ffn == 0) c->ffn = ffn_of(c);
    if (c->kv_heads == 0) c->kv_heads = c->heads;
    if (c->hidden % c->heads && c->head_dim == 0)
        FAIL(E_USAGE, "hidden: found %" PRId64 ", valid are multiples of heads (%" PRId64 ")",
             c->hidden, c->heads);
    if (c->heads % c->kv_heads)
        FAIL(E_USAGE, "kv_heads: found %" PRId64 ", valid are divisors of heads (%" PRId64 ")",
             c->kv_heads, c->heads);
    if (c->head_dim == 0) c->head_dim = c->hidden / c->heads;
    TRY(model_layers_finish(c, e));
    if (!c->family->schema->sizes->rotary) goto done;
    if (c->head_dim % 2)
        FAIL(E_USAGE, "head_dim: found %" PRId64 ", valid are even numbers (rotary positions)",
             c->head_dim);
    TRY(model_rope_finish(c, e));
done:
    return result;
}

static status check_delta(const model_delta_config *d, err *e)
{
    if (d->key_heads == 0 || d->heads % d->key_heads == 0) return OK;
    return err_set(e, E_USAGE,
                   "delta_key_heads: found %" PRId64 ", valid are divisors of delta_heads (%" PRId64
                   ")",
                   d->key_heads, d->heads);
}

// Every size is below 2^31, so that a product of two fits in 64 bits. The number of parameters may
// not, and is bounded here.
static status check_size(const model_config *c, err *e)
{
    double hidden = (double)c->hidden, all_heads = (double)(c->heads * c->head_dim);
    double layer = c->family->schema->sizes ? 4 * hidden * all_heads + 3 * hidden * (double)c->ffn
                                            : hidden * hidden;
    double count = (double)c->layers * layer + hidden * (2 * (double)c->vocab + (double)c->max_seq);
    for (int i = 0; i < c->family->schema->count; i++) {
        const model_field *f = &c->family->schema->fields[i];
        if (f->type == FIELD_INTEGER && f->member >= offsetof(model_config, own))
            count += hidden * (double)*(const int64_t *)((const char *)c + f->member);
    }
    if (count < 0x1p56) return OK;
    return err_set(e, E_USAGE,
                   "layers, hidden and vocab make %.3g parameters, valid are below %.3g", count,
                   0x1p56);
}

status model_config_finish(model_config *c, err *e)
{
    status result = OK;
    const model_schema *s = c->family->schema;
    for (int i = 0; i < s->count; i++) {
        const model_field *f = &s->fields[i];
        const bool needed = f->name && !(f->flags & (FIELD_NULLABLE | FIELD_OF_WIDTH));
        if (f->type == FIELD_INTEGER && needed &&
            *(const int64_t *)((const char *)c + f->member) < f->low)
            FAIL(E_USAGE, "%s: not given, valid are whole numbers from 1", f->name);
    }
    if (s->finish) TRY(s->finish(c, e));
    if (s->sizes) TRY(finish_attention(c, e));
    TRY(check_delta(&c->delta, e));
    drop_foreign_tokens(c);
    TRY(check_size(c, e));
done:
    return result;
}

// Refuses a field of config.json that is not as the family supports it.
static status check_field(const model_field *f, const json_t *value, err *e)
{
    char shown[SHOWN_BYTES];
    int word;
    for (size_t i = 0; f->type == FIELD_EACH && i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        if (!model_word_find(f->words, item, &word))
            return err_set(e, E_USAGE, "%s: found %s, valid is %s", f->file[0],
                           model_show_value(item, shown), f->words->valid);
    }
    if (f->type != FIELD_FIXED || !value || model_value_is_neutral(value, f->value)) return OK;
    return err_set(e, E_USAGE,
                   "%s: found %s, which changes the model and is not supported; valid is %s",
                   f->file[0], model_show_value(value, shown), isnan(f->value) ? "null" : "1");
}

// Returns whether an entry of auto_map, "file.Class", names a class that is none of the family's. Folders from before a
// family was in transformers name the class that is there now: the same model.
static bool is_foreign_class(const model_schema *s, const json_t *entry)
{
    const char *name = json_string_value(entry), *dot = name ? strrchr(name, '.') : NULL;
    for (int k = 0; dot && k < 2 && s->architectures[k]; k++)
        if (strcmp(dot + 1, s->architectures[k]) == 0) return false;
    return entry != NULL;
}

// Weights are as they are, or in bitsandbytes' NF4 (store/safetensors_nf4.h), which says itself how it is to be read.
static status check_quantization(const json_t *given, err *e)
{
    static const char key[] = "quantization_config",
                      valid[] = "valid: null, or bitsandbytes with load_in_4bit and "
                                "bnb_4bit_quant_type nf4";
    char shown[SHOWN_BYTES];
    if (!given || model_value_is_neutral(given, NAN)) return OK;
    const json_t *method = json_object_get(given, "quant_method");
    if (!json_is_string(method) || strcmp(json_string_value(method), "bitsandbytes") != 0)
        return err_set(e, E_USAGE, "%s: found %s%s; %s", key, method ? "quant_method " : "",
                       model_show_value(method ? method : given, shown), valid);
    if (!json_is_true(json_object_get(given, "load_in_4bit")))
        return err_set(e, E_USAGE, "%s: load_in_4bit is not true; %s", key, valid);
    const json_t *type = json_object_get(given, "bnb_4bit_quant_type");
    if (json_is_string(type) && strcmp(json_string_value(type), "nf4") == 0) return OK;
    return err_set(e, E_USAGE, "%s: bnb_4bit_quant_type: found %s; %s", key,
                   type ? model_show_value(type, shown) : "nothing, which is fp4", valid);
}

static status check_supported(const model_family *of, const json_t *root, err *e)
{
    status result = OK;
    TRY(check_quantization(json_object_get(root, "quantization_config"), e));
    for (int i = 0; i < of->schema->count; i++) {
        const model_field *f = &of->schema->fields[i];
        // A row of the family before this one may read the field.
        if (f->type >= FIELD_FIXED && f == model_field_in_file(of, f->file[0]))
            TRY(check_field(f, json_object_get(root, f->file[0]), e));
    }
    const json_t *map = json_object_get(root, "auto_map");
    if (is_foreign_class(of->schema, json_object_get(map, "AutoModelForCausalLM")) ||
        is_foreign_class(of->schema, json_object_get(map, "AutoModel")))
        FAIL(E_USAGE, "auto_map: the model is computed by Python code of its own, which is not "
                      "supported");
done:
    return result;
}

static status check_architectures(const model_schema *s, const json_t *names, err *e)
{
    char shown[SHOWN_BYTES];
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        bool known = false;
        for (int k = 0; k < 2 && s->architectures[k]; k++)
            known = known || (name && strcmp(name, s->architectures[k]) == 0);
        if (!known)
            return err_set(e, E_USAGE, "architectures: found %s, valid is %s",
                           model_show_value(json_array_get(names, i), shown), s->architectures[0]);
    }
    return OK;
}

static status read_family(const json_t *root, const model_family **out, err *e)
{
    char shown[SHOWN_BYTES];
    text valid = {0};
    const json_t *type = json_object_get(root, "model_type");
    *out = NULL;
    for (int i = 0; MODEL_FAMILIES[i]; i++) {
        const char *word = MODEL_FAMILIES[i]->schema->model_type;
        if (json_is_string(type) && strcmp(json_string_value(type), word) == 0)
            *out = MODEL_FAMILIES[i];
        text_addf(&valid, "%s%s", i == 0 ? "" : MODEL_FAMILIES[i + 1] ? ", " : " and ", word);
    }
    if (!*out)
        err_set(e, E_USAGE, "model_type: %s%s, valid are %s", type ? "found " : "not given",
                type ? model_show_value(type, shown) : "", valid.chars);
    text_clear(&valid);
    return *out ? check_architectures((*out)->schema, json_object_get(root, "architectures"), e)
                : E_USAGE;
}

static status read_object(const json_t *root, model_config *c, err *e)
{
    status result = OK;
    const model_family *of;
    if (!json_is_object(root)) FAIL(E_USAGE, "not an object");
    TRY(read_family(root, &of, e));
    TRY(check_supported(of, root, e));
    model_config_defaults(of, c);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)root, key, value)
    {
        const model_field *f = model_field_in_file(of, key);
        if (f && f->type < FIELD_ROPE) TRY(model_field_set(c, f, key, value, e));
    }
    for (int i = 0; i < of->schema->count; i++)
        if (of->schema->fields[i].type == FIELD_ROPE)
            TRY(model_rope_read(c, &of->schema->fields[i], root, e));
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
    json_t *root = NULL, *of_text = NULL;
    json_error_t problem;
    TRY(model_folder_check(folder, e));
    TRY(file_join(folder, "config.json", &path, e));
    TRY(file_read_small(path, FILE_MOST_CONFIG, &content, &bytes, e));
    root = json_load_python(content, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
    if (!root)
        FAIL(E_USAGE, "%s:%d:%d: not valid JSON: %s", path, problem.line, problem.column,
             problem.text);
    result = model_composite_text(root, &of_text, e);
    if (result == OK && read_object(of_text, c, e) != OK) {
        if (of_text != root) err_prefix(e, "text_config: ");
        result = E_USAGE;
    }
    if (result != OK) err_prefix(e, "%s: ", path);
done:
    json_decref(of_text);
    json_decref(root);
    free(content);
    free(path);
    return result;
}

status model_config_write(const model_config *c, const char *dtype_word, char **out, err *e)
{
    const model_schema *s = c->family->schema;
    text t = {0};
    text_addf(&t, "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\"",
              s->architectures[0], s->model_type);
    text_addf(&t, ",\n  \"dtype\": \"%s\",\n  \"torch_dtype\": \"%s\"", dtype_word, dtype_word);
    for (int i = 0; i < s->count; i++) {
        const model_field *f = &s->fields[i];
        if (f->type == FIELD_ROPE) model_rope_write(c, f, &t);
        if (f->type == FIELD_ROPE || f->flags & FIELD_OF_ROPE || !f->file[0] ||
            (f->type >= FIELD_FIXED && !f->json))
            continue;
        text_addf(&t, ",\n  \"%s\": ", f->file[0]);
        model_field_add(c, f, true, &t);
    }
    text_add(&t, "\n}\n");
    return text_take(&t, out, e);
}
