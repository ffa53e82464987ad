// trainer.c -- opens and closes a trainer: traces the model, makes plan and schedules, allocates,
// fills the weights.
#include "base/file.h"
#include "base/size.h"
#include "train/state.h"

#include <stdlib.h>

static status open_model(const trainer_options *o, graph_mode mode, model **out, err *e)
{
    const int tp = o->mesh.size[AXIS_TP];
    const model_options m = {.mode = mode,
                             .type = o->precision,
                             .batch = o->micro_batch,
                             .seq = o->seq_len,
                             .recompute = o->strategy.recompute,
                             .tp = {.ranks = tp,
                                    .rank = mesh_at(&o->mesh, o->rank, AXIS_TP),
                                    .sequence = o->strategy.sequence_parallel && tp > 1},
                             .splits_backward =
                                 mode == GRAPH_TRAIN && o->mesh.size[AXIS_PP] > 1 &&
                                 pipeline_schedule_splits_backward(o->strategy.pipeline.schedule)};
    return model_open(o->family, o->config, &m, out, e);
}

static int micros_of(const trainer_options *o)
{
    return (int)(o->global_batch / mesh_data_ranks(&o->mesh) / o->micro_batch);
}

// ---- The plan

static plan_options plan_options_of(const trainer_options *o, const model *m)
{
    return (plan_options){.mesh = o->mesh,
                          .rank = o->rank,
                          .strategy = o->strategy,
                          .state_tensors = optim_state_tensors(&o->optimizer),
                          .compute = o->precision,
                          .decay_all = o->optimizer.decay_all,
                          .micros = micros_of(o),
                          .blocks = m->blocks};
}

static status make_plan(const trainer_options *o, const model *m, plan **out, err *e)
{
    status result = OK;
    plan_options options = plan_options_of(o, m);
    plan_param *p = calloc((size_t)m->params, sizeof *p);
    double *cost = calloc((size_t)m->blocks, sizeof *cost);
    int uses = 0;
    for (int b = 0; b < m->blocks; b++) uses += m->block[b].g->params;
    plan_use *use = calloc((size_t)uses + 1, sizeof *use);
    bool *in_place = calloc((size_t)m->blocks + 1, sizeof *in_place);
    if (!p || !cost || !use || !in_place) FAIL(E_IO, "no memory for the plan");
    for (int i = 0; i < m->params; i++) {
        const model_param *q = &m->param[i];
        p[i] = (plan_param){.name = q->name,
                            .rows = q->shard_rows,
                            .cols = q->shard_cols,
                            .is_matrix = q->decl->dims > 1,
                            .tp_sharded = q->tp_sharded,
                            .tp_partial = q->tp_partial};
    }
    for (int b = 0; b < m->blocks; b++) {
        cost[b] = model_block_flops(m, b);
        in_place[b] = m->block[b].g->input_grad_in_place;
        for (int i = 0; i < m->block[b].g->params; i++)
            use[options.uses++] = (plan_use){m->block[b].param[i], b};
    }
    options.cost = cost;
    options.use = use;
    options.input_grad_in_place = in_place;
    TRY(plan_make(&options, p, m->params, out, e));
done:
    free(p);
    free(cost);
    free(use);
    free(in_place);
    return result;
}

static status check_shapes(const model *m, const dataset *d, const char *which, err *e)
{
    if (!d) return OK;
    const graph *first = m->block[0].g, *last = m->block[m->blocks - 1].g;
    int64_t inputs = graph_value_rows(first->ids) * graph_value_cols(first->ids) / m->batch;
    int64_t labels = last->labels->dim[0] / m->batch;
    bool ids = first->ids->type == I32;
    if ((d->shape.input_type == I32) != ids)
        return err_set(e, E_USAGE, "%s: the data are %s, the model takes %s", which,
                       ids ? "vectors" : "tokens", ids ? "tokens" : "vectors");
    if (d->shape.inputs != inputs || d->shape.labels != labels)
        return err_set(
            e, E_USAGE,
            "%s: a sample has %lld inputs and %lld labels, the model takes %lld and %lld", which,
            (long long)d->shape.inputs, (long long)d->shape.labels, (long long)inputs,
            (long long)labels);
    if (d->shape.label_type != last->labels->type)
        return err_set(e, E_USAGE, "%s: labels are %s, the loss takes %s", which,
                       dtype_name(d->shape.label_type), dtype_name(last->labels->type));
    return OK;
}

