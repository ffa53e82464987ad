// job_model.c -- the section `model`: config.json of a folder, or a family and its fields. job_open
// calls it to read the section, help and explain to list the fields. model/config.h sets and checks
// values; this file knows Trireme's name of each field, its type and its help.
#include "config/private.h"

#include "base/file.h"
#include "ckpt/ckpt.h"
#include "config/values.h"

#include <stdlib.h>
#include <string.h>

enum { GPT2 = 1 << FAMILY_GPT2, LLAMA = 1 << FAMILY_LLAMA, MLP = 1 << FAMILY_MLP };

typedef enum field_type {
    FIELD_COUNT,  // int64_t
    FIELD_TOKEN,  // int64_t; -1: null
    FIELD_EOS,    // eos and more_eos
    FIELD_NUMBER, // double
    FIELD_FLAG,   // bool
    FIELD_ACTIVATION,
    FIELD_ROPE,
    FIELD_LOSS,
} field_type;

// When does another value make the same weights another model, which a run must not resume with?
// config.json holds the parameters of rope only where the kind of rope has them.
typedef enum field_identity {
    DIFFERS_ALWAYS,
    DIFFERS_NEVER, // dropout, initialization and token ids
    DIFFERS_WITH_ROPE_SCALING,
    DIFFERS_WITH_ROPE_LLAMA3,
} field_identity;

