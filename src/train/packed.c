// packed.c -- packs weights as NF4 rows and unpacks them. See packed.h. It knows no files; the model says which rows of a
// parameter are which rows of a tensor.
#include "train/packed.h"

#include "base/alloc.h"
#include "base/nf4.h"
#include "base/size.h"
#include "store/safetensors_nf4.h"
#include "train/state_shards.h"
#include "train/trainer_private.h"

// What double quantisation needs of all tensors of a parameter.
typedef struct packed_scales {
    nf4_scales *piece;   // [pieces]
    float *absmax;       // [blocks] of all pieces, in the order of the tensors
    float *maxima;       // of all pieces
    unsigned char *code; // [blocks]
    float *row;          // [cols] a row in the compute type
} packed_scales;

static void scales_clear(packed_scales *s)
{
    free(s->piece);
    free(s->absmax);
    free(s->maxima);
    free(s->code);
    free(s->row);
}

static dtype compute_type(const trainer *t, int p)
{
    return t->plan->group[t->plan->row[p].group].o.compute;
}

static status scales_open(const model_param *q, packed_scales *out, err *e)
{
    status result = OK;
    const graph_param *d = q->decl;
    const size_t blocks = (size_t)(q->count / NF4_BLOCK), pieces = (size_t)d->pieces;
    TRY(alloc_zeroed(&out->piece, pieces, sizeof *out->piece, q->name, e));
    TRY(alloc_array(&out->absmax, blocks, sizeof *out->absmax, q->name, e));
    TRY(alloc_array(&out->maxima, blocks / NF4_GROUP + pieces, sizeof *out->maxima, q->name, e));
    TRY(alloc_array(&out->code, blocks, sizeof *out->code, q->name, e));
    TRY(alloc_array(&out->row, (size_t)graph_param_cols(d), sizeof *out->row, q->name, e));
done:
    return result;
}

// Measures the scales of a piece from its rows at `full`, in the order of the tensor's rows.
static void measure(const graph_param *d, int piece, dtype type, const float *full,
                    packed_scales *s, int64_t first_block, float *maxima)
{
    const int64_t cols = graph_param_cols(d), blocks = cols / NF4_BLOCK,
                  rows = d->piece[piece].rows;
    float *absmax = s->absmax + first_block;
    for (int64_t row = 0, follow; row < rows; row++) {
        const int64_t at = model_param_file_row(d, piece, row, &follow) * blocks;
        dtype_round(type, full + row * cols, (size_t)cols, s->row);
        for (int64_t b = 0; b < blocks; b++)
            absmax[at + b] = nf4_block_absmax(s->row + b * NF4_BLOCK);
    }
    s->piece[piece] = (nf4_scales){.mean = nf4_mean(absmax, rows * blocks),
                                   .absmax = absmax,
                                   .maxima = maxima,
                                   .code = s->code + first_block};
    nf4_quantize_scales(&s->piece[piece], rows * blocks);
}

// Takes codes and scales of a piece that bitsandbytes has quantised.
static void take_scales(const safetensors_nf4 *from, int64_t blocks, float *maxima,
                        unsigned char *code, nf4_scales *out)
{
    memcpy(maxima, from->maxima, (size_t)size_ceil_div(blocks, NF4_GROUP) * sizeof *maxima);
    memcpy(code, from->absmax, (size_t)blocks);
    *out = (nf4_scales){.mean = from->mean, .maxima = maxima, .code = code, .packed = from->codes};
}

// `from` NULL: no folder has the parameter.
static status find_scales(const model *m, int p, dtype type, const safetensors *from,
                          const float *full, packed_scales *s, err *e)
{
    status result = OK;
    const graph_param *d = m->param[p].decl;
    const int64_t cols = graph_param_cols(d);
    int64_t block = 0, maxima = 0;
    for (int i = 0; i < d->pieces; i++) {
        const int64_t blocks = d->piece[i].rows * (cols / NF4_BLOCK);
        const model_param_file of = {.param = p, .piece = i};
        const safetensors_tensor *t = NULL;
        if (from) TRY(model_param_find_file(m, &of, from, &t, e));
        if (t && safetensors_nf4_fits(t))
            take_scales(t->nf4, blocks, s->maxima + maxima, s->code + block, &s->piece[i]);
        else
            measure(d, i, type, full + block * NF4_BLOCK, s, block, s->maxima + maxima);
        block += blocks;
        maxima += size_ceil_div(blocks, NF4_GROUP);
    }
done:
    return result;
}

