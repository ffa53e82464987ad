// shards.c -- which elements of a full parameter the shard of a rank holds, such as a tensor-parallel one. Called
// when weights are drawn or read, and when they are saved. Does not know how data parallelism shards
// a shard further.
//
// A shard is a sequence of runs: elements that are contiguous both in the shard and in the full
// parameter. Where rows are sharded there is one run for each section (queries, keys, values); where
// columns are sharded, one for each row.
#include "model/model.h"

// The share of `count` elements of dimension `dim`.
static int64_t share(const model *m, const graph_param *d, int dim, int64_t count,
                     const int coord[AXES], int64_t *first)
{
    return graph_shard(d->roles[dim], count, &m->position.mesh, coord, first);
}

int64_t model_param_shard_rows(const model *m, int p, const int coord[AXES])
{
    const graph_param *d = m->param[p].decl;
    int64_t rows = 0;
    for (int i = 0; i < d->sections; i++) rows += share(m, d, 0, d->section[i], coord, NULL);
    return rows;
}

int64_t model_param_shard_cols(const model *m, int p, const int coord[AXES])
{
    const graph_param *d = m->param[p].decl;
    return share(m, d, 1, graph_param_cols(d), coord, NULL);
}

// Returns how many elements are left in the run that contains the shard's element `element`, itself
// included. *full_element is the same element's index in the full parameter.
static int64_t run_from(const model *m, int p, const int coord[AXES], int64_t element,
                        int64_t *full_element)
{
    const graph_param *d = m->param[p].decl;
    const int64_t cols = graph_param_cols(d);
    int64_t first_row, first_col, rows, before = 0; // full rows before section i
    const int64_t local = share(m, d, 1, cols, coord, &first_col);
    int64_t row = element / local;
    const int64_t col = element % local;
    for (int i = 0; row >= (rows = share(m, d, 0, d->section[i], coord, &first_row)); i++)
        row -= rows, before += d->section[i];
    *full_element = (before + first_row + row) * cols + first_col + col;
    return local < cols ? local - col : (rows - row) * cols - col;
}

static int64_t shard_count(const model *m, int p, const int coord[AXES])
{
    return model_param_shard_rows(m, p, coord) * model_param_shard_cols(m, p, coord);
}

void model_param_take_shard(const model *m, int p, const int coord[AXES], const float *full,
                            float *shard)
{
    int64_t count = shard_count(m, p, coord), from;
    for (int64_t i = 0, run; i < count; i += run) {
        run = run_from(m, p, coord, i, &from);
        memcpy(shard + i, full + from, (size_t)run * sizeof *shard);
    }
}

void model_param_put_shard(const model *m, int p, const int coord[AXES], const float *shard,
                           float *full)
{
    int64_t count = shard_count(m, p, coord), to;
    for (int64_t i = 0, run; i < count; i += run) {
        run = run_from(m, p, coord, i, &to);
        memcpy(full + to, shard + i, (size_t)run * sizeof *shard);
    }
}

int64_t model_param_shard_place(const model *m, int p, const int coord[AXES], int64_t row,
                                int64_t *full_row, int64_t *full_col)
{
    const int64_t cols = graph_param_cols(m->param[p].decl),
                  local = model_param_shard_cols(m, p, coord);
    int64_t full;
    const int64_t left = run_from(m, p, coord, row * local, &full);
    *full_row = full / cols;
    *full_col = full % cols;
    return local < cols ? model_param_shard_rows(m, p, coord) - row : left / cols;
}

void model_param_init_shard(const model *m, int p, const int coord[AXES], uint64_t seed,
                            int64_t first, int64_t count, device_stream *on, float *out)
{
    int64_t from;
    for (int64_t i = 0, run; i < count; i += run) {
        run = run_from(m, p, coord, first + i, &from);
        if (run > count - i) run = count - i;
        model_param_init(m, p, seed, from, run, on, out + i);
    }
}
