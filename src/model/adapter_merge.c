// adapter_merge.c -- the weights of a base with an adapter added to them, tensor by tensor. See adapter.h. An export reads
// them and writes them in its own form, so no more than one tensor is in memory.
#include "model/adapter.h"

#include "base/alloc.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What the adapter's files hold for one tensor of the base.
typedef struct merge_tensor {
    const safetensors_tensor *a, *b; // NULL: no adapter
    const safetensors_tensor *saved; // in the tensor's place; NULL: none
    double scale;
    bool transposed; // the base has [in, out]
    bool is_frozen_linear,
        columns_first; // NF4 changes it; as `transposed`, of the model's own file
} merge_tensor;

struct model_merge {
    const safetensors *base;
    const model_adapter *adapter;
    merge_tensor *tensor; // [safetensors_count of the base]
    bool onto_nf4;
    float *other; // the elements of a tensor in NF4
    size_t other_room;
    double apart;
};

// The name of the model's tensor for which the adapter has one: that of its module, for a factor. False: it is no name of
// PEFT's.
static bool name_of(const char *of_adapter, const char *suffix, char out[PARAM_NAME_BYTES])
{
    const size_t prefix = strlen(MODEL_LORA_PREFIX);
    if (strncmp(of_adapter, MODEL_LORA_PREFIX, prefix) == 0) of_adapter += prefix;
    const size_t bytes = strlen(of_adapter), end = strlen(suffix);
    if (bytes < end || strcmp(of_adapter + bytes - end, suffix) != 0) return false;
    return snprintf(out, PARAM_NAME_BYTES, "%.*s%s", (int)(bytes - end), of_adapter,
                    end ? ".weight" : "") < PARAM_NAME_BYTES;
}

// The shapes of B A and of the tensor agree, as they are or with rows and columns changed.
static status check_shapes(const safetensors_tensor *t, merge_tensor *x, err *e)
{
    const bool matrices = t->dims == 2 && x->a && x->b && x->a->dims == 2 && x->b->dims == 2 &&
                          x->a->dim[0] == x->b->dim[1];
    const int64_t out = matrices ? x->b->dim[0] : 0, in = matrices ? x->a->dim[1] : 0;
    const int64_t rows = x->transposed ? in : out, cols = x->transposed ? out : in;
    if (matrices && t->dim[0] == rows && t->dim[1] == cols) return OK;
    return err_set(e, E_USAGE, "%s: the adapter's lora_A and lora_B do not fit its shape", t->name);
}

static status add_tensor(model_merge *x, const model_adapter *a, const safetensors_tensor *t,
                         err *e)
{
    char name[PARAM_NAME_BYTES];
    const bool is_a = name_of(t->name, ".lora_A.weight", name),
               is_b = !is_a && name_of(t->name, ".lora_B.weight", name);
    const bool named = is_a || is_b || name_of(t->name, "", name);
    const safetensors_tensor *of = named ? model_tensor_find(x->base, name) : NULL;
    if (!of)
        return err_set(e, E_USAGE, "tensor %s of the adapter is for none of the base", t->name);
    merge_tensor *m = &x->tensor[of - safetensors_get(x->base, 0)];
    if (!is_a && !is_b) {
        m->saved = t;
        if (t->bytes / dtype_bytes(t->type) != of->bytes / dtype_bytes(of->type))
            return err_set(e, E_USAGE, "tensor %s of the adapter has another shape in the base",
                           t->name);
        return OK;
    }
    *(is_a ? &m->a : &m->b) = t;
    m->scale = (double)model_lora_find(&a->lora, name).scale;
    m->transposed = a->lora.transposed;
    return OK;
}

// Notes the tensors that NF4 changes: those that train are not packed.
static status note_linear(model_merge *x, const model *m, err *e)
{
    status result = OK;
    model_param_files files = {.count = 0};
    TRY(model_param_files_make(m, F32, &files, e));
    for (int i = 0; i < files.count; i++) {
        const model_param_file *f = &files.file[i];
        const safetensors_tensor *t;
        if (!model_param_is_linear(m, f->param) || model_lora_trains(&x->adapter->lora, f->name))
            continue;
        TRY(model_param_find_file(m, f, x->base, &t, e));
        merge_tensor *k = &x->tensor[t - safetensors_get(x->base, 0)];
        k->is_frozen_linear = true;
        k->columns_first = model_param_file_is_transposed(m, f);
    }
done:
    model_param_files_clear(&files);
    return result;
}

