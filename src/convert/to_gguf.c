// to_gguf.c -- a HuggingFace folder to a GGUF file: tensor by tensor and key by key as llama.cpp's converter. The command
// checkpoint calls it. Weights are read row by row from the folder's map and never held.
#include "convert/convert.h"
#include "convert/families.h"
#include "convert/merge.h"
#include "convert/output.h"
#include "convert/vocab.h"

#include "base/alloc.h"
#include "model/schema.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct exporter {
    const convert_options *o;
    convert_result *r;
    const convert_family *family;
    model_config config;
    json_t *root; // config.json
    model *m;
    safetensors *from;
    convert_tensors tensors;
    model_tensor_match match;
    convert_merge merge;
    gguf_output *outputs; // [count]: `written` tensors, then the factors of rotary positions
    int *first;           // [written] the tensor of the folder that an output has, or begins with
    size_t count, written;
    float factors[2][MODEL_ROPE_FACTORS];
    int factor_sets, kind; // kind: index of CONVERT_GGUF_TYPES
    gguf_keys keys;
    convert_output output;
} exporter;

// ---- Tensors

static void describe_tensors(exporter *x)
{
    for (int i = 0; i < x->tensors.count; i++) {
        const convert_tensor *t = &x->tensors.item[i];
        if (!convert_tensor_begins(t)) continue;
        x->first[x->count] = i;
        gguf_output *to = &x->outputs[x->count++];
        *to = (gguf_output){.kind = t->keeps_f32 ? gguf_kind_find(GGUF_F32)
                                                 : convert_kind(x->kind, t->cols),
                            .dims = t->is_vector && t->rows == 1 ? 1 : 2,
                            .dim = {t->cols, t->rows, 1, 1}};
        memcpy(to->name, t->name, sizeof to->name);
    }
    x->written = x->count;
}

static void add_factors(exporter *x, const char *name, int count)
{
    gguf_output *to = &x->outputs[x->count++];
    *to = (gguf_output){.kind = gguf_kind_find(GGUF_F32), .dims = 1, .dim = {count, 1, 1, 1}};
    (void)snprintf(to->name, sizeof to->name, "%s", name);
    x->factor_sets++;
}

// The divisors of rotary frequencies are tensors.
static void describe_factors(exporter *x)
{
    const model_rope_config *rope = &x->config.rope;
    const int llama3 = convert_rope_factors(x->family, &x->config, x->factors[0]);
    if (llama3 > 0) add_factors(x, "rope_freqs.weight", llama3);
    if (rope->kind != ROPE_LONGROPE) return;
    memcpy(x->factors[0], rope->longer.number, sizeof x->factors[0]);
    memcpy(x->factors[1], rope->shorter.number, sizeof x->factors[1]);
    add_factors(x, "rope_factors_long.weight", rope->longer.count);
    add_factors(x, "rope_factors_short.weight", rope->shorter.count);
}

// Reads a row of a tensor of the folder.
static status read_tensor(exporter *x, int i, int64_t row, float *out, err *e)
{
    status result = OK;
    const safetensors_tensor *t;
    TRY(convert_merge_find(&x->merge, (size_t)(x->match.piece[i] - safetensors_get(x->from, 0)), &t,
                           e));
    convert_row_from_folder(&x->tensors.item[i], t, row, out);
done:
    return result;
}

static status read_row(void *arg, size_t i, int64_t row, float *out, err *e)
{
    exporter *x = arg;
    if (i >= x->written) {
        memcpy(out, x->factors[i - x->written], (size_t)x->outputs[i].dim[0] * sizeof *out);
        return OK;
    }
    const int first = x->first[i];
    return x->tensors.item[first].is_vector ? read_tensor(x, first + (int)row, 0, out, e)
                                            : read_tensor(x, first, row, out, e);
}

static void warn_carried(exporter *x)
{
    size_t carried = 0;
    const char *first = NULL;
    for (size_t i = 0; i < safetensors_count(x->from); i++)
        if (x->match.use[i] == TENSOR_CARRIED && carried++ == 0)
            first = safetensors_get(x->from, i)->name;
    if (carried)
        text_addf(
            &x->r->warnings,
            "%zu tensors of %s are no part of the text model and are left out, the first is %s\n",
            carried, x->o->from, first);
}

// ---- Keys

// "135M": the elements of all tensors, to two digits at least.
static void add_size_label(const exporter *x, gguf_keys *out)
{
    static const struct {
        double least, scale;
        char letter;
    } units[] = {{1e12, 1e-12, 'T'}, {1e9, 1e-9, 'B'}, {1e6, 1e-6, 'M'}, {-1, 1e-3, 'K'}};
    double elements = 0;
    char label[40];
    int u = 0;
    for (size_t i = 0; i < x->count; i++)
        elements += (double)x->outputs[i].dim[0] * (double)x->outputs[i].dim[1];
    while (elements <= units[u].least) u++;
    const double scaled = elements * units[u].scale, rounded = rint(scaled);
    const int digits = rounded < 1 ? 0 : rounded < 10 ? 1 : 2;
    (void)snprintf(label, sizeof label, "%.*f%c", 2 - digits, scaled, units[u].letter);
    gguf_add_string(out, "general.size_label", label, strlen(label));
}

