// trainer.c -- opens and closes a trainer: it traces the model, makes the plan and the schedules, opens the
// objects, and fills the weights. Called by the session, the library and tests.
#include "base/alloc.h"
#include "base/proc.h"
#include "base/size.h"
#include "parallel/traffic.h"
#include "train/param_groups.h"
#include "train/trainer_private.h"

static status open_model(const trainer_options *o, graph_mode mode, model **out, err *e)
{
    model_options m = {.mode = mode,
                       .type = o->precision,
                       .batch = o->micro_batch,
                       .seq = o->seq_len,
                       .documents = o->documents,
                       .loss = o->loss,
                       .needs = o->place.needs,
                       .numerics = o->numerics,
                       .is_frozen = param_groups_is_frozen,
                       .type_of = param_groups_type_of,
                       .tensor_arg = &o->groups,
                       .adapter_of = o->lora ? model_lora_find : NULL,
                       .adapter_arg = o->lora,
                       .recompute = o->strategy.recompute,
                       .position.mesh = o->mesh,
                       .position.sequence_parallel = o->strategy.sequence_parallel,
                       .splits_backward =
                           mode == GRAPH_TRAIN && o->mesh.size[AXIS_PP] > 1 &&
                           pipeline_schedule_splits_backward(o->strategy.pipeline.schedule)};
    mesh_coords(&o->mesh, o->place.rank, m.position.coord);
    return model_open(o->family, o->config, &m, out, e);
}

batch_split trainer_split(const trainer_options *o)
{
    return (batch_split){
        .ranks = mesh_data_ranks(&o->mesh), .of = o->batch_split, .each = o->micro_batch};
}

// Every rank has so many, whatever their sizes are.
static int micros_of(const trainer_options *o)
{
    const batch_split s = trainer_split(o);
    return (int)(o->global_batch / batch_split_before(&s, s.ranks));
}

uint64_t trainer_first_sample(const trainer *t)
{
    const batch_split s = trainer_split(&t->o);
    const int rank = mesh_data_rank(&t->o.mesh, t->plan->o.rank);
    return (uint64_t)(batch_split_before(&s, rank) * t->plan->o.micros);
}

// ---- The plan

static plan_group_options group_options_of(const param_group *g)
{
    plan_group_options o = {.dp = g->dp,
                            .over = g->over,
                            .compute = g->precision,
                            .storage = g->storage,
                            .frozen = g->frozen,
                            .has_m = optim_has_m(&g->optimizer),
                            .has_v = optim_rule_of(&g->optimizer)->has_v,
                            .has_average = g->optimizer.ema > 0};
    memcpy(o.tier, g->tier, sizeof o.tier);
    return o;
}

// What the plan reads while it is made.
typedef struct plan_inputs {
    plan_group_options *group; // [groups]
    int *group_of;             // [params]
    plan_param *param;         // [params]
    double *cost;              // [blocks]
    bool *in_place;            // [blocks]
    plan_use *use;             // [uses]
} plan_inputs;

static void plan_inputs_free(plan_inputs *in)
{
    free(in->group);
    free(in->group_of);
    free(in->param);
    free(in->cost);
    free(in->in_place);
    free(in->use);
}

static status plan_inputs_alloc(plan_inputs *in, const trainer_options *o, const model *m, err *e)
{
    status result = OK;
    const size_t params = (size_t)m->params, blocks = (size_t)m->blocks;
    size_t uses = 0;
    for (int b = 0; b < m->blocks; b++) uses += (size_t)m->block[b].g->params;
    TRY(alloc_zeroed(&in->group, (size_t)o->groups.count, sizeof *in->group, "the plan", e));
    TRY(alloc_zeroed(&in->group_of, params, sizeof *in->group_of, "the plan", e));
    TRY(alloc_zeroed(&in->param, params, sizeof *in->param, "the plan", e));
    TRY(alloc_zeroed(&in->cost, blocks, sizeof *in->cost, "the plan", e));
    TRY(alloc_zeroed(&in->in_place, blocks, sizeof *in->in_place, "the plan", e));
    TRY(alloc_zeroed(&in->use, uses, sizeof *in->use, "the plan", e));
done:
    return result;
}