#define AT(member) offsetof(model_config, member)
// clang-format off
static const struct {
    const char *path, *help; // "model." and Trireme's name of the field
    unsigned families;       // bits of the families that have it
    field_type type;
    size_t offset; // in model_config
    field_identity identity;
} FIELDS[] = {
    {"model.features", "Sets how many features an input vector has.", MLP, FIELD_COUNT, AT(mlp.features), DIFFERS_ALWAYS},
    {"model.layers", "Sets the number of layers; the default is that of the family's published model of this width, fewer below their smallest.", GPT2 | LLAMA | MLP, FIELD_COUNT, AT(layers), DIFFERS_ALWAYS},
    {"model.hidden", "Sets the width of the residual (hidden size).", GPT2 | LLAMA | MLP, FIELD_COUNT, AT(hidden), DIFFERS_ALWAYS},
    {"model.heads", "Sets the number of attention heads; the default gives each a width of 64, or 128 in llama models from model.hidden 3072 on.", GPT2 | LLAMA, FIELD_COUNT, AT(heads), DIFFERS_ALWAYS},
    {"model.kv_heads", "Sets the number of key and value heads; the default is model.heads.", LLAMA, FIELD_COUNT, AT(kv_heads), DIFFERS_ALWAYS},
    {"model.head_dim", "Sets the width of an attention head; the default is model.hidden divided by model.heads.", LLAMA, FIELD_COUNT, AT(head_dim), DIFFERS_ALWAYS},
    {"model.ffn", "Sets the width of the feed-forward layers; the default is 4 times model.hidden in gpt2 models, 8/3 of it in llama models, rounded up to a multiple of 256 (32 below model.hidden 1024).", GPT2 | LLAMA, FIELD_COUNT, AT(ffn), DIFFERS_ALWAYS},
    {"model.vocab", "Sets the number of tokens in the vocabulary.", GPT2 | LLAMA, FIELD_COUNT, AT(vocab), DIFFERS_ALWAYS},
    {"model.classes", "Sets the number of classes, or of targets with loss mse.", MLP, FIELD_COUNT, AT(vocab), DIFFERS_ALWAYS},
    {"model.max_seq", "Sets the longest sequence that the model takes, in tokens.", GPT2 | LLAMA, FIELD_COUNT, AT(max_seq), DIFFERS_ALWAYS},
    {"model.activation", "Chooses the activation function of the feed-forward layers.", GPT2 | LLAMA | MLP, FIELD_ACTIVATION, AT(act), DIFFERS_ALWAYS},
    {"model.loss", "Chooses the loss: cross_entropy for classes, mse for regression.", MLP, FIELD_LOSS, AT(mlp.loss), DIFFERS_ALWAYS},
    {"model.norm_eps", "Sets the number that normalization layers add to the variance.", GPT2 | LLAMA, FIELD_NUMBER, AT(norm_eps), DIFFERS_ALWAYS},
    {"model.init_std", "Sets the standard deviation of random initial weights.", GPT2 | LLAMA, FIELD_NUMBER, AT(init_std), DIFFERS_NEVER},
    {"model.tie_embeddings", "Uses the token embedding's weights in the output layer, too (tied weights).", GPT2 | LLAMA, FIELD_FLAG, AT(tie_embeddings), DIFFERS_ALWAYS},
    {"model.attention_bias", "Adds a bias to the projections of attention.", LLAMA, FIELD_FLAG, AT(attention_bias), DIFFERS_ALWAYS},
    {"model.mlp_bias", "Adds a bias to the projections of the feed-forward layers.", LLAMA, FIELD_FLAG, AT(mlp_bias), DIFFERS_ALWAYS},
    {"model.scale_attention", "Divides attention scores by the square root of the head's width.", GPT2, FIELD_FLAG, AT(scale_attention), DIFFERS_ALWAYS},
    {"model.scale_by_layer", "Divides attention scores by the number of the layer, too.", GPT2, FIELD_FLAG, AT(scale_by_layer), DIFFERS_ALWAYS},
    {"model.drop_embed", "Sets the dropout probability of embeddings.", GPT2, FIELD_NUMBER, AT(dropout.embed), DIFFERS_NEVER},
    {"model.drop_attention", "Sets the dropout probability of attention weights.", GPT2 | LLAMA, FIELD_NUMBER, AT(dropout.attention), DIFFERS_NEVER},
    {"model.drop_residual", "Sets the dropout probability of the values that a layer adds to the residual.", GPT2, FIELD_NUMBER, AT(dropout.residual), DIFFERS_NEVER},
    {"model.rope", "Chooses how rotary position embeddings are scaled.", LLAMA, FIELD_ROPE, AT(rope.kind), DIFFERS_ALWAYS},
    {"model.rope_theta", "Sets the base of the rotary frequencies.", LLAMA, FIELD_NUMBER, AT(rope.theta), DIFFERS_ALWAYS},
    {"model.rope_factor", "Sets the factor by which rotary positions are scaled.", LLAMA, FIELD_NUMBER, AT(rope.factor), DIFFERS_WITH_ROPE_SCALING},
    {"model.rope_low", "Sets the low frequency factor of llama3's scaling.", LLAMA, FIELD_NUMBER, AT(rope.low), DIFFERS_WITH_ROPE_LLAMA3},
    {"model.rope_high", "Sets the high frequency factor of llama3's scaling.", LLAMA, FIELD_NUMBER, AT(rope.high), DIFFERS_WITH_ROPE_LLAMA3},
    {"model.rope_original", "Sets the sequence length, in tokens, that the model had before llama3's scaling; the default is model.max_seq.", LLAMA, FIELD_COUNT, AT(rope.original), DIFFERS_WITH_ROPE_LLAMA3},
    {"model.bos", "Sets the id of the token that begins a text.", GPT2 | LLAMA, FIELD_TOKEN, AT(bos), DIFFERS_NEVER},
    {"model.eos", "Sets the id of the token that ends a text, or a list of such ids.", GPT2 | LLAMA, FIELD_EOS, AT(eos), DIFFERS_NEVER},
    {"model.pad", "Sets the id of the token that pads sequences.", GPT2 | LLAMA, FIELD_TOKEN, AT(pad), DIFFERS_NEVER},
};
// clang-format on
enum { FIELDS_COUNT = sizeof FIELDS / sizeof FIELDS[0] };

static void format_token(int64_t token, text *out)
{
    if (token < 0)
        text_add(out, "null");
    else
        text_addf(out, "%lld", (long long)token);
}

