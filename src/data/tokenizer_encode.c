// tokenizer_encode.c -- text to ids: added tokens, words, and the byte pairs of each word, with a
// cache of words, because text repeats itself. Called by data preparation (one work area per
// thread) and generation. Knows nothing of files.
#include "data/bpe_bytes.h"
#include "data/bpe_merge.h"
#include "data/tokenizer_private.h"

#include <stdlib.h>
#include <string.h>

enum { CACHE_WORDS = 1 << 16, CACHE_WORD_BYTES = 64 };

typedef struct id_list {
    int32_t *at;
    size_t count, room;
} id_list;

typedef struct id_span {
    uint32_t at, count;
} id_span;

struct tokenizer_work {
    const tokenizer *tokenizer;
    splitter_work *split;
    bpe_merger merger;
    id_list ids;
    char *spelling;
    size_t spelling_room;
    bpe_strings words; // the cache: ids of words met before
    id_span *spans;    // [words.count] in cached
    size_t span_room;
    id_list cached;
};

void tokenizer_work_close(tokenizer_work *w)
{
    if (!w) return;
    splitter_work_close(w->split);
    bpe_merger_close(&w->merger);
    free(w->ids.at);
    free(w->spelling);
    bpe_strings_close(&w->words);
    free(w->spans);
    free(w->cached.at);
    free(w);
}

status tokenizer_work_open(const tokenizer *t, tokenizer_work **out, err *e)
{
    status result = OK;
    tokenizer_work *w = calloc(1, sizeof *w);
    if (!w) FAIL(E_MEMORY, "out of memory");
    w->tokenizer = t;
    TRY(splitter_work_open(t->split, &w->split, e));
    *out = w;
    w = NULL;
done:
    tokenizer_work_close(w);
    return result;
}

static status ids_room(id_list *ids, size_t more, err *e)
{
    return bpe_grow(&ids->at, &ids->room, ids->count + more, sizeof *ids->at, e);
}

// The id of a word that is in the model's vocabulary as a whole, or -1.
static status whole_word(tokenizer_work *w, const char *at, size_t bytes, int32_t *id, err *e)
{
    status result = OK;
    TRY(bpe_grow(&w->spelling, &w->spelling_room, 2 * bytes, 1, e));
    int64_t number =
        bpe_strings_find(&w->tokenizer->names, w->spelling, bpe_spell(at, bytes, w->spelling));
    *id = number < 0 || (size_t)number >= w->tokenizer->model_names
              ? -1
              : w->tokenizer->name_ids[number];
done:
    return result;
}

// Appends the ids of one word, without the cache.
static status encode_bytes(tokenizer_work *w, const char *at, size_t bytes, err *e)
{
    status result = OK;
    const tokenizer *t = w->tokenizer;
    int32_t whole = -1;
    bool after_unknown = false;
    TRY(ids_room(&w->ids, bytes, e));
    int32_t *ids = w->ids.at + w->ids.count;
    size_t count = 0;
    if (t->whole_words) TRY(whole_word(w, at, bytes, &whole, e));
    if (whole >= 0) {
        ids[count++] = whole;
    } else {
        for (size_t i = 0; i < bytes; i++) {
            int32_t id = t->byte_id[(uint8_t)at[i]];
            bool unknown = id < 0;
            if (unknown) id = after_unknown && t->fuse_unknown ? -1 : t->unknown;
            if (id >= 0) ids[count++] = id;
            after_unknown = unknown;
        }
        TRY(bpe_merge(&w->merger, &t->merges, ids, &count, e));
    }
    w->ids.count += count;
done:
    return result;
}

static status cache_add(tokenizer_work *w, const char *at, size_t bytes, size_t count, err *e)
{
    status result = OK;
    uint32_t number;
    if (w->words.count == CACHE_WORDS) {
        bpe_strings_empty(&w->words);
        w->cached.count = 0;
    }
    TRY(ids_room(&w->cached, count, e));
    TRY(bpe_grow(&w->spans, &w->span_room, w->words.count + 1, sizeof *w->spans, e));
    TRY(bpe_strings_add(&w->words, at, bytes, &number, e));
    w->spans[number] = (id_span){(uint32_t)w->cached.count, (uint32_t)count};
    if (count > 0)
        memcpy(w->cached.at + w->cached.count, w->ids.at + w->ids.count - count,
               count * sizeof(int32_t));
    w->cached.count += count;
done:
    return result;
}

static status take_word(void *arg, const char *at, size_t bytes, err *e)
{
    status result = OK;
    tokenizer_work *w = arg;
    if (bytes > CACHE_WORD_BYTES) {
        TRY(encode_bytes(w, at, bytes, e));
        goto done;
    }
    int64_t number = bpe_strings_find(&w->words, at, bytes);
    if (number < 0) {
        size_t before = w->ids.count;
        TRY(encode_bytes(w, at, bytes, e));
        TRY(cache_add(w, at, bytes, w->ids.count - before, e));
    } else {
        id_span span = w->spans[number];
        TRY(ids_room(&w->ids, span.count, e));
        for (uint32_t i = 0; i < span.count; i++)
            w->ids.at[w->ids.count++] = w->cached.at[span.at + i];
    }
done:
    return result;
}

static status take_id(tokenizer_work *w, int32_t id, err *e)
{
    status result = OK;
    TRY(ids_room(&w->ids, 1, e));
    w->ids.at[w->ids.count++] = id;
done:
    return result;
}

static status take_last(void *arg, int32_t id, const char *at, size_t bytes, err *e)
{
    tokenizer_work *w = arg;
    return id >= 0 ? take_id(w, id, e) : splitter_run(w->split, at, bytes, take_word, w, e);
}

static status take_first(void *arg, int32_t id, const char *at, size_t bytes, err *e)
{
    tokenizer_work *w = arg;
    return id >= 0 ? take_id(w, id, e)
                   : added_set_run(w->tokenizer->normalized, at, bytes, take_last, w, e);
}

static status encode_between(tokenizer_work *w, const special_ids *before, const special_ids *after,
                             const char *at, size_t bytes, const int32_t **ids, size_t *count,
                             err *e)
{
    status result = OK;
    size_t bad;
    if (!text_is_utf8(at, bytes, &bad))
        FAIL(E_USAGE, "the text is not valid UTF-8 at byte %zu", bad);
    w->ids.count = 0;
    TRY(ids_room(&w->ids, 1, e)); // so that *ids is never NULL
    for (size_t i = 0; i < before->count; i++) TRY(take_id(w, before->id[i], e));
    TRY(added_set_run(w->tokenizer->raw, at, bytes, take_first, w, e));
    for (size_t i = 0; i < after->count; i++) TRY(take_id(w, after->id[i], e));
    *ids = w->ids.at;
    *count = w->ids.count;
done:
    return result;
}

status tokenizer_encode(tokenizer_work *w, const char *at, size_t bytes, const int32_t **ids,
                        size_t *count, err *e)
{
    static const special_ids none = {.count = 0};
    return encode_between(w, &none, &none, at, bytes, ids, count, e);
}

status tokenizer_encode_with_special_tokens(tokenizer_work *w, const char *at, size_t bytes,
                                            const int32_t **ids, size_t *count, err *e)
{
    const tokenizer *t = w->tokenizer;
    return encode_between(w, &t->before, &t->after, at, bytes, ids, count, e);
}