static void fill_params(plan_inputs *in, const trainer_options *o, const model *m)
{
    for (int i = 0; i < m->params; i++) {
        const model_param *q = &m->param[i];
        const optim_config *optimizer = &o->groups.items[in->group_of[i]].optimizer;
        in->param[i] =
            (plan_param){.name = q->name,
                         .rows = q->shard_rows,
                         .cols = q->shard_cols,
                         .group = in->group_of[i],
                         .decays = !q->decl->constant && optim_decays(optimizer, q->decl->dims),
                         .sharded = q->sharded,
                         .partial = q->partial,
                         .shared = {q->shared.first_row, q->frozen ? 1 : q->shared.ranks}};
    }
}

// The passes of the block that compute the gradient of its parameter i. A parameter that the loss does not
// depend on counts as one of the backward pass, which leaves it zero.
static unsigned writes_of(const graph *g, int i)
{
    const graph_node_list *lists[] = {&g->forward, &g->backward};
    unsigned writes = COMPUTES_NOTHING;
    for (int l = 0; l < 2; l++)
        for (int n = 0; n < lists[l]->count; n++) {
            const graph_node *x = lists[l]->node[n];
            const bool dgrad = g->split.on && n < g->split.dgrad_nodes;
            if (x->param[0] != i && x->param[1] != i) continue;
            writes |= l == 0 ? COMPUTES_FORWARD : dgrad ? COMPUTES_DGRAD : COMPUTES_WGRAD;
        }
    return writes ? writes : COMPUTES_WGRAD;
}

static status make_plan(const trainer_options *o, const model *m, plan **out, err *e)
{
    status result = OK;
    plan_inputs in = {.group = NULL};
    int uses = 0;
    TRY(plan_inputs_alloc(&in, o, m, e));
    TRY(param_groups_assign(m, &o->groups, in.group_of, e));
    for (int i = 0; i < o->groups.count; i++) in.group[i] = group_options_of(&o->groups.items[i]);
    fill_params(&in, o, m);
    for (int b = 0; b < m->blocks; b++) {
        in.cost[b] = model_block_flops(m, b);
        in.in_place[b] = m->block[b].g->input_grad.in_place;
        for (int i = 0; i < m->block[b].g->params; i++)
            in.use[uses++] = (plan_use){m->block[b].param[i], b, writes_of(m->block[b].g, i)};
    }
    const plan_options options = {.mesh = o->mesh,
                                  .rank = o->place.rank,
                                  .strategy = o->strategy,
                                  .group = in.group,
                                  .groups = o->groups.count,
                                  .first_backward = m->first_backward,
                                  .micros = micros_of(o),
                                  .batches_everywhere = o->documents,
                                  .preferences = o->loss.preference.kind != PREFERENCE_NONE,
                                  .norm_groups =
                                      o->norm_by_group ? param_groups_entries(&o->groups) : 0,
                                  .input_grad_in_place = in.in_place,
                                  .cost = in.cost,
                                  .blocks = m->blocks,
                                  .use = in.use,
                                  .uses = uses};
    TRY(plan_make(&options, in.param, m->params, out, e));
done:
    plan_inputs_free(&in);
    return result;
}

static status check_shapes(const model *m, const dataset *d, const char *which, err *e)
{
    if (!d) return OK;
    const dataset_shape takes = batches_sample_shape(m);
    const bool ids = takes.input_type == I32;
    if ((d->shape.input_type == I32) != ids)
        return err_set(e, E_USAGE, "%s: the data are %s, the model takes %s", which,
                       ids ? "vectors" : "tokens", ids ? "tokens" : "vectors");
    if (d->shape.documents != takes.documents)
        return err_set(e, E_USAGE, "%s: samples are %spacked documents, those of data.train are%s",
                       which, d->shape.documents ? "" : "no ", takes.documents ? "" : " not");
    if (d->shape.inputs != takes.inputs || d->shape.labels != takes.labels)
        return err_set(
            e, E_USAGE,
            "%s: a sample has %lld inputs and %lld labels, the model takes %lld and %lld", which,
            (long long)d->shape.inputs, (long long)d->shape.labels, (long long)takes.inputs,
            (long long)takes.labels);
    if (d->shape.extras != takes.extras)
        return err_set(e, E_USAGE, "%s: a token has %d numbers behind its label, the loss takes %d",
                       which, d->shape.extras, takes.extras);
    if (d->shape.label_type != takes.label_type)
        return err_set(e, E_USAGE, "%s: labels are %s, the loss takes %s", which,
                       dtype_name(d->shape.label_type), dtype_name(takes.label_type));
    return OK;
}

