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
    uint32_t *ends; // the byte behind each id, of its word; in a text that is traced, of the text
    size_t count, room, end_room;
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
    const tokenizer_range *literal;
    size_t literals;
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
    free(w->ids.ends);
    free(w->spelling);
    bpe_strings_close(&w->words);
    free(w->spans);
    free(w->cached.items);
    free(w->cached.ends);
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
    status result = OK;
    const size_t need = ids->count + more;
    if (need <= ids->room && need <= ids->end_room) return OK;
    TRY(alloc_grow(&ids->items, &ids->room, need, sizeof *ids->items, "a tokenizer", e));
    TRY(alloc_grow(&ids->ends, &ids->end_room, need, sizeof *ids->ends, "a tokenizer", e));
done:
    return result;
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

// The symbols of a word, before they merge.
typedef struct tokenizer_symbols {
    int32_t *ids;
    uint32_t *ends;
    size_t count;
    bool after_unknown;
} tokenizer_symbols;

static void add_symbol(tokenizer_symbols *s, int32_t id, size_t end)
{
    s->ids[s->count] = id;
    s->ends[s->count++] = (uint32_t)end;
    s->after_unknown = false;
}

// Adds the id of a symbol that the vocabulary lacks.
static void add_unknown(tokenizer_symbols *s, const tokenizer *t, size_t end)
{
    if (t->unknown < 0) return;
    if (s->after_unknown && t->fuse_unknown)
        s->ends[s->count - 1] = (uint32_t)end;
    else
        add_symbol(s, t->unknown, end);
    s->after_unknown = true;
}

// Adds the ids of bytes [first, end) of a word.
static void add_bytes(tokenizer_symbols *s, const tokenizer *t, const char *string, size_t first,
                      size_t end)
{
    for (size_t i = first; i < end; i++) {
        const int32_t id = t->byte_id[(uint8_t)string[i]];
        if (id < 0)
            add_unknown(s, t, i + 1);
        else
            add_symbol(s, id, i + 1);
    }
}

// Adds the ids of a word's characters.
static void add_characters(tokenizer_symbols *s, const tokenizer *t, const char *string,
                           size_t bytes)
{
    for (size_t i = 0, length; i < bytes; i += length) {
        unicode_read(string + i, &length);
        const int32_t id = name_id(t, string + i, length);
        if (id >= 0)
            add_symbol(s, id, i + length);
        else if (t->byte_fallback)
            add_bytes(s, t, string, i, i + length);
        else
            add_unknown(s, t, i + length);
    }
}

// Appends the ids of one word, without the cache.
static status encode_symbols(tokenizer_workspace *w, const char *string, size_t bytes, err *e)
{
    status result = OK;
    const tokenizer *t = w->tokenizer;
    int32_t single = -1;
    TRY(ids_room(&w->ids, bytes, e));
    tokenizer_symbols s = {.ids = w->ids.items + w->ids.count, .ends = w->ids.ends + w->ids.count};
    if (t->ignore_merges) TRY(single_token(w, string, bytes, &single, e));
    if (single >= 0) {
        add_symbol(&s, single, bytes);
    } else {
        if (t->byte_level)
            add_bytes(&s, t, string, 0, bytes);
        else
            add_characters(&s, t, string, bytes);
        TRY(bpe_merge(&w->merger, &t->merges, s.ids, s.ends, &s.count, e));
    }
    w->ids.count += s.count;
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
    for (size_t i = 0; i < count; i++) {
        w->cached.items[w->cached.count] = w->ids.items[w->ids.count - count + i];
        w->cached.ends[w->cached.count++] = w->ids.ends[w->ids.count - count + i];
    }
done:
    return result;
}

static status encode_word(tokenizer_workspace *w, const char *string, size_t bytes, err *e)
{
    status result = OK;
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
        for (uint32_t i = 0; i < span.count; i++) {
            w->ids.items[w->ids.count] = w->cached.items[span.offset + i];
            w->ids.ends[w->ids.count++] = w->cached.ends[span.offset + i];
        }
    }
done:
    return result;
}

// The same, for bytes [first, end) of a word, with the ends in the text.
static status encode_part(tokenizer_workspace *w, const tokenizer_span *word, size_t first,
                          size_t end, err *e)
{
    status result = OK;
    const size_t before = w->ids.count;
    TRY(encode_word(w, word->ptr + first, end - first, e));
    for (size_t i = before; word->traced && i < w->ids.count; i++)
        w->ids.ends[i] = tokenizer_span_end(word, first + w->ids.ends[i]);
done:
    return result;
}

