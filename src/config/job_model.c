// job_model.c -- the section `model`: config.json of a folder, or a family and its fields. job_open
// calls it to read the section, explain to print the fields. model/schema.h knows the fields.
#include "config/private.h"

#include "base/file.h"
#include "ckpt/ckpt.h"
#include "config/values.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

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
    const model_field *fields[MODEL_FIELDS];
    const int count = model_fields_list(here->family, fields);
    TRY(model_config_read(folder, &there, e));
    add_difference("model.family", there.family->name, here->family->name, different);
    for (int i = 0; there.family == here->family && i < count; i++) {
        text a = {0}, b = {0};
        if (!model_field_is_compared(here, fields[i])) continue;
        model_field_add(&there, fields[i], false, &a);
        model_field_add(here, fields[i], false, &b);
        if (a.failed || b.failed) text_fail(different);
        add_difference(fields[i]->key, a.chars, b.chars, different);
        text_clear(&a);
        text_clear(&b);
    }
done:
    return result;
}

static const char *key_name(const setting *s)
{
    return s->path + strlen("model.");
}

// Returns whether a given model.* setting sets the field under any of its names.
static bool sets_field(const job *j, const setting *s, const model_field *f)
{
    if (!setting_is_given(s)) return false;
    json_t *value = yaml_node_json(s->value);
    const bool sets = model_field_is_set_by(&j->model.config, f, key_name(s), value);
    json_decref(value);
    return sets;
}

// Returns the last setting that sets the field; NULL: none.
static const setting *source_of(const job *j, const model_field *f)
{
    for (int k = j->values->models - 1; k >= 0; k--)
        if (sets_field(j, &j->values->model[k], f)) return &j->values->model[k];
    return NULL;
}

void model_field_explain(const job *j, const model_field *f, text *value, text *from)
{
    const setting *source = source_of(j, f);
    model_field_add(&j->model.config, f, false, value);
    if (source)
        setting_describe(j->values, source, from);
    else if (f->type == FIELD_TOKENS && j->model.eos_of_data)
        text_add(from, "data.train");
    else
        text_add(from, j->model.path ? "config.json" : "default");
}

void job_set_end_token(job *j, int64_t id)
{
    if (j->own.model || j->model.path || j->model.eos_of_data || id >= j->model.config.vocab)
        return;
    const model_field *eos = model_field_named(j->model.config.family, "eos");
    if (!eos || source_of(j, eos)) return;
    j->model.config.eos = id;
    j->model.eos_of_data = true;
}

// Refuses two names of one field in the same place, which could have different values.
static status check_synonyms(const job *j, int k, err *e)
{
    const setting *all = j->values->model;
    const model_field *fields[MODEL_FIELDS];
    const int count = model_fields_list(j->model.config.family, fields);
    for (int i = 0; i < k; i++) {
        bool both = false;
        for (int f = 0; f < count && all[i].from == all[k].from; f++)
            both = both || (sets_field(j, &all[i], fields[f]) && sets_field(j, &all[k], fields[f]));
        if (!both) continue;
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
        result = model_config_set(&j->model.config, key_name(s), value, e);
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
        const char *name = key_name(&j->values->model[i]);
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
    model_config_defaults_of_job(MODEL_FAMILIES[j->model.family], &j->model.config);
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

// Appends why a setting of the file does not agree with config.json, or nothing.
static void find_contradiction(const job *j, const setting *s, text *out)
{
    const model_config *c = &j->model.config;
    model_config mine = *c;
    const model_field *fields[MODEL_FIELDS];
    const int count = model_fields_list(c->family, fields);
    json_t *value = yaml_node_json(s->value);
    if (model_config_set(&mine, key_name(s), value, NULL) != OK)
        text_addf(out, "has no such field in %s models", c->family->name);
    for (int i = 0; i < count && !out->bytes; i++) {
        text a = {0}, b = {0};
        if (!model_field_is_set_by(c, fields[i], key_name(s), value)) continue;
        model_field_add(&mine, fields[i], false, &a);
        model_field_add(c, fields[i], false, &b);
        if (a.failed || b.failed) text_fail(out);
        if (strcmp(a.chars, b.chars) != 0) text_addf(out, "says %s", b.chars);
        text_clear(&a);
        text_clear(&b);
    }
    json_decref(value);
}

// A folder on the command line replaces the file's family. The file's sizes must be those of the
// folder, or else the user would train another model than the file says. The sizes are dropped.
static status check_replaced(job *j, err *e)
{
    status result = OK;
    for (int k = 0; k < j->values->models && result == OK; k++) {
        setting *s = &j->values->model[k];
        if (!setting_is_given(s) || s->from != ORIGIN_FILE) continue;
        text found = {0}, there = {0};
        find_contradiction(j, s, &there);
        result = text_check(&there, e);
        if (there.bytes) {
            yaml_node_text(s->value, &found);
            result = err_set(e, E_USAGE,
                             "found %.*s, but config.json of --model.path %s; valid: the same, or "
                             "a job file without it",
                             TEXT_CUT(found.chars, 60), there.chars);
            setting_prefix(j->values, s, e);
        }
        setting_drop(s);
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
    text valid = {0};
    for (int i = 0; MODEL_FAMILY_NAMES[i]; i++)
        text_addf(&valid, "%s%s",
                  i == 0                      ? ""
                  : MODEL_FAMILY_NAMES[i + 1] ? ", "
                                              : " or ",
                  MODEL_FAMILY_NAMES[i]);
    err_set(e, E_USAGE,
            "%s%smodel: not given; valid: model.path: a HuggingFace folder, or model.family: %s",
            j->values->file ? j->values->file : "", j->values->file ? ": " : "", valid.chars);
    text_clear(&valid);
    return E_USAGE;
}
