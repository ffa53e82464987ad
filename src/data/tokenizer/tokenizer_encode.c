// tokenizer_encode.c -- text to ids: it finds added tokens, normalizes the rest, splits it into words and merges the
// pairs of each word. A cache holds the ids of words, because text repeats its words. Data
// preparation (one workspace per thread) and generation call it. It does not know files.
#include "base/alloc.h"
#include "data/tokenizer/bpe_bytes.h"
#include "data/tokenizer/bpe_merge.h"
#include "data/tokenizer/tokenizer_private.h"
#include "data/tokenizer/tokenizer_unicode.h"

#include <stdlib.h>
#include <string.h>

enum { CACHE_WORDS = 1 << 16, CACHE_WORD_BYTES = 64 };

typedef struct tokenizer_ids {
    int32_t *items;
    size_t count, room;
} tokenizer_ids;

typedef struct tokenizer_id_span {
    uint32_t offset, count; // in tokenizer_workspace.cached
} tokenizer_id_span;

struct tokenizer_workspace {
    const tokenizer *tokenizer;
    tokenizer_normalizer_workspace *normalize;
    tokenizer_splitter_workspace *split;
    const char *text;  // that is being encoded
    const char *begin; // of a piece of it: where the text begins, if it does there; else NULL
    bpe_merger merger;
    tokenizer_ids ids; // of the current text
    char *spelling;    // of the current word
    size_t spelling_room;
    bpe_strings words;        // the words in the cache
    tokenizer_id_span *spans; // [words.count] the ids of each word
    size_t span_room;
    tokenizer_ids cached; // the ids of all words in the cache
};

void tokenizer_workspace_close(tokenizer_workspace *w)
{
    if (!w) return;
    tokenizer_normalizer_workspace_close(w->normalize);
    tokenizer_splitter_workspace_close(w->split);
    bpe_merger_close(&w->merger);
    free(w->ids.items);
    free(w->spelling);
    bpe_strings_close(&w->words);
    free(w->spans);
    free(w->cached.items);
    free(w);
}

status tokenizer_workspace_open(const tokenizer *t, tokenizer_workspace **out, err *e)
{
    status result = OK;
    tokenizer_workspace *w = NULL;
    TRY(alloc_zeroed(&w, 1, sizeof *w, "a tokenizer", e));
    w->tokenizer = t;
    TRY(tokenizer_normalizer_workspace_open(&w->normalize, e));
    TRY(tokenizer_splitter_workspace_open(t->split, &w->split, e));
    *out = w;
    w = NULL;
done:
    tokenizer_workspace_close(w);
    return result;
}

static status ids_room(tokenizer_ids *ids, size_t more, err *e)
{
    return alloc_grow(&ids->items, &ids->room, ids->count + more, sizeof *ids->items, "a tokenizer",
                      e);
}

// The id of a name of the model's vocabulary; -1: there is none.
static int32_t name_id(const tokenizer *t, const char *name, size_t bytes)
{
    const int64_t number = bpe_strings_find(&t->names, name, bytes);
    return number < 0 || (size_t)number >= t->model_names ? -1 : t->name_ids[number];
}

// Sets *id to the id of a word that is one token of the model's vocabulary, else to -1.
static status single_token(tokenizer_workspace *w, const char *string, size_t bytes, int32_t *id,
                           err *e)
{
    status result = OK;
    if (w->tokenizer->byte_level) {
        TRY(alloc_grow(&w->spelling, &w->spelling_room, 2 * bytes, 1, "a tokenizer", e));
        bytes = bpe_spell(string, bytes, w->spelling);
        string = w->spelling;
    }
    *id = name_id(w->tokenizer, string, bytes);
done:
    return result;
}

// Appends the id of a symbol that the vocabulary lacks.
static void add_unknown(const tokenizer *t, bool after_unknown, int32_t *ids, size_t *count)
{
    if (t->unknown >= 0 && !(after_unknown && t->fuse_unknown)) ids[(*count)++] = t->unknown;
}

// Writes the ids of a word's bytes, before they merge. Returns their number.
static size_t ids_of_bytes(const tokenizer *t, const char *string, size_t bytes, int32_t *ids)
{
    bool after_unknown = false;
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++) {
        const int32_t id = t->byte_id[(uint8_t)string[i]];
        if (id < 0)
            add_unknown(t, after_unknown, ids, &count);
        else
            ids[count++] = id;
        after_unknown = id < 0;
    }
    return count;
}

// The same of its characters.
static size_t ids_of_characters(const tokenizer *t, const char *string, size_t bytes, int32_t *ids)
{
    bool after_unknown = false;
    size_t count = 0;
    for (size_t i = 0, length; i < bytes; i += length) {
        unicode_read(string + i, &length);
        const int32_t id = name_id(t, string + i, length);
        const bool is_unknown = id < 0 && !t->byte_fallback;
        if (id >= 0)
            ids[count++] = id;
        else if (t->byte_fallback)
            count += ids_of_bytes(t, string + i, length, ids + count);
        else
            add_unknown(t, after_unknown, ids, &count);
        after_unknown = is_unknown;
    }
    return count;
}

// Appends the ids of one word, without the cache.
static status encode_symbols(tokenizer_workspace *w, const char *string, size_t bytes, err *e)
{
    status result = OK;
    const tokenizer *t = w->tokenizer;
    int32_t single = -1;
    TRY(ids_room(&w->ids, bytes, e));
    int32_t *ids = w->ids.items + w->ids.count;
    size_t count = 0;
    if (t->ignore_merges) TRY(single_token(w, string, bytes, &single, e));
    if (single >= 0) {
        ids[count++] = single;
    } else {
        count = (t->byte_level ? ids_of_bytes : ids_of_characters)(t, string, bytes, ids);
        TRY(bpe_merge(&w->merger, &t->merges, ids, &count, e));
    }
    w->ids.count += count;
done:
    return result;
}