// Divides a word where no token could join its characters.
static status encode_parts(void *arg, const tokenizer_span *word, err *e)
{
    status result = OK;
    tokenizer_workspace *w = arg;
    const bpe_pairs *neighbors = &w->tokenizer->neighbors;
    size_t begin = 0, length;
    if (neighbors->count == 0) return encode_part(w, word, 0, word->bytes, e);
    uint32_t before = unicode_read(word->ptr, &length);
    for (size_t i = length; i < word->bytes; i += length) {
        const uint32_t character = unicode_read(word->ptr + i, &length);
        const uint64_t pair = bpe_pair_key((int32_t)before, (int32_t)character);
        before = character;
        if (bpe_pairs_find(neighbors, pair) != BPE_NO_PAIR) continue;
        TRY(encode_part(w, word, begin, i, e));
        begin = i;
    }
    TRY(encode_part(w, word, begin, word->bytes, e));
done:
    return result;
}

static status add_id(tokenizer_workspace *w, int32_t id, uint32_t end, err *e)
{
    status result = OK;
    TRY(ids_room(&w->ids, 1, e));
    w->ids.items[w->ids.count] = id;
    w->ids.ends[w->ids.count++] = end;
done:
    return result;
}

static status encode_raw_text(void *arg, int32_t id, const tokenizer_span *piece, err *e)
{
    tokenizer_workspace *w = arg;
    return id >= 0 ? add_id(w, id, tokenizer_span_end(piece, piece->bytes), e)
                   : tokenizer_splitter_run(w->split, piece, piece->ptr == w->begin, encode_parts,
                                            w, e);
}

static status encode_text(void *arg, int32_t id, const tokenizer_span *piece, err *e)
{
    status result = OK;
    tokenizer_workspace *w = arg;
    const tokenizer *t = w->tokenizer;
    tokenizer_span normal;
    if (id >= 0) return add_id(w, id, tokenizer_span_end(piece, piece->bytes), e);
    TRY(tokenizer_normalizer_run(t->normalizer, w->normalize, piece, &normal, e));
    w->begin = piece->ptr == w->text ? normal.ptr : NULL;
    TRY(tokenizer_added_run(t->normalized, &normal, w->literal, w->literals, encode_raw_text, w,
                            e));
done:
    return result;
}

// Between the ids of the post-processor where `adds_special`.
static status encode_span(tokenizer_workspace *w, const tokenizer_span *whole, bool adds_special,
                          err *e)
{
    status result = OK;
    const tokenizer *t = w->tokenizer;
    size_t bad;
    if (!text_is_utf8(whole->ptr, whole->bytes, &bad))
        FAIL(E_USAGE, "the text is not valid UTF-8 at byte %zu", bad);
    w->ids.count = 0;
    w->text = whole->ptr;
    TRY(ids_room(&w->ids, 1, e)); // so that *ids is never NULL
    for (size_t i = 0; adds_special && i < t->before.count; i++)
        TRY(add_id(w, t->before.id[i], 0, e));
    TRY(tokenizer_added_run(t->raw, whole, w->literal, w->literals, encode_text, w, e));
    for (size_t i = 0; adds_special && i < t->after.count; i++)
        TRY(add_id(w, t->after.id[i], 0, e));
done:
    return result;
}

static status encode_untraced(tokenizer_workspace *w, const char *string, size_t bytes,
                              bool adds_special, const int32_t **ids, size_t *count, err *e)
{
    status result = OK;
    const tokenizer_span whole = {.ptr = string, .bytes = bytes};
    w->literals = 0;
    TRY(encode_span(w, &whole, adds_special, e));
    *ids = w->ids.items;
    *count = w->ids.count;
done:
    return result;
}

status tokenizer_encode(tokenizer_workspace *w, const char *string, size_t bytes,
                        const int32_t **ids, size_t *count, err *e)
{
    return encode_untraced(w, string, bytes, false, ids, count, e);
}

status tokenizer_encode_with_special_tokens(tokenizer_workspace *w, const char *string,
                                            size_t bytes, const int32_t **ids, size_t *count,
                                            err *e)
{
    return encode_untraced(w, string, bytes, true, ids, count, e);
}

status tokenizer_encode_literal(tokenizer_workspace *w, const char *string, size_t bytes,
                                const tokenizer_range *literal, size_t literals,
                                const int32_t **ids, const uint32_t **ends, size_t *count, err *e)
{
    status result = OK;
    const tokenizer_span whole = {.ptr = string, .bytes = bytes, .traced = true};
    if (bytes > UINT32_MAX) FAIL(E_USAGE, "a text of %zu bytes; at most 4 GiB are possible", bytes);
    w->literal = literal;
    w->literals = literals;
    TRY(encode_span(w, &whole, false, e));
    // A mark may have moved before one that it follows in the text.
    for (size_t i = 1; i < w->ids.count; i++)
        if (w->ids.ends[i] < w->ids.ends[i - 1]) w->ids.ends[i] = w->ids.ends[i - 1];
    *ids = w->ids.items;
    *ends = w->ids.ends;
    *count = w->ids.count;
done:
    return result;
}
