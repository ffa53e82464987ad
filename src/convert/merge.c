// merge.c -- see merge.h. Both ways out of a folder, to a folder and to a GGUF file, read tensors through it.
#include "convert/merge.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

status convert_merge_open(const convert_options *o, const model *m, const safetensors *base,
                          convert_merge *x, err *e)
{
    status result = OK;
    *x = (convert_merge){.base = base, .last = SIZE_MAX};
    if (m && o->average) TRY(convert_average_open(o->from, m, base, &x->average, e));
    if (!m || !o->adapter) goto done;
    TRY(model_adapter_open(o->adapter, &x->adapter, e));
    result = model_merge_open(base, x->adapter, &x->merge, e);
    if (result != OK) err_prefix(e, "%s: ", o->adapter);
done:
    return result;
}

void convert_merge_close(convert_merge *x)
{
    convert_average_close(x->average);
    model_merge_close(x->merge);
    model_adapter_close(x->adapter);
    free(x->value);
    *x = (convert_merge){.base = NULL};
}

static void note_difference(convert_merge *x, const safetensors_tensor *t, size_t count)
{
    enum { RUN = 256 };
    float old[RUN];
    x->changed++;
    for (size_t i = 0; i < count; i += RUN) {
        const size_t n = count - i < RUN ? count - i : RUN;
        dtype_convert(old, F32, (const char *)t->data + i * dtype_bytes(t->type), t->type, n);
        for (size_t k = 0; k < n; k++)
            x->largest = fmax(x->largest, fabs((double)(x->value[i + k] - old[k])));
    }
}

status convert_merge_find(convert_merge *x, size_t i, const safetensors_tensor **out, err *e)
{
    status result = OK;
    const safetensors_tensor *t = safetensors_get(x->base, i);
    bool changed = false;
    *out = t;
    if ((!x->merge && !x->average) || !t->known_type) goto done;
    *out = &x->tensor;
    if (i == x->last) goto done;
    const size_t count = (size_t)(t->bytes / dtype_bytes(t->type));
    TRY(alloc_grow(&x->value, &x->value_room, count, sizeof *x->value, t->name, e));
    TRY(x->average ? convert_average_read(x->average, t, x->value, &changed, e)
                   : model_merge_read(x->merge, i, x->value, &changed, e));
    x->last = i;
    x->tensor = *t;
    if (!changed) goto done;
    note_difference(x, t, count);
    x->tensor.type = F32;
    x->tensor.data = x->value;
    x->tensor.bytes = count * sizeof *x->value;
done:
    return result;
}

void convert_merge_describe(const convert_merge *x, const convert_options *o, text *out)
{
    if (x->average)
        text_addf(out,
                  "moving averages of weights: %" PRIu64
                  " tensors, an element differs by %.3g at most\n",
                  x->changed, x->largest);
    if (x->merge)
        text_addf(out,
                  "the adapter %s is added to the weights of %s as they are stored there: %" PRIu64
                  " tensors change, an element by %.3g at most\n",
                  o->adapter, o->from, x->changed, x->largest);
}
