// tensors.c -- the tensors of GGUF files: their names by the part that a tensor plays in a decoder, and how their rows and
// elements follow from those of a HuggingFace folder. Export and import call it. It does not know keys.
//
// GGUF's names are made of parts, such as blk.3.attn_q.weight. The form of a family (model/decoder.h) says which of its
// tensors plays which part.
#include "convert/families.h"

#include "base/alloc.h"
#include "model/decoder.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct part_name {
    const char *hf; // in the form; NULL: the family has no such tensor
    const char *gguf;
    convert_order order;
    bool of_cols;   // the order is that of columns
    bool keeps_f32; // and so do vectors and norms
    bool is_full;   // both names are those of the tensors
} part_name;

enum { PARTS_MOST = 32 };

// The last part of a tensor's name in folders, that of its tensor in files, and the keys that hold it in place of one.
static const struct {
    const char *hf, *gguf, *key;
} ENDS[] = {{".weight", ".weight", NULL},        {".bias", ".bias", NULL},
            {".sinks", ".weight", NULL},         {".alpha_p", NULL, "xielu.alpha_p"},
            {".alpha_n", NULL, "xielu.alpha_n"}, {".beta", NULL, "xielu.beta"},
            {".eps", NULL, "xielu.eps"}};

// Adds a linear layer: its pieces under names of their own, or the one tensor.
static int add_linear(part_name *p, int n, const decoder_tensor *t, const char *const names[3],
                      const char *fused, const convert_order orders[3])
{
    if (t->piece[0]) {
        for (int i = 0; i < DECODER_PIECES && t->piece[i]; i++) {
            p[n] = (part_name){.hf = t->piece[i], .gguf = names[i]};
            if (orders) p[n].order = orders[i];
            n++;
        }
        return n;
    }
    p[n++] = (part_name){.hf = t->name, .gguf = fused};
    return n;
}

// Adds a gated delta rule, and the taps of convolutions. The folder has the heads of values key head by key head; the file
// has the first of every key head, then the second, and so on.
static int add_delta(part_name *p, int n, const model_config *c)
{
    const decoder_delta *d = &c->family->decoder->names.delta;
    const model_delta_config *of = &c->delta;
    const bool is_delta = c->family->decoder->mixer == MIXER_DELTA;
    const char *taps = c->family->decoder->names.taps;
    if (!is_delta) {
        p[n++] = (part_name){.hf = taps, .gguf = "shortconv.conv", .keeps_f32 = true};
        return n;
    }
    const convert_order one = {.period = of->heads,
                               .outer = of->key_heads,
                               .inner = of->heads / of->key_heads,
                               .width = 1};
    convert_order values = one, behind_keys;
    values.period *= values.width = of->head_dim;
    behind_keys = values;
    behind_keys.first = 2 * of->key_heads * of->key_dim;
    p[n++] = (part_name){.hf = d->qkv.name, .gguf = "attn_qkv", .order = behind_keys};
    p[n++] = (part_name){.hf = d->gate.name, .gguf = "attn_gate", .order = values};
    n = add_linear(p, n, &d->ba, (const char *const[]){"ssm_beta", "ssm_alpha", NULL}, "ssm_ba",
                   (const convert_order[]){one, one, {.outer = 0}});
    p[n++] = (part_name){.hf = d->output.name, .gguf = "ssm_out", .order = values, .of_cols = true};
    p[n++] = (part_name){.hf = d->log_decay, .gguf = "ssm_a", .order = one, .is_full = true};
    p[n++] = (part_name){.hf = d->a_bias, .gguf = "ssm_dt.bias", .order = one, .is_full = true};
    p[n++] = (part_name){.hf = d->norm, .gguf = "ssm_norm"};
    p[n++] = (part_name){.hf = taps, .gguf = "ssm_conv1d", .order = behind_keys, .keeps_f32 = true};
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
    // Of a head, the folder has the first halves of the columns that rotate together and then the second halves; the file
    // has each pair side by side.
    const convert_order pairs = {
        .period = c->head_dim, .outer = 2, .inner = c->head_dim / 2, .width = 1};
    const convert_order rotated[] = {pairs, pairs, {.outer = 0}};
    int n = 0;
    p[n++] = (part_name){.hf = names->embedding, .gguf = "token_embd"};
    p[n++] = (part_name){.hf = names->positions, .gguf = "position_embd", .keeps_f32 = true};
    p[n++] = (part_name){.hf = names->final_norm,
                         .gguf = f->flags & SHORT_CONV ? "token_embd_norm" : "output_norm"};
    p[n++] = (part_name){.hf = names->head, .gguf = "output"};
    for (int i = 0; i < DECODER_NORMS; i++)
        p[n++] =
            (part_name){.hf = names->norm[i],
                        .gguf = i == BEFORE_MLP && f->flags & POST_ATTENTION ? "post_attention_norm"
                                                                             : norms[i]};
    n = add_linear(p, n, &names->qkv, qkv, "attn_qkv", f->flags & PERMUTES ? rotated : NULL);
    n = add_linear(p, n, &names->output, (const char *const[]){"attn_output", NULL, NULL},
                   "attn_output", NULL);
    p[n++] = (part_name){.hf = names->query_norm, .gguf = "attn_q_norm"};
    p[n++] = (part_name){.hf = names->key_norm, .gguf = "attn_k_norm"};
    p[n++] = (part_name){.hf = names->sinks, .gguf = "attn_sinks"};
    p[n++] = (part_name){.hf = names->conv_in.name, .gguf = "shortconv.in_proj"};
    p[n++] = (part_name){.hf = names->conv_out.name, .gguf = "shortconv.out_proj"};
    n = add_delta(p, n, c);
    p[n++] = (part_name){.hf = names->xielu, .gguf = ""};
    n = add_linear(p, n, &names->up, gate_up, "ffn_up", NULL);
    return add_linear(p, n, &names->down, (const char *const[]){"ffn_down", NULL, NULL}, "ffn_down",
                      NULL);
}

