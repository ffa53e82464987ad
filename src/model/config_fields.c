// config_fields.c -- the table of config fields: every name by which a field can be set, Trireme's
// and HuggingFace's, with its type and range. Called by config/ (model.* keys) and by config_read.c.
// Does not know how fields depend on each other (config.c).
#include "model/config_fields.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { GPT2 = 1 << FAMILY_GPT2, LLAMA = 1 << FAMILY_LLAMA, MLP = 1 << FAMILY_MLP };
enum {
    IN_FILE = 1,  // config.json may have the field
    NULLABLE = 2, // null stands for "not given"
};

// The type of a field's member in model_config, and what JSON null means.
typedef enum model_field_type {
    FIELD_INTEGER,     // int64_t from low to high; null is 0
    FIELD_REAL,        // double from low to high; null is 0
    FIELD_BOOL,        // bool
    FIELD_TOKEN,       // int64_t from -1; null is -1
    FIELD_TOKENS,      // eos and more_eos: a token or a list
    FIELD_ACTIVATION,  // kernel_activation
    FIELD_LOSS,        // model_loss
    FIELD_ROPE,        // model_rope
    FIELD_ROPE_OBJECT, // all rope_* members: an object
} model_field_type;

typedef struct model_field {
    const char *name;
    unsigned families; // bits GPT2, LLAMA, MLP
    unsigned traits;   // bits IN_FILE, NULLABLE
    model_field_type type;
    size_t offset; // of the member in model_config
    double low, high;
} model_field;

#define OFFSET(member) offsetof(model_config, member)
#define SIZE_TO(high, name, families, traits, member)                                              \
    {                                                                                              \
        name, families, traits, FIELD_INTEGER, OFFSET(member), 1, high                             \
    }
#define SIZE(name, families, traits, member) SIZE_TO(INT32_MAX, name, families, traits, member)
#define PROBABILITY(name, families, traits, member)                                                \
    {                                                                                              \
        name, families, traits, FIELD_REAL, OFFSET(member), 0, 0.999999                            \
    }
#define BOOL(name, families, traits, member)                                                       \
    {                                                                                              \
        name, families, traits, FIELD_BOOL, OFFSET(member), 0, 0                                   \
    }

