// trainer.c -- opens and closes a trainer: traces the model, makes plan and schedule, allocates,
// fills the weights.
#include "train/state.h"

#include <stdlib.h>

static status open_model(const trainer_options *o, graph_mode mode, model **out, err *e)
{
    const model_options options = {.mode = mode,
                                   .type = o->precision,
                                   .batch = o->micro_batch,
                                   .seq = o->seq_len,
                                   .keep = o->recompute};
    return model_open(o->family, o->config, &options, out, e);
}

static status make_plan(const trainer_options *o, const model *m, const model *eval, plan **out,
                        err *e)
{
    status result = OK;
    plan_param *p = calloc((size_t)m->params, sizeof *p);
    if (!p) FAIL(E_IO, "no memory for the plan");
    for (int i = 0; i < m->params; i++)
        p[i] = (plan_param){m->param[i].name, m->param[i].count, m->param[i].block,
                            m->param[i].decl->dims > 1};
    plan_options options = {.mesh = o->mesh,
                            .policy = o->policy,
                            .bucket_bytes = o->bucket_bytes,
                            .state_tensors = optim_state_tensors(&o->optimizer),
                            .compute = o->precision,
                            .decay_all = o->optimizer.decay_all};
    TRY(plan_make(&options, p, m->params, out, e));
    trainer_count_bytes(o, m, eval, *out);
done:
    free(p);
    return result;
}

