// schema.c -- walks the tables of fields: finds a row by its names, sets, describes and prints its
// member. Called by config/ (model.* keys) and by config.c. Does not know how fields depend on each
// other (config.c).
#include "model/schema.h"
#include "model/model.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const model_words MODEL_ACTIVATION_WORDS = {
    "gelu, gelu_new, gelu_pytorch_tanh, relu, relu2, silu and tanh",
    {{"gelu", ACT_GELU},
     {"gelu_new", ACT_GELU_TANH},
     {"relu", ACT_RELU},
     {"relu2", ACT_RELU2},
     {"silu", ACT_SILU},
     {"tanh", ACT_TANH},
     {"gelu_python", ACT_GELU},
     {"gelu_pytorch_tanh", ACT_GELU_TANH},
     {"gelu_python_tanh", ACT_GELU_TANH},
     {"gelu_accurate", ACT_GELU_TANH},
     {"gelu_fast", ACT_GELU_TANH},
     {"swish", ACT_SILU}}};
const model_words MODEL_FULL_ATTENTION = {"full_attention", {{"full_attention", 0}}};

// Help lists fields by the offsets of their members. A family's own fields follow the member that they name.
static size_t order_of(const model_field *f)
{
    return f->member < offsetof(model_config, own) ? 2 * f->member : 2 * f->after + 1;
}

static int insert(const model_field *f, const model_field *out[MODEL_FIELDS], int count)
{
    int i = count;
    for (int k = 0; k < count; k++)
        if (strcmp(out[k]->name, f->name) == 0) return count;
    if (count == MODEL_FIELDS) return count;
    for (; i > 0 && order_of(out[i - 1]) > order_of(f); i--) out[i] = out[i - 1];
    out[i] = f;
    return count + 1;
}

int model_fields_list(const model_family *of, const model_field *out[MODEL_FIELDS])
{
    int count = 0;
    for (int i = 0; MODEL_FAMILIES[i]; i++) {
        const model_schema *s = MODEL_FAMILIES[i]->schema;
        if (of && of != MODEL_FAMILIES[i]) continue;
        for (int k = 0; k < s->count; k++)
            if (s->fields[k].name) count = insert(&s->fields[k], out, count);
    }
    return count;
}

const model_field *model_field_named(const model_family *of, const char *name)
{
    for (int i = 0; i < of->schema->count; i++) {
        const model_field *f = &of->schema->fields[i];
        if (f->name && strcmp(f->name, name) == 0) return f;
    }
    return NULL;
}

// Returns whether config.json has the field by this name outside of other objects.
static bool has_file_name(const model_field *f, const char *name)
{
    for (int k = 0; k < 2 && f->file[k]; k++)
        if ((f->flags & FIELD_BESIDE || !(f->flags & (FIELD_OF_ROPE | FIELD_WRITTEN))) &&
            strcmp(f->file[k], name) == 0)
            return true;
    return false;
}

const model_field *model_field_find(const model_family *of, const char *name)
{
    for (int i = 0; i < of->schema->count; i++) {
        const model_field *f = &of->schema->fields[i];
        if (f->type >= FIELD_FIXED) continue;
        if ((f->name && strcmp(f->name, name) == 0) || has_file_name(f, name)) return f;
    }
    return NULL;
}

const model_field *model_field_in_file(const model_family *of, const char *name)
{
    for (int i = 0; i < of->schema->count; i++)
        if (has_file_name(&of->schema->fields[i], name)) return &of->schema->fields[i];
    return NULL;
}

int model_field_synonyms(const char *name, const char *out[MODEL_FIELDS])
{
    int count = 0;
    for (int i = 0; MODEL_FAMILIES[i]; i++) {
        const model_field *f = model_field_named(MODEL_FAMILIES[i], name);
        for (int k = 0; f && k < 2 && f->file[k]; k++) {
            bool listed = !has_file_name(f, f->file[k]) || strcmp(f->file[k], name) == 0;
            for (int n = 0; n < count; n++) listed = listed || strcmp(out[n], f->file[k]) == 0;
            if (!listed && count < MODEL_FIELDS) out[count++] = f->file[k];
        }
    }
    return count;
}

