// parts.c -- parameters cut over the ranks of tensor parallelism, on the host: which elements of
// the whole a rank's part holds. Called when weights are drawn or read, and when they are saved;
// knows nothing of devices, nor of how a part is divided further.
#include "model/model.h"

int64_t param_part_rows(const model *m, int p, int tp_rank)
{
    (void)tp_rank;
    return m->param[p].decl->dim[0];
}

int64_t param_part_cols(const model *m, int p, int tp_rank)
{
    (void)tp_rank;
    return m->param[p].decl->dims == 2 ? m->param[p].decl->dim[1] : 1;
}

void param_take_part(const model *m, int p, int tp_rank, const float *whole, float *part)
{
    (void)tp_rank;
    memcpy(part, whole, (size_t)m->param[p].count * sizeof *part);
}

void param_put_part(const model *m, int p, int tp_rank, const float *part, float *whole)
{
    (void)tp_rank;
    memcpy(whole, part, (size_t)m->param[p].count * sizeof *part);
}

void param_init_part(const model *m, int p, int tp_rank, uint64_t seed, int64_t first,
                     int64_t count, float *out)
{
    (void)tp_rank;
    param_init(m, p, seed, first, count, out);
}
