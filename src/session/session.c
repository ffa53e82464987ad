// session.c -- one rank of a job: device, communicator, trainer. See session.h.
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

static graph_recompute recompute_of(const char *word)
{
    return strcmp(word, "full") == 0        ? RECOMPUTE_FULL
           : strcmp(word, "selective") == 0 ? RECOMPUTE_SELECTIVE
                                            : RECOMPUTE_NONE;
}

// Where and how everything lies and travels.
static void set_strategy(const job *j, trainer_options *out)
{
    bool pipeline = j->parallel.pp > 1;
    out->policies = j->parallel.dp;
    out->reshard = j->parallel.reshard_after_forward;
    out->sequence_parallel = j->parallel.sequence_parallel;
    out->pipeline = pipeline ? j->parallel.schedule : PIPE_1F1B;
    out->virtual_stages = pipeline ? j->parallel.virtual_stages : 1;
    out->split = pipeline ? j->parallel.blocks : NULL;
    out->bucket_bytes = j->parallel.bucket_bytes;
    out->hook = j->parallel.hook;
    out->reduce = j->train.reduce_dtype;
    memcpy(out->tier, j->parallel.tier, sizeof out->tier);
    out->tier_path = j->parallel.offload_path;
    out->tier_block_bytes = j->parallel.offload_block_bytes;
    out->tier_depth = j->parallel.offload_depth;
    out->recompute = recompute_of(j->parallel.recompute);
    out->zero_unused = strcmp(j->parallel.unused_parameters, "zero") == 0;
}

status session_options(const job *j, const session_inputs *in, int ranks, trainer_options *out,
                       err *e)
{
    status result = OK;
    *out = (trainer_options){.family = in->family,
                             .config = in->config,
                             .precision = j->train.precision,
                             .scaler = j->train.fp16,
                             .micro_batch = j->train.micro_batch,
                             .global_batch = j->train.global_batch,
                             .seq_len = in->seq_len,
                             .seed = j->train.seed,
                             .steps = (uint64_t)j->train.steps,
                             .optimizer = j->optimizer,
                             .lr = j->lr,
                             .clip_grad_norm = j->train.clip_grad_norm,
                             .skip_nonfinite = j->checks.nonfinite == NONFINITE_SKIP,
                             .replicas_every = j->checks.replicas_every,
                             .train = in->train,
                             .valid = in->valid,
                             .predicts = in->predicts,
                             .order = j->data.order,
                             .weights = in->weights};
    set_strategy(j, out);
    TRY(job_solve_mesh(j, ranks, &out->mesh, e));
    out->no_sync = job_sums_locally(j, &out->mesh);
    out->optimizer.lr = lr_scale(j->optimizer.lr, j->scaling, mesh_data_ranks(&out->mesh));
done:
    return result;
}

status session_open(const job *j, const session_inputs *in, world *w, int rank, session *out,
                    err *e)
{
    status result = OK;
    trainer_options o;
    device_options d = {.threads = j->launch.threads_per_rank};
    *out = (session){0};
    TRY(device_open(j->launch.device, &d, &out->device, e));
    TRY(world_attach(w, rank, out->device, &out->comm, e));
    world_set_watchdog(w, j->checks.watchdog_ms);
    TRY(session_options(j, in, out->comm->size, &o, e));
    o.device = out->device;
    o.comm = out->comm;
    o.activity = world_activity(w, rank);
    TRY(trainer_open(&o, &out->trainer, e));
done:
    return result;
}

status session_save(const session *s, const job *j, const session_inputs *in,
                    const char *config_json, char **folder, err *e)
{
    status result = OK;
    static const char *const words[] = {[F32] = "float32", [BF16] = "bfloat16", [F16] = "float16"};
    char *made = NULL;
    if (!config_json) {
        TRY(model_config_write(&j->model.config, words[j->train.precision], &made, e));
        config_json = made;
    }
    trainer_save_options o = {.out = j->train.out,
                              .keep = j->train.keep,
                              .config_json = config_json,
                              .tokenizer_folder = in->tokenizer_folder};
    TRY(trainer_save(s->trainer, &o, folder, e));
done:
    free(made);
    return result;
}

void session_abort(session *s, const err *why)
{
    if (s->comm) comm_abort(s->comm, why);
}

void session_close(session *s)
{
    trainer_close(s->trainer);
    comm_close(s->comm);
    device_close(s->device);
    *s = (session){0};
}