static void format_field(const model_config *c, int i, text *out)
{
    const void *value = (const char *)c + FIELDS[i].offset;
    switch (FIELDS[i].type) {
    case FIELD_COUNT:
        text_addf(out, "%lld", (long long)*(const int64_t *)value);
        break;
    case FIELD_TOKEN:
        format_token(*(const int64_t *)value, out);
        break;
    case FIELD_EOS:
        text_add(out, c->more_eos_count ? "[" : "");
        format_token(c->eos, out);
        for (int k = 0; k < c->more_eos_count; k++) {
            text_add(out, ", ");
            format_token(c->more_eos[k], out);
        }
        text_add(out, c->more_eos_count ? "]" : "");
        break;
    case FIELD_NUMBER:
        value_number(*(const double *)value, out);
        break;
    case FIELD_FLAG:
        text_add(out, *(const bool *)value ? "true" : "false");
        break;
    case FIELD_ACTIVATION:
        text_add(out, model_activation_name(c->act));
        break;
    case FIELD_ROPE:
        text_add(out, MODEL_ROPE_WORDS[c->rope.kind]);
        break;
    case FIELD_LOSS:
        text_add(out, MODEL_LOSS_WORDS[c->mlp.loss]);
        break;
    }
}

static bool is_compared(const model_config *c, field_identity identity)
{
    switch (identity) {
    case DIFFERS_NEVER:
        return false;
    case DIFFERS_WITH_ROPE_SCALING:
        return c->rope.kind != ROPE_DEFAULT;
    case DIFFERS_WITH_ROPE_LLAMA3:
        return c->rope.kind == ROPE_LLAMA3;
    default:
        return true;
    }
}

static void add_difference(const char *key, const char *there, const char *here, text *out)
{
    if (strcmp(there, here) != 0)
        text_addf(out, "%s%s (%s there, %s here)", out->bytes ? ", " : "", key, there, here);
}

status job_compare_model(const job *j, const char *folder, text *different, err *e)
{
    status result = OK;
    model_config there;
    const model_config *here = &j->model.config;
    TRY(model_config_read(folder, &there, e));
    add_difference("model.family", model_family_name(there.family), model_family_name(here->family),
                   different);
    for (int i = 0; there.family == here->family && i < FIELDS_COUNT; i++) {
        text a = {0}, b = {0};
        if (!(FIELDS[i].families >> here->family & 1u) || !is_compared(here, FIELDS[i].identity))
            continue;
        format_field(&there, i, &a);
        format_field(here, i, &b);
        if (a.failed || b.failed) text_fail(different);
        add_difference(FIELDS[i].path, a.chars, b.chars, different);
        text_clear(&a);
        text_clear(&b);
    }
done:
    return result;
}

// HuggingFace's sizes of the family, but for those that follow from the width, and without its token ids,
// which other vocabularies do not have.
static void family_defaults(model_family_kind f, model_config *c)
{
    model_config_defaults(f, c);
    c->bos = c->eos = -1;
    if (f != FAMILY_MLP) c->layers = c->heads = c->ffn = 0;
}

static const char *field_name(int i)
{
    return FIELDS[i].path + strlen("model.");
}

bool model_field_help(int index, key_help *out)
{
    const int i = index;
    if (i >= FIELDS_COUNT) return false;
    out->path = FIELDS[i].path;
    out->help = FIELDS[i].help;
    for (int f = 0; f < FAMILIES; f++) {
        model_config c;
        if (!(FIELDS[i].families >> f & 1u)) continue;
        family_defaults((model_family_kind)f, &c);
        text_addf(&out->fallback, "%s%s: ", out->fallback.bytes ? ", " : "",
                  model_family_name((model_family_kind)f));
        bool later =
            FIELDS[i].type == FIELD_COUNT && *(int64_t *)((char *)&c + FIELDS[i].offset) == 0;
        if (later)
            text_add(&out->fallback, FIELDS[i].families == MLP ? "none" : "from the others");
        else
            format_field(&c, i, &out->fallback);
    }
    model_config_describe(field_name(i), &out->valid);
    for (int k = 0; model_config_synonym(field_name(i), k); k++)
        text_addf(&out->also, "%smodel.%s", k ? ", " : "", model_config_synonym(field_name(i), k));
    return true;
}

