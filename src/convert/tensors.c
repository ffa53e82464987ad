// tensors.c -- the tensors of GGUF files: their names by the part that a tensor plays in a decoder, and how their rows and
// elements follow from those of a HuggingFace folder. Export and import call it. It does not know keys.
//
// GGUF's names are made of parts, such as blk.3.attn_q.weight. The form of a family (model/decoder.h) says which of its
// tensors plays which part.
#include "convert/families.h"

#include "base/alloc.h"
#include "model/decoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct part_name {
    const char *hf; // in the form; NULL: the family has no such tensor
    const char *gguf;
    int64_t heads;
    bool keeps_f32;
} part_name;

enum { PARTS_MOST = 24 };

// Adds a linear layer: its pieces under names of their own, or the one tensor.
static int add_linear(part_name *p, int n, const decoder_tensor *t, const char *const names[3],
                      const char *fused, const int64_t heads[3])
{
    if (t->piece[0]) {
        for (int i = 0; i < DECODER_PIECES && t->piece[i]; i++)
            p[n++] =
                (part_name){.hf = t->piece[i], .gguf = names[i], .heads = heads ? heads[i] : 0};
        return n;
    }
    p[n++] = (part_name){.hf = t->name, .gguf = fused};
    return n;
}

// Lists the parts of a family's decoder.
static int list_parts(const convert_family *f, const model_config *c, part_name p[PARTS_MOST])
{
    static const char *const qkv[] = {"attn_q", "attn_k", "attn_v"};
    static const char *const gate_up[] = {"ffn_gate", "ffn_up", NULL};
    static const char *const norms[DECODER_NORMS] = {[BEFORE_ATTENTION] = "attn_norm",
                                                     [AFTER_ATTENTION] = "post_attention_norm",
                                                     [BEFORE_MLP] = "ffn_norm",
                                                     [AFTER_MLP] = "post_ffw_norm"};
    const decoder_names *names = &c->family->decoder->names;
    const bool permutes = f->flags & PERMUTES;
    const int64_t heads[] = {permutes ? c->heads : 0, permutes ? c->kv_heads : 0, 0};
    int n = 0;
    p[n++] = (part_name){.hf = names->embedding, .gguf = "token_embd"};
    p[n++] = (part_name){.hf = names->positions, .gguf = "position_embd", .keeps_f32 = true};
    p[n++] = (part_name){.hf = names->final_norm, .gguf = "output_norm"};
    p[n++] = (part_name){.hf = names->head, .gguf = "output"};
    for (int i = 0; i < DECODER_NORMS; i++)
        p[n++] =
            (part_name){.hf = names->norm[i],
                        .gguf = i == BEFORE_MLP && f->flags & POST_ATTENTION ? "post_attention_norm"
                                                                             : norms[i]};
    n = add_linear(p, n, &names->qkv, qkv, "attn_qkv", heads);
    n = add_linear(p, n, &names->output, (const char *const[]){"attn_output", NULL, NULL},
                   "attn_output", NULL);
    p[n++] = (part_name){.hf = names->query_norm, .gguf = "attn_q_norm"};
    p[n++] = (part_name){.hf = names->key_norm, .gguf = "attn_k_norm"};
    n = add_linear(p, n, &names->up, gate_up, "ffn_up", NULL);
    return add_linear(p, n, &names->down, (const char *const[]){"ffn_down", NULL, NULL}, "ffn_down",
                      NULL);
}

// Finds the part of a tensor whose name, with "{}" for the layer, is `pattern`. *end is ".weight" or ".bias".
static const part_name *find_part(const part_name *p, int count, const char *pattern,
                                  const char **end)
{
    *end = strrchr(pattern, '.');
    if (!*end || (strcmp(*end, ".weight") != 0 && strcmp(*end, ".bias") != 0)) return NULL;
    const size_t bytes = (size_t)(*end - pattern);
    for (int i = 0; i < count; i++)
        if (p[i].hf && strncmp(p[i].hf, pattern, bytes) == 0 && !p[i].hf[bytes]) return &p[i];
    return NULL;
}

