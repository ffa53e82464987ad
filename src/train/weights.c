// weights.c -- the weights that a run starts from: drawn or read, each rank its own parts; and the
// compute weights that follow from fp32 ones. Called when a trainer opens and after state was
// written.
#include "parallel/bucket.h"
#include "train/holding.h"

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
        TRY(param_load(t->model, p, t->o.weights, host, e));
        TRY(trainer_write_state(t, STATE_WEIGHT, p, host, e));
    }
done:
    free(host);
    return result;
}

// Elements of row r, drawn into place.
static status draw_span(trainer *t, const holding *h, int p, span want, float *host, int64_t room,
                        err *e)
{
    status result = OK;
    const plan_row *r = &t->plan->row[p];
    stream *on = t->stream[STREAM_COMPUTE];
    float *at;
    span s;
    TRY(holding_find(t, h, r, true, &at, &s, e));
    for (int64_t i = want.first; i < want.first + want.count; i += room) {
        int64_t left = want.first + want.count - i, count = left < room ? left : room;
        param_init_part(t->model, p, t->plan->at[AXIS_TP], t->o.seed, i, count, host);
        trainer_ops(t)->copy(on, at + (i - s.first), host, (size_t)count * sizeof *host);
        TRY(trainer_ops(t)->sync(on, e));
    }
done:
    return result;
}

// Where all data-parallel ranks keep the whole array, each draws a share of it: elements `from` to
// `to`; else all that it keeps.
static bool draws_share(const trainer *t, const holding *h, int64_t *from, int64_t *to)
{
    const int64_t all = t->plan->elements[h->array];
    *from = 0, *to = all;
    if (!t->data || !h->at || h->array != LEVEL_WHOLE || all % t->data->size) return false;
    *from = all / t->data->size * t->data->rank;
    *to = *from + all / t->data->size;
    return true;
}

// What lies in [from, to) of the array of row r's part, relative to the row.
static span within(const trainer *t, const holding *h, const plan_row *r, int64_t from, int64_t to)
{
    span s = plan_span(t->plan, r, h->parts, t->plan->at);
    const int64_t begin = r->at[h->array], end = begin + s.count;
    if (from < begin) from = begin;
    if (to > end) to = end;
    return (span){s.first + from - begin, to > from ? to - from : 0};
}

static status draw_weights(trainer *t, err *e)
{
    enum { CHUNK = 1 << 18 };
    status result = OK;
    const plan *p = t->plan;
    const holding h = holding_of(t, STATE_WEIGHT);
    int64_t from, to;
    const bool share = draws_share(t, &h, &from, &to);
    float *host = malloc(CHUNK * sizeof *host), *all = (float *)(void *)h.at;
    if (!host) FAIL(E_IO, "no memory to draw weights");
    for (int i = 0; i < p->here; i++)
        TRY(draw_span(t, &h, p->order[i], within(t, &h, &p->row[p->order[i]], from, to), host,
                      CHUNK, e));
    if (share)
        TRY(comm_all_gather(t->data, all + from, all, (size_t)(to - from), F32,
                            t->stream[STREAM_COMPUTE], e));
done:
    free(host);
    return result;
}

static void zero(trainer *t, void *at, int64_t bytes)
{
    kernel_call c = {.kind = K_FILL};
    c.u.fill = (fill_args){at, bytes};
    if (at) device_launch(t->stream[STREAM_COMPUTE], &c);
}

// Also between rows, which nobody reads but digests.
static void zero_arrays(trainer *t)
{
    const plan *p = t->plan;
    const int64_t states = p->elements[p->optimizer] * (int64_t)sizeof(float);
    zero(t, t->weights, p->elements[p->weight] * (int64_t)trainer_weight_bytes(t));
    zero(t, t->master, states);
    for (int i = 0; i < 2; i++) zero(t, t->moment[i], states);
}

status trainer_fill_weights(trainer *t, err *e)
{
    status result = OK;
    zero_arrays(t);
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
    const bucket_range *b = &p->bucket[bucket];
    const holding master = holding_of(t, STATE_WEIGHT);
    for (int i = 0; i < b->rows; i++) {
        const plan_row *r = &p->row[p->order[b->first_row + i]];
        float *from;
        char *to = t->weights;
        span s;
        TRY(holding_find(t, &master, r, false, &from, &s, e));
        int64_t at = r->at[p->weight] + s.first - plan_span(p, r, p->weight, p->at).first;
        if (!to) {
            TRY(trainer_show_bucket(t, TIERED_WEIGHTS, bucket, true, &to, e));
            at -= b->first[p->weight];
        }
        kernel_call c = {.kind = K_CONVERT};
        c.u.convert = (convert_args){.count = s.count,
                                     .src = from,
                                     .dst = to + (size_t)at * trainer_weight_bytes(t),
                                     .src_type = F32,
                                     .dst_type = t->o.precision};
        if (s.count > 0) device_launch(t->stream[STREAM_COMPUTE], &c);
    }
    TRY(trainer_ops(t)->sync(t->stream[STREAM_COMPUTE], e));
    if (t->weights && p->publish.count > 0)
        TRY(bucket_move(p, &p->publish, bucket, NULL,
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
    TRY(trainer_close_windows(t, e));
    TRY(trainer_ops(t)->sync(t->stream[STREAM_COMPUTE], e));
    TRY(comm_barrier(t->o.comm, e));
    t->steps_done = steps_done;
done:
    return result;
}
