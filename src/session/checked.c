// checked.c -- a program's own data, with every id looked at before it becomes an index. Files are
// checked whole when they are opened; a callback can only be checked sample by sample. See
// checked.h.
#include "session/checked.h"

#include <inttypes.h>
#include <stdlib.h>

enum { IGNORED = -100 };

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

static status checked_read(dataset *d, uint64_t sample, void *inputs, void *labels, err *e)
{
    status result = OK;
    const checked *c = (const checked *)d;
    const int32_t *in = inputs, *out = labels;
    if (sample >= d->samples)
        FAIL(E_INTERNAL, "%s: sample %" PRIu64 " of %" PRIu64, c->key, sample, d->samples);
    result = c->of->read(c->of, sample, inputs, labels, e);
    if (result != OK) {
        err_prefix(e, "%s: sample %" PRIu64 ": ", c->key, sample);
        goto done;
    }
    for (int64_t i = 0; d->shape.input_type == I32 && i < d->shape.inputs; i++)
        if (in[i] < 0 || in[i] >= c->inputs)
            return bad_id(c, sample, "token", i, in[i], c->inputs, e);
    for (int64_t i = 0; d->shape.label_type == I32 && i < d->shape.labels; i++)
        if (out[i] != IGNORED && (out[i] < 0 || out[i] >= c->labels))
            return bad_id(c, sample, "label", i, out[i], c->labels, e);
done:
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
    c->base.close = checked_close;
    *out = &c->base;
    return OK;
}
