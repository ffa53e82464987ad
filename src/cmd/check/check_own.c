// check_own.c -- the steps of `trireme translate --check` under Trireme: the job of the file and the keys, in a temporary
// folder, with the order of tokens that the original can follow and without dropout, whose random numbers no two systems
// share. It knows nothing of the original but what both must have: a folder of weights, the adapter that Trireme has
// drawn, and one pair of token shards or one file of samples, which the original encodes by itself.
#include "cmd/check/check.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "cmd/cmd.h"
#include "data/samples/samples.h"
#include "session/run.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OWN_ARGUMENTS = 12 };

// The adapter as it was drawn, which the original takes over, in the temporary folder.
#define FIRST_CHECKPOINT "/own/checkpoints/step-00000000"

// ---- The model without dropout

static bool drops(const model_config *c)
{
    return c->dropout.embed > 0 || c->dropout.attention > 0 || c->dropout.residual > 0;
}

// Writes a copy of a config.json in which the probabilities of dropout are 0.
static status write_config(const char *from, const char *to, err *e)
{
    status result = OK;
    char *chars = NULL, *out = NULL;
    size_t bytes = 0;
    const char *name;
    json_error_t problem;
    json_t *root = NULL, *value;
    TRY(file_read_small(from, FILE_MOST_CONFIG, &chars, &bytes, e));
    root = json_load_python(chars, bytes, 0, &problem);
    if (!json_is_object(root)) FAIL(E_USAGE, "%s is not a JSON object", from);
    json_object_foreach(root, name, value) if (strstr(name, "drop") && json_is_number(value))
        json_object_set_new(root, name, json_real(0));
    out = json_dumps(root, JSON_INDENT(2));
    if (!out) FAIL(E_MEMORY, "no memory for a copy of %s", from);
    TRY(file_replace(to, out, strlen(out), e));
done:
    json_decref(root);
    free(chars);
    free(out);
    return result;
}

// Makes c->folder/model: links to the files of `from`, and a config.json without dropout.
static status make_model(check *c, const char *from, char **out, err *e)
{
    status result = OK;
    char *file = NULL, *link = NULL;
    DIR *d = NULL;
    TRY(file_join(c->folder, "model", out, e));
    TRY(file_make_directories(*out, e));
    d = opendir(from);
    for (struct dirent *entry = d ? readdir(d) : NULL; entry; entry = readdir(d)) {
        if (entry->d_name[0] == '.') continue;
        TRY(file_join(from, entry->d_name, &file, e));
        TRY(file_join(*out, entry->d_name, &link, e));
        if (strcmp(entry->d_name, "config.json") == 0)
            TRY(write_config(file, link, e));
        else if (symlink(file, link) != 0)
            FAIL(E_IO, "cannot make the link %s", link);
        free(file);
        free(link);
        file = link = NULL;
    }
done:
    if (d) closedir(d);
    free(file);
    free(link);
    return result;
}

// ---- The job

// E_USAGE where the original could not have the model, the tokens or the ranks of the job.
static status check_job(const check *c, const job *j, err *e)
{
    for (int a = 0; a < AXES; a++)
        if (!(AXES_DATA & MESH_AXIS(a)) && j->parallel.size[a] > 1)
            return err_set(e, E_USAGE,
                           "--check: found parallel.%s %d; valid: 1, because the original runs "
                           "data parallel only",
                           axis_name((axis)a), j->parallel.size[a]);
    if (j->parallel.batch_split)
        return err_set(e, E_USAGE,
                       "--check: found parallel.batch_split; valid: even, because all ranks of the "
                       "original have equal micro-batches");
    if (!j->model.path || !j->model.has_weights)
        return err_set(e, E_USAGE,
                       "--check: model.path must be a folder with weights, which both read");
    if (j->data.trains != 1 || strcmp(j->data.train[0].path, "mock") == 0 ||
        (samples_is_jsonl(j->data.train[0].path) && !c->of->reads_samples))
        return err_set(e, E_USAGE,
                       "--check: data.train must be the prefix of one pair of token shards%s",
                       c->of->reads_samples ? ", or one file *.jsonl" : "");
    return OK;
}

// The job before the temporary folder is known: its model's folder, or the copy without dropout.
static status find_model(check *c, int argc, char **argv, char **out, err *e)
{
    status result = OK;
    job *j = NULL;
    TRY(job_open(NULL, argc - 1, argv + 1, &j, e));
    TRY(check_job(c, j, e));
    c->has_samples = samples_is_jsonl(j->data.train[0].path);
    c->has_adapter = j->lora.how.rank > 0;
    c->without_dropout = drops(&j->model.config) || j->lora.how.dropout > 0;
    if (drops(&j->model.config))
        TRY(make_model(c, j->model.path, out, e));
    else
        TRY(text_copy(j->model.path, out, e));
done:
    job_close(j);
    return result;
}

