// set.c -- all documents of the sources in their order. A document that is longer than a row is truncated as the job says.
// rows.c calls it. It knows no rows: packing.c puts the samples into them.
#include "data/samples/samples_private.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void samples_set_clear(samples_set *s)
{
    for (size_t i = 0; i < s->shards; i++) samples_shard_close(&s->shard[i]);
    free(s->shard);
    free(s->token);
    free(s->piece);
    *s = (samples_set){0};
}

size_t samples_set_size(const samples_set *s)
{
    return s->o->pairs ? s->pieces / 2 : s->pieces;
}

void samples_set_read(const samples_set *s, const samples_piece *p, int32_t *out)
{
    if (p->store == 0)
        memcpy(out, s->token + p->first, p->tokens * sizeof *out);
    else
        samples_shard_read(&s->shard[p->store - 1], p->first, p->tokens, out);
}

// ---- One sample

// A sample on its way into the set.
typedef struct set_line {
    const samples_place *at;
    const int32_t *token; // [end[documents - 1]]
    const size_t *end;    // [documents]
    int documents;
    float weight;
    uint64_t first; // of `token` in its store
    uint32_t store;
} set_line;

// The labels of tokens [first, end): the first token has none.
static uint64_t count_labels(const int32_t *token, size_t first, size_t end)
{
    uint64_t labels = 0;
    for (size_t i = first + 1; i < end; i++) labels += (token[i] & SAMPLE_TRAINED) != 0;
    return labels;
}

static status add_piece(samples_set *s, const set_line *line, size_t first, size_t end, err *e)
{
    status result = OK;
    TRY(alloc_grow(&s->piece, &s->piece_room, s->pieces + 1, sizeof *s->piece, "the samples", e));
    s->piece[s->pieces++] = (samples_piece){.first = line->first + first,
                                            .tokens = (uint32_t)(end - first),
                                            .store = line->store,
                                            .weight = line->weight};
done:
    return result;
}

static status refuse_length(const samples_set *s, const set_line *line, err *e)
{
    err_set(e, E_USAGE,
            "the %s %zu tokens, and data.seq_len is %" PRId64
            "; valid: at most so many, or data.truncate drop, keep_start, keep_end%s",
            line->documents > 1 ? "pair has" : "sample has", line->end[line->documents - 1],
            s->o->seq_len, s->o->pairs ? "" : " or split");
    samples_place_prefix(line->at, e);
    return E_USAGE;
}

// Adds the parts of the document [first, end) that a row can hold; a part without a label is left out. Where a completion
// has a label, the other document of its pair is one token, and has none.
static status add_document(samples_set *s, const set_line *line, size_t first, size_t end,
                           size_t most, err *e)
{
    status result = OK;
    const size_t length = end - first;
    const bool fills = line->documents == 2 && length == 1;
    if (length > most && s->o->truncate == TRUNCATE_KEEP_END) first = end - most;
    if (length > most && s->o->truncate == TRUNCATE_KEEP_START) end = first + most;
    while (first < end) {
        const size_t cut = end - first > most ? first + most : end;
        if (fills || count_labels(line->token, first, cut) > 0)
            TRY(add_piece(s, line, first, cut, e));
        else
            s->counts->unlabelled++;
        first = cut;
    }
done:
    return result;
}

static status add_sample(samples_set *s, const set_line *line, err *e)
{
    status result = OK;
    samples_counts *n = s->counts;
    const size_t row = (size_t)s->o->seq_len, before = s->pieces,
                 length = line->end[line->documents - 1];
    const bool too_long = length > row;
    uint64_t labels = 0, kept = 0;
    n->weighted = n->weighted || line->weight != 1;
    for (int d = 0; d < line->documents; d++)
        labels += count_labels(line->token, d > 0 ? line->end[d - 1] : 0, line->end[d]);
    if (too_long && s->o->truncate == TRUNCATE_ERROR) return refuse_length(s, line, e);
    n->too_long += too_long;
    if (too_long && s->o->truncate == TRUNCATE_DROP) {
        n->labels_lost += labels;
        return OK;
    }
    // Of a pair that is too long, each document has half a row.
    const size_t most = too_long ? row / (size_t)line->documents : row;
    for (int d = 0; d < line->documents; d++)
        TRY(add_document(s, line, d > 0 ? line->end[d - 1] : 0, line->end[d], most, e));
    // Half a pair is none.
    if (s->o->pairs && s->pieces - before == 1) s->pieces = before;
    for (size_t i = before; i < s->pieces; i++) {
        const size_t first = s->piece[i].first - line->first;
        kept += count_labels(line->token, first, first + s->piece[i].tokens);
    }
    n->labels_lost += labels - kept;
done:
    return result;
}

static status check_ids(const samples_set *s, const set_line *line, err *e)
{
    const size_t count = line->end[line->documents - 1];
    for (size_t i = 0; i < count; i++) {
        const int32_t id = line->token[i] & ~SAMPLE_TRAINED;
        if (id >= 0 && id < s->o->vocab) continue;
        err_set(e, E_USAGE,
                "token %zu has the id %" PRId32 ", and the model's vocabulary is %" PRId32, i, id,
                s->o->vocab);
        samples_place_prefix(line->at, e);
        return E_USAGE;
    }
    return OK;
}

// ---- Sources

