// params.c -- draws the initial values of parameters on the device, and copies parameters between the
// host's memory and the tensors of HuggingFace's files, which may be transposed pieces of them.
// Called when a run starts and when it saves. Does not know which rank holds which shard.
#include "base/alloc.h"
#include "base/rng.h"
#include "base/size.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>

void model_param_init(const model *m, int p, uint64_t seed, int64_t first, int64_t count,
                      device_stream *on, float *out)
{
    const graph_param *d = m->param[p].decl;
    kernel_call c = {.kind = K_INIT};
    c.u.init =
        (kernel_init_args){.count = count,
                           .y = out,
                           .key = rng_key_make(seed, RNG_INIT, m->param[p].drawing, 0),
                           .index0 = (uint64_t)first,
                           .std = d->std,
                           .constant = d->init == INIT_CONSTANT ? d->std : d->init == INIT_ONES,
                           .normal = d->init == INIT_NORMAL,
                           .uniform = d->init == INIT_UNIFORM};
    device_launch(on, &c);
}

// The beginnings that files have in place of a parameter's. GPT2Model and LlamaModel write their tensors without the
// prefix that GPT2LMHeadModel and LlamaForCausalLM put before them. In the folder of a model that also reads images or
// sound, the text model has a prefix more: transformers 4 put it before all of its names, or only within `model.`.
static const struct {
    const char *of_model, *of_file;
} BEGINNINGS[] = {{"transformer.", ""},
                  {"model.", ""},
                  {"model.", "language_model.model."},
                  {"model.", "model.language_model."},
                  {"lm_head.", "language_model.lm_head."}};

// The beginning of all names in the files of an adapter that PEFT wrote, before those of its model.
static const char PEFT_PREFIX[] = "base_model.model.";

static const safetensors_tensor *find_behind(const safetensors *from, const char *prefix,
                                             const char *beginning, const char *name)
{
    char other[2 * PARAM_NAME_BYTES];
    snprintf(other, sizeof other, "%s%s%s", prefix, beginning, name);
    return safetensors_find(from, other);
}

const safetensors_tensor *model_tensor_find(const safetensors *from, const char *name)
{
    const safetensors_tensor *t = NULL;
    for (int peft = 0; peft < 2 && !t; peft++) {
        const char *prefix = peft ? PEFT_PREFIX : "";
        t = find_behind(from, prefix, "", name);
        for (size_t i = 0; !t && i < sizeof BEGINNINGS / sizeof *BEGINNINGS; i++) {
            const size_t bytes = strlen(BEGINNINGS[i].of_model);
            if (strncmp(name, BEGINNINGS[i].of_model, bytes) != 0) continue;
            t = find_behind(from, prefix, BEGINNINGS[i].of_file, name + bytes);
        }
    }
    return t;
}

enum { FILE_DIMS = 3 };

// Writes the shape that a piece has in files, with 0 behind its dimensions, and returns how many these are.
static int file_shape(const graph_param *d, int piece, int64_t dim[FILE_DIMS])
{
    const int64_t rows = d->piece[piece].rows, cols = d->dims == 2 ? graph_param_cols(d) : 0;
    const bool transposed = d->piece[piece].transposed, is_conv = d->piece[piece].is_conv;
    dim[0] = transposed ? cols : rows;
    dim[1] = is_conv ? 1 : transposed ? rows : cols;
    dim[2] = is_conv ? cols : 0;
    return d->dims + is_conv;
}

// Writes a shape of `dims` dimensions for a message: "3, 1, 4". Returns out.
static const char *show_shape(const int64_t *dim, int dims, char out[96])
{
    out[0] = 0;
    for (int i = 0; i < dims && i < 4; i++)
        snprintf(out + strlen(out), 96 - strlen(out), "%s%lld", i ? ", " : "", (long long)dim[i]);
    return out;
}

