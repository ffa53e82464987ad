// config_fields.c -- the table of config fields: every name by which a field can be set (Trireme's
// and HuggingFace's), its type and range. Called by the job (model.* keys) and by config_read.c.
// Does not know how fields depend on each other (config.c).
#include "model/config_fields.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { GPT2 = 1 << FAMILY_GPT2, LLAMA = 1 << FAMILY_LLAMA, MLP = 1 << FAMILY_MLP };
enum { OF_FILE = 1, NULLABLE = 2 }; // is in config.json; null stands for "not given"

typedef enum field_type {
    COUNT,    // int64_t, low … high; null is 0
    REAL,     // double, low … high; null is 0
    FLAG,     // bool
    TOKEN,    // int64_t from -1; null is -1
    TOKENS,   // eos: a token or a list
    ACTIVATE, // activation
    LOSS,     // loss_kind
    ROPE,     // rope_kind
    ROPES,    // rope_scaling, rope_parameters: an object
} field_type;

typedef struct field {
    const char *word;
    unsigned families, traits;
    field_type type;
    size_t at;
    double low, high;
} field;

#define AT(member) offsetof(model_config, member)
#define SIZE_TO(high, word, families, traits, member)                                              \
    {                                                                                              \
        word, families, traits, COUNT, AT(member), 1, high                                         \
    }
#define SIZE(word, families, traits, member) SIZE_TO(INT32_MAX, word, families, traits, member)
#define DROP(word, families, traits, member)                                                       \
    {                                                                                              \
        word, families, traits, REAL, AT(member), 0, 0.999999                                      \
    }
#define ON(word, families, traits, member)                                                         \
    {                                                                                              \
        word, families, traits, FLAG, AT(member), 0, 0                                             \
    }

static const field FIELDS[] = {
    SIZE_TO(MODEL_LAYERS, "layers", GPT2 | LLAMA, 0, layers),
    SIZE_TO(MODEL_LAYERS, "layers", MLP, OF_FILE, layers),
    SIZE_TO(MODEL_LAYERS, "n_layer", GPT2, OF_FILE, layers),
    SIZE_TO(MODEL_LAYERS, "num_hidden_layers", GPT2 | LLAMA, OF_FILE, layers),
    SIZE("hidden", GPT2 | LLAMA, 0, hidden),
    SIZE("hidden", MLP, OF_FILE, hidden),
    SIZE("n_embd", GPT2, OF_FILE, hidden),
    SIZE("hidden_size", GPT2 | LLAMA, OF_FILE, hidden),
    SIZE("heads", GPT2 | LLAMA, 0, heads),
    SIZE("n_head", GPT2, OF_FILE, heads),
    SIZE("num_attention_heads", GPT2 | LLAMA, OF_FILE, heads),
    SIZE("kv_heads", LLAMA, NULLABLE, kv_heads),
    SIZE("num_key_value_heads", LLAMA, OF_FILE | NULLABLE, kv_heads),
    SIZE_TO(HEAD_DIM, "head_dim", LLAMA, OF_FILE | NULLABLE, head_dim),
    SIZE("ffn", GPT2, NULLABLE, ffn),
    SIZE("ffn", LLAMA, 0, ffn),
    SIZE("n_inner", GPT2, OF_FILE | NULLABLE, ffn),
    SIZE("intermediate_size", LLAMA, OF_FILE, ffn),
    SIZE("vocab", GPT2 | LLAMA, 0, vocab),
    SIZE("vocab", MLP, OF_FILE, vocab),
    SIZE("classes", MLP, OF_FILE, vocab),
    SIZE("vocab_size", GPT2 | LLAMA, OF_FILE, vocab),
    SIZE("max_seq", GPT2 | LLAMA, 0, max_seq),
    SIZE("n_positions", GPT2, OF_FILE, max_seq),
    SIZE("max_position_embeddings", GPT2 | LLAMA, OF_FILE, max_seq),
    SIZE("features", MLP, OF_FILE, features),
    {"activation", GPT2 | LLAMA, 0, ACTIVATE, AT(act), 0, 0},
    {"activation", MLP, OF_FILE, ACTIVATE, AT(act), 0, 0},
    {"activation_function", GPT2, OF_FILE, ACTIVATE, AT(act), 0, 0},
    {"hidden_act", LLAMA, OF_FILE, ACTIVATE, AT(act), 0, 0},
    {"loss", MLP, OF_FILE, LOSS, AT(loss), 0, 0},
    {"norm_eps", GPT2 | LLAMA, 0, REAL, AT(norm_eps), 0, 1},
    {"layer_norm_epsilon", GPT2, OF_FILE, REAL, AT(norm_eps), 0, 1},
    {"rms_norm_eps", LLAMA, OF_FILE, REAL, AT(norm_eps), 0, 1},
    {"init_std", GPT2 | LLAMA, 0, REAL, AT(init_std), 0, 1},
    {"initializer_range", GPT2 | LLAMA, OF_FILE, REAL, AT(init_std), 0, 1},
    ON("tie_embeddings", GPT2 | LLAMA, 0, tie_embeddings),
    ON("tie_word_embeddings", GPT2 | LLAMA, OF_FILE, tie_embeddings),
    ON("attention_bias", LLAMA, OF_FILE, attention_bias),
    ON("mlp_bias", LLAMA, OF_FILE, mlp_bias),
    ON("scale_attention", GPT2, 0, scale_attention),
    ON("scale_attn_weights", GPT2, OF_FILE, scale_attention),
    ON("scale_by_layer", GPT2, 0, scale_by_layer),
    ON("scale_attn_by_inverse_layer_idx", GPT2, OF_FILE, scale_by_layer),
    DROP("drop_embed", GPT2, 0, drop_embed),
    DROP("embd_pdrop", GPT2, OF_FILE, drop_embed),
    DROP("drop_attention", GPT2 | LLAMA, 0, drop_attention),
    DROP("attn_pdrop", GPT2, OF_FILE, drop_attention),
    DROP("attention_dropout", LLAMA, OF_FILE | NULLABLE, drop_attention),
    DROP("drop_residual", GPT2, 0, drop_residual),
    DROP("resid_pdrop", GPT2, OF_FILE, drop_residual),
    {"rope", LLAMA, 0, ROPE, AT(rope), 0, 0},
    {"rope_theta", LLAMA, 0, REAL, AT(rope_theta), 1, 1e15},
    {"rope_factor", LLAMA, 0, REAL, AT(rope_factor), 1e-3, 1e6},
    {"rope_low", LLAMA, 0, REAL, AT(rope_low), 1e-6, 1e6},
    {"rope_high", LLAMA, 0, REAL, AT(rope_high), 1e-6, 1e6},
    SIZE("rope_original", LLAMA, NULLABLE, rope_original),
    {"rope_scaling", LLAMA, 0, ROPES, 0, 0, 0},
    {"rope_parameters", LLAMA, 0, ROPES, 0, 0, 0},
    {"bos", GPT2 | LLAMA, 0, TOKEN, AT(bos), 0, 0},
    {"bos_token_id", GPT2 | LLAMA, OF_FILE, TOKEN, AT(bos), 0, 0},
    {"pad", GPT2 | LLAMA, 0, TOKEN, AT(pad), 0, 0},
    {"pad_token_id", GPT2 | LLAMA, OF_FILE, TOKEN, AT(pad), 0, 0},
    {"eos", GPT2 | LLAMA, 0, TOKENS, 0, 0, 0},
    {"eos_token_id", GPT2 | LLAMA, OF_FILE, TOKENS, 0, 0, 0},
};
enum { FIELD_COUNT = sizeof FIELDS / sizeof FIELDS[0] };

