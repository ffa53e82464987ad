// shards.c -- which elements of a full parameter the shard of a tensor-parallel rank holds. Called
// when weights are drawn or read, and when they are saved. Does not know how data parallelism shards
// a shard further.
//
// A shard is a sequence of runs: elements that are contiguous both in the shard and in the full
// parameter. Where rows are sharded there is one run for each section (queries, keys, values); where
// columns are sharded, one for each row.
#include "model/model.h"

// This rank's share of `count` rows or columns of the dimension that is sharded.
static int64_t local_count(const model *m, const graph_param *d, int64_t count, int rank,
                           int64_t *first)
{
    return graph_shard(d->roles[d->shard_dim], count, m->tp.ranks, rank, first);
}

int64_t model_param_shard_rows(const model *m, int p, int tp_rank)
{
    const graph_param *d = m->param[p].decl;
    if (d->shard_dim != 0) return d->dim[0];
    int64_t rows = 0;
    for (int i = 0; i < d->sections; i++) rows += local_count(m, d, d->section[i], tp_rank, NULL);
    return rows;
}

int64_t model_param_shard_cols(const model *m, int p, int tp_rank)
{
    const graph_param *d = m->param[p].decl;
    return d->shard_dim == 1 ? local_count(m, d, d->dim[1], tp_rank, NULL) : graph_param_cols(d);
}

// Returns how many elements are left in the run that contains the shard's element `element`, itself
// included. *full_element is the same element's index in the full parameter.
static int64_t run_from(const model *m, int p, int rank, int64_t element, int64_t *full_element)
{
    const graph_param *d = m->param[p].decl;
    int64_t cols = graph_param_cols(d), first = 0;
    *full_element = element;
    if (d->shard_dim < 0) return m->param[p].count - element;
    if (d->shard_dim == 1) {
        int64_t local = local_count(m, d, cols, rank, &first);
        int64_t row = element / local, col = element % local;
        *full_element = row * cols + first + col;
        return local - col;
    }
    int64_t row = element / cols, col = element % cols;
    int64_t section_row = 0; // where section i starts in the full parameter
    for (int i = 0;; i++) {
        int64_t local = local_count(m, d, d->section[i], rank, &first);
        if (row < local) {
            *full_element = (section_row + first + row) * cols + col;
            return (local - row) * cols - col;
        }
        row -= local, section_row += d->section[i];
    }
}

static int64_t shard_count(const model *m, int p, int rank)
{
    return model_param_shard_rows(m, p, rank) * model_param_shard_cols(m, p, rank);
}

void model_param_take_shard(const model *m, int p, int tp_rank, const float *full, float *shard)
{
    int64_t count = shard_count(m, p, tp_rank), from;
    for (int64_t i = 0, run; i < count; i += run) {
        run = run_from(m, p, tp_rank, i, &from);
        memcpy(shard + i, full + from, (size_t)run * sizeof *shard);
    }
}

void model_param_put_shard(const model *m, int p, int tp_rank, const float *shard, float *full)
{
    int64_t count = shard_count(m, p, tp_rank), to;
    for (int64_t i = 0, run; i < count; i += run) {
        run = run_from(m, p, tp_rank, i, &to);
        memcpy(full + to, shard + i, (size_t)run * sizeof *shard);
    }
}

int64_t model_param_shard_place(const model *m, int p, int tp_rank, int64_t row, int64_t *full_row,
                                int64_t *full_col)
{
    const graph_param *d = m->param[p].decl;
    const int64_t cols = graph_param_cols(d);
    int64_t full;
    const int64_t left =
        run_from(m, p, tp_rank, row * model_param_shard_cols(m, p, tp_rank), &full);
    *full_row = full / cols;
    *full_col = full % cols;
    return d->shard_dim == 1 ? d->dim[0] - row : left / cols;
}

void model_param_init_shard(const model *m, int p, int tp_rank, uint64_t seed, int64_t first,
                            int64_t count, device_stream *on, float *out)
{
    int64_t from;
    for (int64_t i = 0, run; i < count; i += run) {
        run = run_from(m, p, tp_rank, first + i, &from);
        if (run > count - i) run = count - i;
        model_param_init(m, p, seed, from, run, on, out + i);
    }
}
