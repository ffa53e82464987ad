// job.c -- the job of a program: a file, settings as on the command line, and the program's data
// and model. All of it is read again each time the job is run or explained, so that keys are
// checked against each other only when all of them are set.
#include "api/api.h"

#include "base/alloc.h"
#include "base/json.h"
#include "config/dialect/dialect.h"

#include <stdlib.h>
#include <string.h>

static status open_job(const char *path, trm_job **out, err *e)
{
    status result = OK;
    trm_job *j = NULL;
    TRY(alloc_zeroed(&j, 1, sizeof *j, "a job", e));
    if (path) TRY(text_copy(path, &j->path, e));
    TRY(job_check_settings(path, NULL, 0, e));
    *out = j;
    j = NULL;
done:
    trm_job_close(j);
    return result;
}

trm_status trm_job_open(const char *path, trm_job **out, trm_error *error)
{
    err e = {.code = OK};
    *out = NULL;
    return api_give(open_job(path, out, &e), &e, error);
}

void trm_job_close(trm_job *j)
{
    if (!j) return;
    for (int i = 0; i < j->calls; i++) free(j->call[i].text);
    free(j->call);
    free(j->sink);
    free(j->path);
    free(j->config_json);
    text_clear(&j->explained);
    text_clear(&j->lost);
    free(j);
}

// Takes ownership of `setting`, also on failure. A group is checked behind those before it, so that
// an error has its number.
static status add_call(trm_job *j, job_call_kind kind, char *setting, err *e)
{
    status result = OK;
    const bool group = kind == JOB_CALL_GROUP;
    TRY(alloc_grow(&j->call, &j->call_room, (size_t)j->calls + 1, sizeof *j->call, "a job", e));
    j->call[j->calls] = (job_call){.kind = kind, .text = setting};
    if (group)
        TRY(job_check_settings(j->path, j->call, j->calls + 1, e));
    else
        TRY(job_check_settings(NULL, &j->call[j->calls], 1, e));
    j->calls++;
    setting = NULL;
done:
    free(setting);
    return result;
}

static status set(trm_job *j, const char *key, const char *value, err *e)
{
    text arg = {0};
    if (!key || !value)
        return err_set(e, E_USAGE, "%s: a key and a value are needed", key ? key : "NULL");
    // Flags of the command line that are not keys.
    if (strcmp(key, "resume") == 0 || strcmp(key, "quiet") == 0 || strcmp(key, "overwrite") == 0 ||
        strcmp(key, "json") == 0)
        return err_set(e, E_USAGE, "%s: this is a flag of `trireme train`, not a key", key);
    if (dialect_find(key))
        return err_set(e, E_USAGE, "%s: this is no key; valid: trm_job_read_dialect", key);
    text_addf(&arg, "--%s=%s", key, value);
    char *setting = NULL;
    const status result = text_take(&arg, &setting, e);
    return result == OK ? add_call(j, JOB_CALL_OPTION, setting, e) : result;
}

trm_status trm_job_set(trm_job *j, const char *key, const char *value, trm_error *error)
{
    err e = {.code = OK};
    return api_give(set(j, key, value, &e), &e, error);
}

trm_status trm_job_set_yaml(trm_job *j, const char *yaml, trm_error *error)
{
    err e = {.code = OK};
    char *setting = NULL;
    status result = yaml ? text_copy(yaml, &setting, &e)
                         : err_set(&e, E_USAGE, "trm_job_set_yaml: the text is NULL");
    if (result == OK) result = add_call(j, JOB_CALL_YAML, setting, &e);
    return api_give(result, &e, error);
}

// Reads the remarks about what has no equal to j->lost.
static status find_lost(trm_job *j, const dialect *d, bool is_text, const char *config, err *e)
{
    status result = OK;
    translation t = {.setting = NULL};
    text lost = {0};
    TRY(is_text ? dialect_read_text(d, config, &t, e) : dialect_read_file(d, config, &t, e));
    for (size_t i = 0; i < t.remarks; i++)
        if (t.remark[i].lost) text_addf(&lost, "%s%s", lost.bytes ? "\n" : "", t.remark[i].text);
    TRY(text_check(&lost, e));
    text_clear(&j->lost);
    j->lost = lost;
    lost = (text){0};
done:
    text_clear(&lost);
    translation_clear(&t);
    return result;
}

static status add_dialect(trm_job *j, const char *system, bool is_text, const char *config, err *e)
{
    status result = OK;
    text arg = {0};
    char *taken = NULL;
    const dialect *d = system ? dialect_find(system) : NULL;
    text_add(&arg, "valid:");
    for (int i = 0; !d && DIALECTS[i]; i++)
        text_addf(&arg, "%s %s", i ? "," : "", DIALECTS[i]->name);
    TRY(text_check(&arg, e));
    if (!d) FAIL(E_USAGE, "found system %s; %s", system ? system : "NULL", arg.chars);
    if (!config) FAIL(E_USAGE, "%s: the configuration is NULL", system);
    TRY(find_lost(j, d, is_text, config, e));
    text_clear(&arg);
    text_addf(&arg, "--%s=%s", system, config);
    TRY(text_take(&arg, &taken, e));
    TRY(add_call(j, is_text ? JOB_CALL_DIALECT_TEXT : JOB_CALL_DIALECT, taken, e));
done:
    text_clear(&arg);
    return result;
}