// Models, plan, schedules: everything that a rank knows before it allocates.
static status prepare(trainer *t, const trainer_options *o, err *e)
{
    status result = OK;
    t->o = *o;
    t->micros = micros_of(o);
    TRY(open_model(o, GRAPH_TRAIN, &t->model, e));
    if (o->valid || o->predicts) TRY(open_model(o, GRAPH_EVAL, &t->eval, e));
    TRY(check_shapes(t->model, o->train, "data.train", e));
    TRY(check_shapes(t->model, o->valid, "data.valid", e));
    TRY(make_plan(o, t->model, &t->plan, e));
    TRY(schedule_make(t->plan, PASS_TRAIN, &t->schedule, e));
    if (t->eval) TRY(schedule_make(t->plan, PASS_EVAL, &t->forward, e));
    t->counting = true;
    TRY(trainer_allocate(t, e));
    if (!size_fits(plan_bytes(t->plan)))
        FAIL(E_FIT, "a rank needs more than 1 EiB; valid: smaller sizes of the model, a smaller "
                    "train.micro_batch, train.global_batch or data.seq_len");
    t->counting = false;
    TRY(trainer_count_traffic(t, e));
    for (int b = 0; b < t->model->blocks; b++)
        if (plan_has_block(t->plan, b)) t->flops += model_block_flops(t->model, b);
done:
    return result;
}

static void forget(trainer *t)
{
    trainer_free_memory(t);
    schedule_clear(&t->schedule);
    schedule_clear(&t->forward);
    plan_free(t->plan);
    model_close(t->model);
    model_close(t->eval);
    free(t->note);
    free(t);
}

status trainer_plan(const trainer_options *o, plan **p, schedule *s, uint64_t *params,
                    double *flops, err *e)
{
    status result = OK;
    trainer *t = calloc(1, sizeof *t);
    if (!t) return err_set(e, E_IO, "no memory for the plan");
    TRY(prepare(t, o, e));
    *params = model_param_count(t->model);
    *flops = t->flops * t->micros;
    *p = t->plan, *s = t->schedule;
    t->plan = NULL;
    t->schedule = (schedule){.instr = NULL};
    // Names are the model's; the plan outlives it.
    for (int i = 0; i < (*p)->rows; i++) (*p)->row[i].name = NULL;
done:
    t->counting = true; // nothing was opened on the device
    forget(t);
    return result;
}

// ---- Opening

static status open_streams(trainer *t, err *e)
{
    status result = OK;
    const device_ops *ops = t->o.device->ops;
    for (int k = 0; k < STREAMS; k++)
        TRY(ops->stream_open(t->o.device, (device_stream_kind)k, &t->stream[k], e));
    TRY(ops->event_open(t->o.device, &t->computed, e));
    TRY(ops->event_open(t->o.device, &t->reduced, e));
    TRY(ops->event_open(t->o.device, &t->arrived, e));
done:
    return result;
}

// The ranks that differ from this one on axis a alone.
static int line_of(const trainer *t, axis a)
{
    int at[AXES];
    memcpy(at, t->plan->coord, sizeof at);
    at[a] = 0;
    return mesh_rank(&t->plan->o.mesh, at);
}