// The bits of FIELDS that a model.* setting sets under any of its names. The setting is written
// into two configurations that differ in every byte; afterwards they agree where it has written.
static uint64_t fields_set_by(const job *j, const setting *s)
{
    model_config a, b;
    uint64_t set = 0;
    memset(&a, 0, sizeof a);
    memset(&b, 1, sizeof b);
    a.family = b.family = j->model.config.family;
    json_t *value = yaml_node_json(s->value);
    const char *name = s->path + strlen("model.");
    bool good = model_config_set(&a, name, value, NULL) == OK &&
                model_config_set(&b, name, value, NULL) == OK;
    for (int i = 0; good && i < FIELDS_COUNT; i++)
        if ((FIELDS[i].families >> a.family & 1u) &&
            ((char *)&a)[FIELDS[i].offset] == ((char *)&b)[FIELDS[i].offset])
            set |= UINT64_C(1) << i;
    json_decref(value);
    return set;
}

bool model_field_at(const job *j, int index, const char **name, text *value, text *from)
{
    int i = j->own.model ? FIELDS_COUNT : 0;
    for (; i < FIELDS_COUNT; i++)
        if ((FIELDS[i].families >> j->model.config.family & 1u) && index-- == 0) break;
    if (i == FIELDS_COUNT) return false;
    *name = field_name(i);
    format_field(&j->model.config, i, value);
    const setting *source = NULL;
    for (int k = 0; k < j->values->models; k++)
        if (setting_is_given(&j->values->model[k]) &&
            (fields_set_by(j, &j->values->model[k]) >> i & 1u))
            source = &j->values->model[k];
    if (source)
        setting_describe(j->values, source, from);
    else if (FIELDS[i].type == FIELD_EOS && j->model.eos_of_data)
        text_add(from, "data.train");
    else
        text_add(from, j->model.path ? "config.json" : "default");
    return true;
}

void job_set_end_token(job *j, int64_t id)
{
    int eos = 0;
    while (FIELDS[eos].type != FIELD_EOS) eos++;
    if (j->own.model || j->model.path || j->model.eos_of_data ||
        !(FIELDS[eos].families >> j->model.config.family & 1u) || id >= j->model.config.vocab)
        return;
    for (int k = 0; k < j->values->models; k++)
        if (setting_is_given(&j->values->model[k]) &&
            (fields_set_by(j, &j->values->model[k]) >> eos & 1u))
            return;
    j->model.config.eos = id;
    j->model.eos_of_data = true;
}

// Refuses two names of one field in the same place, which could have different values.
static status check_synonyms(const job *j, int k, err *e)
{
    const setting *all = j->values->model;
    uint64_t mine = fields_set_by(j, &all[k]);
    for (int i = 0; i < k; i++) {
        if (!setting_is_given(&all[i]) || all[i].from != all[k].from ||
            !(fields_set_by(j, &all[i]) & mine))
            continue;
        err_set(e, E_USAGE, "sets what %s has set already", all[i].path);
        setting_prefix(j->values, &all[k], e);
        return E_USAGE;
    }
    return OK;
}

static status read_fields(job *j, err *e)
{
    status result = OK;
    for (int i = 0; i < j->values->models; i++) {
        const setting *s = &j->values->model[i];
        if (!setting_is_given(s)) continue;
        json_t *value = yaml_node_json(s->value);
        result = model_config_set(&j->model.config, s->path + strlen("model."), value, e);
        json_decref(value);
        if (result != OK) {
            err_prefix(e, "model.");
            setting_place(j->values, s, e);
            goto done;
        }
        TRY(check_synonyms(j, i, e));
    }
done:
    return result;
}

