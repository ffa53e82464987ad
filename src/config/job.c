// job.c -- opens a job: collects the settings, sets every key, reads the model, checks all.
// Commands that take a job file call it. It does not know how values are written (values.c) nor
// which keys there are (job_keys.c). See job.h.
#include "config/job.h"

#include "base/alloc.h"
#include "config/environment.h"
#include "config/private.h"
#include "config/values.h"

#include <stdlib.h>
#include <string.h>

enum { MOCK_SAMPLES = 65536 };

static status set_row(job *j, const char *path, err *e)
{
    const setting *s = settings_of(j->values, path);
    const job_key *k = key_find(path);
    status result = OK;
    yaml_node *fallback = NULL;
    if (s->value && k->type == KEY_GROUPS && s->value->kind == NODE_LIST) {
        TRY(groups_set(j, s->value, e));
    } else if (s->value) {
        result = value_set(j, k, s->value, e);
        if (result != OK) setting_prefix(j->values, s, e);
    } else if (k->fallback) {
        TRY(yaml_node_scalar(k->fallback, 0, &fallback, e));
        TRY(value_set(j, k, fallback, e));
    }
done:
    yaml_node_free(fallback);
    return result;
}

// Sets train.out to runs/ and the name of the job file.
static status set_default_out(job *j, err *e)
{
    status result = OK;
    const char *file = j->values->file ? j->values->file : "job";
    const char *slash = strrchr(file, '/');
    text out = {0};
    const char *name = slash ? slash + 1 : file;
    const char *dot = strrchr(name, '.');
    size_t bytes = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    text_add(&out, "runs/");
    text_add_bytes(&out, name, bytes);
    free(j->train.out);
    free(j->dpo.reference);
    free(j->kto.reference);
    j->train.out = NULL;
    TRY(text_check(&out, e));
    TRY(value_absolute(out.chars, &j->train.out, e));
done:
    text_clear(&out);
    return result;
}

void optimizer_set_defaults(optim_config *c)
{
    const optim_rule *r = optim_rule_of(c);
    c->beta1 = r->beta1;
    c->beta2 = r->beta2;
    c->eps = r->eps;
    c->weight_decay = r->weight_decay;
}

// Sets every key from its setting or its default. optimizer.name and lr_schedule.name come first, because
// defaults of other keys depend on them.
status job_set_all(job *j, err *e)
{
    status result = OK;
    lr_defaults(&j->lr);
    scaler_defaults(&j->train.fp16);
    TRY(set_row(j, "optimizer.name", e));
    optimizer_set_defaults(&j->optimizer);
    TRY(set_row(j, "lr_schedule.name", e));
    if (j->lr.name == LR_CONSTANT) j->lr.warmup_steps = 0;
    TRY(set_default_out(j, e));
    for (int i = 0; i < JOB_KEY_COUNT; i++) TRY(set_row(j, JOB_KEYS[i].path, e));
    if (!j->train.steps && j->train.epochs == 0 && !j->train.tokens) j->train.steps = 1000;
done:
    return result;
}

status job_start(const char *file, const job_own *own, job **out, err *e)
{
    status result = OK;
    job *j = NULL;
    TRY(alloc_zeroed(&j, 1, sizeof *j, "the job", e));
    TRY(settings_open(file, &j->values, e));
    j->values->by_calls = own->by_calls;
    j->own = *own;
    j->data.mock_samples = MOCK_SAMPLES;
    *out = j;
    j = NULL;
done:
    job_close(j);
    return result;
}

status job_new(const char *file, job **out, err *e)
{
    status result = OK;
    job *j = NULL;
    TRY(job_start(file, &(job_own){.model = false}, &j, e));
    TRY(job_set_all(j, e));
    *out = j;
    j = NULL;
done:
    job_close(j);
    return result;
}

static status set_resume(job *j, const char *word, err *e)
{
    if (!word || strcmp(word, "auto") == 0) {
        j->resume = RESUME_AUTO;
    } else if (strcmp(word, "never") == 0) {
        j->resume = RESUME_NEVER;
    } else {
        j->resume = RESUME_FROM;
        return value_absolute(word, &j->resume_from, e);
    }
    return OK;
}

status job_open(const char *path, int argc, char *const *argv, job **out, err *e)
{
    return job_open_own(path, argc, argv, &(job_own){.model = false}, out, e);
}

