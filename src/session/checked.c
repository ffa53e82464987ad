// checked.c -- a program's own data, with every id looked at before it becomes an index. Files are
// checked whole when they are opened; a callback can only be checked sample by sample. See
// checked.h.
#include "session/checked.h"

#include "device/kernels.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct checked {
    dataset base;
    dataset *of;
    const char *key;
    int32_t inputs, labels;
} checked;

static status bad_id(const checked *c, uint64_t sample, const char *what, int64_t at, int32_t id,
                     int32_t limit, err *e)
{
    return err_set(e, E_USAGE,
                   "%s: sample %" PRIu64 ": %s %" PRId64 " is %" PRId32 "; valid: 0 to %" PRId32,
                   c->key, sample, what, at, id, limit - 1);
}

static status check_ids(const checked *c, uint64_t sample, const int32_t *in, const int32_t *out,
                        err *e)
{
    const dataset_shape *s = &c->base.shape;
    for (int64_t i = 0; s->input_type == I32 && i < s->inputs; i++)
        if (in[i] < 0 || in[i] >= c->inputs)
            return bad_id(c, sample, "token", i, in[i], c->inputs, e);
    for (int64_t i = 0; s->label_type == I32 && i < s->labels; i++)
        if (out[i] != IGNORED_LABEL && (out[i] < 0 || out[i] >= c->labels))
            return bad_id(c, sample, "label", i, out[i], c->labels, e);
    return OK;
}

static status checked_read(dataset *d, uint64_t sample, void *inputs, void *labels, err *e)
{
    status result = OK;
    const checked *c = (const checked *)d;
    if (sample >= d->samples)
        FAIL(E_INTERNAL, "%s: sample %" PRIu64 " of %" PRIu64, c->key, sample, d->samples);
    result = c->of->read(c->of, sample, inputs, labels, e);
    if (result != OK)
        err_prefix(e, "%s: sample %" PRIu64 ": ", c->key, sample);
    else
        result = check_ids(c, sample, inputs, labels, e);
done:
    return result;
}

static status checked_read_own(dataset *d, int rank, int ranks, uint64_t index, void *inputs,
                               void *labels, bool *ended, err *e)
{
    const checked *c = (const checked *)d;
    status result = c->of->read_own(c->of, rank, ranks, index, inputs, labels, ended, e);
    if (result != OK)
        err_prefix(e, "%s: sample %" PRIu64 ": ", c->key, index);
    else if (!*ended)
        result = check_ids(c, index, inputs, labels, e);
    return result;
}

static void checked_close(dataset *d)
{
    free(d);
}

status checked_dataset_open(dataset *of, const char *key, int32_t inputs, int32_t labels,
                            dataset **out, err *e)
{
    checked *c = calloc(1, sizeof *c);
    if (!c) return err_set(e, E_IO, "%s: out of memory", key);
    *c = (checked){.base = *of, .of = of, .key = key, .inputs = inputs, .labels = labels};
    c->base.read = checked_read;
    c->base.read_own = of->read_own ? checked_read_own : NULL;
    c->base.close = checked_close;
    *out = &c->base;
    return OK;
}
