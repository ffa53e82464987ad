// shards.c -- which elements of a full parameter the shard of a rank holds, such as a tensor-parallel one. Called
// when weights are drawn or read, and when they are saved. Does not know how data parallelism shards
// a shard further.
//
// Where the ranks outnumber the heads of keys and values, adjacent ranks have the same rows at the end of their shards.
//
// A shard is a sequence of runs: elements that are contiguous both in the shard and in the full
// parameter. Where rows are sharded there is one run for each section (queries, keys, values); where
// columns are sharded, one for each row.
#include "model/model.h"

static int64_t cols_share(const model *m, const graph_param *d, const int coord[AXES],
                          int64_t *first)
{
    return graph_shard(d->roles[1], graph_param_cols(d), &m->position.mesh, coord, first);
}

static int64_t section_share(const model *m, const graph_param *d, int section,
                             const int coord[AXES], int64_t *first)
{
    return graph_shard_section(d->roles[0], &d->section[section], &m->position.mesh, coord, first);
}

int64_t model_param_shard_rows(const model *m, int p, const int coord[AXES])
{
    const graph_param *d = m->param[p].decl;
    int64_t rows = 0;
    for (int i = 0; i < d->sections; i++) rows += section_share(m, d, i, coord, NULL);
    return rows;
}

model_shared model_param_shared(const model *m, int p, const int coord[AXES])
{
    const graph_param *d = m->param[p].decl;
    model_shared s = {.first_row = 0, .ranks = 1};
    for (int i = 0; i < d->sections && s.ranks == 1; i++) {
        s.ranks = graph_section_copies(d->roles[0], &d->section[i], &m->position.mesh);
        if (s.ranks == 1) s.first_row += section_share(m, d, i, coord, NULL);
    }
    return s;
}

bool model_param_writes_row(const model *m, int p, const int coord[AXES], int64_t row)
{
    const model_shared s = model_param_shared(m, p, coord);
    return row < s.first_row || s.ranks == 1 ||
           mesh_group_index(&m->position.mesh, coord, m->param[p].sharded) % s.ranks == 0;
}

int64_t model_param_shard_cols(const model *m, int p, const int coord[AXES])
{
    const graph_param *d = m->param[p].decl;
    return cols_share(m, d, coord, NULL);
}

// Returns how many elements are left in the run that contains the shard's element `element`, itself
// included. *full_element is the same element's index in the full parameter.
static int64_t run_from(const model *m, int p, const int coord[AXES], int64_t element,
                        int64_t *full_element)
{
    const graph_param *d = m->param[p].decl;
    const int64_t cols = graph_param_cols(d);
    int64_t first_row, first_col, rows, before = 0; // full rows before section i
    const int64_t local = cols_share(m, d, coord, &first_col);
    int64_t row = element / local;
    const int64_t col = element % local;
    for (int i = 0; row >= (rows = section_share(m, d, i, coord, &first_row)); i++)
        row -= rows, before += d->section[i].rows;
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
