// job_check.c -- checks that keys agree with each other, and resolves keys that follow from others.
// job_open calls it last. Each error names one key, its origin and the valid values.
#include "base/proc.h"
#include "config/keys.h"
#include "config/private.h"
#include "config/values.h"
#include "device/device.h"
#include "device/hardware.h"
#include "model/model.h"

#include <string.h>

static bool given(const job *j, const char *path)
{
    return setting_is_given(settings_of(j->values, path));
}

static const char *const LENGTHS[] = {"train.steps", "train.epochs", "train.tokens"};

// Only one of steps, epochs and tokens may be given. One on the command line replaces the file's.
static status check_length(job *j, err *e)
{
    status result = OK;
    const char *chosen = NULL;
    setting_origin strongest = ORIGIN_DEFAULT;
    for (int i = 0; i < 3; i++) {
        const setting *s = settings_of(j->values, LENGTHS[i]);
        if (s->from > strongest) strongest = s->from;
    }
    for (int i = 0; i < 3; i++) {
        setting *s = &j->values->rows[key_index(LENGTHS[i])];
        if (!setting_is_given(s)) continue;
        if (s->from == strongest && chosen)
            KEY_ERROR(LENGTHS[i],
                      "%s is given too; valid: one of train.steps, train.epochs and "
                      "train.tokens",
                      chosen);
        if (s->from == strongest)
            chosen = LENGTHS[i];
        else
            setting_drop(s);
    }
    if (!given(j, "train.epochs")) j->train.epochs = 0;
    if (!given(j, "train.tokens")) j->train.tokens = 0;
    if (chosen && !given(j, "train.steps")) j->train.steps = 0;
    if (j->train.tokens && !j->own.model && j->model.config.family->reads_vectors)
        KEY_ERROR("train.tokens",
                  "%s reads vectors, not tokens; valid: train.steps or train.epochs",
                  j->model.config.family->name);
done:
    return result;
}

status job_check_applies(job *j, err *e)
{
    status result = OK;
    for (int i = 0; i < JOB_KEY_COUNT; i++) {
        const job_key *k = &JOB_KEYS[i];
        if (!given(j, k->path) || key_applies(k, j)) continue;
        if (settings_of(j->values, k->path)->from == ORIGIN_DIALECT) {
            setting_drop(&j->values->rows[i]);
            continue;
        }
        if (strncmp(k->path, "lora.", 5) == 0)
            KEY_ERROR(k->path,
                      "given without lora.rank; valid: with lora.rank, as 16, or lora.start");
        if (k->schedules)
            KEY_ERROR(k->path, "not a parameter of the schedule %s (lr_schedule.name)",
                      LR_LABELS[j->lr.name]);
        if (k->rules)
            KEY_ERROR(k->path, "not a parameter of the optimizer %s (optimizer.name)",
                      OPTIM_NAMES[j->optimizer.rule]);
        if (k->hooks)
            KEY_ERROR(k->path, "not a parameter of the hook %s (parallel.hook.name)",
                      HOOK_NAMES[j->strategy.hook.kind]);
        if (k->precisions)
            KEY_ERROR(k->path, "not a parameter of the precision %s (train.precision); valid: fp16",
                      job_precision_name(j));
        if (k->losses)
            KEY_ERROR(k->path, "not a parameter of the loss %s (train.loss)", job_loss_name(j));
    }
    if (j->lr.name == LR_ONE_CYCLE && !given(j, "lr_schedule.cycle_min_lr"))
        KEY_ERROR("lr_schedule.cycle_min_lr", "not given; OneCycle needs it");
    if (j->lr.name == LR_ONE_CYCLE && !given(j, "lr_schedule.cycle_max_lr"))
        KEY_ERROR("lr_schedule.cycle_max_lr", "not given; OneCycle needs it");
done:
    return result;
}