static const model_field FIELDS[] = {
    SIZE_TO(MODEL_LAYERS, "layers", GPT2 | LLAMA, 0, layers),
    SIZE_TO(MODEL_LAYERS, "layers", MLP, IN_FILE, layers),
    SIZE_TO(MODEL_LAYERS, "n_layer", GPT2, IN_FILE, layers),
    SIZE_TO(MODEL_LAYERS, "num_hidden_layers", GPT2 | LLAMA, IN_FILE, layers),
    SIZE("hidden", GPT2 | LLAMA, 0, hidden),
    SIZE("hidden", MLP, IN_FILE, hidden),
    SIZE("n_embd", GPT2, IN_FILE, hidden),
    SIZE("hidden_size", GPT2 | LLAMA, IN_FILE, hidden),
    SIZE("heads", GPT2 | LLAMA, 0, heads),
    SIZE("n_head", GPT2, IN_FILE, heads),
    SIZE("num_attention_heads", GPT2 | LLAMA, IN_FILE, heads),
    SIZE("kv_heads", LLAMA, NULLABLE, kv_heads),
    SIZE("num_key_value_heads", LLAMA, IN_FILE | NULLABLE, kv_heads),
    SIZE_TO(HEAD_DIM, "head_dim", LLAMA, IN_FILE | NULLABLE, head_dim),
    SIZE("ffn", GPT2, NULLABLE, ffn),
    SIZE("ffn", LLAMA, 0, ffn),
    SIZE("n_inner", GPT2, IN_FILE | NULLABLE, ffn),
    SIZE("intermediate_size", LLAMA, IN_FILE, ffn),
    SIZE("vocab", GPT2 | LLAMA, 0, vocab),
    SIZE("vocab", MLP, IN_FILE, vocab),
    SIZE("classes", MLP, IN_FILE, vocab),
    SIZE("vocab_size", GPT2 | LLAMA, IN_FILE, vocab),
    SIZE("max_seq", GPT2 | LLAMA, 0, max_seq),
    SIZE("n_positions", GPT2, IN_FILE, max_seq),
    SIZE("max_position_embeddings", GPT2 | LLAMA, IN_FILE, max_seq),
    SIZE("features", MLP, IN_FILE, mlp.features),
    {"activation", GPT2 | LLAMA, 0, FIELD_ACTIVATION, OFFSET(act), 0, 0},
    {"activation", MLP, IN_FILE, FIELD_ACTIVATION, OFFSET(act), 0, 0},
    {"activation_function", GPT2, IN_FILE, FIELD_ACTIVATION, OFFSET(act), 0, 0},
    {"hidden_act", LLAMA, IN_FILE, FIELD_ACTIVATION, OFFSET(act), 0, 0},
    {"loss", MLP, IN_FILE, FIELD_LOSS, OFFSET(mlp.loss), 0, 0},
    {"norm_eps", GPT2 | LLAMA, 0, FIELD_REAL, OFFSET(norm_eps), 0, 1},
    {"layer_norm_epsilon", GPT2, IN_FILE, FIELD_REAL, OFFSET(norm_eps), 0, 1},
    {"rms_norm_eps", LLAMA, IN_FILE, FIELD_REAL, OFFSET(norm_eps), 0, 1},
    {"init_std", GPT2 | LLAMA, 0, FIELD_REAL, OFFSET(init_std), 0, 1},
    {"initializer_range", GPT2 | LLAMA, IN_FILE, FIELD_REAL, OFFSET(init_std), 0, 1},
    BOOL("tie_embeddings", GPT2 | LLAMA, 0, tie_embeddings),
    BOOL("tie_word_embeddings", GPT2 | LLAMA, IN_FILE, tie_embeddings),
    BOOL("attention_bias", LLAMA, IN_FILE, attention_bias),
    BOOL("mlp_bias", LLAMA, IN_FILE, mlp_bias),
    BOOL("scale_attention", GPT2, 0, scale_attention),
    BOOL("scale_attn_weights", GPT2, IN_FILE, scale_attention),
    BOOL("scale_by_layer", GPT2, 0, scale_by_layer),
    BOOL("scale_attn_by_inverse_layer_idx", GPT2, IN_FILE, scale_by_layer),
    PROBABILITY("drop_embed", GPT2, 0, dropout.embed),
    PROBABILITY("embd_pdrop", GPT2, IN_FILE, dropout.embed),
    PROBABILITY("drop_attention", GPT2 | LLAMA, 0, dropout.attention),
    PROBABILITY("attn_pdrop", GPT2, IN_FILE, dropout.attention),
    PROBABILITY("attention_dropout", LLAMA, IN_FILE | NULLABLE, dropout.attention),
    PROBABILITY("drop_residual", GPT2, 0, dropout.residual),
    PROBABILITY("resid_pdrop", GPT2, IN_FILE, dropout.residual),
    {"rope", LLAMA, 0, FIELD_ROPE, OFFSET(rope.kind), 0, 0},
    {"rope_theta", LLAMA, 0, FIELD_REAL, OFFSET(rope.theta), 1, 1e15},
    {"rope_factor", LLAMA, 0, FIELD_REAL, OFFSET(rope.factor), 1e-3, 1e6},
    {"rope_low", LLAMA, 0, FIELD_REAL, OFFSET(rope.low), 1e-6, 1e6},
    {"rope_high", LLAMA, 0, FIELD_REAL, OFFSET(rope.high), 1e-6, 1e6},
    SIZE("rope_original", LLAMA, NULLABLE, rope.original),
    {"rope_scaling", LLAMA, 0, FIELD_ROPE_OBJECT, 0, 0, 0},
    {"rope_parameters", LLAMA, 0, FIELD_ROPE_OBJECT, 0, 0, 0},
    {"bos", GPT2 | LLAMA, 0, FIELD_TOKEN, OFFSET(bos), 0, 0},
    {"bos_token_id", GPT2 | LLAMA, IN_FILE, FIELD_TOKEN, OFFSET(bos), 0, 0},
    {"pad", GPT2 | LLAMA, 0, FIELD_TOKEN, OFFSET(pad), 0, 0},
    {"pad_token_id", GPT2 | LLAMA, IN_FILE, FIELD_TOKEN, OFFSET(pad), 0, 0},
    {"eos", GPT2 | LLAMA, 0, FIELD_TOKENS, 0, 0, 0},
    {"eos_token_id", GPT2 | LLAMA, IN_FILE, FIELD_TOKENS, 0, 0, 0},
};
enum { FIELD_COUNT = sizeof FIELDS / sizeof FIELDS[0] };

