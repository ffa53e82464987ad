// average.c -- see average.h. The state of a checkpoint has whole parameters; the files have their pieces.
#include "convert/average.h"

#include "base/alloc.h"
#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>

struct convert_average {
    const model *m;
    safetensors *state;
    model_param_files files;
    model_tensor_match match; // the tensor of the base for each of `files`
    float *full;              // parameter `param`
    size_t room;
    int param; // -1: none was read
};

void convert_average_close(convert_average *x)
{
    if (!x) return;
    model_param_match_clear(&x->match);
    model_param_files_clear(&x->files);
    safetensors_close(x->state);
    free(x->full);
    free(x);
}

static const safetensors_tensor *find(const convert_average *x, int param)
{
    char name[PARAM_NAME_BYTES + 16];
    (void)snprintf(name, sizeof name, "average.%s", x->m->param[param].name);
    return safetensors_find(x->state, name);
}

static status check_any(const convert_average *x, const char *folder, err *e)
{
    for (int p = 0; p < x->m->params; p++)
        if (find(x, p)) return OK;
    return err_set(e, E_USAGE,
                   "%s: found no moving averages of weights; valid: a checkpoint of a run with "
                   "optimizer.ema",
                   folder);
}

status convert_average_open(const char *folder, const model *m, const safetensors *base,
                            convert_average **out, err *e)
{
    status result = OK;
    convert_average *x = NULL;
    char *path = NULL;
    TRY(alloc_zeroed(&x, 1, sizeof *x, "the averages of weights", e));
    x->m = m, x->param = -1;
    TRY(file_join(folder, "trireme/state.safetensors", &path, e));
    if (!file_exists(path))
        FAIL(E_USAGE, "%s: found no state of a run; valid: a checkpoint of Trireme", folder);
    TRY(safetensors_open(path, &x->state, e));
    TRY(check_any(x, folder, e));
    TRY(model_param_files_make(m, F32, &x->files, e));
    TRY(model_param_match(m, base, &x->match, e));
    *out = x;
    x = NULL;
done:
    convert_average_close(x);
    free(path);
    return result;
}

static status read_param(convert_average *x, int param, const safetensors_tensor *from, err *e)
{
    status result = OK;
    const size_t count = (size_t)x->m->param[param].count;
    if (x->param == param) goto done;
    x->param = -1;
    if (from->type != F32 || from->bytes != count * sizeof(float))
        FAIL(E_USAGE, "tensor %s of the state: valid: %zu elements of F32", from->name, count);
    TRY(alloc_grow(&x->full, &x->room, count, sizeof *x->full, from->name, e));
    dtype_convert(x->full, F32, from->data, F32, count);
    x->param = param;
done:
    return result;
}

status convert_average_read(convert_average *x, const safetensors_tensor *t, float *out,
                            bool *changed, err *e)
{
    status result = OK;
    *changed = false;
    for (int i = 0; i < x->files.count; i++) {
        const model_param_file *f = &x->files.file[i];
        const safetensors_tensor *from = x->match.piece[i] == t ? find(x, f->param) : NULL;
        if (!from) continue;
        TRY(read_param(x, f->param, from, e));
        model_param_file_extract(x->m, f, x->full, out);
        *changed = true;
    }
done:
    return result;
}