// Data that the program brings exclude the keys that name data.
static status check_own_data(job *j, err *e)
{
    status result = OK;
    const char *const OWN = "given, but the program brings these data; valid: one of the two";
    if (j->own.train && j->data.trains) KEY_ERROR("data.train", "%s", OWN);
    if (j->own.valid && j->data.valids) KEY_ERROR("data.valid", "%s", OWN);
    if (!j->own.train) goto done;
    if (given(j, "data.seq_len") && j->data.seq_len != j->own.positions)
        KEY_ERROR("data.seq_len", "found %lld; a sample of the program's data has %lld positions",
                  (long long)j->data.seq_len, (long long)j->own.positions);
    j->data.seq_len = j->own.positions;
done:
    return result;
}

// A run without evaluations knows no best checkpoint.
static status check_best(const job *j, err *e)
{
    status result = OK;
    const char *const NONE =
        "the run makes no evaluations; valid: with data.valid, and train.eval_every above 0";
    const bool evaluates = (j->own.valid || j->data.valids) && j->train.eval_every > 0;
    if (j->train.keep_best && !evaluates) KEY_ERROR("train.keep_best", "found true; %s", NONE);
    if (j->train.early_stopping.patience > 0 && !evaluates)
        KEY_ERROR("train.early_stopping.patience", "found %lld; %s",
                  (long long)j->train.early_stopping.patience, NONE);
done:
    return result;
}

static status check_data(job *j, err *e)
{
    status result = OK;
    const model_config *c = &j->model.config;
    TRY(check_own_data(j, e));
    TRY(check_best(j, e));
    if (!j->own.train && !j->data.trains)
        KEY_ERROR("data.train",
                  "not given; valid: PREFIX of token shards, a *.safetensors file, mock, "
                  "FILE.jsonl, or a list of {path, weight, documents, format}");
    if (j->own.model) goto done; // tracing the model checks its sequence length
    if (c->family->reads_vectors) {
        if (given(j, "data.seq_len") && j->data.seq_len != 1)
            KEY_ERROR("data.seq_len", "found %lld; %s reads vectors, valid: 1",
                      (long long)j->data.seq_len, c->family->name);
        j->data.seq_len = 1;
        goto done;
    }
    const bool too_long = j->data.seq_len > c->max_seq;
    if (too_long && !given(j, "data.seq_len") && !j->own.train)
        j->data.seq_len = c->max_seq;
    else if (too_long && !model_config_stretches(c))
        KEY_ERROR("data.seq_len", "found %lld; valid: up to the model's max_seq, which is %lld",
                  (long long)j->data.seq_len, (long long)c->max_seq);
done:
    return result;
}

// Refuses paths that job.yaml cannot hold. A relative path may start in a folder whose name is not
// UTF-8.
static status check_paths(const job *j, err *e)
{
    status result = OK;
    for (int i = 0; i < JOB_KEY_COUNT; i++) {
        const job_key *k = &JOB_KEYS[i];
        size_t byte;
        if (k->type == KEY_PATH) {
            const char *path = *(char *const *)((const char *)j + k->offset);
            if (path && !text_is_utf8(path, strlen(path), &byte))
                KEY_ERROR(k->path, "the path is not UTF-8 at byte %zu; valid: UTF-8", byte);
        } else if (k->type == KEY_PARTS) {
            const dataset_source *part = *(dataset_source *const *)((const char *)j + k->offset);
            size_t count = *(const size_t *)((const char *)j + k->count_offset);
            for (size_t p = 0; p < count; p++)
                if (!text_is_utf8(part[p].path, strlen(part[p].path), &byte))
                    KEY_ERROR(k->path, "the path is not UTF-8 at byte %zu; valid: UTF-8", byte);
        }
    }
done:
    return result;
}

// Replaces the word of launch.device by the name of a device. A user who has no GPU is not told of one.
static status resolve_device(job *j, err *e)
{
    status result = OK;
    err why = {.code = OK};
    const char *name =
        j->own.planned ? j->own.planned->device.name : device_resolve(j->launch.device, &why);
    if (why.code != OK) TRY(text_copy(why.text, &j->launch.passed, e));
    if (why.code != OK && hardware_has_nvidia(""))
        text_addf(&j->notes, "%s; launch.device auto takes %s\n", why.text, name);
    free(j->launch.device);
    j->launch.device = NULL;
    TRY(text_copy(name, &j->launch.device, e));
done:
    return result;
}