// Adds the samples of a line: those of a conversation may be several.
static status take_line(void *arg, const samples_place *at, const samples_line *from, err *e)
{
    status result = OK;
    samples_set *s = arg;
    samples_counts *n = s->counts;
    const uint64_t too_long = n->too_long;
    const size_t per = from->pair ? 2 : 1, begin = s->tokens;
    TRY(alloc_grow(&s->token, &s->token_room, begin + from->count, sizeof *s->token,
                   "the tokens of the samples", e));
    memcpy(s->token + begin, from->token, from->count * sizeof *s->token);
    s->tokens += from->count;
    n->lines++;
    n->has_chat = n->has_chat || from->is_chat;
    samples_splits_add(&n->splits, from);
    for (size_t d = 0; d < from->documents; d += per) {
        const size_t first = d > 0 ? from->end[d - 1] : 0;
        const size_t end[2] = {from->end[d] - first, from->end[d + per - 1] - first};
        const set_line line = {.at = at,
                               .token = from->token + first,
                               .end = end,
                               .documents = (int)per,
                               .weight = (float)from->weight,
                               .first = begin + first};
        TRY(check_ids(s, &line, e));
        TRY(add_sample(s, &line, e));
    }
    if (n->too_long > too_long) n->too_long = too_long + 1; // the line, not its samples
done:
    return result;
}

// Repeats or thins the samples from piece `begin` on.
static status apply_weight(samples_set *s, size_t begin, double weight, err *e)
{
    status result = OK;
    const size_t per = s->o->pairs ? 2 : 1, count = (s->pieces - begin) / per;
    const double whole = floor(weight), part = weight - whole;
    const size_t most = (size_t)((double)count * weight) + 1;
    samples_piece *made = NULL;
    if (weight == 1 || count == 0) return OK;
    TRY(alloc_array(&made, most * per, sizeof *made, "the samples", e));
    size_t n = 0;
    for (double copy = 0; copy < whole; copy++, n += count * per)
        memcpy(made + n, s->piece + begin, count * per * sizeof *made);
    for (size_t i = 0; i < count; i++) {
        if (floor((double)(i + 1) * part) <= floor((double)i * part)) continue;
        memcpy(made + n, s->piece + begin + i * per, per * sizeof *made);
        n += per;
    }
    TRY(alloc_grow(&s->piece, &s->piece_room, begin + n, sizeof *s->piece, "the samples", e));
    memcpy(s->piece + begin, made, n * sizeof *made);
    s->pieces = begin + n;
done:
    free(made);
    return result;
}

status samples_set_add_file(samples_set *s, const dataset_source *from, err *e)
{
    status result = OK;
    const size_t begin = s->pieces;
    const samples_format format = from->format ? (samples_format)from->format : s->o->format;
    if (!s->o->tokenizer)
        FAIL(E_USAGE, "%s: JSONL needs a tokenizer; valid: tokenizer.json in model.path",
             from->path);
    TRY(samples_read(from->path, format, s->o, take_line, s, e));
    TRY(apply_weight(s, begin, from->weight, e));
done:
    return result;
}

// Documents d and, of pairs, d + 1.
static status add_shard_line(samples_set *s, const samples_place *at, uint64_t d, int32_t **token,
                             size_t *room, err *e)
{
    status result = OK;
    const samples_shard *shard = &s->shard[s->shards - 1];
    size_t end[2] = {0}, total = 0;
    uint64_t first[2], length;
    const int documents = shard->pairs ? 2 : 1;
    for (int k = 0; k < documents; k++) {
        tokens_document(shard->t, d + (uint64_t)k, &first[k], &length);
        total += length;
        end[k] = total;
    }
    if (total == 0) return OK;
    TRY(alloc_grow(token, room, total, sizeof **token, "the tokens of a document", e));
    samples_shard_read(shard, first[0], total, *token);
    const set_line line = {.at = at,
                           .token = *token,
                           .end = end,
                           .documents = documents,
                           .weight = shard->weight ? shard->weight[d] : 1,
                           .first = first[0],
                           .store = (uint32_t)s->shards};
    TRY(check_ids(s, &line, e));
    s->counts->lines++;
    TRY(add_sample(s, &line, e));
done:
    return result;
}

// `from` may take a part of the documents.
status samples_set_add_shard(samples_set *s, const dataset_source *from, err *e)
{
    status result = OK;
    const size_t begin = s->pieces;
    int32_t *token = NULL;
    size_t room = 0;
    samples_shard *shard = &s->shard[s->shards];
    TRY(samples_shard_open(from->path, shard, e));
    s->shards++;
    TRY(tokens_check(shard->t, s->o->vocab, e));
    if (shard->pairs != s->o->pairs)
        FAIL(E_USAGE, "%s.labels: found %s; the loss needs %s", from->path,
             shard->pairs ? "pairs of preferences" : "no pairs of preferences",
             s->o->pairs ? "chosen and rejected" : "labels of one document");
    const uint64_t documents = tokens_documents(shard->t), per = shard->pairs ? 2 : 1;
    const double end = from->to > 0 ? from->to : 1;
    for (uint64_t d = (uint64_t)rint(from->from * (double)(documents / per)) * per;
         d < (uint64_t)rint(end * (double)(documents / per)) * per; d += per) {
        const samples_place at = {.path = from->path, .number = d + 1, .is_shard = true};
        TRY(add_shard_line(s, &at, d, &token, &room, e));
    }
    TRY(tokens_check_whole(shard->t, e));
    TRY(apply_weight(s, begin, from->weight, e));
done:
    free(token);
    return result;
}