// Packs row `row` of the shard that this rank computes with.
static void pack_row(const trainer *t, int p, const float *full, packed_scales *s, int64_t row,
                     void *out)
{
    const graph_param *d = t->model->param[p].decl;
    const int64_t cols = graph_param_cols(d), width = t->plan->row[p].cols;
    int64_t full_row = row, col = 0, in_piece, follow;
    int piece = 0;
    if (t->model->param[p].sharded)
        model_param_shard_place(t->model, p, t->plan->coord, row, &full_row, &col);
    in_piece = full_row;
    while (in_piece >= d->piece[piece].rows) in_piece -= d->piece[piece++].rows;
    const int64_t of_file = model_param_file_row(d, piece, in_piece, &follow);
    dtype_round(compute_type(t, p), full + full_row * cols + col, (size_t)width, s->row);
    nf4_pack_row(s->row, width, &s->piece[piece], (of_file * cols + col) / NF4_BLOCK, out);
}

// Packs shard `want` of row r piece by piece, and copies it to the device.
static status write_rows(trainer *t, int p, const float *full, packed_scales *s, err *e)
{
    status result = OK;
    enum { PIECE_WORDS = 1 << 18 };
    const plan_row *r = &t->plan->row[p];
    const state_shards x = state_shards_of(&t->plan->group[r->group], STATE_WEIGHT);
    const int64_t width = plan_row_width(t->plan, r, x.shards), most = 1 + PIECE_WORDS / width;
    uint32_t *packed = NULL;
    plan_shard want;
    char *to;
    TRY(state_shards_find(t, &x, r, true, &to, &want, e));
    TRY(alloc_array(&packed, (size_t)(most * width), sizeof *packed, t->model->param[p].name, e));
    for (int64_t done = 0, rows; done < want.count / width; done += rows) {
        rows = size_min(most, want.count / width - done);
        for (int64_t i = 0; i < rows; i++)
            pack_row(t, p, full, s, want.first / width + done + i, packed + i * width);
        TRY(device_upload_issue(trainer_stream(t, STREAM_COMPUTE),
                                to + (size_t)(done * width) * sizeof *packed, packed,
                                (size_t)(rows * width) * sizeof *packed, e));
    }
    if (state_is_staged(t, &x, p)) TRY(trainer_ops(t)->sync(trainer_stream(t, STREAM_COMPUTE), e));
done:
    free(packed);
    return result;
}

status packed_write(trainer *t, int p, const safetensors *from, const float *full, err *e)
{
    status result = OK;
    const model_param *q = &t->model->param[p];
    packed_scales s = {.piece = NULL};
    TRY(scales_open(q, &s, e));
    TRY(find_scales(t->model, p, compute_type(t, p), from, full, &s, e));
    TRY(write_rows(t, p, full, &s, e));
done:
    scales_clear(&s);
    return result;
}

// ---- Unpacking

void packed_to_rows(const trainer *t, const plan_row *r, plan_shard s, const void *packed,
                    float *to)
{
    const plan_group *g = &t->plan->group[r->group];
    const int64_t width = plan_row_width(t->plan, r, g->weight);
    for (int64_t i = 0; i < s.count / width; i++) {
        float *row = to + (s.first / width + i) * r->cols;
        nf4_unpack_row((const uint32_t *)packed + i * width, r->cols, row);
        dtype_round(g->o.compute, row, (size_t)r->cols, row);
    }
}

status packed_compare(trainer *t, int p, const float *full, bool *same, err *e)
{
    status result = OK;
    const plan_row *r = &t->plan->row[p];
    const state_shards x = state_shards_of(&t->plan->group[r->group], STATE_WEIGHT);
    float *shard = NULL, *own = NULL;
    char *packed = NULL;
    plan_shard s;
    char *from;
    TRY(state_shards_find(t, &x, r, false, &from, &s, e));
    TRY(alloc_array(&shard, (size_t)r->count, sizeof *shard, r->name, e));
    TRY(alloc_array(&own, (size_t)r->count, sizeof *own, r->name, e));
    TRY(alloc_array(&packed, (size_t)s.count, sizeof(float), r->name, e));
    TRY(device_download(trainer_stream(t, STREAM_COMPUTE), packed, from,
                        (size_t)s.count * sizeof(float), e));
    if (t->model->param[p].sharded)
        model_param_take_shard(t->model, p, t->plan->coord, full, shard);
    else
        memcpy(shard, full, (size_t)r->count * sizeof *shard);
    packed_to_rows(t, r, s, packed, own);
    const int64_t width = plan_row_width(t->plan, r, x.shards);
    const size_t first = (size_t)(s.first / width * r->cols);
    *same =
        memcmp(shard + first, own + first, (size_t)(s.count / width * r->cols) * sizeof *own) == 0;
done:
    free(shard);
    free(own);
    free(packed);
    return result;
}