// Tensors that are lists with a number for each layer.
static status add_lists(exporter *x, gguf_keys *out, err *e)
{
    status result = OK;
    for (int i = 0; i < x->tensors.count; i++) {
        const char *key = x->tensors.item[i].key;
        if (!key || x->tensors.item[i].layer != 0) continue;
        gguf_add_array(out, key, GGUF_REAL32, (uint64_t)x->config.layers);
        for (int k = i; k < x->tensors.count; k++) {
            float value;
            if (x->tensors.item[k].key != key) continue;
            TRY(read_tensor(x, k, 0, &value, e));
            gguf_put(out, &value, sizeof value);
        }
    }
done:
    return result;
}

static status add_keys(exporter *x, err *e)
{
    status result = OK;
    gguf_keys *k = &x->keys;
    TRY(convert_general_write(x->family->arch, "model", x->o->from, k, e));
    add_size_label(x, k);
    TRY(add_lists(x, k, e));
    TRY(convert_keys_write(x->family, &x->config, x->root, k, &x->r->warnings, e));
    gguf_add_u32(k, "general.file_type", convert_kind_file_type(x->kind));
    gguf_add_u32(k, "general.quantization_version", CONVERT_QUANTIZATION_VERSION);
    TRY(vocab_export(convert_tokenizer_folder(x->o), x->family, &x->config, k, &x->r->warnings, e));
done:
    return result;
}

// ---- All of it

static status open_all(exporter *x, err *e)
{
    status result = OK;
    const model_options once = {.mode = GRAPH_EVAL, .type = F32, .batch = 1, .seq = 1};
    TRY(convert_find_type(x->o->type ? x->o->type : "f16", CONVERT_GGUF_TYPES, &x->kind, e));
    TRY(model_config_read(x->o->from, &x->config, e));
    TRY(convert_family_require(x->o->from, &x->config, &x->family, e));
    if (x->config.rope.shorter.count > MODEL_ROPE_FACTORS)
        FAIL(E_USAGE, "%s: rope_scaling: found more than %d factors", x->o->from,
             MODEL_ROPE_FACTORS);
    TRY(convert_read_json(x->o->from, "config.json", &x->root, e));
    TRY(model_open(x->config.family, &x->config, &once, &x->m, e));
    TRY(safetensors_open_weights(x->o->from, &x->from, e));
    TRY(model_param_match(x->m, x->from, &x->match, e));
    TRY(convert_merge_open(x->o, x->m, x->from, &x->merge, e));
    TRY(convert_tensors_make(x->family, &x->config, x->m, &x->tensors, e));
    TRY(alloc_zeroed(&x->outputs, (size_t)x->tensors.count + 2, sizeof *x->outputs,
                     "a list of tensors", e));
    TRY(alloc_array(&x->first, (size_t)x->tensors.count, sizeof *x->first, "a list of tensors", e));
done:
    return result;
}

status convert_to_gguf(const convert_options *o, convert_result *r, err *e)
{
    status result = OK;
    exporter *x = NULL;
    *r = (convert_result){0};
    TRY(alloc_zeroed(&x, 1, sizeof *x, o->from, e));
    x->o = o, x->r = r;
    TRY(open_all(x, e));
    describe_tensors(x);
    describe_factors(x);
    warn_carried(x);
    TRY(add_keys(x, e));
    TRY(convert_output_begin(o->out, false, o->overwrite, &x->output, e));
    TRY(gguf_write(x->output.hidden, &x->keys, x->outputs, x->count, read_row, x, e));
    TRY(safetensors_check_whole(x->from, e));
    for (size_t i = 0; i < x->count; i++) r->bytes += x->outputs[i].bytes;
    r->tensors = x->count;
    convert_merge_describe(&x->merge, o, &r->notes);
    (void)snprintf(r->kind, sizeof r->kind, "%s", convert_kind(x->kind, 0)->word);
    TRY(text_copy(x->output.path, &r->out, e));
    TRY(convert_output_finish(&x->output, e));
done:
    if (x) {
        convert_output_abandon(&x->output);
        gguf_keys_clear(&x->keys);
        free(x->outputs);
        free(x->first);
        convert_merge_close(&x->merge);
        model_param_match_clear(&x->match);
        convert_tensors_clear(&x->tensors);
        safetensors_close(x->from);
        model_close(x->m);
        json_decref(x->root);
    }
    free(x);
    return result;
}