// Every rank splits in the same order, whether it needs the group or not.
static status open_groups(trainer *t, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const int *size = p->o.mesh.size, *at = p->coord;
    for (int a = 0; a < AXES; a++)
        if (size[a] > 1) TRY(comm_split(t->o.comm, line_of(t, (axis)a), at[a], &t->axis[a], e));
    if (p->keeps_post_forward_shards)
        TRY(comm_split(t->o.comm,
                       p->o.rank - at[AXIS_DP_SHARD] % p->o.strategy.reshard_after_forward *
                                       size[AXIS_CP] * size[AXIS_TP],
                       at[AXIS_DP_SHARD], &t->axis[GROUP_POST_FORWARD], e));
    if (size[AXIS_PP] > 1)
        TRY(comm_split(t->o.comm, line_of(t, AXIS_PP), at[AXIS_PP], &t->grads, e));
    if (plan_ties_stages(p)) {
        bool shares = at[AXIS_PP] == 0 || at[AXIS_PP] == size[AXIS_PP] - 1;
        int color = shares ? line_of(t, AXIS_PP) : p->o.mesh.ranks + p->o.rank;
        TRY(comm_split(t->o.comm, color, at[AXIS_PP], &t->tie, e));
    }
    if (mesh_data_ranks(&p->o.mesh) > 1)
        TRY(comm_split(t->o.comm, at[AXIS_PP] * size[AXIS_TP] + at[AXIS_TP],
                       mesh_data_rank(&p->o.mesh, p->o.rank), &t->data, e));
    // Sums over all ranks group the data-parallel parts as without a pipeline: its stages are
    // neighbours.
    const int stages = size[AXIS_PP] * size[AXIS_TP];
    if (t->data && size[AXIS_PP] > 1)
        TRY(comm_split(t->o.comm, 0,
                       mesh_data_rank(&p->o.mesh, p->o.rank) * stages +
                           at[AXIS_PP] * size[AXIS_TP] + at[AXIS_TP],
                       &t->agree, e));
done:
    return result;
}

// The folder of the file tier, made if there is none. Rank 0 goes first, because its notes are
// those that are printed.
static status make_tier_folder(trainer *t, text *note, err *e)
{
    status result = OK;
    bool files = false;
    const char *path = t->o.strategy.offload.path;
    for (int k = 0; k < PLAN_STATES; k++)
        files = files || t->plan->o.strategy.offload.tier[k] == TIER_FILE;
    if (!files) return OK;
    if (t->o.comm->rank == 0 && !file_is_directory(path)) {
        TRY(file_make_directories(path, e));
        text_addf(note, "parallel.offload.path: created the folder %s", path);
    }
    TRY(comm_barrier(t->o.comm, e));
    TRY(file_make_directories(path, e)); // of another machine
done:
    if (result != OK) err_prefix(e, "parallel.offload.path: ");
    return result;
}

// The names are those of the mesh's axes, as torch.distributed names process groups.
static void label_groups(trainer *t)
{
    for (int a = 0; a < AXES; a++) comm_set_label(t->axis[a], axis_name((axis)a));
    comm_set_label(t->axis[GROUP_POST_FORWARD], "the post-forward group");
    comm_set_label(t->grads, "pp");
    comm_set_label(t->tie, "the first and the last stage");
    comm_set_label(t->data, "dp");
    comm_set_label(t->agree, "all ranks");
    comm_set_label(t->o.comm, "all ranks");
}

static status open_tiers(trainer *t, err *e)
{
    status result = OK;
    text note = {0};
    TRY(make_tier_folder(t, &note, e));
    for (int k = 0; k < PLAN_STATES; k++) {
        if (t->plan->o.strategy.offload.tier[k] == TIER_HOST)
            text_addf(&note, "%s%s on host: on cpu ranks that is the device's own memory",
                      note.bytes ? "; " : "", plan_state_name((plan_state)k));
        if (t->plan->o.strategy.offload.tier[k] != TIER_FILE) continue;
        if (!t->o.device->ops->call)
            FAIL(E_USAGE,
                 "parallel.offload.%s: file needs a device whose memory the host can address; "
                 "valid on %s: device",
                 plan_state_name((plan_state)k), t->o.device->ops->name);
        const tier_options o = {.folder = t->o.strategy.offload.path,
                                .name = plan_state_name((plan_state)k),
                                .bytes = trainer_file_at(t, (plan_state)k, t->plan->buckets),
                                .block_bytes = (size_t)t->o.strategy.offload.block_bytes,
                                .depth = (int)t->o.strategy.offload.depth};
        TRY(tier_open(&o, &t->tier[k], e));
        if (tier_note(t->tier[k]))
            text_addf(&note, "%s%s", note.bytes ? "; " : "", tier_note(t->tier[k]));
    }
    TRY(text_check(&note, e));
    if (note.bytes) TRY(text_take(&note, &t->note, e));
done:
    text_clear(&note);
    return result;
}

