// dataset_mock.c -- mock data: token ids drawn from (seed, sample number), for measurements and tests
// without files. dataset_open calls it. It deliberately does not know any text.
#include "data/dataset_kinds.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct dataset_mock {
    dataset base;
    uint64_t seed;
    int32_t vocab;
} dataset_mock;

static status mock_read(dataset *d, uint64_t sample, void *inputs, void *labels, err *e)
{
    const dataset_mock *m = (const dataset_mock *)d;
    if (sample >= d->samples)
        return err_set(e, E_INTERNAL, "mock: sample %" PRIu64 " of %" PRIu64, sample, d->samples);
    rng_key key = rng_key_make(m->seed, RNG_MOCK, sample, 0);
    int32_t *in = inputs, *out = labels; // [seq_len] each
    for (int64_t i = 0; i <= d->shape.inputs; i++) {
        uint32_t word = rng_word(key, (uint64_t)i);
        int32_t id = (int32_t)(((uint64_t)word * (uint64_t)m->vocab) >> 32);
        if (i < d->shape.inputs) in[i] = id;
        if (i > 0) out[i - 1] = id;
    }
    return OK;
}

static void mock_close(dataset *d)
{
    free(d);
}

status dataset_open_mock(int64_t seq_len, int32_t vocab, uint64_t seed, uint64_t samples,
                         dataset **out, err *e)
{
    if (vocab < 1 || samples < 1)
        return err_set(e, E_USAGE,
                       "data: mock: found a vocabulary of %" PRId32 " and %" PRIu64
                       " samples, valid is 1 or more of both",
                       vocab, samples);
    dataset_mock *m;
    const status result = alloc_zeroed(&m, 1, sizeof *m, "mock data", e);
    if (result != OK) return result;
    m->base = (dataset){
        .shape = {.inputs = seq_len, .input_type = I32, .labels = seq_len, .label_type = I32},
        .samples = samples,
        .max_id = -1,
        .read = mock_read,
        .close = mock_close,
    };
    m->seed = seed;
    m->vocab = vocab;
    *out = &m->base;
    return OK;
}