// The members of the file that original.py reads. `rates` and `result` follow later.
static status make_request(check *c, const job *j, err *e)
{
    status result = OK;
    const optim_config *o = &j->optimizer;
    text adapter = {0};
    if (c->has_adapter) text_addf(&adapter, "%s" FIRST_CHECKPOINT, c->folder);
    TRY(text_check(&adapter, e));
    c->request = json_pack(
        "{s:s, s:s, s:s?, s:b, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:f, s:I, s:I, "
        "s:{s:s, s:f, s:f, s:f, s:f, s:f, s:b}}",
        "system", c->q->from, "loss", job_loss_name(j), "adapter", adapter.chars, "has_samples",
        (int)c->has_samples, "file", json_of_text(c->q->file), "model", json_of_text(j->model.path),
        "data", json_of_text(j->data.train[0].path), "seq_len", (json_int_t)j->data.seq_len,
        "steps", (json_int_t)c->steps, "global_batch", (json_int_t)j->train.global_batch,
        "micro_batch", (json_int_t)j->train.micro_batch, "accumulation",
        (json_int_t)c->accumulation, "precision", c->precision, "device", j->launch.device, "clip",
        j->train.clip_grad_norm, "warmup_steps", (json_int_t)lr_warmup_length(&j->lr),
        "total_steps", (json_int_t)j->lr.total_steps, "optimizer", "name", OPTIM_NAMES[o->rule],
        "lr", o->lr, "beta1", o->beta1, "beta2", o->beta2, "eps", o->eps, "weight_decay",
        o->weight_decay, "decay_all", (int)o->decay_all);
    if (!c->request) FAIL(E_MEMORY, "no memory for the request of the original");
done:
    text_clear(&adapter);
    return result;
}

static status describe(check *c, const job *j, err *e)
{
    const int64_t rows = j->train.micro_batch * j->launch.ranks;
    c->ranks = j->launch.ranks;
    c->precision = dtype_name(job_dtype(j));
    c->reduction = dtype_name(j->strategy.reduce_dtype);
    c->accumulation = j->train.global_batch / rows;
    c->steps = c->q->steps < j->train.steps ? c->q->steps : j->train.steps;
    return make_request(c, j, e);
}

// ---- The steps

static status rank_check(session_rank *r, void *arg, err *e)
{
    status result = OK;
    const check *c = arg;
    check_side *own = c->own;
    const device *d = r->session.device;
    if (c->has_adapter) TRY(session_rank_save(r, e));
    for (int64_t i = 0; i < c->steps; i++) {
        trainer_step_result s;
        TRY(session_rank_step(r, &s, e));
        if (s.stop) FAIL(E_INTERRUPTED, "interrupted");
        if (r->rank > 0) continue;
        own->step[i] = (check_step){s.loss, s.grad_norm, s.lr};
        own->steps = i + 1;
    }
    const double bytes = d->is_host_memory
                             ? (double)proc_bytes("/proc/self/status", "VmHWM:")
                             : (double)plan_bytes(trainer_get_plan(r->session.trainer));
    if (r->rank == 0) own->peak_bytes = bytes;
done:
    return result;
}

static status train(check *c, int argc, char **argv, err *e)
{
    status result = OK;
    session_run r = {.began = clock_seconds(), .main = rank_check, .arg = c, .own_terminal = true};
    TRY(join_open(&r.join, argc, argv, e));
    TRY(cmd_open_job_own(argc, argv, &r.join.own, &r.job, e));
    TRY(session_inputs_open(r.job, &r.inputs, e));
    TRY(describe(c, r.job, e));
    TRY(session_run_claim(&r, e));
    TRY(session_run_ranks(&r, e));
done:
    result = session_run_end(&r, result, e);
    return join_end(&r.join, result, e);
}

// "translate --deepspeed FILE --key value … --train.out FOLDER …". Later arguments win.
status check_run_own(check *c, err *e)
{
    status result = OK;
    const int keys = c->q->keys;
    char *folder = NULL;
    text name = {0}, out = {0}, path = {0};
    char **argv = NULL;
    TRY(alloc_zeroed(&argv, (size_t)(keys + OWN_ARGUMENTS), sizeof *argv, "arguments", e));
    text_addf(&name, "--%s=%s", c->q->from, c->q->file);
    text_addf(&out, "--train.out=%s/own", c->folder);
    TRY(text_check(&name, e));
    TRY(text_check(&out, e));
    int argc = 0;
    argv[argc++] = "translate";
    argv[argc++] = name.chars;
    for (int i = 0; i < keys; i++) argv[argc++] = c->q->key[i];
    argv[argc++] = out.chars;
    argv[argc++] = "--data.order=sequential";
    argv[argc++] = "--launch.as=processes";
    argv[argc++] = "--train.eval_every=0";
    argv[argc++] = "--train.save_every=0";
    argv[argc++] = "--quiet";
    TRY(find_model(c, argc, argv, &folder, e));
    if (c->has_samples) argv[argc++] = "--data.packing=none"; // no two systems fill rows alike
    if (c->has_adapter) argv[argc++] = "--lora.dropout=0";
    text_addf(&path, "--model.path=%s", folder);
    TRY(text_check(&path, e));
    argv[argc++] = path.chars;
    TRY(train(c, argc, argv, e));
done:
    text_clear(&name);
    text_clear(&out);
    text_clear(&path);
    free(folder);
    free(argv);
    return result;
}
