// rows.c -- the dataset of rows: packed samples, then the rows of token shards. samples_open makes it of the sources.
// Sessions call it. It knows no sampler and no batch.
//
// A row is documents one after the other, then padding: one more document, of token 0, without labels. The packing is
// made once; `data.order` permutes rows, not samples.
#include "data/samples/samples_private.h"

#include "base/alloc.h"
#include "data/paths.h"
#include "device/kernels.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The rows of a token shard, whose documents are joined.
typedef struct plain_rows {
    dataset *data;
    uint64_t first, count; // rows of this dataset
} plain_rows;

typedef struct samples_dataset {
    dataset base;
    samples_options o;
    samples_set set;
    samples_rows rows;
    plain_rows *plain; // [plains]
    size_t plains;
} samples_dataset;

bool samples_is_jsonl(const char *path)
{
    return data_path_has_suffix(path, ".jsonl") || data_path_has_suffix(path, ".jsonl.gz");
}

bool samples_is_source(const char *path)
{
    return samples_is_jsonl(path) || samples_shard_exists(path);
}

// ---- Reading

// Writes one document at `at` of the row, and returns its end.
static int64_t put_document(const samples_dataset *d, const samples_piece *p, int64_t at,
                            int32_t *ids, int32_t *starts, int32_t *labels, float *weights)
{
    const int64_t end = at + p->tokens;
    samples_set_read(&d->set, p, ids + at);
    for (int64_t i = at; i < end; i++) {
        const bool trained = i + 1 < end && ids[i + 1] & SAMPLE_TRAINED;
        ids[i] &= ~SAMPLE_TRAINED;
        labels[i] = trained ? ids[i + 1] & ~SAMPLE_TRAINED : IGNORED_LABEL;
        starts[i] = (int32_t)at;
        if (weights) weights[i] = p->weight;
    }
    return end;
}

static status check_shards(const samples_dataset *d, err *e)
{
    status result = OK;
    for (size_t i = 0; i < d->set.shards && result == OK; i++)
        result = tokens_check_whole(d->set.shard[i].t, e);
    return result;
}

static void put_weights(float *weights, int64_t first, int64_t end)
{
    for (int64_t i = first; weights && i < end; i++) weights[i] = 1;
}

static status read_plain(const samples_dataset *d, uint64_t row, int32_t *ids, int32_t *labels,
                         float *weights, err *e)
{
    size_t k = d->plains - 1;
    while (row < d->plain[k].first) k--;
    const plain_rows *p = &d->plain[k];
    const uint64_t number = row - p->first, of = p->data->samples;
    memset(ids + d->o.seq_len, 0, (size_t)d->o.seq_len * sizeof *ids);
    put_weights(weights, 0, d->o.seq_len);
    // Fewer rows than the shard has are spread over it.
    const uint64_t sample =
        p->count < of ? (uint64_t)((double)number * (double)of / (double)p->count) : number % of;
    return p->data->read(p->data, sample, ids, labels, e);
}

static status rows_read(dataset *base, uint64_t row, void *inputs, void *labels, err *e)
{
    samples_dataset *d = (samples_dataset *)base;
    const int64_t length = d->o.seq_len;
    const size_t per = d->o.pairs ? 2 : 1;
    int32_t *ids = inputs, *starts = ids + length, *out = labels;
    // A session may ask for weights of 1, so that training data and validation data have one shape.
    float *weights = base->shape.extras ? (float *)(void *)(out + length) : NULL;
    int64_t end = 0;
    if (row >= base->samples)
        return err_set(e, E_INTERNAL, "data: row %" PRIu64 " of %" PRIu64, row, base->samples);
    if (row >= d->rows.rows) return read_plain(d, row, ids, out, weights, e);
    for (uint64_t i = d->rows.first[row]; i < d->rows.first[row + 1]; i++)
        for (size_t k = 0; k < per; k++)
            end = put_document(d, &d->set.piece[per * d->rows.sample[i] + k], end, ids, starts, out,
                               weights);
    put_weights(weights, end, length);
    for (int64_t i = end; i < length; i++) {
        ids[i] = 0;
        starts[i] = (int32_t)end;
        out[i] = IGNORED_LABEL;
    }
    return check_shards(d, e);
}

static void rows_close(dataset *base)
{
    samples_dataset *d = (samples_dataset *)base;
    samples_rows_clear(&d->rows);
    samples_set_clear(&d->set);
    for (size_t i = 0; i < d->plains; i++) dataset_close(d->plain[i].data);
    free(d->plain);
    free(d);
}

// ---- Opening

static status add_plain(samples_dataset *d, const dataset_source *from, err *e)
{
    status result = OK;
    plain_rows *p = &d->plain[d->plains];
    if (d->o.pairs)
        FAIL(E_USAGE, "%s: a token shard has no preferences; valid: chosen and rejected",
             from->path);
    if (strcmp(from->path, "mock") == 0 || data_path_has_suffix(from->path, ".safetensors"))
        FAIL(E_USAGE, "%s stands beside samples; valid: *.jsonl and token shards", from->path);
    TRY(dataset_open(from, 1, d->o.seq_len, d->o.vocab, 0, 0, &p->data, e));
    d->plains++;
    p->count = (uint64_t)rint((double)p->data->samples * from->weight);
done:
    return result;
}