static const field *field_find(family f, const char *word)
{
    for (int i = 0; i < FIELD_COUNT; i++)
        if ((FIELDS[i].families & 1u << f) && strcmp(FIELDS[i].word, word) == 0) return &FIELDS[i];
    return NULL;
}

bool config_field_is_of_file(family f, const char *word)
{
    const field *one = field_find(f, word);
    return one && (one->traits & OF_FILE);
}

const char *config_show(const json_t *value, char out[SHOWN_BYTES])
{
    char *json = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    size_t length = json ? strlen(json) : 0, kept = length < SHOWN_BYTES ? length : SHOWN_BYTES - 4;
    if (json) memcpy(out, json, kept);
    strcpy(out + kept, kept < length ? "..." : "");
    free(json);
    return out;
}

static const char *const ROPE_WORDS[] = {"default", "linear", "llama3"};
static const char *const LOSS_WORDS[] = {"cross_entropy", "mse"};

static void add_words(const char *const *words, int count, text *out)
{
    for (int i = 0; i < count; i++) text_addf(out, "%s%s", i ? ", " : "", words[i]);
}

// What a field may be, as it follows "valid are".
static void field_describe(const field *f, text *out)
{
    switch (f->type) {
    case COUNT:
        text_addf(out, "whole numbers from %.0f to %.0f", f->low, f->high);
        break;
    case REAL:
        text_addf(out, "numbers from %g to %g", f->low, f->high);
        break;
    case FLAG:
        text_add(out, "true and false");
        break;
    case TOKEN:
        text_addf(out, "token ids up to %d, or null", INT32_MAX);
        break;
    case TOKENS:
        text_addf(out, "a token id up to %d, lists of 1 to 16 of them, or null", INT32_MAX);
        break;
    case ACTIVATE:
        text_add(out, "gelu, gelu_new, gelu_pytorch_tanh, relu, silu and tanh");
        break;
    case LOSS:
        add_words(LOSS_WORDS, 2, out);
        break;
    case ROPE:
        add_words(ROPE_WORDS, 3, out);
        break;
    case ROPES:
        text_add(out, "an object as in config.json");
        break;
    }
    if (f->type <= REAL && f->traits & NULLABLE) text_add(out, ", or null");
}

