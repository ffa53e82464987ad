// lora_to_gguf.c -- an adapter to a GGUF file, which llama.cpp adds to a model's file when it loads it: tensor by tensor and
// key by key as llama.cpp's converter. Of the base only config.json is read. The command checkpoint calls it.
//
// llama.cpp scales every product by alpha / rank with one alpha. Where the adapter scales a product otherwise (rsLoRA, an
// alpha of its own), lora_B carries the rest.
#include "convert/convert.h"
#include "convert/families.h"
#include "convert/output.h"

#include "base/alloc.h"
#include "model/adapter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A factor of an adapter.
typedef struct lora_factor {
    const safetensors_tensor *from;
    convert_tensor rows; // how the file's rows follow from the folder's
    float scale;         // of its elements
} lora_factor;

typedef struct lora_exporter {
    const convert_options *o;
    const convert_family *family;
    model_config config;
    model *m; // the base
    convert_tensors tensors;
    model_adapter *adapter;
    double alpha;
    lora_factor *factors; // [count]
    gguf_output *outputs; // [count]
    size_t count;
    int kind;
    gguf_keys keys;
    convert_output output;
} lora_exporter;

static status open_all(lora_exporter *x, err *e)
{
    status result = OK;
    const model_options once = {.mode = GRAPH_EVAL, .type = F32, .batch = 1, .seq = 1};
    TRY(convert_find_type(x->o->type ? x->o->type : "f32", CONVERT_GGUF_TYPES, &x->kind, e));
    TRY(model_config_read(x->o->from, &x->config, e));
    TRY(convert_family_require(x->o->from, &x->config, &x->family, e));
    TRY(model_adapter_open(x->o->adapter, &x->adapter, e));
    TRY(model_open(x->config.family, &x->config, &once, &x->m, e));
    TRY(convert_tensors_make(x->family, &x->config, x->m, &x->tensors, e));
    const size_t most = safetensors_count(x->adapter->weights);
    TRY(alloc_zeroed(&x->factors, most + 1, sizeof *x->factors, "an adapter", e));
    TRY(alloc_zeroed(&x->outputs, most + 1, sizeof *x->outputs, "an adapter", e));
    x->alpha = x->adapter->lora.alpha;
    if (x->alpha == 0) x->alpha = (double)x->adapter->lora.rank;
done:
    return result;
}

// ---- Tensors

static void add_factor(lora_exporter *x, const convert_tensor *t, const safetensors_tensor *from,
                       bool is_a, double scale)
{
    lora_factor *f = &x->factors[x->count];
    gguf_output *to = &x->outputs[x->count++];
    *f = (lora_factor){.from = from, .rows = *t, .scale = (float)scale};
    f->rows.rows = from->dim[0];
    f->rows.cols = from->dim[1];
    f->rows.transposed = false;
    // Rows of B are those of the base, columns of A are its columns.
    if (is_a != t->of_cols) f->rows.order.outer = 0;
    *to = (gguf_output){.kind = convert_kind(x->kind, from->dim[1]),
                        .dims = 2,
                        .dim = {from->dim[1], from->dim[0], 1, 1}};
    (void)snprintf(to->name, sizeof to->name, "%.*s.%s", TEXT_CUT(t->name, GGUF_NAME_MAX - 7),
                   is_a ? "lora_a" : "lora_b");
}

// Finds a factor of the tensor `hf` among the adapter's; NULL: it has none.
static const safetensors_tensor *find_factor(const lora_exporter *x, const char *hf, bool is_a)
{
    char name[PARAM_NAME_BYTES];
    const int stem = (int)(strlen(hf) - strlen(".weight"));
    (void)snprintf(name, sizeof name, "%.*s.lora_%c.weight", stem, hf, is_a ? 'A' : 'B');
    return model_tensor_find(x->adapter->weights, name);
}