static status add_source(samples_dataset *d, const dataset_source *from, err *e)
{
    if (samples_is_jsonl(from->path) && from->to > 0)
        return err_set(e, E_USAGE, "%s: documents: only shards have them", from->path);
    if (samples_is_jsonl(from->path)) return samples_set_add_file(&d->set, from, e);
    if (from->format) return err_set(e, E_USAGE, "%s: format: only JSONL has one", from->path);
    if (samples_shard_exists(from->path)) return samples_set_add_shard(&d->set, from, e);
    return add_plain(d, from, e);
}

static status pack(samples_dataset *d, err *e)
{
    status result = OK;
    uint32_t *length = NULL;
    const size_t count = samples_set_size(&d->set), per = d->o.pairs ? 2 : 1;
    TRY(alloc_array(&length, count, sizeof *length, "the samples", e));
    for (size_t i = 0; i < count; i++) {
        length[i] = 0;
        for (size_t k = 0; k < per; k++) length[i] += d->set.piece[per * i + k].tokens;
    }
    TRY(samples_pack(d->o.packing, length, count, d->o.seq_len, &d->rows, e));
    d->base.samples = d->rows.rows;
    for (size_t i = 0; i < d->plains; i++) {
        d->plain[i].first = d->base.samples;
        d->base.samples += d->plain[i].count;
    }
    d->base.memory = d->set.tokens * sizeof *d->set.token + d->set.pieces * sizeof *d->set.piece +
                     count * sizeof *d->rows.sample + d->rows.rows * sizeof *d->rows.first;
done:
    free(length);
    return result;
}

static status count_rows(samples_dataset *d, samples_counts *n, err *e)
{
    status result = OK;
    int32_t *token = NULL;
    size_t room = 0;
    n->rows = d->base.samples;
    n->samples = samples_set_size(&d->set);
    for (size_t i = 0; i < d->set.pieces; i++) {
        const samples_piece *p = &d->set.piece[i];
        TRY(alloc_grow(&token, &room, p->tokens, sizeof *token, "the samples", e));
        samples_set_read(&d->set, p, token);
        n->tokens += p->tokens;
        for (size_t t = 1; t < p->tokens; t++) n->labels += (token[t] & SAMPLE_TRAINED) != 0;
    }
    for (size_t r = 0; r < d->rows.rows; r++) {
        const uint64_t documents = (d->rows.first[r + 1] - d->rows.first[r]) * (d->o.pairs ? 2 : 1);
        if (documents > n->most_documents) n->most_documents = documents;
    }
    for (size_t i = 0; i < d->plains; i++) {
        n->tokens += d->plain[i].count * (uint64_t)d->o.seq_len;
        n->labels += d->plain[i].count * (uint64_t)d->o.seq_len;
    }
done:
    free(token);
    return result;
}

static status check_options(const dataset_source *sources, size_t count, const samples_options *o,
                            err *e)
{
    if (o->seq_len < (o->pairs ? 4 : 2))
        return err_set(e, E_USAGE, "data.seq_len: found %" PRId64 "; valid for samples: %d or more",
                       o->seq_len, o->pairs ? 4 : 2);
    if (o->pairs && o->truncate == TRUNCATE_SPLIT)
        return err_set(e, E_USAGE,
                       "data.truncate: found split; valid for preferences: error, "
                       "drop, keep_start, keep_end");
    for (size_t i = 0; i < count; i++)
        if (!isfinite(sources[i].weight) || sources[i].weight <= 0 || sources[i].weight > 1e6)
            return err_set(e, E_USAGE, "weight of %s: found %g; valid: a number > 0, up to 1e6",
                           sources[i].path, sources[i].weight);
    return OK;
}

status samples_open(const dataset_source *sources, size_t count, const samples_options *o,
                    samples_counts *counts, dataset **out, err *e)
{
    status result = OK;
    samples_dataset *d = NULL;
    *counts = (samples_counts){0};
    TRY(check_options(sources, count, o, e));
    TRY(alloc_zeroed(&d, 1, sizeof *d, "the samples", e));
    d->base = (dataset){.max_id = -1, .read = rows_read, .close = rows_close};
    d->o = *o;
    d->set.o = &d->o;
    d->set.counts = counts;
    TRY(alloc_zeroed(&d->set.shard, count, sizeof *d->set.shard, "the samples", e));
    TRY(alloc_zeroed(&d->plain, count, sizeof *d->plain, "the samples", e));
    for (size_t i = 0; i < count; i++) TRY(add_source(d, &sources[i], e));
    TRY(pack(d, e));
    if (d->base.samples == 0)
        FAIL(E_USAGE, "%s: no sample is left of %" PRIu64 " lines", sources[0].path, counts->lines);
    TRY(count_rows(d, counts, e));
    d->base.shape = (dataset_shape){.inputs = 2 * o->seq_len,
                                    .input_type = I32,
                                    .labels = o->seq_len,
                                    .label_type = I32,
                                    .documents = true,
                                    .extras = counts->weighted};
    // Both belong to the caller.
    d->o.tokenizer = NULL;
    d->o.chat = NULL;
    d->set.counts = NULL;
    *out = &d->base;
    d = NULL;
done:
    if (d) rows_close(&d->base);
    return result;
}