static status check_shape(const safetensors_tensor *t, const model_param *q, int piece, err *e)
{
    int64_t expected[FILE_DIMS];
    char found[96], valid[96];
    const int dims = file_shape(q->decl, piece, expected);
    if (t->nf4 && q->decl->piece[piece].transposed)
        return err_set(e, E_USAGE,
                       "tensor %s is quantised, and its rows are columns of the model's; valid: "
                       "weights that are not quantised",
                       t->name);
    bool same = t->dims == dims;
    for (int i = 0; i < dims; i++) same = same && t->dim[i] == expected[i];
    if (same && (t->type == F32 || t->type == BF16 || t->type == F16 || t->type == F64) &&
        t->known_type)
        return OK;
    if (same)
        return err_set(e, E_USAGE,
                       "tensor %s has a type that weights cannot have; valid: F32, BF16, F16, F64",
                       t->name);
    return err_set(e, E_USAGE, "tensor %s has shape [%s], the model's config.json makes it [%s]",
                   t->name, show_shape(t->dim, t->dims, found), show_shape(expected, dims, valid));
}

// Finds the tensor of piece i of parameter p.
static status find_piece(const model *m, int p, int i, const safetensors *from,
                         const safetensors_tensor **out, err *e)
{
    const model_param *q = &m->param[p];
    char name[PARAM_NAME_BYTES];
    model_param_name_expand(name, q->decl->piece[i].name, q->layer);
    *out = model_tensor_find(from, name);
    if (!*out) return err_set(e, E_USAGE, "tensor %s is missing", name);
    return check_shape(*out, q, i, e);
}

status model_param_find_file(const model *m, const model_param_file *f, const safetensors *from,
                             const safetensors_tensor **out, err *e)
{
    return find_piece(m, f->param, f->piece, from, out, e);
}

void model_param_transpose(const float *in, int64_t rows, int64_t cols, float *out)
{
    enum { TILE = 32 };
    for (int64_t r0 = 0; r0 < rows; r0 += TILE)
        for (int64_t c0 = 0; c0 < cols; c0 += TILE)
            for (int64_t r = r0; r < rows && r < r0 + TILE; r++)
                for (int64_t c = c0; c < cols && c < c0 + TILE; c++)
                    out[c * rows + r] = in[r * cols + c];
}

// Elements first … first + count-1 of [rows, cols], which t has as [cols, rows]. A tile's rows are few enough that
// the lines to which it writes stay in the cache.
static void load_transposed(const safetensors_tensor *t, int64_t rows, int64_t cols, int64_t first,
                            int64_t count, float *out)
{
    enum { TILE = 64 };
    const int64_t end = (first + count + cols - 1) / cols; // of the rows
    float tile[TILE];
    for (int64_t row = first / cols; row < end; row += TILE) {
        const int64_t high = size_min(TILE, end - row);
        for (int64_t c = 0; c < cols; c++) {
            safetensors_read(t, c * rows + row, high, tile);
            for (int64_t r = 0; r < high; r++) {
                const int64_t i = (row + r) * cols + c - first;
                if (i >= 0 && i < count) out[i] = tile[r];
            }
        }
    }
}

int64_t model_param_file_row(const graph_param *d, int piece, int64_t row, int64_t *follow)
{
    const int64_t *run = d->piece[piece].run, rows = d->piece[piece].rows;
    int64_t turn = 0, before = 0;
    for (int i = 0; i < PARAM_SECTIONS; i++) turn += run[i];
    *follow = rows - row;
    if (turn == 0) return row;
    for (; row >= rows / turn * *run; run++) row -= rows / turn * *run, before += *run;
    *follow = *run - row % *run;
    return row / *run * turn + before + row % *run;
}