static const model_field *field_find(model_family_kind f, const char *name)
{
    for (int i = 0; i < FIELD_COUNT; i++)
        if ((FIELDS[i].families & 1u << f) && strcmp(FIELDS[i].name, name) == 0) return &FIELDS[i];
    return NULL;
}

// The first field of that name in any family.
static const model_field *field_find_any(const char *name)
{
    for (int i = 0; i < FIELD_COUNT; i++)
        if (strcmp(FIELDS[i].name, name) == 0) return &FIELDS[i];
    return NULL;
}

bool model_field_in_file(model_family_kind f, const char *name)
{
    const model_field *found = field_find(f, name);
    return found && (found->traits & IN_FILE);
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

const char *const MODEL_ROPE_WORDS[ROPES] = {"default", "linear", "llama3"};
const char *const MODEL_LOSS_WORDS[LOSSES] = {"cross_entropy", "mse"};

static void add_words(const char *const *words, int count, text *out)
{
    for (int i = 0; i < count; i++) text_addf(out, "%s%s", i ? ", " : "", words[i]);
}

// Appends what a field may be set to, worded to follow "valid are".
static void field_describe(const model_field *f, text *out)
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
        text_addf(out, "a token id up to %d, lists of 1 to 16 of them, or null", INT32_MAX);
        break;
    case FIELD_ACTIVATION:
        text_add(out, "gelu, gelu_new, gelu_pytorch_tanh, relu, silu and tanh");
        break;
    case FIELD_LOSS:
        add_words(MODEL_LOSS_WORDS, LOSSES, out);
        break;
    case FIELD_ROPE:
        add_words(MODEL_ROPE_WORDS, ROPES, out);
        break;
    case FIELD_ROPE_OBJECT:
        text_add(out, "an object as in config.json");
        break;
    }
    if (f->type <= FIELD_REAL && f->traits & NULLABLE) text_add(out, ", or null");
}

static status refuse(const model_field *f, const json_t *value, err *e)
{
    char shown[SHOWN_BYTES];
    text valid = {0};
    field_describe(f, &valid);
    const status result = err_set(e, E_USAGE, "%s: found %s, valid are %s", f->name,
                                  model_show_value(value, shown), valid.chars);
    text_clear(&valid);
    return result;
}

bool model_config_describe(const char *name, text *out)
{
    const model_field *f = field_find_any(name);
    if (f) field_describe(f, out);
    return f;
}

const char *model_config_synonym(const char *name, int index)
{
    const model_field *f = field_find_any(name);
    for (int i = 0; f && i < FIELD_COUNT; i++) {
        const model_field *g = &FIELDS[i];
        bool again = false;
        for (int k = 0; k < i; k++) again = again || strcmp(FIELDS[k].name, g->name) == 0;
        if (again || g->type != f->type || g->offset != f->offset || strcmp(g->name, name) == 0)
            continue;
        if (index-- == 0) return g->name;
    }
    return NULL;
}

