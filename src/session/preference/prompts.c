// prompts.c -- see prompts.h. Documents 2p and 2p + 1 of a sample are pair p.
#include "session/preference/prompts.h"

#include "base/alloc.h"
#include "device/kernels.h"

#include <stdlib.h>

typedef struct prompts_count {
    uint32_t pairs, labels; // of a sample; the labels are those of chosen documents
} prompts_count;

typedef struct prompts_data {
    dataset base;
    dataset *source;      // owned
    prompts_count *count; // [samples]
} prompts_data;

// Gives the prompts of chosen documents their labels.
static prompts_count add_labels(const int32_t *ids, int32_t *labels, int64_t length)
{
    const int32_t *start = ids + length;
    prompts_count count = {0};
    bool chosen = true;
    for (int64_t i = 0, end; i < length; i = end, chosen = !chosen) {
        int64_t answer = i;
        for (end = i + 1; end < length && start[end] != end; end++) {
        }
        while (answer < end && labels[answer] == IGNORED_LABEL) answer++;
        if (!chosen || answer == end) continue;
        for (int64_t k = i; k < answer; k++) labels[k] = ids[k + 1] | PROMPT_LABEL;
        for (int64_t k = i; k < end; k++) count.labels += labels[k] != IGNORED_LABEL;
        count.pairs++;
    }
    return count;
}

static status prompts_read(dataset *base, uint64_t sample, void *inputs, void *labels, err *e)
{
    const prompts_data *d = (const prompts_data *)base;
    const status result = d->source->read(d->source, sample, inputs, labels, e);
    if (result == OK) (void)add_labels(inputs, labels, base->shape.labels);
    return result;
}

static void prompts_close(dataset *base)
{
    prompts_data *d = (prompts_data *)base;
    dataset_close(d->source);
    free(d->count);
    free(d);
}

static status count_all(prompts_data *d, const char *key, err *e)
{
    status result = OK;
    const int64_t length = d->base.shape.labels;
    int32_t *space = NULL;
    TRY(alloc_array(&d->count, d->base.samples, sizeof *d->count, key, e));
    TRY(alloc_array(&space, 3 * (size_t)length, sizeof *space, key, e));
    for (uint64_t s = 0; s < d->base.samples; s++) {
        TRY(d->source->read(d->source, s, space, space + 2 * length, e));
        d->count[s] = add_labels(space, space + 2 * length, length);
    }
done:
    free(space);
    return result;
}

status prompts_wrap(dataset **data, const char *key, err *e)
{
    status result = OK;
    prompts_data *d = NULL;
    TRY(alloc_zeroed(&d, 1, sizeof *d, key, e));
    d->base = **data;
    d->base.read = prompts_read;
    d->base.close = prompts_close;
    d->source = *data;
    TRY(count_all(d, key, e));
    *data = &d->base;
    d = NULL;
done:
    if (d) {
        d->source = NULL;
        prompts_close(&d->base);
    }
    return result;
}

double prompts_share(const dataset *data, const uint64_t *sample, uint64_t samples)
{
    const prompts_data *d = (const prompts_data *)data;
    uint64_t pairs = 0, labels = 0;
    for (uint64_t i = 0; i < samples; i++) {
        pairs += d->count[sample[i]].pairs;
        labels += d->count[sample[i]].labels;
    }
    return labels > 0 ? (double)pairs / (double)labels : 0;
}
