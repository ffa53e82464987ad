// from_gguf.c -- a GGUF file to a HuggingFace folder. Quantised tensors become numbers again; rows of queries and keys get the
// order of HuggingFace's files. The command checkpoint calls it.
#include "convert/convert.h"
#include "convert/families.h"
#include "convert/output.h"
#include "convert/vocab.h"

#include "base/alloc.h"
#include "base/size.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct importer {
    const convert_options *o;
    convert_result *r;
    gguf *from;
    const convert_family *family;
    model_config config;
    model *m;
    convert_tensors tensors;
    const gguf_tensor **found; // [tensors.count]; NULL: in a key
    model_param_files files;
    dtype type;
    convert_output output;
    // The row, or the whole tensor where the folder's is transposed, that was read last.
    float *line, *row, *whole;
    int64_t row_at;
    size_t tensor_at;
} importer;

static status find_family(importer *x, err *e)
{
    status result = OK;
    text valid = {0};
    char arch[64];
    const gguf_value *v = gguf_value_find(x->from, "general.architecture");
    if (!v || v->type != GGUF_STRING || v->is_array || v->strings[0].bytes >= sizeof arch)
        FAIL(E_USAGE, "%s: general.architecture is missing or no word", x->o->from);
    memcpy(arch, v->strings[0].chars, v->strings[0].bytes);
    arch[v->strings[0].bytes] = 0;
    char key[128];
    (void)snprintf(key, sizeof key, "%s.attention.sliding_window", arch);
    x->family = convert_family_of_arch(arch, gguf_value_find(x->from, key) != NULL);
    convert_families_describe(&valid);
    if (!x->family)
        FAIL(E_USAGE, "%s: general.architecture: found \"%s\"; valid are files of %s models",
             x->o->from, arch, valid.chars ? valid.chars : "");
done:
    text_clear(&valid);
    return result;
}

// ---- Tensors

static bool is_known(const char *name)
{
    static const char *const others[] = {"rope_freqs.weight", "rope_factors_long.weight",
                                         "rope_factors_short.weight"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name, others[i]) == 0) return true;
    return false;
}

static status check_list(const importer *x, const char *key, err *e)
{
    const gguf_value *v = gguf_value_find(x->from, key);
    double number;
    if (v && v->is_array && v->count == (uint64_t)x->config.layers &&
        gguf_value_real(v, 0, &number))
        return OK;
    return err_set(e, E_USAGE, "%s: %s: found no list of %" PRId64 " numbers", x->o->from, key,
                   x->config.layers);
}

static status find_tensors(importer *x, err *e)
{
    status result = OK;
    size_t used = 0;
    TRY(alloc_zeroed(&x->found, (size_t)x->tensors.count, sizeof *x->found, "a list of tensors",
                     e));
    for (int i = 0; i < x->tensors.count; i++) {
        const convert_tensor *t = &x->tensors.item[i];
        if (t->key) {
            TRY(check_list(x, t->key, e));
            continue;
        }
        const gguf_tensor *g = x->found[i] = gguf_tensor_find(x->from, t->name);
        if (!g) FAIL(E_USAGE, "%s: tensor %s is missing", x->o->from, t->name);
        if (g->dim[0] != t->cols || g->dim[1] != t->rows || g->dim[2] != 1 || g->dim[3] != 1)
            FAIL(E_USAGE,
                 "%s: tensor %s has the dimensions %" PRId64 ", %" PRId64
                 ", the keys make it %" PRId64 ", %" PRId64,
                 x->o->from, t->name, g->dim[0], g->dim[1], t->cols, t->rows);
    }
    for (size_t i = 0; i < gguf_tensor_count(x->from); i++) {
        const char *name = gguf_tensor_get(x->from, i)->name;
        bool known = is_known(name);
        for (int k = 0; !known && k < x->tensors.count; k++)
            known = strcmp(name, x->tensors.item[k].name) == 0;
        if (!known)
            FAIL(E_USAGE, "%s: tensor %.*s is not one of a %s model with these keys", x->o->from,
                 TEXT_CUT(name, 100), x->family->family);
        used++;
    }
    x->r->tensors = used;
done:
    return result;
}

// The type in which nothing is lost and nothing is wasted: that of most numbers, or fp32 where they are quantised.
static status choose_type(importer *x, err *e)
{
    status result = OK;
    static const dtype types[] = {F32, BF16, F16};
    int index = 0;
    x->type = F32;
    if (x->o->type) {
        TRY(convert_find_type(x->o->type, CONVERT_FOLDER_TYPES, &index, e));
        x->type = types[index];
    } else {
        for (int i = 0; i < x->tensors.count; i++) {
            if (x->tensors.item[i].is_vector) continue;
            const uint32_t kind = x->found[i]->kind->number;
            x->type = kind == GGUF_F16 ? F16 : kind == GGUF_BF16 ? BF16 : F32;
            if (x->type == F32) break;
        }
    }
    (void)snprintf(x->r->kind, sizeof x->r->kind, "%s", dtype_name(x->type));
done:
    return result;
}

