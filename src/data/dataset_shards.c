// Token shards as samples: documents joined, one sample every L tokens with one token of overlap;
// one shard, or a blend of several by weight. Called through dataset_open. It deliberately does not
// know documents, nor the order in which samples are asked for.
//
// A blend keeps one byte a sample (whose turn it is) and the parts' counts every 1024 samples, so
// that any sample is found by a short count.
#include "data/dataset_kinds.h"

#include "data/tokens.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS_MAX = 255, BLOCK = 1024 };

typedef struct part {
    tokens *t;
    uint64_t samples;
    double weight; // share, all sum to 1
} part;

typedef struct shards {
    dataset base;
    size_t parts;
    part *part;
    uint8_t *turn;    // [samples] which part; NULL for one part
    uint64_t *before; // [blocks, parts] samples of each part before the block
} shards;

static void shards_close(dataset *d)
{
    shards *s = (shards *)d;
    for (size_t i = 0; i < s->parts && s->part; i++) tokens_close(s->part[i].t);
    free(s->part);
    free(s->turn);
    free(s->before);
    free(s);
}

// Which part sample k comes from, and the how manyeth of that part's samples it is.
static size_t blend_find(const shards *s, uint64_t k, uint64_t *nth)
{
    uint64_t block = k / BLOCK;
    uint8_t whose = s->turn[k];
    uint64_t n = s->before[block * s->parts + whose];
    for (uint64_t i = block * BLOCK; i < k; i++) n += s->turn[i] == whose;
    *nth = n;
    return whose;
}

static status shards_read(dataset *d, uint64_t sample, void *inputs, void *labels, err *e)
{
    const shards *s = (const shards *)d;
    if (sample >= d->samples)
        return err_set(e, E_INTERNAL, "data: sample %" PRIu64 " of %" PRIu64, sample, d->samples);
    uint64_t nth = sample;
    const part *p = &s->part[s->turn ? blend_find(s, sample, &nth) : 0];
    uint64_t length = (uint64_t)d->shape.inputs, first = nth % p->samples * length;
    tokens_read(p->t, first, length, inputs);
    tokens_read(p->t, first + 1, length, labels);
    return tokens_check_whole(p->t, e);
}

static status part_open(part *p, const data_part *from, double weights, int64_t seq_len,
                        int32_t vocab, err *e)
{
    status result = OK;
    p->weight = from->weight / weights;
    TRY(tokens_open(from->path, &p->t, e));
    uint64_t count = tokens_count(p->t);
    p->samples = count == 0 ? 0 : (count - 1) / (uint64_t)seq_len;
    if (p->samples == 0)
        FAIL(E_USAGE,
             "%s.bin: found %" PRIu64 " tokens, one sample of seq_len %" PRId64 " takes %" PRId64,
             tokens_prefix(p->t), count, seq_len, seq_len + 1);
    TRY(tokens_check(p->t, vocab, e));
done:
    return result;
}

// Sample k goes to the part whose count lags its share of max(k, 1) most; the first of equals.
static status blend_make(shards *s, err *e)
{
    uint64_t samples = s->base.samples, count[PARTS_MAX] = {0};
    s->turn = malloc(samples);
    s->before = malloc((samples / BLOCK + 1) * s->parts * sizeof *s->before);
    if (!s->turn || !s->before)
        return err_set(e, E_MEMORY, "data: out of memory for a blend of %" PRIu64 " samples",
                       samples);
    for (uint64_t k = 0; k < samples; k++) {
        if (k % BLOCK == 0)
            memcpy(s->before + k / BLOCK * s->parts, count, s->parts * sizeof *count);
        double reached = k > 0 ? (double)k : 1, most = 0;
        size_t whose = 0;
        for (size_t p = 0; p < s->parts; p++) {
            double lag = s->part[p].weight * reached - (double)count[p];
            if (p == 0 || lag > most) most = lag, whose = p;
        }
        s->turn[k] = (uint8_t)whose;
        count[whose]++;
    }
    return OK;
}

status dataset_open_shards(const data_part *parts, size_t count, int64_t seq_len, int32_t vocab,
                           dataset **out, err *e)
{
    status result = OK;
    if (count > PARTS_MAX)
        return err_set(e, E_USAGE, "data: found %zu shards in a blend, valid is at most %d", count,
                       PARTS_MAX);
    double weights = 0;
    for (size_t i = 0; i < count; i++) weights += parts[i].weight;
    shards *s = calloc(1, sizeof *s);
    if (!s) return err_set(e, E_MEMORY, "data: out of memory");
    s->base = (dataset){
        .shape = {.inputs = seq_len, .input_type = I32, .labels = seq_len, .label_type = I32},
        .max_id = -1,
        .read = shards_read,
        .close = shards_close,
    };
    s->parts = count;
    s->part = calloc(count, sizeof *s->part);
    if (!s->part) FAIL(E_MEMORY, "data: out of memory");
    for (size_t i = 0; i < count; i++) {
        TRY(part_open(&s->part[i], &parts[i], weights, seq_len, vocab, e));
        s->base.samples += s->part[i].samples;
    }
    if (count > 1) TRY(blend_make(s, e));
    *out = &s->base;
    s = NULL;
done:
    if (s) shards_close(&s->base);
    return result;
}