// Puts the line of model.hidden before "hidden: found …". Where the job does not set that field, it
// is the line of the family.
static void place_finish_error(const job *j, const setting *family_given, err *e)
{
    if (!e) return;
    const setting *blamed = family_given;
    size_t bytes = strcspn(e->text, ":");
    for (int i = 0; i < j->values->models; i++) {
        const char *name = j->values->model[i].path + strlen("model.");
        if (setting_is_given(&j->values->model[i]) && strlen(name) == bytes &&
            strncmp(name, e->text, bytes) == 0)
            blamed = &j->values->model[i];
    }
    err_prefix(e, "model.");
    setting_place(j->values, blamed, e);
}

static status read_family(job *j, err *e)
{
    status result = OK;
    const setting *family_given = settings_of(j->values, "model.family");
    const setting *init = settings_of(j->values, "model.init");
    if (strcmp(j->model.init, "checkpoint") == 0) {
        err_set(e, E_USAGE, "found checkpoint; it needs model.path, a folder with weights");
        setting_prefix(j->values, init, e);
        return E_USAGE;
    }
    family_defaults(j->model.config.family, &j->model.config);
    TRY(read_fields(j, e));
    result = model_config_finish(&j->model.config, e);
    if (result != OK) place_finish_error(j, family_given, e);
done:
    return result;
}

static status folder_has(const char *folder, const char *name, bool *has, err *e)
{
    char *path = NULL;
    const status result = file_join(folder, name, &path, e);
    *has = result == OK && file_exists(path);
    free(path);
    return result;
}

// The folder of a run becomes that of its newest checkpoint.
static status find_checkpoint(job *j, err *e)
{
    status result = OK;
    char *found = NULL;
    TRY(ckpt_locate(j->model.path, &found, NULL, e));
    free(j->model.path);
    j->model.path = found;
done:
    return result;
}

// A folder on the command line replaces the file's family. The file's sizes must be those of the
// folder, or else the user would train another model than the file says. The sizes are dropped.
static status check_replaced(job *j, err *e)
{
    status result = OK;
    const model_config *c = &j->model.config;
    for (int k = 0; k < j->values->models && result == OK; k++) {
        setting *s = &j->values->model[k];
        if (!setting_is_given(s) || s->from != ORIGIN_FILE) continue;
        model_config mine = *c;
        text found = {0}, there = {0};
        json_t *value = yaml_node_json(s->value);
        const uint64_t fields = fields_set_by(j, s);
        if (model_config_set(&mine, s->path + strlen("model."), value, NULL) != OK)
            text_addf(&there, "has no such field in %s models", model_family_name(c->family));
        for (int i = 0; i < FIELDS_COUNT && !there.bytes; i++) {
            text a = {0}, b = {0};
            if (fields >> i & 1u) format_field(&mine, i, &a);
            if (fields >> i & 1u) format_field(c, i, &b);
            if (a.bytes && strcmp(a.chars, b.chars) != 0) text_addf(&there, "says %s", b.chars);
            if (a.failed || b.failed) text_fail(&there);
            text_clear(&a);
            text_clear(&b);
        }
        yaml_node_text(s->value, &found);
        if (result == OK) result = text_check(&there, e);
        if (there.bytes) {
            result = err_set(e, E_USAGE,
                             "found %.*s, but config.json of --model.path %s; valid: the same, or "
                             "a job file without it",
                             TEXT_CUT(found.chars, 60), there.chars);
            setting_prefix(j->values, s, e);
        }
        setting_drop(s);
        json_decref(value);
        text_clear(&found);
        text_clear(&there);
    }
    return result;
}