// Every object asks for its memory. The first pass counts it, the second allocates it.
static status allocate(trainer *t, err *e)
{
    status result = OK;
    TRY(state_allocate(t, e));
    TRY(segments_allocate(t, e));
    TRY(workspace_allocate(t, e));
    TRY(slots_allocate(t, e));
    TRY(tiers_allocate(t, e));
    TRY(blocks_allocate(t, e));
    TRY(batches_allocate(t, e));
    TRY(results_allocate(t, e));
    TRY(exchange_allocate(t, e));
    TRY(trainer_spans_allocate(t, e));
    TRY(saving_allocate(t, e));
done:
    return result;
}

static status count_memory(trainer *t, err *e)
{
    status result = OK;
    uint64_t *bytes = t->plan->bytes;
    uint64_t *const own = t->o.strategy.offload.host_is_apart ? t->plan->host_bytes : bytes;
    TRY(memory_open(t->plan, &t->memory, e));
    TRY(allocate(t, e));
    bytes[BYTES_BUFFERS] += compress_bytes(t->plan, t->o.place.needs) + groups_comm_bytes(t->plan);
    // What a process has before it opens a trainer. It is the one figure that is measured: the others
    // are the same on any machine that plans the job. Who plans measures it once for many plans.
    if (t->o.device) {
        bytes[BYTES_RUNTIME] =
            t->o.device->bytes_scratch + groups_thread_bytes(t->o.device, t->o.comm);
        own[BYTES_RUNTIME] += proc_own_bytes();
        if (t->o.strategy.offload.host_is_apart) own[BYTES_RUNTIME] += DEVICE_STAGING_BYTES;
    }
    if (!size_fits(plan_bytes(t->plan)) || !size_fits(plan_host_bytes(t->plan)))
        FAIL(E_FIT, "a rank needs more than 1 EiB; valid: smaller sizes of the model, a smaller "
                    "train.micro_batch, train.global_batch or data.seq_len");
done:
    return result;
}

// Without groups, all parameters are in one group with the job's own settings.
static status take_groups(trainer *t, err *e)
{
    status result = OK;
    const trainer_options *o = &t->o;
    t->group = (param_group){.dp = o->strategy.dp,
                             .over = POLICY_AXES,
                             .precision = o->precision,
                             .optimizer = o->optimizer,
                             .lr_scale = 1};
    memcpy(t->group.tier, o->strategy.offload.tier, sizeof t->group.tier);
    if (o->groups.count == 0) t->o.groups = (param_groups){.items = &t->group, .count = 1};
    if (o->storage != STORAGE_NF4) return OK;
    TRY(param_groups_split(&t->o.groups, &t->packed, e));
    t->o.groups = t->packed;
done:
    return result;
}

size_t trainer_weight_bytes(const trainer *t)
{
    size_t most = 0;
    for (int i = 0; i < t->plan->groups; i++) {
        const size_t bytes = dtype_bytes(t->plan->group[i].o.compute);
        if (bytes > most) most = bytes;
    }
    return most;
}

// Models, plan and schedules: everything that a rank knows before it allocates.
static status prepare(trainer *t, const trainer_options *o, err *e)
{
    status result = OK;
    const batch_split split = trainer_split(o);
    t->o = *o;
    t->o.micro_batch = batch_split_of(&split, mesh_data_rank(&o->mesh, o->place.rank));
    TRY(take_groups(t, e));
    o = &t->o;
    TRY(open_model(o, GRAPH_TRAIN, &t->model, e));
    if (o->valid || o->predicts || kernel_preference_refers(&o->loss.preference))
        TRY(open_model(o, GRAPH_EVAL, &t->eval, e));
    TRY(check_shapes(t->model, o->train, "data.train", e));
    TRY(check_shapes(t->model, o->valid, "data.valid", e));
    TRY(make_plan(o, t->model, &t->plan, e));
    TRY(schedule_make(t->plan, PASS_TRAIN, &t->schedule, e));
    if (t->eval) TRY(schedule_make(t->plan, PASS_EVAL, &t->forward, e));
    TRY(trainer_list_calls(t, t->model, &t->schedule, e));
    if (t->eval) TRY(trainer_list_calls(t, t->eval, &t->forward, e));
    TRY(count_memory(t, e));
    traffic_count(t->plan, &t->schedule);
    for (int b = 0; b < t->model->blocks; b++)
        if (plan_has_block(t->plan, b)) t->flops += model_block_flops(t->model, b);
done:
    return result;
}

