// weights.c -- the weights that a run starts from: drawn or read, each rank its own parts; and the
// compute weights that follow from fp32 ones. Called when a trainer opens and after state was
// written.
#include "train/redistribute.h"
#include "train/state_shards.h"

#include <stdlib.h>

static status read_weights(trainer *t, err *e)
{
    status result = OK;
    float *host = NULL;
    for (int p = 0; p < t->model->params; p++) {
        if (t->plan->row[p].bucket < 0) continue;
        free(host);
        host = malloc((size_t)t->model->param[p].count * sizeof *host);
        if (!host) FAIL(E_IO, "no memory for parameter %s", t->model->param[p].name);
        TRY(model_param_load(t->model, p, t->o.weights, host, e));
        TRY(trainer_write_state(t, STATE_WEIGHT, p, host, e));
    }
done:
    free(host);
    return result;
}

// Elements of row r, drawn into place.
static status draw_span(trainer *t, const holding *h, int p, plan_shard want, err *e)
{
    status result = OK;
    float *at;
    plan_shard s;
    TRY(holding_find(t, h, &t->plan->row[p], true, &at, &s, e));
    model_param_init_shard(t->model, p, t->plan->coord[AXIS_TP], t->o.seed, want.first, want.count,
                           t->stream[STREAM_COMPUTE], at + (want.first - s.first));
    // Where it is in a file, the next row may be of another bucket.
    TRY(trainer_ops(t)->sync(t->stream[STREAM_COMPUTE], e));
done:
    return result;
}

// Where all data-parallel ranks keep the whole array, each draws a share of it: elements `from` to
// `to`; else all that it keeps.
static bool draws_share(const trainer *t, const holding *h, int64_t *from, int64_t *to)
{
    const int64_t all = t->plan->elements[h->array];
    *from = 0, *to = all;
    if (!t->data || !h->at || h->array != LAYOUT_FULL || all % t->data->size) return false;
    *from = all / t->data->size * t->data->rank;
    *to = *from + all / t->data->size;
    return true;
}

// What lies in [from, to) of the array of row r's part, relative to the row.
static plan_shard within(const trainer *t, const holding *h, const plan_row *r, int64_t from,
                         int64_t to)
{
    plan_shard s = plan_local_shard(t->plan, r, h->parts, t->plan->coord);
    const int64_t begin = r->offset[h->array], end = begin + s.count;
    if (from < begin) from = begin;
    if (to > end) to = end;
    return (plan_shard){s.first + from - begin, to > from ? to - from : 0};
}

static status draw_weights(trainer *t, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const holding h = holding_of(t, STATE_WEIGHT);
    int64_t from, to;
    const bool share = draws_share(t, &h, &from, &to);
    float *all = (float *)(void *)h.at;
    for (int i = 0; i < p->local_rows; i++)
        TRY(draw_span(t, &h, p->order[i], within(t, &h, &p->row[p->order[i]], from, to), e));
    if (share)
        TRY(comm_all_gather(t->data, all + from, all, (size_t)(to - from), F32,
                            t->stream[STREAM_COMPUTE], e));
done:
    return result;
}

// Also between rows, which nobody reads but digests. Master weights and the optimizer's state start
// as zeros.
static void zero_weights(trainer *t)
{
    kernel_call c = {.kind = K_FILL};
    c.u.fill = (kernel_fill_args){t->weights, t->plan->elements[t->plan->weight] *
                                                  (int64_t)trainer_weight_bytes(t)};
    if (t->weights) device_launch(t->stream[STREAM_COMPUTE], &c);
}

status trainer_fill_weights(trainer *t, err *e)
{
    status result = OK;
    zero_weights(t);
    TRY((t->o.weights ? read_weights : draw_weights)(t, e));
    TRY(trainer_restore(t, 0, e));
done:
    return result;
}

// The compute weights of this rank's parts follow from the fp32 ones.
static status convert_bucket(trainer *t, int bucket, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const plan_bucket *b = &p->bucket[bucket];
    const holding master = holding_of(t, STATE_WEIGHT);
    for (int i = 0; i < b->rows; i++) {
        const plan_row *r = &p->row[p->order[b->first_row + i]];
        float *from;
        char *to = t->weights;
        plan_shard s;
        TRY(holding_find(t, &master, r, false, &from, &s, e));
        int64_t at =
            r->offset[p->weight] + s.first - plan_local_shard(p, r, p->weight, p->coord).first;
        if (!to) {
            TRY(trainer_show_bucket(t, PLAN_WEIGHTS, bucket, true, &to, e));
            at -= b->first[p->weight];
        }
        kernel_call c = {.kind = K_CONVERT};
        c.u.convert = (kernel_convert_args){.count = s.count,
                                            .src = from,
                                            .dst = to + (size_t)at * trainer_weight_bytes(t),
                                            .src_type = F32,
                                            .dst_type = t->o.precision};
        if (s.count > 0) device_launch(t->stream[STREAM_COMPUTE], &c);
    }
    TRY(trainer_ops(t)->sync(t->stream[STREAM_COMPUTE], e));
    if (t->weights && p->all_gather_updated.count > 0)
        TRY(redistribute_bucket(p, &p->all_gather_updated, bucket, NULL,
                                t->weights + (size_t)b->first[p->weight] * trainer_weight_bytes(t),
                                t->o.precision, t->axis, t->stream[STREAM_COMPUTE], e));
done:
    return result;
}

status trainer_restore(trainer *t, uint64_t steps_done, err *e)
{
    status result = OK;
    for (int b = 0; t->o.precision != F32 && b < t->plan->buckets; b++)
        TRY(convert_bucket(t, b, e));
    TRY(trainer_close_staging(t, e));
    TRY(trainer_ops(t)->sync(t->stream[STREAM_COMPUTE], e));
    TRY(comm_barrier(t->o.comm, e));
    t->steps_done = steps_done;
done:
    return result;
}