// Each call overrides those before it. Configurations of other systems were read before.
static status read_calls(job *j, const job_call *call, int calls, err *e)
{
    status result = OK;
    setting_flags flags = {.resume = NULL};
    for (int i = 0; i < calls; i++)
        if (call[i].kind == JOB_CALL_YAML)
            TRY(settings_read_yaml(j->values, call[i].text, e));
        else if (call[i].kind == JOB_CALL_GROUP)
            TRY(settings_add_group(j->values, call[i].text, e));
        else if (call[i].kind == JOB_CALL_OPTION)
            TRY(settings_read_args(j->values, 1, &call[i].text, &flags, e));
done:
    return result;
}

static status read_theirs(job *j, const job_theirs *x, err *e)
{
    const dialect *d = dialect_find(x->dialect);
    return dialect_read_over(d, x->file, x->argc, x->argv, &j->values->theirs, e);
}

static status read_dialect_calls(job *j, const job_call *call, int calls, err *e)
{
    status result = OK;
    for (int i = 0; i < calls; i++)
        if (call[i].kind == JOB_CALL_DIALECT)
            TRY(settings_read_dialects(j->values, 1, &call[i].text, e));
        else if (call[i].kind == JOB_CALL_DIALECT_TEXT)
            TRY(settings_read_dialect_text(j->values, call[i].text, e));
done:
    return result;
}

// What configurations of other systems ask for, and has no equal.
static void warn_of_lost(job *j)
{
    const translation *t = &j->values->theirs;
    for (size_t i = 0; i < t->remarks; i++)
        if (t->remark[i].lost) text_addf(&j->warnings, "%s\n", t->remark[i].text);
}

status job_open_own(const char *path, int argc, char *const *argv, const job_own *own, job **out,
                    err *e)
{
    status result = OK;
    job *j = NULL;
    setting_flags flags = {.resume = NULL};
    TRY(job_start(path, own, &j, e));
    TRY(environment_read(j->values, e));
    TRY(settings_read_dialects(j->values, argc, argv, e));
    if (own->theirs) TRY(read_theirs(j, own->theirs, e));
    TRY(read_dialect_calls(j, own->call, own->calls, e));
    TRY(settings_take_dialects(j->values, true, e));
    if (path) TRY(settings_read_file(j->values, e));
    TRY(settings_take_dialects(j->values, false, e));
    TRY(settings_read_args(j->values, argc, argv, &flags, e));
    TRY(read_calls(j, own->call, own->calls, e));
    TRY(job_set_all(j, e));
    TRY(job_read_model(j, e));
    TRY(job_read_lora(j, e));
    TRY(job_check(j, e));
    warn_of_lost(j);
    TRY(set_resume(j, flags.resume, e));
    j->quiet = flags.quiet;
    j->overwrite = flags.overwrite;
    j->json = flags.json;
    *out = j;
    j = NULL;
done:
    job_close(j);
    return result;
}

status job_check_settings(const char *path, const job_call *call, int calls, err *e)
{
    status result = OK;
    job *j = NULL;
    TRY(job_start(path, &(job_own){.by_calls = true}, &j, e));
    TRY(read_dialect_calls(j, call, calls, e));
    TRY(settings_take_dialects(j->values, true, e));
    if (path) TRY(settings_read_file(j->values, e));
    TRY(settings_take_dialects(j->values, false, e));
    TRY(read_calls(j, call, calls, e));
    TRY(job_set_all(j, e));
done:
    job_close(j);
    return result;
}

dtype job_dtype(const job *j)
{
    return j->train.precision == PRECISION_TF32 ? F32 : (dtype)j->train.precision;
}

const char *job_precision_name(const job *j)
{
    return TRAIN_PRECISIONS[j->train.precision];
}

const char *job_loss_name(const job *j)
{
    return TRAIN_LOSSES[j->train.loss];
}

void job_record_prefix(const job *j, text *out)
{
    if (j->checks.record_prefix)
        text_add(out, j->checks.record_prefix);
    else
        text_addf(out, "%s/flight_recorder/rank_", j->train.out);
}

void job_close(job *j)
{
    if (!j) return;
    for (int i = 0; i < JOB_KEY_COUNT; i++) value_free(j, &JOB_KEYS[i]);
    settings_free(j->values);
    free((int *)j->strategy.pipeline.chunk_blocks);
    free(j->resume_from);
    free(j->launch.passed);
    text_clear(&j->warnings);
    text_clear(&j->notes);
    free(j);
}