void trainer_close(trainer *t)
{
    if (!t) return;
    groups_close(t->groups); // no work uses the memory any more
    saving_close(t);
    captures_close(t);
    compress_close(t->compressor);
    batches_close(t);
    slots_close(t);
    tiers_close(t);
    blocks_close(t);
    workspace_close(t);
    segments_close(t);
    state_close(t);
    results_close(t);
    exchange_close(t);
    trainer_spans_close(t);
    memory_close(t->memory);
    schedule_clear(&t->schedule);
    free((param_group *)t->packed.items);
    schedule_clear(&t->forward);
    plan_free(t->plan);
    model_close(t->model);
    model_close(t->eval);
    free(t->note);
    free(t);
}

status trainer_object(void *object, size_t bytes, err *e)
{
    void *made;
    memcpy(&made, object, sizeof made);
    return made ? OK : alloc_zeroed(object, 1, bytes, "the trainer", e);
}

status trainer_plan(const trainer_options *o, plan **p, schedule *s, uint64_t *params,
                    double *flops, err *e)
{
    status result = OK;
    trainer *t = NULL;
    TRY(alloc_zeroed(&t, 1, sizeof *t, "the plan", e));
    TRY(prepare(t, o, e));
    *params = model_param_count(t->model);
    *flops = t->flops * t->plan->o.micros;
    *p = t->plan, *s = t->schedule;
    t->plan = NULL;
    t->schedule = (schedule){.instr = NULL};
    // Names and the segments of passes are the model's; the plan and the list outlive it.
    for (int i = 0; i < (*p)->rows; i++) (*p)->row[i].name = NULL;
    for (int i = 0; i < s->calls; i++)
        if (s->call[i].array == IN_VALUES) s->call[i].call.segment = NULL;
done:
    trainer_close(t);
    return result;
}

// ---- Opening

static status prepare_kernels(const trainer *t, err *e)
{
    status result = OK;
    const model *models[] = {t->model, t->eval};
    for (int m = 0; m < 2; m++)
        for (int i = 0; models[m] && i < models[m]->graphs; i++)
            TRY(graph_prepare(models[m]->graph[i], t->o.device, e));
done:
    return result;
}

static status open_compressor(trainer *t, err *e)
{
    const compress_options o = {.plan = t->plan,
                                .device = t->o.device,
                                .comm = t->o.comm,
                                // About the mean over all positions, as PyTorch's hooks see it.
                                .scale = 1.0 / (double)(t->o.global_batch * t->o.seq_len),
                                .seed = t->o.seed};
    return compress_open(&o, &t->compressor, e);
}

static status open_tiers(trainer *t, err *e)
{
    status result = OK;
    text note = {0};
    TRY(tiers_open(t, &note, e));
    t->note = note.chars;
    note = (text){0};
done:
    text_clear(&note);
    return result;
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

void trainer_take_capabilities(trainer_options *o, const comm_capabilities *can)
{
    o->strategy.packs_shards = can->needs_workspace;
    o->strategy.comm_bytes = can->own_bytes;
    o->strategy.pipeline.sends_wait = can->sends_wait;
}

status trainer_open(const trainer_options *o, trainer **out, err *e)
{
    status result = OK;
    trainer_options mine = *o;
    trainer *t = NULL;
    TRY(alloc_zeroed(&t, 1, sizeof *t, "the trainer", e));
    mine.place.rank = o->comm->rank;
    trainer_take_capabilities(&mine, &o->comm->can);
    mine.place.needs = o->device->needs;
    if (o->device->is_host_memory == o->strategy.offload.host_is_apart)
        FAIL(E_INTERNAL, "device %s: the plan is for a device whose memory is %sthe host's",
             o->device->ops->name, o->strategy.offload.host_is_apart ? "not " : "");
    TRY(prepare(t, &mine, e));
    if (!o->strategy.zero_unused_parameters) TRY(check_unused(t->model, e));
    TRY(groups_open(t->plan, o->device, o->comm, &t->groups, e));
    TRY(captures_open(t, e));
    trainer_open_activity(t);
    TRY(open_tiers(t, e));
    memory_start(t->memory, o->device, o->comm);
    TRY(device_staging_open(o->device, e));
    TRY(allocate(t, e));
    TRY(prepare_kernels(t, e));
    TRY(open_compressor(t, e));
    TRY(comm_share(o->comm, e));
    if (o->weights) TRY(model_param_check_all(t->model, o->weights, e));
    TRY(trainer_fill_weights(t, e));
    t->o.weights = NULL; // the caller may close it now
    *out = t;
    t = NULL;
done:
    trainer_close(t);
    return result;
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
    return t->flops * t->plan->o.micros;
}

const char *trainer_note(const trainer *t)
{
    return t->note;
}