static status unknown_field(const model_config *c, const char *name, err *e)
{
    const char *words[FIELD_COUNT];
    size_t count = 0;
    for (int i = 0; i < FIELD_COUNT; i++)
        if (FIELDS[i].families & 1u << c->family) words[count++] = FIELDS[i].name;
    const char *near = text_nearest(name, words, count);
    return err_set(e, E_USAGE, "%s: not a field of %s models%s%s%s", name,
                   model_family_name(c->family), near ? "; did you mean " : "", near ? near : "",
                   near ? "?" : "");
}

static status set_number(const model_field *f, void *member, const json_t *value, err *e)
{
    bool is_null = json_is_null(value) && (f->traits & NULLABLE);
    if (f->type == FIELD_INTEGER) {
        json_int_t v = is_null ? 0 : json_integer_value(value);
        if (!is_null && (!json_is_integer(value) || v < f->low || v > f->high))
            return refuse(f, value, e);
        *(int64_t *)member = v;
        return OK;
    }
    double v = is_null ? 0 : json_number_value(value);
    if (!is_null && (!json_is_number(value) || !(v >= f->low && v <= f->high)))
        return refuse(f, value, e);
    *(double *)member = v;
    return OK;
}

static status set_token(const model_field *f, int64_t *member, const json_t *value, err *e)
{
    json_int_t v = json_is_null(value) ? -1 : json_integer_value(value);
    if ((!json_is_null(value) && !json_is_integer(value)) || v < -1 || v > INT32_MAX)
        return refuse(f, value, e);
    *member = v;
    return OK;
}

// The first token of a list becomes eos, the others more_eos.
static status set_tokens(const model_field *f, model_config *c, const json_t *value, err *e)
{
    status result = OK;
    c->more_eos_count = 0;
    if (!json_is_array(value)) return set_token(f, &c->eos, value, e);
    size_t count = json_array_size(value);
    if (count == 0 || count > MORE_EOS + 1) return refuse(f, value, e);
    TRY(set_token(f, &c->eos, json_array_get(value, 0), e));
    for (size_t i = 1; i < count; i++)
        TRY(set_token(f, &c->more_eos[c->more_eos_count++], json_array_get(value, i), e));
done:
    return result;
}

// Finds the value among `words`; *choice becomes its index.
static status set_word(const model_field *f, int *choice, const json_t *value,
                       const char *const *words, int count, err *e)
{
    const char *name = json_string_value(value);
    for (int i = 0; i < count; i++)
        if (name && strcmp(name, words[i]) == 0) {
            *choice = i;
            return OK;
        }
    return refuse(f, value, e);
}

status model_config_set(model_config *c, const char *name, const json_t *value, err *e)
{
    const model_field *f = field_find(c->family, name);
    if (!f) return unknown_field(c, name, e);
    void *member = (char *)c + f->offset;
    int choice = 0;
    status result = OK;
    switch (f->type) {
    case FIELD_INTEGER:
    case FIELD_REAL:
        return set_number(f, member, value, e);
    case FIELD_BOOL:
        if (!json_is_boolean(value)) return refuse(f, value, e);
        *(bool *)member = json_is_true(value);
        return OK;
    case FIELD_TOKEN:
        return set_token(f, member, value, e);
    case FIELD_TOKENS:
        return set_tokens(f, c, value, e);
    case FIELD_ACTIVATION:
        if (!json_is_string(value) || !model_activation_find(json_string_value(value), &c->act))
            return refuse(f, value, e);
        return OK;
    case FIELD_LOSS:
        result = set_word(f, &choice, value, MODEL_LOSS_WORDS, LOSSES, e);
        if (result == OK) c->mlp.loss = (model_loss)choice;
        return result;
    case FIELD_ROPE:
        result = set_word(f, &choice, value, MODEL_ROPE_WORDS, ROPES, e);
        if (result == OK) c->rope.kind = (model_rope)choice;
        return result;
    case FIELD_ROPE_OBJECT:
        return model_config_set_rope(c, name, value, e);
    }
    return E_INTERNAL;
}