// Weights that are there in a form which is not read are not replaced by random ones without a word.
static status refuse_other_weights(const job *j, err *e)
{
    status result = OK;
    static const char *const files[] = {"pytorch_model.bin", "pytorch_model.bin.index.json",
                                        "tf_model.h5", "flax_model.msgpack"};
    if (strcmp(j->model.init, "auto") != 0) return OK;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        bool found = false;
        TRY(folder_has(j->model.path, files[i], &found, e));
        if (found)
            FAIL(E_USAGE,
                 "%s holds its weights as %s, which is not read; valid: model.safetensors, which "
                 "transformers' save_pretrained writes, or model.init: random",
                 j->model.path, files[i]);
    }
done:
    return result;
}

static status read_folder(job *j, bool replaces, err *e)
{
    const setting *path = settings_of(j->values, "model.path");
    const setting *init = settings_of(j->values, "model.init");
    const setting *blamed = path;
    status result = OK;
    for (int i = 0; i < j->values->models; i++) {
        if (!setting_is_given(&j->values->model[i])) continue;
        if (replaces && j->values->model[i].from == ORIGIN_FILE) continue;
        blamed = &j->values->model[i];
        FAIL(E_USAGE, "model.path is given, and its config.json says what the model is; valid: one "
                      "of the two");
    }
    TRY(model_folder_check(j->model.path, e));
    TRY(find_checkpoint(j, e));
    TRY(model_config_read(j->model.path, &j->model.config, e));
    bool weights = false, index = false;
    TRY(folder_has(j->model.path, "model.safetensors", &weights, e));
    TRY(folder_has(j->model.path, "model.safetensors.index.json", &index, e));
    weights = weights || index;
    if (strcmp(j->model.init, "checkpoint") == 0 && !weights) {
        blamed = init;
        FAIL(E_USAGE,
             "found checkpoint, but %s holds no model.safetensors and no "
             "model.safetensors.index.json",
             j->model.path);
    }
    if (!weights) TRY(refuse_other_weights(j, e));
    j->model.has_weights = weights && strcmp(j->model.init, "random") != 0;
done:
    if (result != OK) setting_prefix(j->values, blamed, e);
    return result == OK && replaces ? check_replaced(j, e) : result;
}

// A folder on the command line replaces the file's family (true), and the reverse.
static bool let_command_line_choose(job *j, setting *path, setting *family_given)
{
    if (path->from == ORIGIN_COMMAND_LINE && family_given->from == ORIGIN_FILE) {
        setting_drop(family_given);
        return true;
    }
    if (path->from == ORIGIN_FILE && family_given->from == ORIGIN_COMMAND_LINE) {
        setting_drop(path);
        free(j->model.path);
        j->model.path = NULL;
    }
    return false;
}

// The program's own model excludes every key of the section.
static status refuse_settings(const job *j, err *e)
{
    const setting *given = NULL;
    static const char *const rows[] = {"model.path", "model.init", "model.family"};
    for (int i = 0; i < j->values->models && !given; i++)
        if (setting_is_given(&j->values->model[i])) given = &j->values->model[i];
    for (int i = 0; i < 3 && !given; i++)
        if (setting_is_given(settings_of(j->values, rows[i])))
            given = settings_of(j->values, rows[i]);
    if (!given) return OK;
    err_set(e, E_USAGE, "given, but the program brings a model of its own; valid: one of the two");
    setting_prefix(j->values, given, e);
    return E_USAGE;
}

status job_read_model(job *j, err *e)
{
    if (j->own.model) return refuse_settings(j, e);
    setting *path = &j->values->rows[key_index("model.path")];
    setting *family_given = &j->values->rows[key_index("model.family")];
    const bool replaces = let_command_line_choose(j, path, family_given);
    if (path->value && family_given->value) {
        err_set(e, E_USAGE, "model.path is given too; valid: one of the two");
        setting_prefix(j->values, family_given, e);
        return E_USAGE;
    }
    if (path->value) return read_folder(j, replaces, e);
    if (family_given->value) return read_family(j, e);
    return err_set(
        e, E_USAGE,
        "%s%smodel: not given; valid: model.path: a HuggingFace folder, or model.family: "
        "gpt2, llama or mlp",
        j->values->file ? j->values->file : "", j->values->file ? ": " : "");
}
