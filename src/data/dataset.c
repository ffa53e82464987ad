// Dataset: decides by the paths which kind is opened. Called by the trainer and eval; it
// deliberately does not know the order in which samples are read, nor ranks.
#include "data/dataset.h"

#include "data/dataset_kinds.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static status parts_check(const data_part *parts, size_t count, err *e)
{
    if (count == 0)
        return err_set(e, E_USAGE,
                       "data: no path, valid is a shard prefix, a list of {path, "
                       "weight}, a .safetensors file or mock");
    for (size_t i = 0; i < count && count > 1; i++) {
        const data_part *p = &parts[i];
        if (strcmp(p->path, "mock") == 0 || ends_with(p->path, ".safetensors"))
            return err_set(e, E_USAGE,
                           "data: %s stands in a list of %zu, only token shards can be blended",
                           p->path, count);
        if (!isfinite(p->weight) || p->weight <= 0)
            return err_set(e, E_USAGE, "data: weight of %s: found %g, valid is > 0", p->path,
                           p->weight);
    }
    return OK;
}

status dataset_open(const data_part *parts, size_t count, int64_t seq_len, int32_t vocab,
                    uint64_t seed, uint64_t mock_samples, dataset **out, err *e)
{
    status result = OK;
    TRY(parts_check(parts, count, e));
    if (ends_with(parts[0].path, ".safetensors")) {
        TRY(dataset_open_vectors(parts[0].path, vocab, out, e));
        goto done;
    }
    if (seq_len < 1) FAIL(E_USAGE, "data: seq_len: found %" PRId64 ", valid is 1 or more", seq_len);
    if (strcmp(parts[0].path, "mock") == 0)
        TRY(dataset_open_mock(seq_len, vocab, seed, mock_samples, out, e));
    else
        TRY(dataset_open_shards(parts, count, seq_len, vocab, out, e));
done:
    return result;
}

void dataset_close(dataset *d)
{
    if (d) d->close(d);
}