static trm_status read_dialect(trm_job *j, const char *system, bool is_text, const char *config,
                               const char **lost, trm_error *error)
{
    err e = {.code = OK};
    const status result = add_dialect(j, system, is_text, config, &e);
    if (lost) *lost = result == OK ? j->lost.chars : NULL;
    return api_give(result, &e, error);
}

trm_status trm_job_read_dialect(trm_job *j, const char *system, const char *path, const char **lost,
                                trm_error *error)
{
    return read_dialect(j, system, false, path, lost, error);
}

trm_status trm_job_set_dialect(trm_job *j, const char *system, const char *content,
                               const char **lost, trm_error *error)
{
    return read_dialect(j, system, true, content, lost, error);
}

static status add_group(trm_job *j, const char *match, const char *settings, err *e)
{
    text entry = {0};
    char *taken = NULL;
    if (!match) return err_set(e, E_USAGE, "trm_job_add_group: the pattern is NULL");
    job_write_group(match, settings, &entry);
    const status result = text_take(&entry, &taken, e);
    return result == OK ? add_call(j, JOB_CALL_GROUP, taken, e) : result;
}

trm_status trm_job_add_group(trm_job *j, const char *match, const char *settings, trm_error *error)
{
    err e = {.code = OK};
    return api_give(add_group(j, match, settings, &e), &e, error);
}

trm_status trm_job_use_data(trm_job *j, trm_part part, const trm_dataset *data, trm_error *error)
{
    err e = {.code = OK};
    const bool train = part == TRM_TRAIN;
    status result = api_data_make(train ? &j->train : &j->valid, data, train, &e);
    if (result == OK && train) j->has_train = true;
    if (result == OK && !train) j->has_valid = true;
    return api_give(result, &e, error);
}

static status check_json(const char *config_json, err *e)
{
    json_error_t problem;
    json_t *parsed =
        json_load_python(config_json, strlen(config_json), JSON_REJECT_DUPLICATES, &problem);
    bool fine = json_is_object(parsed);
    json_decref(parsed);
    if (fine) return OK;
    return err_set(e, E_USAGE, "model: config_json is not a JSON object%s%s",
                   problem.text[0] ? ": " : "", problem.text);
}

// {"model_type": "name"}
static char *least_json(const char *name)
{
    json_t *o = json_pack("{s:s}", "model_type", name);
    char *s = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
    json_decref(o);
    return s;
}

static status use_model(trm_job *j, const trm_family *of, const void *config,
                        const char *config_json, err *e)
{
    status result = OK;
    if (config_json) TRY(check_json(config_json, e));
    TRY(api_model_make(&j->model, of, config, e));
    free(j->config_json);
    j->config_json = config_json ? NULL : least_json(of->name);
    if (config_json) TRY(text_copy(config_json, &j->config_json, e));
    if (!j->config_json) FAIL(E_USAGE, "model: the family's name is not UTF-8");
    j->has_model = true;
done:
    return result;
}

trm_status trm_job_use_model(trm_job *j, const trm_family *of, const void *config,
                             const char *config_json, trm_error *error)
{
    err e = {.code = OK};
    return api_give(use_model(j, of, config, config_json, &e), &e, error);
}

session_own_inputs api_job_inputs(trm_job *j)
{
    return (session_own_inputs){.family = j->has_model ? &j->model.ops : NULL,
                                .config = &j->model,
                                .train = j->has_train ? &j->train.base : NULL,
                                .valid = j->has_valid ? &j->valid.base : NULL,
                                .predicts = true};
}

void api_job_own(const trm_job *j, job_own *own)
{
    own->by_calls = true;
    own->call = j->call;
    own->calls = j->calls;
    own->model = j->has_model;
    own->train = j->has_train;
    own->valid = j->has_valid;
    own->positions = j->train.of.positions;
}

static status explain(trm_job *j, err *e)
{
    status result = OK;
    job_own own = {.model = false};
    const session_own_inputs inputs = api_job_inputs(j);
    job *opened = NULL;
    session_inputs in = {.family = NULL};
    api_job_own(j, &own);
    TRY(job_open_own(j->path, 0, NULL, &own, &opened, e));
    TRY(session_inputs_open_own(opened, &inputs, &in, e));
    text_clear(&j->explained);
    TRY(session_explain(opened, &in, &(explain_options){.rank = 0}, &j->explained, e));
done:
    session_inputs_close(&in);
    job_close(opened);
    return result;
}

trm_status trm_job_explain(trm_job *j, const char **out, trm_error *error)
{
    err e = {.code = OK};
    status result = explain(j, &e);
    *out = result == OK ? j->explained.chars : NULL;
    return api_give(result, &e, error);
}