bool model_field_is_set_by(const model_config *c, const model_field *f, const char *name,
                           const json_t *value)
{
    const model_field *set = model_field_find(c->family, name);
    if (!set || set->type != FIELD_ROPE || !(f->flags & FIELD_OF_ROPE)) return set == f;
    const json_t *part = json_object_get(value, f->file[0]);
    return f->type == FIELD_WORD || (part && !json_is_null(part));
}

bool model_field_is_read(const model_config *c, const model_field *f)
{
    return !f->kinds || f->kinds >> c->rope.kind & 1u;
}

bool model_field_is_compared(const model_config *c, const model_field *f)
{
    return !(f->flags & FIELD_MAY_CHANGE) && model_field_is_read(c, f);
}

const char *model_show_value(const json_t *value, char out[SHOWN_BYTES])
{
    char *json = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    size_t length = json ? strlen(json) : 0, kept = length < SHOWN_BYTES ? length : SHOWN_BYTES - 4;
    if (json) memcpy(out, json, kept);
    strcpy(out + kept, kept < length ? "..." : "");
    free(json);
    return out;
}

bool model_value_is_neutral(const json_t *value, double neutral)
{
    if (json_is_number(value)) {
        double v = json_number_value(value);
        return v == 0 ? isnan(neutral) : v == neutral;
    }
    return json_is_null(value) || json_is_false(value) ||
           (json_is_object(value) && json_object_size(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0);
}

void model_field_describe(const model_field *f, text *out)
{
    switch (f->type) {
    case FIELD_INTEGER:
        text_addf(out, "whole numbers from %.0f to %.0f", f->low, f->high);
        break;
    case FIELD_REAL:
        text_addf(out, "numbers from %g to %g", f->low, f->high);
        break;
    case FIELD_BOOL:
        text_add(out, "true and false");
        break;
    case FIELD_TOKEN:
        text_addf(out, "token ids up to %d, or null", INT32_MAX);
        break;
    case FIELD_TOKENS:
        text_addf(out, "a token id up to %d, lists of 1 to %d of them, or null", INT32_MAX,
                  MORE_EOS + 1);
        break;
    case FIELD_LAYERS:
        text_addf(out, "lists with %s for each layer, or null", f->words->valid);
        break;
    case FIELD_LAYER_NUMBERS:
        text_add(out, "lists of numbers of layers, from 0, or null");
        break;
    case FIELD_NUMBERS:
        text_addf(out, "lists of up to %d numbers, or null", MODEL_ROPE_FACTORS);
        break;
    default:
        text_add(out, f->words->valid);
    }
    if (f->type <= FIELD_REAL && f->flags & FIELD_NULLABLE) text_add(out, ", or null");
}

static status refuse(const model_field *f, const char *name, const json_t *value, err *e)
{
    char shown[SHOWN_BYTES];
    text valid = {0};
    model_field_describe(f, &valid);
    const status result = err_set(e, E_USAGE, "%s: found %s, valid are %s", name,
                                  model_show_value(value, shown), valid.chars);
    text_clear(&valid);
    return result;
}

static status set_number(const model_field *f, const char *name, void *member, const json_t *value,
                         err *e)
{
    const bool is_null = json_is_null(value) && (f->flags & FIELD_NULLABLE);
    const bool good = f->type == FIELD_INTEGER ? json_is_integer(value) : json_is_number(value);
    const double v = json_number_value(value);
    if (!is_null && !(good && v >= f->low && v <= f->high)) return refuse(f, name, value, e);
    if (f->type == FIELD_INTEGER)
        *(int64_t *)member = json_integer_value(value);
    else
        *(double *)member = v;
    return OK;
}

static status set_token(const model_field *f, const char *name, int64_t *member,
                        const json_t *value, err *e)
{
    json_int_t v = json_is_null(value) ? -1 : json_integer_value(value);
    if ((!json_is_null(value) && !json_is_integer(value)) || v < -1 || v > INT32_MAX)
        return refuse(f, name, value, e);
    *member = v;
    return OK;
}

// The first token of a list becomes eos, the others more_eos.
static status set_tokens(model_config *c, const model_field *f, const char *name,
                         const json_t *value, err *e)
{
    status result = OK;
    c->more_eos_count = 0;
    if (!json_is_array(value)) return set_token(f, name, &c->eos, value, e);
    size_t count = json_array_size(value);
    if (count == 0 || count > MORE_EOS + 1) return refuse(f, name, value, e);
    TRY(set_token(f, name, &c->eos, json_array_get(value, 0), e));
    for (size_t i = 1; i < count; i++)
        TRY(set_token(f, name, &c->more_eos[c->more_eos_count++], json_array_get(value, i), e));
done:
    return result;
}

bool model_word_find(const model_words *words, const json_t *value, int *out)
{
    char digits[24];
    const char *word = json_string_value(value);
    if (json_is_integer(value)) {
        snprintf(digits, sizeof digits, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        word = digits;
    }
    if (json_is_null(value)) word = "null";
    for (int i = 0; word && words->word[i].word; i++) {
        if (strcmp(word, words->word[i].word) != 0) continue;
        *out = words->word[i].value;
        return true;
    }
    return false;
}

static status set_numbers(const model_field *f, const char *name, model_numbers *member,
                          const json_t *value, err *e)
{
    const size_t count = json_array_size(value);
    bool good = (json_is_array(value) || json_is_null(value)) && count <= MODEL_ROPE_FACTORS;
    for (size_t i = 0; good && i < count; i++) {
        good = json_is_number(json_array_get(value, i));
        member->number[i] = (float)json_number_value(json_array_get(value, i));
    }
    member->count = (int)count;
    return good ? OK : refuse(f, name, value, e);
}

status model_field_set(model_config *c, const model_field *f, const char *name, const json_t *value,
                       err *e)
{
    void *member = (char *)c + f->member;
    switch (f->type) {
    case FIELD_INTEGER:
    case FIELD_REAL:
        return set_number(f, name, member, value, e);
    case FIELD_BOOL:
        if (!json_is_boolean(value)) return refuse(f, name, value, e);
        *(bool *)member = json_is_true(value);
        return OK;
    case FIELD_TOKEN:
        return set_token(f, name, member, value, e);
    case FIELD_TOKENS:
        return set_tokens(c, f, name, value, e);
    case FIELD_WORD:
        return model_word_find(f->words, value, member) ? OK : refuse(f, name, value, e);
    case FIELD_LAYERS:
        return model_layers_set(f, name, member, value, e);
    case FIELD_LAYER_NUMBERS:
        return model_layers_set_numbers(f, name, member, value, e);
    case FIELD_NUMBERS:
        return set_numbers(f, name, member, value, e);
    case FIELD_WIDE:
        return model_wide_set(c, name, value, e);
    case FIELD_ROPE:
        return model_rope_set(c, name, value, e);
    default:
        return E_INTERNAL;
    }
}

static status unknown_field(const model_config *c, const char *name, err *e)
{
    const char *words[3 * MODEL_FIELDS];
    size_t count = 0;
    for (int i = 0; i < c->family->schema->count && i < MODEL_FIELDS; i++) {
        const model_field *f = &c->family->schema->fields[i];
        if (f->type >= FIELD_FIXED) continue;
        if (f->name) words[count++] = f->name;
        for (int k = 0; k < 2; k++)
            if (f->file[k] && has_file_name(f, f->file[k])) words[count++] = f->file[k];
    }
    const char *near = text_nearest(name, words, count);
    return err_set(e, E_USAGE, "%s: not a field of %s models%s%s%s", name, c->family->name,
                   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

status model_config_set(model_config *c, const char *name, const json_t *value, err *e)
{
    const model_field *f = model_field_find(c->family, name);
    return f ? model_field_set(c, f, name, value, e) : unknown_field(c, name, e);
}

void model_field_set_default(model_config *c, const model_field *f)
{
    void *member = (char *)c + f->member;
    switch (f->type) {
    case FIELD_INTEGER:
    case FIELD_TOKEN:
    case FIELD_TOKENS:
        *(int64_t *)member = (int64_t)f->value;
        break;
    case FIELD_REAL:
        *(double *)member = f->value;
        break;
    case FIELD_BOOL:
        *(bool *)member = f->value != 0;
        break;
    case FIELD_WORD:
        *(int *)member = (int)f->value;
        break;
    default:
        break;
    }
}

void model_config_defaults(const model_family *of, model_config *c)
{
    *c = (model_config){.family = of,
                        .scale_attention = true,
                        .qk_norm = true,
                        .use_window = true,
                        .rope.partial = 1,
                        .bos = -1,
                        .eos = -1,
                        .pad = -1};
    for (int i = 0; i < of->schema->count; i++)
        if (!(of->schema->fields[i].flags & FIELD_WRITTEN))
            model_field_set_default(c, &of->schema->fields[i]);
}

void model_config_defaults_of_job(const model_family *of, model_config *c)
{
    model_config_defaults(of, c);
    c->bos = c->eos = -1;
    for (int i = 0; i < of->schema->count; i++)
        if (of->schema->fields[i].flags & FIELD_OF_WIDTH)
            *(int64_t *)((char *)c + of->schema->fields[i].member) = 0;
}

void model_word_add(const char *word, bool json, text *out)
{
    const bool quoted = json && strcmp(word, "null") != 0 && (word[0] < '0' || word[0] > '9');
    text_addf(out, quoted ? "\"%s\"" : "%s", word);
}

static const char *word_of(const model_field *f, int value)
{
    int i = 0;
    while (f->words->word[i].value != value) i++;
    return f->words->word[i].word;
}

// Adds the shortest decimal that reads back as the same double. It has a "." or an "e", so that
// Python reads a float.
static void add_real(text *out, double v)
{
    char s[40];
    int digits = v >= 10 && v < 1e15 ? (int)log10(v) + 1 : 1; // 500000.0 rather than 5e+05
    do snprintf(s, sizeof s, "%.*g", digits, v);
    while (strtod(s, NULL) != v && digits++ < 17);
    text_addf(out, "%s%s", s, strpbrk(s, ".e") ? "" : ".0");
}

static void add_numbers(const model_numbers *n, bool json, text *out)
{
    text_add(out, "[");
    for (int i = 0; i < n->count; i++) {
        if (i) text_add(out, ", ");
        (json ? add_real : text_add_number)(out, n->number[i]);
    }
    text_add(out, "]");
}

static void add_token(int64_t token, text *out)
{
    if (token < 0)
        text_add(out, "null");
    else
        text_addf(out, "%" PRId64, token);
}

static void add_tokens(const model_config *c, text *out)
{
    text_add(out, c->more_eos_count ? "[" : "");
    add_token(c->eos, out);
    for (int i = 0; i < c->more_eos_count; i++) text_addf(out, ", %" PRId64, c->more_eos[i]);
    text_add(out, c->more_eos_count ? "]" : "");
}

static bool is_zero(const model_field *f, const void *member)
{
    if (f->type == FIELD_NUMBERS) return ((const model_numbers *)member)->count == 0;
    return f->type == FIELD_INTEGER ? *(const int64_t *)member == 0 : *(const double *)member == 0;
}

void model_field_add(const model_config *c, const model_field *f, bool json, text *out)
{
    const void *member = (const char *)c + f->member;
    if (f->flags & FIELD_ZERO_IS_NULL && is_zero(f, member)) {
        text_add(out, "null");
        return;
    }
    switch (f->type) {
    case FIELD_INTEGER:
        text_addf(out, "%" PRId64, *(const int64_t *)member);
        break;
    case FIELD_REAL:
        (json ? add_real : text_add_number)(out, *(const double *)member);
        break;
    case FIELD_BOOL:
        text_add(out, *(const bool *)member ? "true" : "false");
        break;
    case FIELD_TOKEN:
        add_token(*(const int64_t *)member, out);
        break;
    case FIELD_TOKENS:
        add_tokens(c, out);
        break;
    case FIELD_WORD:
        model_word_add(word_of(f, *(const int *)member), json, out);
        break;
    case FIELD_LAYERS:
    case FIELD_LAYER_NUMBERS:
        model_layers_add(f, member, json, out);
        break;
    case FIELD_NUMBERS:
        add_numbers(member, json, out);
        break;
    case FIELD_WIDE:
        model_wide_add(c, out);
        break;
    default:
        text_add(out, f->json);
    }
}
