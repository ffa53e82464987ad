// adapter_base.c -- the values of a base while an adapter was trained on it in NF4 (model.storage). See adapter.h. An export
// that merges them and infer/ read them. The trainer computes the same values from packed rows (train/packed.c).
#include "model/adapter.h"

#include "base/alloc.h"
#include "base/nf4.h"
#include "store/safetensors_nf4.h"

#include <inttypes.h>
#include <stdlib.h>

// Quantises [rows, cols] elements in the type in which they computed, and unpacks them.
static status there_and_back(const safetensors_tensor *t, int64_t rows, int64_t cols, dtype type,
                             float *x, err *e)
{
    status result = OK;
    const int64_t blocks = rows * cols / NF4_BLOCK;
    float *absmax = NULL;
    nf4_scales s = {.mean = 0};
    if (cols % NF4_BLOCK)
        FAIL(E_USAGE, "tensor %s has rows of %" PRId64 " elements; valid for NF4: multiples of %d",
             t->name, cols, NF4_BLOCK);
    TRY(alloc_array(&absmax, (size_t)blocks, sizeof *absmax, t->name, e));
    TRY(alloc_array(&s.maxima, (size_t)(blocks / NF4_GROUP + 1), sizeof *s.maxima, t->name, e));
    TRY(alloc_array(&s.code, (size_t)blocks, sizeof *s.code, t->name, e));
    dtype_round(type, x, (size_t)(rows * cols), x);
    nf4_quantize_there_and_back(x, blocks, absmax, &s);
    dtype_round(type, x, (size_t)(rows * cols), x);
done:
    free(absmax);
    free(s.maxima);
    free(s.code);
    return result;
}

// The same of a tensor that files have as [cols, rows].
static status there_and_back_transposed(const safetensors_tensor *t, dtype type, float *x, err *e)
{
    status result = OK;
    const int64_t cols = t->dim[0], rows = t->dim[1];
    float *of_model = NULL;
    TRY(alloc_array(&of_model, (size_t)(rows * cols), sizeof *of_model, t->name, e));
    model_param_transpose(x, cols, rows, of_model);
    TRY(there_and_back(t, rows, cols, type, of_model, e));
    model_param_transpose(of_model, rows, cols, x);
done:
    free(of_model);
    return result;
}

status model_adapter_base_values(const model_adapter *a, const safetensors_tensor *t,
                                 bool transposed, float *x, err *e)
{
    const dtype type = a->storage == STORAGE_NF4 ? a->type : t->type;
    if (type == DTYPES)
        return err_set(e, E_USAGE,
                       "the NF4 base of the adapter computed in several types (groups); valid: its "
                       "weights as they are stored (--merge-onto stored)");
    if (safetensors_nf4_fits(t)) {
        const size_t count = (size_t)t->nf4->count;
        safetensors_nf4_read(t->nf4, 0, t->nf4->count, x);
        dtype_round(type, x, count, x);
        return OK;
    }
    return transposed ? there_and_back_transposed(t, type, x, e)
                      : there_and_back(t, t->dim[0], t->dim[1], type, x, e);
}

status model_adapter_base_param(const model_adapter *a, const model *m, int p,
                                const safetensors *from, float *full, err *e)
{
    status result = OK;
    const graph_param *d = m->param[p].decl;
    model_param_file f = {.param = p};
    float *x = NULL;
    if (a->storage != STORAGE_NF4 || !model_param_is_linear(m, p)) return OK;
    TRY(alloc_array(&x, (size_t)m->param[p].count, sizeof *x, m->param[p].name, e));
    for (; f.piece < d->pieces; f.first_row += d->piece[f.piece++].rows) {
        const safetensors_tensor *t;
        TRY(model_param_find_file(m, &f, from, &t, e));
        model_param_file_extract(m, &f, full, x);
        TRY(model_adapter_base_values(a, t, d->piece[f.piece].transposed, x, e));
        model_param_file_insert(m, &f, x, full);
    }
done:
    free(x);
    return result;
}
