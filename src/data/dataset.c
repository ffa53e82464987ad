// dataset.c -- chooses the kind of dataset by its paths and opens it. Sessions call it for training
// and evaluation. It deliberately does not know the order in which samples are read, nor ranks.
#include "data/dataset.h"

#include "data/dataset_kinds.h"
#include "data/paths.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool is_vectors(const char *path)
{
    return data_path_has_suffix(path, ".safetensors");
}

static bool is_mock(const char *path)
{
    return strcmp(path, "mock") == 0;
}

static status sources_check(const dataset_source *sources, size_t count, err *e)
{
    if (count == 0)
        return err_set(e, E_USAGE,
                       "data: no path, valid is a shard prefix, a list of {path, "
                       "weight}, a .safetensors file or mock");
    for (size_t i = 0; i < count; i++)
        if (sources[i].to > 0 && (is_mock(sources[i].path) || is_vectors(sources[i].path)))
            return err_set(e, E_USAGE, "data: documents of %s: only token shards have documents",
                           sources[i].path);
    for (size_t i = 0; i < count && count > 1; i++) {
        const dataset_source *p = &sources[i];
        if (is_mock(p->path) || is_vectors(p->path))
            return err_set(e, E_USAGE,
                           "data: %s stands in a list of %zu, only token shards can be blended",
                           p->path, count);
        if (!isfinite(p->weight) || p->weight <= 0)
            return err_set(e, E_USAGE, "data: weight of %s: found %g, valid is > 0", p->path,
                           p->weight);
    }
    return OK;
}

status dataset_open(const dataset_source *sources, size_t count, int64_t seq_len, int32_t vocab,
                    uint64_t seed, uint64_t mock_samples, dataset **out, err *e)
{
    status result = OK;
    TRY(sources_check(sources, count, e));
    if (is_vectors(sources[0].path)) {
        TRY(dataset_open_vectors(sources[0].path, vocab, out, e));
        goto done;
    }
    if (seq_len < 1) FAIL(E_USAGE, "data: seq_len: found %" PRId64 ", valid is 1 or more", seq_len);
    if (is_mock(sources[0].path))
        TRY(dataset_open_mock(seq_len, vocab, seed, mock_samples, out, e));
    else
        TRY(dataset_open_shards(sources, count, seq_len, vocab, out, e));
done:
    return result;
}

status dataset_check_starts(const int32_t *start, int64_t count, err *e)
{
    for (int64_t i = 0; i < count; i++)
        if (start[i] != i && (i == 0 || start[i] != start[i - 1]))
            return err_set(
                e, E_USAGE,
                "the document of position %" PRId64 " begins at %" PRId32 "; valid: %" PRId64 "%s",
                i, start[i], i, i > 0 ? ", or where that of the last position begins" : "");
    return OK;
}

status dataset_order_as_megatron(dataset *d, uint64_t seed, uint64_t samples, err *e)
{
    if (!d->order_as_megatron)
        return err_set(e, E_USAGE, "data.order: found megatron; it needs token shards");
    if (seed > UINT32_MAX)
        return err_set(e, E_USAGE,
                       "train.seed: found %" PRIu64
                       "; valid with data.order megatron: 0 to %" PRIu32,
                       seed, UINT32_MAX);
    return d->order_as_megatron(d, seed, samples, e);
}

void dataset_close(dataset *d)
{
    if (d) d->close(d);
}