// Elements first … first + count-1 of a piece that is not transposed.
static void load_rows(const safetensors_tensor *t, const graph_param *d, int piece, int64_t first,
                      int64_t count, float *out)
{
    const int64_t cols = graph_param_cols(d);
    for (int64_t i = first, n; i < first + count; i += n, out += n) {
        int64_t follow;
        const int64_t row = model_param_file_row(d, piece, i / cols, &follow), col = i % cols;
        n = size_min(follow * cols - col, first + count - i);
        safetensors_read(t, row * cols + col, n, out);
    }
}

status model_param_load(const model *m, int p, const safetensors *from, int64_t first,
                        int64_t count, float *out, err *e)
{
    status result = OK;
    const model_param *q = &m->param[p];
    const int64_t cols = graph_param_cols(q->decl);
    int64_t before = 0; // elements of the pieces before
    for (int i = 0; i < q->decl->pieces; i++) {
        const int64_t rows = q->decl->piece[i].rows;
        const int64_t begin = size_max(first - before, 0),
                      end = size_min(first + count - before, rows * cols);
        const safetensors_tensor *t;
        // Also where nothing of it is read: all ranks see the same error.
        TRY(find_piece(m, p, i, from, &t, e));
        before += rows * cols;
        if (begin >= end) continue;
        if (q->decl->piece[i].transposed)
            load_transposed(t, rows, cols, begin, end - begin, out);
        else
            load_rows(t, q->decl, i, begin, end - begin, out);
        out += end - begin;
        safetensors_release(from, t);
    }
    TRY(safetensors_check_whole(from, e));
done:
    return result;
}

// ---- The tensors of a folder that are no parameters