// A planned machine may leave open what this program knows of the kernels of such a device.
static status describe_planned(const job *j, device_description *out, err *e)
{
    device_description known;
    const device_description *d = &j->own.planned->device;
    const status result = device_describe_absent(d->name, &known, e);
    if (result != OK) return result;
    *out = *d;
    if (!out->needs) out->needs = known.needs;
    if (!out->own_bytes) out->own_bytes = known.own_bytes;
    return OK;
}

status job_describe_device(const job *j, const device_options *o, device_description *out, err *e)
{
    if (j->own.planned) return describe_planned(j, out, e);
    if (j->own.only_plans && device_describe(j->launch.device, o, out, NULL) != OK)
        return device_describe_absent(j->launch.device, out, e);
    return device_describe(j->launch.device, o, out, e);
}

// Describes the device, and refuses a precision that it does not have.
static status describe_device(job *j, device_description *out, err *e)
{
    status result = job_describe_device(j, NULL, out, e);
    if (result != OK) {
        setting_prefix(j->values, settings_of(j->values, "launch.device"), e);
        goto done;
    }
    if (*out->note) text_add(&j->notes, out->note);
    if (j->train.precision == PRECISION_TF32 && !out->has_tf32)
        KEY_ERROR("train.precision",
                  "found tf32, which the device %s does not have; valid: fp32, bf16, fp16, or "
                  "launch.device cuda",
                  out->name);
done:
    return result;
}

// As many ranks as auto starts: one for each GPU, or for each core of those that a rank takes.
static int ranks_at_once(const job *j, const device_description *d, int all, int threads)
{
    const job_planned *p = j->own.planned;
    if (p) return p->ranks_per_host * (p->hosts > 0 ? p->hosts : 1);
    if (!d->is_host_memory) return d->count;
    return threads > 1 ? all / threads : all;
}

static void warn_of_shared(job *j, const device_description *d)
{
    const int ranks = job_local_ranks(j);
    if (j->own.only_plans || d->is_host_memory || ranks <= d->count) return;
    text_addf(
        &j->warnings,
        "launch.ranks is %d, more than the %d device%s %s of this process; ranks share them%s\n",
        ranks, d->count, d->count == 1 ? "" : "s", d->name,
        j->launch.as_threads ? ", and as threads they may wait for each other for ever; valid: "
                               "launch.as processes"
                             : "");
}

// The job may not ask for other ranks than another launcher has started.
static status check_launcher(const job *j, err *e)
{
    status result = OK;
    if (!j->own.launcher) return OK;
    if (j->launch.ranks && j->launch.ranks != j->own.ranks)
        KEY_ERROR("launch.ranks",
                  "found %d; valid: auto, or %d, the ranks of the run that %s has started",
                  j->launch.ranks, j->own.ranks, j->own.launcher);
    if (j->launch.as_threads)
        KEY_ERROR("launch.as",
                  "found threads; valid: processes, because %s has started several processes",
                  j->own.launcher);
done:
    return result;
}

// Ranks fill one host of the planned machine after the other.
static status check_planned(job *j, err *e)
{
    status result = OK;
    const job_planned *p = j->own.planned;
    if (!p) return OK;
    if (p->hosts > 0 && j->launch.ranks > p->hosts * p->ranks_per_host)
        KEY_ERROR("launch.ranks",
                  "found %d; valid on this cluster: auto, or 1 to %d, %d on each host",
                  j->launch.ranks, p->hosts * p->ranks_per_host, p->ranks_per_host);
    j->own.ranks = j->launch.ranks;
    j->own.local_ranks = j->launch.ranks < p->ranks_per_host ? j->launch.ranks : p->ranks_per_host;
done:
    return result;
}