static status refuse(const field *f, const json_t *value, err *e)
{
    char shown[SHOWN_BYTES];
    text valid = {0};
    field_describe(f, &valid);
    const status result = err_set(e, E_USAGE, "%s: found %s, valid are %s", f->word,
                                  config_show(value, shown), valid.chars);
    text_clear(&valid);
    return result;
}

bool model_config_describe(const char *word, text *out)
{
    const field *f = NULL;
    for (int i = 0; i < FIELD_COUNT && !f; i++)
        if (strcmp(FIELDS[i].word, word) == 0) f = &FIELDS[i];
    if (f) field_describe(f, out);
    return f;
}

const char *model_config_synonym(const char *word, int index)
{
    const field *f = NULL;
    for (int i = 0; i < FIELD_COUNT && !f; i++)
        if (strcmp(FIELDS[i].word, word) == 0) f = &FIELDS[i];
    for (int i = 0; f && i < FIELD_COUNT; i++) {
        const field *g = &FIELDS[i];
        bool again = false;
        for (int k = 0; k < i; k++) again = again || strcmp(FIELDS[k].word, g->word) == 0;
        if (again || g->type != f->type || g->at != f->at || strcmp(g->word, word) == 0) continue;
        if (index-- == 0) return g->word;
    }
    return NULL;
}

static status unknown_field(const model_config *c, const char *word, err *e)
{
    const char *words[FIELD_COUNT];
    size_t count = 0;
    for (int i = 0; i < FIELD_COUNT; i++)
        if (FIELDS[i].families & 1u << c->family) words[count++] = FIELDS[i].word;
    const char *near = text_nearest(word, words, count);
    return err_set(e, E_USAGE, "%s: not a field of %s models%s%s%s", word, family_name(c->family),
                   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static status set_number(const field *f, void *at, const json_t *value, err *e)
{
    bool is_null = json_is_null(value) && (f->traits & NULLABLE);
    if (f->type == COUNT) {
        json_int_t v = is_null ? 0 : json_integer_value(value);
        if (!is_null && (!json_is_integer(value) || v < f->low || v > f->high))
            return refuse(f, value, e);
        *(int64_t *)at = v;
        return OK;
    }
    double v = is_null ? 0 : json_number_value(value);
    if (!is_null && (!json_is_number(value) || !(v >= f->low && v <= f->high)))
        return refuse(f, value, e);
    *(double *)at = v;
    return OK;
}

static status set_token(const field *f, int64_t *at, const json_t *value, err *e)
{
    json_int_t v = json_is_null(value) ? -1 : json_integer_value(value);
    if ((!json_is_null(value) && !json_is_integer(value)) || v < -1 || v > INT32_MAX)
        return refuse(f, value, e);
    *at = v;
    return OK;
}

// The first of a list is eos, the rest more_eos.
static status set_tokens(const field *f, model_config *c, const json_t *value, err *e)
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

// One of `words`; *at becomes its position.
static status set_word(const field *f, int *at, const json_t *value, const char *const *words,
                       int count, err *e)
{
    const char *word = json_string_value(value);
    for (int i = 0; i < count; i++)
        if (word && strcmp(word, words[i]) == 0) {
            *at = i;
            return OK;
        }
    return refuse(f, value, e);
}

status model_config_set(model_config *c, const char *word, const json_t *value, err *e)
{
    const field *f = field_find(c->family, word);
    if (!f) return unknown_field(c, word, e);
    char *at = (char *)c + f->at;
    int choice = 0;
    status result = OK;
    switch (f->type) {
    case COUNT:
    case REAL:
        return set_number(f, at, value, e);
    case FLAG:
        if (!json_is_boolean(value)) return refuse(f, value, e);
        *(bool *)at = json_is_true(value);
        return OK;
    case TOKEN:
        return set_token(f, (int64_t *)at, value, e);
    case TOKENS:
        return set_tokens(f, c, value, e);
    case ACTIVATE:
        if (!json_is_string(value) || !activation_find(json_string_value(value), &c->act))
            return refuse(f, value, e);
        return OK;
    case LOSS:
        result = set_word(f, &choice, value, LOSS_WORDS, 2, e);
        if (result == OK) c->loss = (loss_kind)choice;
        return result;
    case ROPE:
        result = set_word(f, &choice, value, ROPE_WORDS, 3, e);
        if (result == OK) c->rope = (rope_kind)choice;
        return result;
    case ROPES:
        return config_set_rope(c, word, value, e);
    }
    return E_INTERNAL;
}
