// tokenizer_encode.c -- text to ids: it finds added tokens, normalizes the rest, splits it into words and gives each word to
// tokenizer_words.c. Data preparation (one workspace per thread) and generation call it. It does not know files.
#include "base/alloc.h"
#include "data/tokenizer/tokenizer_private.h"
#include "data/tokenizer/tokenizer_unicode.h"
#include "data/tokenizer/tokenizer_words.h"

#include <stdlib.h>

struct tokenizer_workspace {
    const tokenizer *tokenizer;
    tokenizer_normalizer_workspace *normalize;
    tokenizer_splitter_workspace *split;
    tokenizer_words words;
    const char *text;  // that is being encoded
    const char *begin; // of a piece of it: where the text begins, if it does there; else NULL
    const tokenizer_range *literal;
    size_t literals;
    tokenizer_ids ids; // of the current text
};

void tokenizer_workspace_close(tokenizer_workspace *w)
{
    if (!w) return;
    tokenizer_normalizer_workspace_close(w->normalize);
    tokenizer_splitter_workspace_close(w->split);
    tokenizer_words_clear(&w->words);
    tokenizer_ids_clear(&w->ids);
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

// Appends the ids of bytes [first, end) of a word.
static status encode_part(tokenizer_workspace *w, const tokenizer_span *word, size_t first,
                          size_t end, err *e)
{
    status result = OK;
    const size_t before = w->ids.count;
    TRY(tokenizer_words_encode(w->tokenizer, &w->words, &w->ids, word->ptr + first, end - first,
                               e));
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
    TRY(tokenizer_ids_room(&w->ids, 1, e));
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
    TRY(tokenizer_ids_room(&w->ids, 1, e)); // so that *ids is never NULL
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
