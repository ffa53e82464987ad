// labelled.c -- PREFIX.labels beside a token shard says which tokens are predicted. set.c reads it, and
// `data prepare --sft` writes it. It knows no rows.
//
//   at        is
//   0         8 bytes "TRLABELS"
//   8         u32 version, 1
//   12        u32 flags: 1 the file holds weights, 2 documents 2k and 2k + 1 are chosen and rejected
//   16        u64 T, tokens of the shard
//   24        u64 D, documents of the shard
//   32        f32 x D: the weight of each document, where flag 1 is set
//   then      ceil(T / 8) bytes: bit t % 8 of byte t / 8 is 1 where token t is predicted
#include "data/samples/samples_private.h"

#include "base/alloc.h"
#include "data/paths.h"
#include "data/samples/labelled.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char MAGIC[8] = {'T', 'R', 'L', 'A', 'B', 'E', 'L', 'S'};

static void labels_path(const char *prefix, text *out)
{
    text_add_bytes(out, prefix, data_path_prefix_bytes(prefix));
    text_add(out, ".labels");
}

bool samples_shard_exists(const char *prefix)
{
    text path = {0};
    labels_path(prefix, &path);
    const bool exists = !path.failed && file_exists(path.chars);
    text_clear(&path);
    return exists;
}

typedef struct labels_head {
    char magic[8];
    uint32_t version, flags;
    uint64_t tokens, documents;
} labels_head;
enum { LABELS_WEIGHTS = 1, LABELS_PAIRS = 2 };

static status read_head(samples_shard *s, const char *path, err *e)
{
    labels_head h = {.version = 0};
    if (s->file.bytes < sizeof h)
        return err_set(e, E_USAGE, "%s: has %zu bytes; valid: at least %zu", path, s->file.bytes,
                       sizeof h);
    memcpy(&h, s->file.ptr, sizeof h);
    if (memcmp(h.magic, MAGIC, sizeof MAGIC) != 0 || h.version != 1)
        return err_set(e, E_USAGE, "%s: is no file of labels of version 1", path);
    if (h.tokens != tokens_count(s->t) || h.documents != tokens_documents(s->t))
        return err_set(e, E_USAGE,
                       "%s: belongs to a shard of %" PRIu64 " tokens in %" PRIu64
                       " documents; this one has %" PRIu64 " in %" PRIu64,
                       path, h.tokens, h.documents, tokens_count(s->t), tokens_documents(s->t));
    const uint64_t weights = h.flags & LABELS_WEIGHTS ? h.documents * sizeof(float) : 0,
                   bytes = sizeof h + weights + (h.tokens + 7) / 8;
    if (h.flags > 3 || s->file.bytes != bytes)
        return err_set(e, E_USAGE,
                       "%s: has %zu bytes and flags %" PRIu32 "; valid: %" PRIu64 " bytes", path,
                       s->file.bytes, h.flags, bytes);
    s->pairs = h.flags & LABELS_PAIRS;
    if (s->pairs && h.documents % 2 != 0)
        return err_set(e, E_USAGE, "%s: pairs in %" PRIu64 " documents", path, h.documents);
    if (weights > 0) s->weight = (const float *)(const void *)(s->file.ptr + sizeof h);
    s->bits = s->file.ptr + sizeof h + weights;
    return OK;
}

status samples_shard_open(const char *prefix, samples_shard *out, err *e)
{
    status result = OK;
    text path = {0};
    *out = (samples_shard){.t = NULL};
    labels_path(prefix, &path);
    TRY(text_check(&path, e));
    TRY(tokens_open(prefix, &out->t, e));
    TRY(file_map_open(path.chars, &out->file, e));
    TRY(read_head(out, path.chars, e));
    for (uint64_t d = 0; out->weight && d < tokens_documents(out->t); d++)
        if (!(out->weight[d] > 0))
            FAIL(E_USAGE, "%s: document %" PRIu64 " has the weight %g; valid: > 0", path.chars, d,
                 (double)out->weight[d]);
done:
    if (result != OK) samples_shard_close(out);
    text_clear(&path);
    return result;
}

void samples_shard_close(samples_shard *s)
{
    tokens_close(s->t);
    file_unmap(&s->file);
    *s = (samples_shard){.t = NULL};
}

void samples_shard_read(const samples_shard *s, uint64_t first, size_t count, int32_t *out)
{
    tokens_read(s->t, first, count, out);
    for (size_t i = 0; i < count; i++)
        if (s->bits[(first + i) / 8] >> (first + i) % 8 & 1) out[i] |= SAMPLE_TRAINED;
}

// ---- Writing

struct samples_labels {
    uint8_t *bits;
    float *weight; // [documents]
    size_t bits_room, weight_room, tokens, documents;
    bool pairs, weighted;
};

status samples_labels_open(samples_labels **out, err *e)
{
    return alloc_zeroed(out, 1, sizeof **out, "the labels of a shard", e);
}

void samples_labels_close(samples_labels *l)
{
    if (!l) return;
    free(l->bits);
    free(l->weight);
    free(l);
}

status samples_labels_add(samples_labels *l, const bool *trained, size_t count, double weight,
                          bool of_pair, err *e)
{
    status result = OK;
    TRY(alloc_grow(&l->weight, &l->weight_room, l->documents + 1, sizeof *l->weight,
                   "the labels of a shard", e));
    TRY(alloc_grow(&l->bits, &l->bits_room, (l->tokens + count + 7) / 8, 1, "the labels of a shard",
                   e));
    for (size_t i = 0; i < count; i++, l->tokens++) {
        if (l->tokens % 8 == 0) l->bits[l->tokens / 8] = 0;
        if (trained[i]) l->bits[l->tokens / 8] |= (uint8_t)(1 << l->tokens % 8);
    }
    l->weight[l->documents++] = (float)weight;
    l->weighted = l->weighted || weight != 1;
    l->pairs = of_pair;
done:
    return result;
}

status samples_labels_write(const samples_labels *l, const char *path, err *e)
{
    status result = OK;
    file_writer *w = NULL;
    labels_head h = {.version = 1,
                     .flags = (l->weighted ? LABELS_WEIGHTS : 0) | (l->pairs ? LABELS_PAIRS : 0),
                     .tokens = l->tokens,
                     .documents = l->documents};
    memcpy(h.magic, MAGIC, sizeof MAGIC);
    TRY(file_create(path, &w, e));
    TRY(file_write(w, &h, sizeof h, e));
    if (l->weighted) TRY(file_write(w, l->weight, l->documents * sizeof *l->weight, e));
    TRY(file_write(w, l->bits, (l->tokens + 7) / 8, e));
    file_writer *closing = w;
    w = NULL;
    TRY(file_finish(closing, e));
done:
    file_abandon(w);
    return result;
}