static status add_pair(lora_exporter *x, const convert_tensor *t, err *e)
{
    const safetensors_tensor *a = find_factor(x, t->hf, true), *b = find_factor(x, t->hf, false);
    const int64_t in = t->cols, out = t->rows;
    if (!a && !b) return OK;
    if (!a || !b || a->dims != 2 || b->dims != 2 || a->dim[0] != b->dim[1] || a->dim[1] != in ||
        b->dim[0] != out || !a->known_type || !b->known_type)
        return err_set(e, E_USAGE, "%s: the adapter's lora_A and lora_B do not fit %s",
                       x->o->adapter, t->hf);
    const double scale = (double)model_lora_find(&x->adapter->lora, t->hf).scale,
                 of_file = x->alpha / (double)a->dim[0], rest = scale / of_file;
    add_factor(x, t, a, true, 1);
    add_factor(x, t, b, false, fabs(rest - 1) < 1e-6 ? 1 : rest);
    return OK;
}

static status list_factors(lora_exporter *x, err *e)
{
    status result = OK;
    const safetensors *weights = x->adapter->weights;
    for (int i = 0; i < x->tensors.count; i++) {
        const convert_tensor *t = &x->tensors.item[i];
        if (!t->key && !t->is_vector) TRY(add_pair(x, t, e));
    }
    for (size_t i = 0; i < safetensors_count(weights); i++) {
        const safetensors_tensor *t = safetensors_get(weights, i);
        bool used = false;
        for (size_t k = 0; k < x->count; k++) used = used || x->factors[k].from == t;
        if (!used)
            FAIL(E_USAGE,
                 "%s: tensor %s: an adapter's GGUF file holds lora_A and lora_B of the base's "
                 "linear "
                 "layers alone; valid: --merge",
                 x->o->adapter, t->name);
    }
done:
    return result;
}

static status read_row(void *arg, size_t i, int64_t row, float *out, err *e)
{
    const lora_exporter *x = arg;
    const lora_factor *f = &x->factors[i];
    (void)e;
    convert_row_from_folder(&f->rows, f->from, row, out);
    for (int64_t k = 0; f->scale != 1 && k < f->rows.cols; k++) out[k] *= f->scale;
    return OK;
}

// ---- The file

static status add_keys(lora_exporter *x, err *e)
{
    status result = OK;
    TRY(convert_general_write(x->family->arch, "adapter", x->o->adapter, &x->keys, e));
    gguf_add_string(&x->keys, "adapter.type", "lora", 4);
    gguf_add_real(&x->keys, "adapter.lora.alpha", x->alpha);
    gguf_add_u32(&x->keys, "general.quantization_version", CONVERT_QUANTIZATION_VERSION);
done:
    return result;
}

static status write_all(lora_exporter *x, convert_result *r, err *e)
{
    status result = OK;
    TRY(convert_output_begin(x->o->out, false, x->o->overwrite, &x->output, e));
    TRY(gguf_write(x->output.hidden, &x->keys, x->outputs, x->count, read_row, x, e));
    TRY(safetensors_check_whole(x->adapter->weights, e));
    for (size_t i = 0; i < x->count; i++) r->bytes += x->outputs[i].bytes;
    r->tensors = x->count;
    (void)snprintf(r->kind, sizeof r->kind, "%s", convert_kind(x->kind, 0)->word);
    TRY(text_copy(x->output.path, &r->out, e));
    TRY(convert_output_finish(&x->output, e));
done:
    return result;
}

status convert_adapter_to_gguf(const convert_options *o, convert_result *r, err *e)
{
    status result = OK;
    lora_exporter *x = NULL;
    *r = (convert_result){0};
    TRY(alloc_zeroed(&x, 1, sizeof *x, o->adapter, e));
    x->o = o;
    TRY(open_all(x, e));
    TRY(list_factors(x, e));
    TRY(add_keys(x, e));
    TRY(write_all(x, r, e));
done:
    if (x) {
        convert_output_abandon(&x->output);
        gguf_keys_clear(&x->keys);
        free(x->factors);
        free(x->outputs);
        convert_tensors_clear(&x->tensors);
        model_adapter_close(x->adapter);
        model_close(x->m);
    }
    free(x);
    return result;
}