static status open_compressor(trainer *t, err *e)
{
    const compress_options o = {.plan = t->plan,
                                .device = t->o.device,
                                .comm = t->o.comm,
                                .groups = t->axis,
                                .dp = t->data,
                                // About the mean over all positions, as PyTorch's hooks see it.
                                .scale = 1.0 / (double)(t->o.global_batch * t->o.seq_len),
                                .seed = t->o.seed};
    if (!t->data) return OK;
    return compress_open(&o, &t->compressor, e);
}

static status check_unused(const model *m, err *e)
{
    status result = OK;
    text names = {0};
    const int count = model_unused_params(m, &names);
    if (count)
        FAIL(E_USAGE,
             "%d parameter%s no gradient: %s; valid: parallel.unused_parameters zero, or a loss "
             "that depends on %s",
             count, count == 1 ? " gets" : "s get", names.chars, count == 1 ? "it" : "them");
done:
    text_clear(&names);
    return result;
}

status trainer_open(const trainer_options *o, trainer **out, err *e)
{
    status result = OK;
    trainer_options mine = *o;
    trainer *t = calloc(1, sizeof *t);
    if (!t) FAIL(E_IO, "no memory for the trainer");
    mine.rank = o->comm->rank;
    t->o = mine;
    TRY(prepare(t, &mine, e));
    if (!o->strategy.zero_unused_parameters) TRY(check_unused(t->model, e));
    TRY(open_streams(t, e));
    TRY(open_groups(t, e));
    label_groups(t);
    trainer_open_activity(t);
    TRY(open_tiers(t, e));
    TRY(trainer_allocate(t, e));
    TRY(open_compressor(t, e));
    scaler_open(&t->scaler, &o->scaler, o->precision == F16);
    if (t->model->rope)
        TRY(graph_upload_rope(t->model->rope, t->stream[STREAM_COMPUTE], t->rope, e));
    if (o->weights) TRY(model_param_check_all(t->model, o->weights, e));
    TRY(trainer_fill_weights(t, e));
    *out = t;
    t = NULL;
done:
    trainer_close(t);
    return result;
}

void trainer_close(trainer *t)
{
    if (!t) return;
    const device_ops *ops = t->o.device->ops;
    for (int k = 0; k < STREAMS; k++) ops->stream_close(t->stream[k]);
    ops->event_close(t->computed);
    ops->event_close(t->reduced);
    ops->event_close(t->arrived);
    compress_close(t->compressor);
    for (int k = 0; k < PLAN_STATES; k++) tier_close(t->tier[k]);
    comm *groups[] = {t->grads, t->tie, t->data, t->agree};
    for (int a = 0; a <= GROUP_POST_FORWARD; a++) comm_close(t->axis[a]);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) comm_close(groups[i]);
    forget(t);
}

uint64_t trainer_steps_done(const trainer *t)
{
    return t->steps_done;
}

const plan *trainer_get_plan(const trainer *t)
{
    return t->plan;
}

const model *trainer_get_model(const trainer *t)
{
    return t->model;
}

double trainer_flops(const trainer *t)
{
    return t->flops * t->micros;
}

const char *trainer_note(const trainer *t)
{
    return t->note;
}

const double *trainer_seconds(const trainer *t)
{
    return t->seconds;
}