static void read_whole(importer *x, size_t i)
{
    const convert_tensor *t = &x->tensors.item[i];
    for (int64_t r = 0; r < t->rows; r++)
        convert_row_from_file(t, x->found[i], r, x->line, x->whole + r * t->cols);
}

// Elements of the folder's tensor, from `offset` bytes on.
static status read_tensor(void *arg, size_t i, uint64_t offset, void *out, size_t bytes, err *e)
{
    importer *x = arg;
    (void)e;
    const convert_tensor *t = &x->tensors.item[i];
    const size_t each = dtype_bytes(x->type);
    char *to = out;
    const int64_t first = (int64_t)(offset / each), end = first + (int64_t)(bytes / each);
    if (t->key) {
        double number = 0;
        (void)gguf_value_real(gguf_value_find(x->from, t->key), (uint64_t)t->layer, &number);
        const float value = (float)number;
        dtype_convert(out, x->type, &value, F32, 1);
        return OK;
    }
    if (i != x->tensor_at) {
        x->tensor_at = i;
        x->row_at = -1;
        if (t->transposed) read_whole(x, i);
    }
    for (int64_t k = first; k < end;) {
        int64_t n = 1;
        const float *from;
        if (t->transposed) {
            from = x->whole + k % t->rows * t->cols + k / t->rows;
        } else {
            const int64_t row = k / t->cols, col = k % t->cols;
            if (row != x->row_at) convert_row_from_file(t, x->found[i], row, x->line, x->row);
            x->row_at = row;
            from = x->row + col;
            n = size_min(t->cols - col, end - k);
        }
        dtype_convert(to, x->type, from, F32, (size_t)n);
        to += (size_t)n * each;
        k += n;
    }
    return OK;
}

static status make_room(importer *x, err *e)
{
    status result = OK;
    int64_t most = 1, whole = 1;
    for (int i = 0; i < x->tensors.count; i++) {
        const convert_tensor *t = &x->tensors.item[i];
        most = size_max(most, t->cols);
        if (t->transposed) whole = size_max(whole, t->rows * t->cols);
    }
    TRY(alloc_array(&x->line, (size_t)most, sizeof *x->line, "a row", e));
    TRY(alloc_array(&x->row, (size_t)most, sizeof *x->row, "a row", e));
    TRY(alloc_array(&x->whole, (size_t)whole, sizeof *x->whole, "a tensor", e));
    x->tensor_at = SIZE_MAX;
done:
    return result;
}

// ---- The folder

static status write_all(importer *x, err *e)
{
    status result = OK;
    char *config = NULL;
    TRY(convert_output_begin(x->o->out, true, x->o->overwrite, &x->output, e));
    TRY(model_config_write(&x->config, convert_type_word(x->type), &config, e));
    TRY(convert_output_put(&x->output, "config.json", config, strlen(config), e));
    TRY(vocab_import(x->from, &x->config, &x->output, &x->r->warnings, e));
    TRY(convert_output_put_weights(&x->output, x->files.info, (size_t)x->files.count,
                                   x->o->shard_bytes, read_tensor, x, e));
    TRY(gguf_check_whole(x->from, e));
    for (int i = 0; i < x->files.count; i++) x->r->bytes += x->files.info[i].bytes;
    TRY(text_copy(x->output.path, &x->r->out, e));
    TRY(convert_output_finish(&x->output, e));
done:
    free(config);
    return result;
}

status convert_from_gguf(const convert_options *o, convert_result *r, err *e)
{
    status result = OK;
    importer x = {.o = o, .r = r};
    const model_options once = {.mode = GRAPH_EVAL, .type = F32, .batch = 1, .seq = 1};
    *r = (convert_result){0};
    TRY(gguf_open(o->from, &x.from, e));
    TRY(find_family(&x, e));
    TRY(convert_keys_read(x.family, x.from, &x.config, e));
    TRY(model_open(x.config.family, &x.config, &once, &x.m, e));
    TRY(convert_tensors_make(x.family, &x.config, x.m, &x.tensors, e));
    TRY(find_tensors(&x, e));
    TRY(choose_type(&x, e));
    TRY(make_room(&x, e));
    TRY(model_param_files_make(x.m, x.type, &x.files, e));
    TRY(write_all(&x, e));
done:
    convert_output_abandon(&x.output);
    free(x.line);
    free(x.row);
    free(x.whole);
    free(x.found);
    model_param_files_clear(&x.files);
    convert_tensors_clear(&x.tensors);
    model_close(x.m);
    gguf_close(x.from);
    return result;
}