// Finds the part of a tensor whose name, with "{}" for the layer, is `pattern`. *end is an index of ENDS. A tensor of each
// head has the head's number behind the name of the part: *head, else -1.
static const part_name *find_part(const part_name *p, int count, const char *pattern, size_t *end,
                                  int *head)
{
    const size_t ends = sizeof ENDS / sizeof *ENDS;
    *end = 0, *head = -1;
    for (int i = 0; i < count; i++)
        if (p[i].is_full && strcmp(p[i].hf, pattern) == 0) return &p[i];
    const char *last = strrchr(pattern, '.');
    for (*end = 0; last && *end < ends && strcmp(last, ENDS[*end].hf) != 0;) ++*end;
    if (!last || *end == ends) return NULL;
    const char *dot = last;
    while (dot > pattern && isdigit((unsigned char)dot[-1])) dot--;
    const bool numbered = dot < last && dot > pattern && dot[-1] == '.';
    *head = numbered ? atoi(dot) : -1;
    const size_t bytes = (size_t)((numbered ? dot - 1 : last) - pattern);
    for (int i = 0; i < count; i++)
        if (p[i].hf && strncmp(p[i].hf, pattern, bytes) == 0 && !p[i].hf[bytes]) return &p[i];
    return NULL;
}

static status describe(const convert_family *f, const model_param *q, int piece,
                       const part_name *parts, int count, convert_tensor *out, err *e)
{
    status result = OK;
    const graph_param *d = q->decl;
    const char *pattern = d->piece[piece].name;
    size_t end;
    int head;
    const part_name *p = find_part(parts, count, pattern, &end, &head);
    model_param_name_expand(out->hf, pattern, q->layer);
    if (!p) FAIL(E_USAGE, "tensor %s of a %s model has no name in GGUF files", out->hf, f->family);
    out->key = ENDS[end].key;
    out->layer = q->layer;
    const char *suffix = out->key || p->is_full ? "" : ENDS[end].gguf;
    if (strstr(pattern, "{}"))
        (void)snprintf(out->name, sizeof out->name, "blk.%d.%s%s", q->layer, p->gguf, suffix);
    else
        (void)snprintf(out->name, sizeof out->name, "%s%s", p->gguf, suffix);
    out->is_vector = d->dims < 2;
    out->rows = head >= 0 ? d->pieces : out->is_vector ? 1 : d->piece[piece].rows;
    out->cols = out->is_vector ? d->piece[piece].rows : graph_param_cols(d);
    out->row = head > 0 ? head : 0;
    out->transposed = d->piece[piece].transposed;
    out->order = p->order;
    out->of_cols = p->of_cols || out->is_vector;
    out->is_decay = strcmp(p->gguf, "ssm_a") == 0;
    const char *norm = strstr(p->gguf, "_norm");
    out->is_norm = norm && !norm[strlen("_norm")];
    out->keeps_f32 = p->keeps_f32 || out->is_vector || out->is_norm;
    const bool shifted = f->flags & PLUS_ONE && strcmp(p->gguf, "ssm_norm") != 0;
    out->shift = out->is_norm && shifted ? 1 : 0;
done:
    return result;
}

bool convert_tensor_begins(const convert_tensor *t)
{
    return !t->key && t->row == 0;
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

// ---- Rows

static int64_t in_folder(int64_t i, const convert_order *o)
{
    if (o->outer == 0 || i < o->first) return i;
    const int64_t k = (i - o->first) % o->period, unit = k / o->width;
    return i - k + (unit % o->outer * o->inner + unit / o->outer) * o->width + k % o->width;
}

static int64_t in_file(int64_t i, const convert_order *o)
{
    if (o->outer == 0 || i < o->first) return i;
    const int64_t k = (i - o->first) % o->period, unit = k / o->width;
    return i - k + (unit % o->inner * o->outer + unit / o->inner) * o->width + k % o->width;
}

void convert_row_from_folder(const convert_tensor *t, const safetensors_tensor *from, int64_t row,
                             float *out)
{
    const int64_t r = t->of_cols ? row : in_folder(row, &t->order);
    if (t->transposed || (t->of_cols && t->order.outer)) {
        for (int64_t i = 0; i < t->cols; i++) {
            const int64_t col = t->of_cols ? in_folder(i, &t->order) : i;
            safetensors_read(from, t->transposed ? col * t->rows + r : r * t->cols + col, 1,
                             out + i);
        }
    } else {
        safetensors_read(from, r * t->cols, t->cols, out);
    }
    for (int64_t i = 0; t->shift != 0 && i < t->cols; i++) out[i] += t->shift;
    for (int64_t i = 0; t->is_decay && i < t->cols; i++) out[i] = -(float)exp((double)out[i]);
}

void convert_row_from_file(const convert_tensor *t, const gguf_tensor *from, int64_t row,
                           float *line, float *out)
{
    const uint64_t bytes = (uint64_t)t->cols / from->kind->elements * from->kind->bytes;
    const int64_t r = t->row + (t->of_cols ? row : in_file(row, &t->order));
    gguf_dequantize(from->kind, from->data + (uint64_t)r * bytes, 0, t->cols, line);
    for (int64_t i = 0; i < t->cols; i++)
        out[i] = line[t->of_cols ? in_file(i, &t->order) : i] - t->shift;
    for (int64_t i = 0; t->is_decay && i < t->cols; i++) out[i] = (float)log(-(double)out[i]);
}