static status cache_add(tokenizer_workspace *w, const char *string, size_t bytes, size_t count,
                        err *e)
{
    status result = OK;
    uint32_t number;
    if (w->words.count == CACHE_WORDS) {
        bpe_strings_empty(&w->words);
        w->cached.count = 0;
    }
    TRY(ids_room(&w->cached, count, e));
    TRY(alloc_grow(&w->spans, &w->span_room, w->words.count + 1, sizeof *w->spans, "a tokenizer",
                   e));
    TRY(bpe_strings_add(&w->words, string, bytes, &number, e));
    w->spans[number] = (tokenizer_id_span){(uint32_t)w->cached.count, (uint32_t)count};
    if (count > 0)
        memcpy(w->cached.items + w->cached.count, w->ids.items + w->ids.count - count,
               count * sizeof(int32_t));
    w->cached.count += count;
done:
    return result;
}

static status encode_word(void *arg, const char *string, size_t bytes, err *e)
{
    status result = OK;
    tokenizer_workspace *w = arg;
    if (bytes > CACHE_WORD_BYTES) {
        TRY(encode_symbols(w, string, bytes, e));
        goto done;
    }
    int64_t number = bpe_strings_find(&w->words, string, bytes);
    if (number < 0) {
        size_t before = w->ids.count;
        TRY(encode_symbols(w, string, bytes, e));
        TRY(cache_add(w, string, bytes, w->ids.count - before, e));
    } else {
        tokenizer_id_span span = w->spans[number];
        TRY(ids_room(&w->ids, span.count, e));
        for (uint32_t i = 0; i < span.count; i++)
            w->ids.items[w->ids.count++] = w->cached.items[span.offset + i];
    }
done:
    return result;
}

// Divides a word where no token could join its characters.
static status encode_parts(void *arg, const char *string, size_t bytes, err *e)
{
    status result = OK;
    tokenizer_workspace *w = arg;
    const bpe_pairs *neighbors = &w->tokenizer->neighbors;
    size_t begin = 0, length;
    if (neighbors->count == 0) return encode_word(arg, string, bytes, e);
    uint32_t before = unicode_read(string, &length);
    for (size_t i = length; i < bytes; i += length) {
        const uint32_t character = unicode_read(string + i, &length);
        const uint64_t pair = bpe_pair_key((int32_t)before, (int32_t)character);
        before = character;
        if (bpe_pairs_find(neighbors, pair) != BPE_NO_PAIR) continue;
        TRY(encode_word(w, string + begin, i - begin, e));
        begin = i;
    }
    TRY(encode_word(w, string + begin, bytes - begin, e));
done:
    return result;
}

static status add_id(tokenizer_workspace *w, int32_t id, err *e)
{
    status result = OK;
    TRY(ids_room(&w->ids, 1, e));
    w->ids.items[w->ids.count++] = id;
done:
    return result;
}

static status encode_raw_text(void *arg, int32_t id, const char *string, size_t bytes, err *e)
{
    tokenizer_workspace *w = arg;
    return id >= 0 ? add_id(w, id, e)
                   : tokenizer_splitter_run(w->split, string, bytes, string == w->begin,
                                            encode_parts, w, e);
}

static status encode_text(void *arg, int32_t id, const char *string, size_t bytes, err *e)
{
    status result = OK;
    tokenizer_workspace *w = arg;
    const tokenizer *t = w->tokenizer;
    const char *normal;
    if (id >= 0) return add_id(w, id, e);
    TRY(tokenizer_normalizer_run(t->normalizer, w->normalize, string, bytes, &normal, &bytes, e));
    w->begin = string == w->text ? normal : NULL;
    TRY(tokenizer_added_run(t->normalized, normal, bytes, encode_raw_text, w, e));
done:
    return result;
}

static status encode_between(tokenizer_workspace *w, const tokenizer_special_ids *before,
                             const tokenizer_special_ids *after, const char *string, size_t bytes,
                             const int32_t **ids, size_t *count, err *e)
{
    status result = OK;
    size_t bad;
    if (!text_is_utf8(string, bytes, &bad))
        FAIL(E_USAGE, "the text is not valid UTF-8 at byte %zu", bad);
    w->ids.count = 0;
    w->text = string;
    TRY(ids_room(&w->ids, 1, e)); // so that *ids is never NULL
    for (size_t i = 0; i < before->count; i++) TRY(add_id(w, before->id[i], e));
    TRY(tokenizer_added_run(w->tokenizer->raw, string, bytes, encode_text, w, e));
    for (size_t i = 0; i < after->count; i++) TRY(add_id(w, after->id[i], e));
    *ids = w->ids.items;
    *count = w->ids.count;
done:
    return result;
}

status tokenizer_encode(tokenizer_workspace *w, const char *string, size_t bytes,
                        const int32_t **ids, size_t *count, err *e)
{
    static const tokenizer_special_ids none = {.count = 0};
    return encode_between(w, &none, &none, string, bytes, ids, count, e);
}

status tokenizer_encode_with_special_tokens(tokenizer_workspace *w, const char *string,
                                            size_t bytes, const int32_t **ids, size_t *count,
                                            err *e)
{
    const tokenizer *t = w->tokenizer;
    return encode_between(w, &t->before, &t->after, string, bytes, ids, count, e);
}
