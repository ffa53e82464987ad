// shards.c -- parameters cut over the ranks of tensor parallelism, on the host: which elements of
// the whole a rank's part holds. Called when weights are drawn or read, and when they are saved;
// knows nothing of devices, nor of how a part is divided further.
//
// A part is a sequence of runs: elements that lie back to back both in it and in the whole. Split
// rows give a run per block of rows that is cut by itself (queries, keys, values), split columns
// one per row.
#include "model/model.h"

static int64_t whole_cols(const model_param *q)
{
    return q->decl->dims == 2 ? q->decl->dim[1] : 1;
}

static int64_t part_of(const model *m, const graph_param *d, int64_t count, int rank,
                       int64_t *first)
{
    return graph_shard(d->roles[d->shard_dim], count, m->cut.ranks, rank, first);
}

int64_t model_param_shard_rows(const model *m, int p, int tp_rank)
{
    const graph_param *d = m->param[p].decl;
    if (d->shard_dim != 0) return d->dim[0];
    int64_t rows = 0;
    for (int i = 0; i < d->sections; i++) rows += part_of(m, d, d->section[i], tp_rank, NULL);
    return rows;
}

int64_t model_param_shard_cols(const model *m, int p, int tp_rank)
{
    const model_param *q = &m->param[p];
    return q->decl->shard_dim == 1 ? part_of(m, q->decl, q->decl->dim[1], tp_rank, NULL)
                                   : whole_cols(q);
}

// The run that element `at` of the part lies in: from there on, how many elements, and where in the
// whole.
static int64_t run_at_element(const model *m, int p, int rank, int64_t at, int64_t *whole_at)
{
    const model_param *q = &m->param[p];
    const graph_param *d = q->decl;
    int64_t cols = whole_cols(q), first = 0;
    *whole_at = at;
    if (d->shard_dim < 0) return q->count - at;
    if (d->shard_dim == 1) {
        int64_t own = part_of(m, d, cols, rank, &first), row = at / own, col = at % own;
        *whole_at = row * cols + first + col;
        return own - col;
    }
    int64_t row = at / cols, begin = 0; // of the section, in the whole
    for (int i = 0;; i++) {
        int64_t own = part_of(m, d, d->section[i], rank, &first);
        if (row < own) {
            *whole_at = (begin + first + row) * cols + at % cols;
            return (own - row) * cols - at % cols;
        }
        row -= own, begin += d->section[i];
    }
}

static int64_t part_count(const model *m, int p, int rank)
{
    return model_param_shard_rows(m, p, rank) * model_param_shard_cols(m, p, rank);
}

void model_param_take_shard(const model *m, int p, int tp_rank, const float *whole, float *part)
{
    int64_t count = part_count(m, p, tp_rank), from;
    for (int64_t at = 0, run; at < count; at += run) {
        run = run_at_element(m, p, tp_rank, at, &from);
        memcpy(part + at, whole + from, (size_t)run * sizeof *part);
    }
}

void model_param_put_shard(const model *m, int p, int tp_rank, const float *part, float *whole)
{
    int64_t count = part_count(m, p, tp_rank), to;
    for (int64_t at = 0, run; at < count; at += run) {
        run = run_at_element(m, p, tp_rank, at, &to);
        memcpy(whole + to, part + at, (size_t)run * sizeof *part);
    }
}

void model_param_init_shard(const model *m, int p, int tp_rank, uint64_t seed, int64_t first,
                            int64_t count, device_stream *on, float *out)
{
    int64_t from;
    for (int64_t at = 0, run; at < count; at += run) {
        run = run_at_element(m, p, tp_rank, first + at, &from);
        if (run > count - at) run = count - at;
        model_param_init(m, p, seed, from, run, on, out + at);
    }
}
