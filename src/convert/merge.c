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
    x->onto_nf4 = o->onto == CONVERT_ONTO_NF4 ||
                  (o->onto == CONVERT_ONTO_TRAINED && x->adapter->storage == STORAGE_NF4);
    result = model_merge_open(base, x->adapter, m, x->onto_nf4, &x->merge, e);
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
        safetensors_read(t, (int64_t)i, (int64_t)n, old);
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
    x->tensor.nf4 = NULL;
    x->tensor.data = x->value;
    x->tensor.bytes = count * sizeof *x->value;
done:
    return result;
}

// Names the base that was taken, and how far the other one is from it.
static void describe_merge(const convert_merge *x, const convert_options *o, text *out)
{
    const bool trained_on_nf4 = x->adapter->storage == STORAGE_NF4;
    text_addf(out,
              "the adapter %s is added to the weights of %s %s: %" PRIu64
              " tensors change, an element by %.3g at most",
              o->adapter, o->from,
              x->onto_nf4 ? "as NF4 packs and unpacks them" : "as they are stored there",
              x->changed, x->largest);
    if (x->onto_nf4 || trained_on_nf4)
        text_addf(out,
                  "; %s; the weights as they are stored and their NF4 form differ by %.3g at most; "
                  "--merge-onto %s takes the other",
                  trained_on_nf4 ? "the adapter was trained on the NF4 form"
                                 : "the adapter does not say that it was trained on the NF4 form",
                  model_merge_apart(x->merge), x->onto_nf4 ? "stored" : "nf4");
    text_add(out, "\n");
}

void convert_merge_describe(const convert_merge *x, const convert_options *o, text *out)
{
    if (x->average)
        text_addf(out,
                  "moving averages of weights: %" PRIu64
                  " tensors, an element differs by %.3g at most\n",
                  x->changed, x->largest);
    if (x->merge) describe_merge(x, o, out);
}