static status check_shapes(const model *m, const dataset *d, const char *which, err *e)
{
    if (!d) return OK;
    const graph *first = m->block[0].g, *last = m->block[m->blocks - 1].g;
    int64_t inputs = value_rows(first->ids) * value_cols(first->ids) / m->batch;
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

static status check_data(const trainer_options *o, const model *m, err *e)
{
    status result = OK;
    TRY(check_shapes(m, o->train, "data.train", e));
    TRY(check_shapes(m, o->valid, "data.valid", e));
done:
    return result;
}

static int micros_of(const trainer_options *o)
{
    return (int)(o->global_batch / mesh_data_ranks(&o->mesh) / o->micro_batch);
}

status trainer_plan(const trainer_options *o, plan **p, schedule *s, uint64_t *params,
                    double *flops, err *e)
{
    status result = OK;
    model *m = NULL;
    TRY(open_model(o, GRAPH_TRAIN, &m, e));
    TRY(check_data(o, m, e));
    TRY(make_plan(o, m, NULL, p, e));
    TRY(schedule_flat(*p, m->blocks, micros_of(o), s, e));
    *params = model_param_count(m);
    *flops = model_flops(m) * micros_of(o);
    // Names are the model's; the plan outlives it.
    for (int i = 0; i < (*p)->rows; i++) (*p)->row[i].name = NULL;
done:
    model_close(m);
    return result;
}

static status open_streams(trainer *t, err *e)
{
    status result = OK;
    const device_ops *ops = t->o.device->ops;
    for (int k = 0; k < STREAMS; k++)
        TRY(ops->stream_open(t->o.device, (stream_kind)k, &t->stream[k], e));
    for (int s = 0; s < SLOTS; s++) {
        TRY(ops->event_open(t->o.device, &t->loaded[s], e));
        TRY(ops->event_open(t->o.device, &t->consumed[s], e));
    }
    TRY(ops->event_open(t->o.device, &t->computed, e));
    TRY(ops->event_open(t->o.device, &t->reduced, e));
done:
    return result;
}

static status fill_rope(trainer *t, err *e)
{
    status result = OK;
    const graph *g = t->model->rope;
    if (!g) return OK;
    size_t bytes = (size_t)(g->rope_rows * g->rope_half) * 2 * sizeof(float);
    float *host = malloc(bytes);
    if (!host) FAIL(E_IO, "no memory for the rotary table (%zu bytes)", bytes);
    rope_table_fill(g, host);
    t->o.device->ops->copy(t->stream[STREAM_COMPUTE], t->rope, host, bytes);
    TRY(t->o.device->ops->sync(t->stream[STREAM_COMPUTE], e));
done:
    free(host);
    return result;
}

static void zero(trainer *t, void *at, size_t bytes)
{
    kernel_call c = {.kind = K_FILL};
    if (!at) return;
    c.u.fill = (fill_args){at, (int64_t)bytes};
    device_launch(t->stream[STREAM_COMPUTE], &c);
}

static status read_weights(trainer *t, err *e)
{
    status result = OK;
    float *host = NULL;
    for (int p = 0; t->o.comm->rank == 0 && p < t->model->params; p++) {
        free(host);
        host = malloc((size_t)t->model->param[p].count * sizeof *host);
        if (!host) FAIL(E_IO, "no memory for parameter %s", t->model->param[p].name);
        TRY(param_load(t->model, p, t->o.weights, host, e));
        TRY(trainer_write_state(t, STATE_WEIGHT, p, host, e));
    }
done:
    free(host);
    return result;
}

// Each rank draws its part of the flat array, then everybody gets all parts.
static status draw_weights(trainer *t, err *e)
{
    enum { CHUNK = 1 << 18 };
    status result = OK;
    stream *on = t->stream[STREAM_COMPUTE];
    int64_t own = t->plan->elements / t->o.comm->size, begin = own * t->o.comm->rank,
            end = begin + own;
    float *host = malloc(CHUNK * sizeof *host);
    if (!host) FAIL(E_IO, "no memory to draw weights");
    for (int p = 0; p < t->plan->rows; p++) {
        const plan_row *r = &t->plan->row[p];
        int64_t from = r->first > begin ? r->first : begin;
        int64_t to = r->first + r->count < end ? r->first + r->count : end;
        for (int64_t at = from; at < to; at += CHUNK) {
            int64_t count = to - at < CHUNK ? to - at : CHUNK;
            param_init(t->model, p, t->o.seed, at - r->first, count, host);
            t->o.device->ops->copy(on, t->weights + at, host, (size_t)count * sizeof *host);
            TRY(t->o.device->ops->sync(on, e));
        }
    }
    TRY(comm_all_gather(t->o.comm, t->weights + begin, t->weights, (size_t)own, F32, on, e));
done:
    free(host);
    return result;
}

static status fill_weights(trainer *t, err *e)
{
    status result = OK;
    size_t flat = (size_t)t->plan->elements * sizeof(float);
    for (int s = 0; s < STATE_PARTS; s++) zero(t, t->state[s], flat);
    if (t->o.weights)
        TRY(read_weights(t, e));
    else
        TRY(draw_weights(t, e));
    TRY(trainer_restore(t, 0, e));
done:
    return result;
}

status trainer_open(const trainer_options *o, trainer **out, err *e)
{
    status result = OK;
    trainer *t = calloc(1, sizeof *t);
    if (!t) FAIL(E_IO, "no memory for the trainer");
    t->o = *o;
    TRY(open_model(o, GRAPH_TRAIN, &t->model, e));
    if (o->valid) TRY(open_model(o, GRAPH_EVAL, &t->eval, e));
    TRY(check_data(o, t->model, e));
    TRY(make_plan(o, t->model, t->eval, &t->plan, e));
    const char *unused = model_unused_param(t->model);
    if (unused && !o->zero_unused)
        FAIL(E_USAGE,
             "parameter %s is not used: it gets no gradient; parallel.unused_parameters: zero "
             "allows it",
             unused);
    t->micros = micros_of(o);
    t->flops = model_flops(t->model);
    TRY(schedule_flat(t->plan, t->model->blocks, t->micros, &t->schedule, e));
    TRY(open_streams(t, e));
    TRY(trainer_allocate(t, e));
    TRY(fill_rope(t, e));
    if (o->weights) TRY(param_check_all(t->model, o->weights, e));
    TRY(fill_weights(t, e));
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
    for (int s = 0; s < SLOTS; s++) {
        ops->event_close(t->loaded[s]);
        ops->event_close(t->consumed[s]);
    }
    ops->event_close(t->computed);
    ops->event_close(t->reduced);
    trainer_free_memory(t);
    schedule_clear(&t->schedule);
    plan_free(t->plan);
    model_close(t->model);
    model_close(t->eval);
    free(t);
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
