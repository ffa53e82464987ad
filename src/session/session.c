// session.c -- device, communicator and trainer of one rank. See session.h.
#include "session/session.h"

#include "session/plan/measure_split.h"
#include "session/preference/preference.h"

#include <stdlib.h>
#include <string.h>

// launch.comm is for several ranks.
static const char *communicator_of(const job *j, int ranks)
{
    const char *planned = j->own.planned ? j->own.planned->communicator : NULL;
    return ranks == 1 ? "auto" : planned ? planned : j->launch.comm;
}

// A plan may have more ranks than the communicator of this version takes.
static int ranks_described(const job *j, int ranks)
{
    return j->own.only_plans && ranks > 2 ? 2 : ranks;
}

status session_describe_communicator(const job *j, int ranks, comm_description *out, err *e)
{
    const bool is_far = j->own.local_ranks < j->own.ranks;
    return comm_describe(communicator_of(j, ranks), ranks_described(j, ranks), is_far,
                         !j->strategy.offload.host_is_apart, out, e);
}

static graph_loss_options session_loss(const job *j, const dataset *train, double labelled)
{
    graph_loss_options o = {.preference = session_preference(j), .labelled = labelled};
    if (!train || train->shape.label_type != I32) return o;
    o.packs = train->shape.documents || train->shape.unlabelled;
    o.weighted = train->shape.extras == 1;
    return o;
}

status session_options(const job *j, const session_inputs *in, int ranks, trainer_options *out,
                       err *e)
{
    status result = OK;
    param_group *groups = NULL;
    int count;
    comm_description described;
    const dataset *shown = in->train ? in->train : in->valid;
    *out = (trainer_options){.family = in->family,
                             .config = in->config,
                             .place = {.needs = in->needs},
                             .strategy = j->strategy,
                             .precision = job_dtype(j),
                             .storage = j->model.storage,
                             .numerics = {.tf32 = j->train.precision == PRECISION_TF32,
                                          .any_order = !j->train.deterministic},
                             .scaler = j->train.fp16,
                             .micro_batch = j->train.micro_batch,
                             .global_batch = j->train.global_batch,
                             .seq_len = in->seq_len,
                             .documents = shown && shown->shape.documents,
                             .loss = session_loss(j, shown, in->labelled),
                             .seed = j->train.seed,
                             .optimizer = j->optimizer,
                             .lr = j->lr,
                             .clip_grad_norm = j->train.clip_grad_norm,
                             .norm_by_group = j->observe.grad_norm_by_group,
                             .checks = {.skip_nonfinite = j->checks.nonfinite == NONFINITE_SKIP,
                                        .replicas_every = j->checks.replicas_every,
                                        .issues_every_step = !j->launch.cuda_graphs},
                             .train = in->train,
                             .valid = in->valid,
                             .copies_saves = j->train.async_save,
                             .predicts = in->predicts,
                             .lora = j->lora.how.rank > 0 ? &j->lora.how : NULL,
                             .order = j->data.order};
    TRY(session_describe_communicator(j, ranks, &described, e));
    trainer_take_capabilities(out, &described.can);
    TRY(job_solve_mesh(j, ranks, &out->mesh, e));
    TRY(job_check_split(j, &out->mesh, e));
    out->batch_split = job_batch_split(j, &out->mesh).of;
    out->optimizer.lr = lr_scale(j->optimizer.lr, j->scaling, mesh_data_ranks(&out->mesh));
    if (!j->groups && !out->lora) goto done;
    TRY(job_solve_groups(j, &groups, &count, e));
    for (int i = 0; i < count; i++) groups[i].optimizer.lr = out->optimizer.lr;
    out->groups = (param_groups){.items = groups, .count = count};
done:
    return result;
}

void session_options_clear(trainer_options *o)
{
    free((param_group *)o->groups.items);
    o->groups = (param_groups){.items = NULL};
}

// Local ranks take the devices of the machine in turn.
static status open_device(const job *j, const world *w, int rank, device **out, err *e)
{
    status result = OK;
    device_description described;
    const int local_rank = rank - w->first_rank;
    device_options o = {
        .threads = j->launch.threads_per_rank, .local_rank = local_rank, .local_ranks = w->ranks};
    TRY(device_describe(j->launch.device, &o, &described, e));
    o.index = local_rank % described.count;
    TRY(device_open(j->launch.device, &o, out, e));
done:
    return result;
}

