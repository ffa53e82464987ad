// labelled.c -- see labelled.h.
#include "train/batches/labelled.h"

#include "device/kernels.h"

#include <string.h>

// The arrays while they are filled.
typedef struct labelled_fill {
    graph_loss_arrays a;
    int32_t *out;
    int64_t count; // rows with a label so far
    // Documents, or their parts, begun so far, of all sequences; unused ones of earlier sequences count.
    int64_t document;
} labelled_fill;

// Row `row` of this rank; `weight` is NULL where rows have none.
static void add_row(labelled_fill *f, int64_t row, int32_t label, const int32_t *weight)
{
    f->out[f->a.inverse + row] = -1;
    if (label == IGNORED_LABEL) return;
    f->out[f->count] = label;
    f->out[f->a.index + f->count] = (int32_t)row;
    f->out[f->a.inverse + row] = (int32_t)f->count;
    if (weight) f->out[f->a.weights + f->count] = *weight;
    f->count++;
}

// All documents before number `document` end here.
static void end_documents(labelled_fill *f, int64_t document)
{
    while (f->document < document) f->out[f->a.first + ++f->document] = (int32_t)f->count;
}

// A document of sequence `s` begins at `position`.
static void begin_document(labelled_fill *f, const labelled_batch *from, int64_t document,
                           const int32_t *labels, int64_t position)
{
    end_documents(f, document);
    for (int k = 0; k < from->shape.extras; k++)
        f->out[f->a.reference + 2 * document + k] = labels[(1 + k) * from->shape.labels + position];
}

static void add_sequence(labelled_fill *f, const kernel_tokens *tokens, const labelled_batch *from,
                         int64_t s)
{
    const int64_t length = from->shape.labels;
    const int32_t *labels = from->labels + s * dataset_label_elements(&from->shape);
    const int32_t *starts = from->starts ? from->starts + (2 * s + 1) * length : NULL;
    const bool pairs = f->a.documents > 0, weighted = !pairs && f->a.weights > 0;
    int64_t document = s * f->a.each - f->a.parts; // its first part
    for (int64_t i = 0; i < length; i++) {
        const int64_t token = kernel_token_at(tokens, i);
        const bool begins = i == 0 || (starts && starts[i] == i);
        const bool answers = labels[i] >= 0 && !(labels[i] & PROMPT_LABEL);
        if (pairs && begins) begin_document(f, from, document += f->a.parts, labels, i);
        if (pairs && answers) end_documents(f, document + f->a.parts - 1);
        if (token < 0) continue;
        const int32_t label = labels[i] >= 0 ? labels[i] & ~PROMPT_LABEL : labels[i];
        add_row(f, s * tokens->seq + token, label, weighted ? &labels[length + i] : NULL);
    }
}

graph_labelled_rows labelled_pack(const graph *g, const labelled_batch *from, int32_t *out)
{
    labelled_fill f = {.a = graph_loss_arrays_of(g), .out = out};
    const kernel_tokens *tokens = &g->sequences.tokens;
    memset(out, 0, (size_t)f.a.elements * sizeof *out);
    for (int64_t s = 0; s < g->batch; s++) add_sequence(&f, tokens, from, s);
    if (f.a.documents > 0) end_documents(&f, f.a.documents);
    for (int64_t i = f.count; i < f.a.packed; i++) out[i] = IGNORED_LABEL;
    const bool all = f.count == g->batch * tokens->seq;
    return (graph_labelled_rows){.index = all ? NULL : out + f.a.index,
                                 .count = graph_loss_run_rows(g, f.count)};
}