static status describe(const convert_family *f, const model_param *q, int piece,
                       const part_name *parts, int count, convert_tensor *out, err *e)
{
    status result = OK;
    const graph_param *d = q->decl;
    const char *pattern = d->piece[piece].name, *end;
    const part_name *p = find_part(parts, count, pattern, &end);
    model_param_name_expand(out->hf, pattern, q->layer);
    if (!p) FAIL(E_USAGE, "tensor %s of a %s model has no name in GGUF files", out->hf, f->family);
    if (strstr(pattern, "{}"))
        (void)snprintf(out->name, sizeof out->name, "blk.%d.%s%s", q->layer, p->gguf, end);
    else
        (void)snprintf(out->name, sizeof out->name, "%s%s", p->gguf, end);
    out->is_vector = d->dims == 1;
    out->rows = out->is_vector ? 1 : d->piece[piece].rows;
    out->cols = out->is_vector ? d->piece[piece].rows : graph_param_cols(d);
    out->transposed = d->piece[piece].transposed;
    out->heads = p->heads;
    const char *norm = strstr(p->gguf, "_norm");
    out->is_norm = norm && !norm[strlen("_norm")];
    out->keeps_f32 = p->keeps_f32 || out->is_vector || out->is_norm;
    out->shift = out->is_norm && f->flags & PLUS_ONE ? 1 : 0;
done:
    return result;
}

status convert_tensors_make(const convert_family *f, const model_config *c, const model *m,
                            convert_tensors *out, err *e)
{
    status result = OK;
    part_name parts[PARTS_MOST];
    const int count = list_parts(f, c, parts);
    int pieces = 0;
    *out = (convert_tensors){NULL, 0};
    for (int p = 0; p < m->params; p++) pieces += m->param[p].decl->pieces;
    TRY(alloc_zeroed(&out->item, (size_t)pieces, sizeof *out->item, "a list of tensors", e));
    for (int p = 0; p < m->params; p++)
        for (int i = 0; i < m->param[p].decl->pieces; i++)
            TRY(describe(f, &m->param[p], i, parts, count, &out->item[out->count++], e));
done:
    if (result != OK) convert_tensors_clear(out);
    return result;
}

void convert_tensors_clear(convert_tensors *t)
{
    free(t->item);
    *t = (convert_tensors){NULL, 0};
}

// ---- Rows. Of `n` rows of heads, the folder has the first halves of the columns that rotate together and then the second
// halves; the file has each pair side by side.

static int64_t in_folder(int64_t row, int64_t n, int64_t heads)
{
    if (heads == 0) return row;
    const int64_t width = n / heads, i = row % width;
    return row - i + i % 2 * (width / 2) + i / 2;
}

static int64_t in_file(int64_t row, int64_t n, int64_t heads)
{
    if (heads == 0) return row;
    const int64_t width = n / heads, i = row % width;
    return row - i + i % (width / 2) * 2 + i / (width / 2);
}

void convert_row_from_folder(const convert_tensor *t, const safetensors_tensor *from, int64_t row,
                             float *out)
{
    if (t->transposed || (t->is_vector && t->heads)) {
        for (int64_t i = 0; i < t->cols; i++) {
            const int64_t at_folder =
                t->transposed ? i * t->rows + row : in_folder(i, t->cols, t->heads);
            safetensors_read(from, at_folder, 1, out + i);
        }
    } else {
        const int64_t r = t->is_vector ? row : in_folder(row, t->rows, t->heads);
        safetensors_read(from, r * t->cols, t->cols, out);
    }
    for (int64_t i = 0; t->shift != 0 && i < t->cols; i++) out[i] += t->shift;
}

void convert_row_from_file(const convert_tensor *t, const gguf_tensor *from, int64_t row,
                           float *line, float *out)
{
    const uint64_t bytes = (uint64_t)t->cols / from->kind->elements * from->kind->bytes;
    const int64_t r = t->is_vector ? row : in_file(row, t->rows, t->heads);
    gguf_dequantize(from->kind, from->data + (uint64_t)r * bytes, 0, t->cols, line);
    for (int64_t i = 0; i < t->cols; i++)
        out[i] = line[t->is_vector ? in_file(i, t->cols, t->heads) : i] - t->shift;
}