// What programs of TensorFlow print as strategy.num_replicas_in_sync.
static void note_devices(job *j, const mesh *m)
{
    const setting *dp = settings_of(j->values, "parallel.dp");
    const char *word = dp->value && dp->value->kind == NODE_SCALAR ? dp->value->scalar : "";
    if (value_same_word(word, "MirroredStrategy") || value_same_word(word, "mirrored") ||
        value_same_word(word, "MultiWorkerMirroredStrategy"))
        text_addf(&j->notes, "Number of devices: %d\n", mesh_data_ranks(m));
}

// The keys of which a mesh follows.
static const char *const MESH_KEYS[] = {"launch.ranks",
                                        "parallel.dp_shard",
                                        "parallel.dp_replicate",
                                        "parallel.tp",
                                        "parallel.pp",
                                        "parallel.cp",
                                        NULL};

static status resolve_launch(job *j, err *e)
{
    status result = OK;
    int all = proc_usable_cores(), threads = j->launch.threads_per_rank;
    mesh m;
    device_description about;
    TRY(resolve_device(j, e));
    TRY(describe_device(j, &about, e));
    TRY(check_launcher(j, e));
    if (!j->launch.ranks) j->launch.ranks = j->own.ranks;
    if (!j->launch.ranks)
        j->launch.ranks = batch_auto_ranks(j, ranks_at_once(j, &about, all, threads));
    TRY(check_planned(j, e));
    warn_of_shared(j, &about);
    if (!threads) j->launch.threads_per_rank = all / job_local_ranks(j);
    if (!j->launch.threads_per_rank) j->launch.threads_per_rank = 1;
    if (threads > all) {
        text_addf(&j->warnings,
                  "launch.threads_per_rank is %d, more than the cores that this process may use; "
                  "each rank uses %d\n",
                  threads, all);
        j->launch.threads_per_rank = all;
    }
    result = job_solve_mesh(j, j->launch.ranks, &m, e);
    if (result != OK) setting_place_first(j->values, MESH_KEYS, e);
    if (result != OK) goto done;
    TRY(batch_take_split(j, &m, e));
    TRY(batch_take_accumulation(j, &m, e));
    if (j->train.micro_batch > j->train.global_batch)
        KEY_ERROR("train.micro_batch",
                  "found %lld; valid: at most train.global_batch, which is %lld",
                  (long long)j->train.micro_batch, (long long)j->train.global_batch);
    TRY(batch_check(j, &m, e));
    TRY(job_check_micros(j, &m, e));
    note_devices(j, &m);
done:
    return result;
}

// Shares of swapped answers that a loss cannot have.
static status check_smoothing(const job *j, err *e)
{
    status result = OK;
    const char *type = DPO_LOSSES[j->dpo.kind];
    if (j->train.loss != LOSS_DPO) goto done;
    if (strcmp(type, "robust") == 0 && j->dpo.smoothing >= 0.5)
        KEY_ERROR("dpo.label_smoothing", "found %g; valid for robust: a number below 0.5",
                  j->dpo.smoothing);
    if (strcmp(type, "exo_pair") == 0 && j->dpo.smoothing <= 0)
        KEY_ERROR("dpo.label_smoothing", "found %g; valid for exo_pair: a number above 0, as 1e-3",
                  j->dpo.smoothing);
done:
    return result;
}

// Only frozen weights are packed: an update needs all bits of a weight.
static status check_storage(const job *j, err *e)
{
    status result = OK;
    bool frozen = j->lora.how.rank > 0; // the base
    for (int i = 0; i < j->groups; i++) frozen = frozen || j->group[i].value.frozen;
    if (j->model.storage == STORAGE_NF4 && !frozen)
        KEY_ERROR("model.storage", "found nf4, which keeps frozen weights, but all weights train; "
                                   "valid: auto, lora.rank, or an entry of groups with "
                                   "trainable: false");
done:
    return result;
}

status job_check(job *j, err *e)
{
    status result = OK;
    TRY(check_length(j, e));
    TRY(job_check_applies(j, e));
    TRY(check_paths(j, e));
    TRY(check_data(j, e));
    TRY(job_check_parallel(j, e));
    TRY(job_check_groups(j, e));
    TRY(check_storage(j, e));
    TRY(check_smoothing(j, e));
    TRY(resolve_launch(j, e));
done:
    return result;
}
