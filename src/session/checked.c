// checked.c -- see checked.h. Files are checked when they are opened; data that a callback returns
// can only be checked sample by sample. inputs.c calls it.
#include "session/checked.h"

#include "base/alloc.h"
#include "device/kernels.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct checked_dataset {
    dataset base;
    dataset *source;
    const char *key;
    int32_t inputs, labels;
} checked_dataset;

static status bad_id(const checked_dataset *c, uint64_t sample, const char *what, int64_t position,
                     int32_t id, int32_t limit, err *e)
{
    return err_set(e, E_USAGE,
                   "%s: sample %" PRIu64 ": %s %" PRId64 " is %" PRId32 "; valid: 0 to %" PRId32,
                   c->key, sample, what, position, id, limit - 1);
}

static status check_ids(const checked_dataset *c, uint64_t sample, const int32_t *in,
                        const int32_t *out, err *e)
{
    const dataset_shape *s = &c->base.shape;
    const int64_t ids = s->documents ? s->inputs / 2 : s->inputs;
    for (int64_t i = 0; s->input_type == I32 && i < ids; i++)
        if (in[i] < 0 || in[i] >= c->inputs)
            return bad_id(c, sample, "token", i, in[i], c->inputs, e);
    if (s->documents && dataset_check_starts(in + ids, ids, e) != OK) {
        err_prefix(e, "%s: sample %" PRIu64 ": ", c->key, sample);
        return E_USAGE;
    }
    for (int64_t i = 0; s->label_type == I32 && i < s->labels; i++)
        if (out[i] != IGNORED_LABEL && (out[i] < 0 || out[i] >= c->labels))
            return bad_id(c, sample, "label", i, out[i], c->labels, e);
    return OK;
}

static status checked_read(dataset *d, uint64_t sample, void *inputs, void *labels, err *e)
{
    status result = OK;
    const checked_dataset *c = (const checked_dataset *)d;
    if (sample >= d->samples)
        FAIL(E_INTERNAL, "%s: sample %" PRIu64 " of %" PRIu64, c->key, sample, d->samples);
    result = c->source->read(c->source, sample, inputs, labels, e);
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
    const checked_dataset *c = (const checked_dataset *)d;
    status result = c->source->read_own(c->source, rank, ranks, index, inputs, labels, ended, e);
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

status checked_dataset_open(dataset *source, const char *key, int32_t inputs, int32_t labels,
                            dataset **out, err *e)
{
    checked_dataset *c;
    const status result = alloc_zeroed(&c, 1, sizeof *c, key, e);
    if (result != OK) return result;
    *c = (checked_dataset){
        .base = *source, .source = source, .key = key, .inputs = inputs, .labels = labels};
    c->base.read = checked_read;
    c->base.read_own = source->read_own ? checked_read_own : NULL;
    c->base.close = checked_close;
    *out = &c->base;
    return OK;
}