static bool begins_with(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

// Returns whether the files hold a text model beside other parts.
static bool is_composite(const safetensors *from)
{
    return safetensors_find(from, "language_model.model.embed_tokens.weight") ||
           safetensors_find(from, "model.language_model.embed_tokens.weight");
}

bool model_param_is_carried(const safetensors *from, const safetensors_tensor *t)
{
    // Masks and tables that old files hold beside the weights, and the layers of multi-token prediction:
    // transformers ignores both.
    static const char *const ends[] = {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"};
    static const char *const parts[] = {"vision_tower.", "multi_modal_projector.", "visual.",
                                        "embed_vision.", "audio_tower.",           "embed_audio."};
    const char *name = t->name;
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
        if (ends_with(name, ends[k])) return true;
    if (begins_with(name, "mtp.")) return true;
    if (!is_composite(from)) return false;
    if (begins_with(name, "model.")) name += strlen("model.");
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        if (begins_with(name, parts[k])) return true;
    return false;
}

// Returns the use of a tensor that is no piece.
static model_tensor_use use_of(const model *m, const safetensors *from, const safetensors_tensor *t)
{
    const bool tied = m->param[0].last_block != m->param[0].block;
    if (tied && t == model_tensor_find(from, "lm_head.weight")) return TENSOR_TIED_COPY;
    return model_param_is_carried(from, t) ? TENSOR_CARRIED : TENSOR_FOREIGN;
}

status model_param_match(const model *m, const safetensors *from, model_tensor_match *out, err *e)
{
    status result = OK;
    const size_t count = safetensors_count(from);
    size_t pieces = 0;
    *out = (model_tensor_match){.pieces = 0};
    for (int p = 0; p < m->params; p++) pieces += (size_t)m->param[p].decl->pieces;
    TRY(alloc_array(&out->piece, pieces, sizeof *out->piece, "a list of tensors", e));
    TRY(alloc_zeroed(&out->use, count, sizeof *out->use, "a list of tensors", e));
    for (int p = 0; p < m->params; p++)
        for (int i = 0; i < m->param[p].decl->pieces; i++) {
            const safetensors_tensor **found = &out->piece[out->pieces++];
            *found = NULL;
            if (m->param[p].decl->is_adapter) continue;
            TRY(find_piece(m, p, i, from, found, e));
            out->use[*found - safetensors_get(from, 0)] = TENSOR_PIECE;
        }
    for (size_t i = 0; i < count; i++) {
        const safetensors_tensor *t = safetensors_get(from, i);
        if (out->use[i] == TENSOR_PIECE) continue;
        out->use[i] = use_of(m, from, t);
        if (out->use[i] == TENSOR_FOREIGN)
            FAIL(E_USAGE, "tensor %s is not one of a %s model with this config.json", t->name,
                 m->family->name);
    }
done:
    return result;
}

void model_param_match_clear(model_tensor_match *t)
{
    free(t->piece);
    free(t->use);
    *t = (model_tensor_match){0};
}

status model_param_check_all(const model *m, const safetensors *from, err *e)
{
    model_tensor_match match;
    const status result = model_param_match(m, from, &match, e);
    model_param_match_clear(&match);
    return result;
}

status model_param_files_make(const model *m, dtype type, model_param_files *out, err *e)
{
    status result = OK;
    int most = 0;
    *out = (model_param_files){.file = NULL};
    for (int p = 0; p < m->params; p++) most += m->param[p].decl->pieces;
    TRY(alloc_zeroed(&out->file, (size_t)most, sizeof *out->file, "a list of tensors", e));
    TRY(alloc_zeroed(&out->info, (size_t)most, sizeof *out->info, "a list of tensors", e));
    for (int p = 0; p < m->params; p++) {
        const model_param *q = &m->param[p];
        int64_t first = 0;
        for (int i = 0; i < q->decl->pieces; i++) {
            model_param_file *f = &out->file[out->count];
            safetensors_tensor *t = &out->info[out->count++];
            model_param_name_expand(f->name, q->decl->piece[i].name, q->layer);
            f->param = p, f->piece = i, f->first_row = first;
            int64_t rows = q->decl->piece[i].rows, cols = graph_param_cols(q->decl);
            *t = (safetensors_tensor){.name = f->name,
                                      .type = type,
                                      .known_type = true,
                                      .bytes = (uint64_t)(rows * cols) * dtype_bytes(type)};
            t->dims = file_shape(q->decl, i, t->dim);
            first += rows;
        }
    }
done:
    return result;
}

void model_param_files_clear(model_param_files *f)
{
    free(f->file);
    free(f->info);
    *f = (model_param_files){0};
}

bool model_param_file_is_transposed(const model *m, const model_param_file *f)
{
    return m->param[f->param].decl->piece[f->piece].transposed;
}

// Copies the rows of a piece [rows, cols] in the file's order to `out`, or, with `back`, rows in the file's order to the
// piece.
static void copy_rows(const graph_param *d, int piece, const float *in, float *out, bool back)
{
    const int64_t cols = graph_param_cols(d), rows = d->piece[piece].rows;
    for (int64_t row = 0, n; row < rows; row += n) {
        const int64_t of_file = model_param_file_row(d, piece, row, &n);
        memcpy(out + (back ? row : of_file) * cols, in + (back ? of_file : row) * cols,
               (size_t)(n * cols) * sizeof *out);
    }
}

void model_param_file_extract(const model *m, const model_param_file *f, const float *full,
                              float *out)
{
    const model_param *q = &m->param[f->param];
    int64_t rows = q->decl->piece[f->piece].rows, cols = graph_param_cols(q->decl);
    const float *from = full + f->first_row * cols;
    if (q->decl->piece[f->piece].transposed)
        model_param_transpose(from, rows, cols, out);
    else
        copy_rows(q->decl, f->piece, from, out, false);
}

void model_param_file_insert(const model *m, const model_param_file *f, const float *in,
                             float *full)
{
    const model_param *q = &m->param[f->param];
    int64_t rows = q->decl->piece[f->piece].rows, cols = graph_param_cols(q->decl);
    float *to = full + f->first_row * cols;
    if (q->decl->piece[f->piece].transposed)
        model_param_transpose(in, cols, rows, to);
    else
        copy_rows(q->decl, f->piece, in, to, true);
}