// Opens the device of the host's own processor where updates run there.
static status open_host(const job *j, device **out, err *e)
{
    const device_options o = {.threads = j->launch.threads_per_rank};
    const bool needed = j->strategy.offload.updates_on_host && j->strategy.offload.host_is_apart;
    return needed ? device_open("cpu", &o, out, e) : OK;
}

// The files of the weights are mapped only while the trainer loads them. A file that stays mapped would
// stay in each rank's memory, which the plan does not count.
static status open_trainer(const job *j, session *s, err *e)
{
    status result = OK;
    safetensors *weights = NULL;
    model_adapter *adapter = NULL;
    if (j->model.has_weights) TRY(safetensors_open_weights(j->model.path, &weights, e));
    if (j->lora.start) TRY(model_adapter_open(j->lora.start, &adapter, e));
    s->options.weights = weights;
    s->options.adapter = adapter ? adapter->weights : NULL;
    TRY(trainer_open(&s->options, &s->trainer, e));
done:
    s->options.weights = s->options.adapter = NULL;
    model_adapter_close(adapter);
    safetensors_close(weights);
    return result;
}

static status open_split(const job *j, session *s, err *e)
{
    status result = OK;
    trainer_options *o = &s->options;
    if (!job_measures_split(j)) return OK;
    TRY(session_measure_split(j, &o->mesh, s->device, s->comm, &s->split, &s->split_note, e));
    o->batch_split = s->split;
done:
    return result;
}

status session_open(const job *j, const session_inputs *in, world *w, int rank, session *out,
                    err *e)
{
    status result = OK;
    trainer_options *o = &out->options;
    *out = (session){0};
    TRY(open_device(j, w, rank, &out->device, e));
    TRY(open_host(j, &out->host, e));
    comm_watchdog_set(w->watchdog, j->checks.watchdog_ms);
    comm_options how = comm_world_options(w, rank, out->device, j->checks.watchdog_ms);
    how.any_order = !j->train.deterministic;
    TRY(comm_open(communicator_of(j, w->all_ranks), how, &out->comm, e));
    TRY(session_options(j, in, out->comm->size, o, e));
    TRY(open_split(j, out, e));
    o->device = out->device;
    o->host = out->host;
    o->comm = out->comm;
    o->checks.activity = comm_watchdog_activity(w->watchdog, rank - w->first_rank);
    TRY(open_trainer(j, out, e));
done:
    return result;
}

status session_save(const session *s, const job *j, const session_inputs *in,
                    const char *config_json, const trainer_best *best, char **folder, err *e)
{
    status result = OK;
    static const char *const torch_dtypes[] = {
        [F32] = "float32", [BF16] = "bfloat16", [F16] = "float16"};
    char *generated = NULL;
    const session_adapter *adapter = in->adapter.config ? &in->adapter : NULL;
    if (adapter) config_json = adapter->config;
    if (!config_json) {
        const char *type = torch_dtypes[job_dtype(j)];
        TRY(in->folder ? model_folder_config(in->folder, type, &generated, e)
                       : model_config_write(&j->model.config, type, &generated, e));
        config_json = generated;
    }
    trainer_save_options o = {.out = j->train.out,
                              .fence = &in->fence,
                              .keep = j->train.keep,
                              .best = *best,
                              .keep_best = j->train.keep_best,
                              .config_json = config_json,
                              .tokenizer_folder = in->tokenizer_folder,
                              .folder = adapter ? NULL : in->folder,
                              .base_mark = adapter && adapter->has_mark ? &adapter->mark : NULL};
    if (j->train.async_save)
        TRY(trainer_save_begin(s->trainer, &o, e));
    else
        TRY(trainer_save(s->trainer, &o, folder, e));
done:
    free(generated);
    return result;
}

void session_abort(session *s, const err *why)
{
    if (s->comm) comm_abort(s->comm, why);
}

void session_close(session *s)
{
    trainer_close(s->trainer);
    session_options_clear(&s->options);
    free(s->split);
    free(s->split_note);
    comm_close(s->comm);
    device_close(s->host);
    device_close(s->device);
    *s = (session){0};
}