status model_merge_open(const safetensors *base, const model_adapter *a, const model *m,
                        bool onto_nf4, model_merge **out, err *e)
{
    status result = OK;
    model_merge *x = NULL;
    TRY(alloc_zeroed(&x, 1, sizeof *x, "a merge", e));
    x->base = base, x->adapter = a, x->onto_nf4 = onto_nf4;
    TRY(alloc_zeroed(&x->tensor, safetensors_count(base) + 1, sizeof *x->tensor, "a merge", e));
    for (size_t i = 0; i < safetensors_count(a->weights); i++)
        TRY(add_tensor(x, a, safetensors_get(a->weights, i), e));
    for (size_t i = 0; i < safetensors_count(base); i++)
        if (x->tensor[i].a || x->tensor[i].b)
            TRY(check_shapes(safetensors_get(base, i), &x->tensor[i], e));
    if (onto_nf4 || a->storage == STORAGE_NF4) TRY(note_linear(x, m, e));
    *out = x;
    x = NULL;
done:
    model_merge_close(x);
    return result;
}

void model_merge_close(model_merge *x)
{
    if (!x) return;
    free(x->tensor);
    free(x->other);
    free(x);
}

double model_merge_apart(const model_merge *x)
{
    return x->apart;
}

// Adds scale * b[row] A to a row of W, or to a column of a transposed one.
static void add_row(const merge_tensor *m, const float *a, const float *b, int64_t row, float *w)
{
    const int64_t rank = m->a->dim[0], in = m->a->dim[1], out = m->b->dim[0];
    for (int64_t k = 0; k < rank; k++) {
        const float factor = (float)m->scale * b[row * rank + k], *from = a + k * in;
        if (m->transposed)
            for (int64_t c = 0; c < in; c++) w[c * out + row] += factor * from[c];
        else
            for (int64_t c = 0; c < in; c++) w[row * in + c] += factor * from[c];
    }
}

static status add_adapter(const merge_tensor *m, float *w, err *e)
{
    status result = OK;
    const size_t a_count = (size_t)(m->a->dim[0] * m->a->dim[1]),
                 b_count = (size_t)(m->b->dim[0] * m->b->dim[1]);
    float *a = NULL, *b = NULL;
    TRY(alloc_array(&a, a_count, sizeof *a, "lora_A", e));
    TRY(alloc_array(&b, b_count, sizeof *b, "lora_B", e));
    dtype_convert(a, F32, m->a->data, m->a->type, a_count);
    dtype_convert(b, F32, m->b->data, m->b->type, b_count);
    for (int64_t row = 0; row < m->b->dim[0]; row++) add_row(m, a, b, row, w);
done:
    free(a);
    free(b);
    return result;
}

// Compares the elements of tensor i of the base with those of its NF4 form, and takes these where the merge is onto them.
static status compare_nf4(model_merge *x, size_t i, int64_t count, float *w, err *e)
{
    status result = OK;
    const safetensors_tensor *t = safetensors_get(x->base, i);
    TRY(alloc_grow(&x->other, &x->other_room, (size_t)count, sizeof *w, t->name, e));
    memcpy(x->other, w, (size_t)count * sizeof *w);
    TRY(model_adapter_base_values(x->adapter, t, x->tensor[i].columns_first, x->other, e));
    for (int64_t k = 0; k < count; k++)
        x->apart = fmax(x->apart, fabs((double)x->other[k] - (double)w[k]));
    if (x->onto_nf4) memcpy(w, x->other, (size_t)count * sizeof *w);
done:
    return result;
}

status model_merge_read(model_merge *x, size_t i, float *out, bool *changed, err *e)
{
    status result = OK;
    const merge_tensor *m = &x->tensor[i];
    const safetensors_tensor *t = m->saved ? m->saved : safetensors_get(x->base, i);
    if (!t->known_type) FAIL(E_USAGE, "tensor %s has a type that weights cannot have", t->name);
    const int64_t count = (int64_t)(t->bytes / dtype_bytes(t->type));
    safetensors_read(t, 0, count, out);
    if (m->is_frozen_linear) TRY(compare_nf4(x, i, count, out, e));
    if (m->a) TRY(add_adapter(m, out, e));
    *changed = m->saved || m->a || (m->is_frozen_linear && x->onto_nf4);
    TRY(safetensors_check_whole(x->base, e));
    TRY(safetensors_check_whole(x->adapter->weights, e));
done:
    return result;
}
