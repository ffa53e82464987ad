// tokenizer_words.c -- the ids of one word: by merges, or as the best row of pieces. tokenizer_encode.c calls it.
#include "data/tokenizer/tokenizer_words.h"

#include "base/alloc.h"
#include "data/tokenizer/bpe/bpe_bytes.h"
#include "data/tokenizer/tokenizer_unicode.h"

#include <stdlib.h>
#include <string.h>

enum { CACHE_WORDS = 1 << 16, CACHE_WORD_BYTES = 64 };

void tokenizer_ids_clear(tokenizer_ids *ids)
{
    free(ids->items);
    free(ids->ends);
    *ids = (tokenizer_ids){.items = NULL};
}

void tokenizer_words_clear(tokenizer_words *w)
{
    bpe_merger_close(&w->merger);
    tokenizer_unigram_workspace_clear(&w->unigram);
    free(w->spelling);
    bpe_strings_close(&w->words);
    free(w->spans);
    tokenizer_ids_clear(&w->cached);
    *w = (tokenizer_words){.spelling = NULL};
}

status tokenizer_ids_room(tokenizer_ids *ids, size_t more, err *e)
{
    status result = OK;
    const size_t need = ids->count + more;
    if (need <= ids->room && need <= ids->end_room) return OK;
    TRY(alloc_grow(&ids->items, &ids->room, need, sizeof *ids->items, "a tokenizer", e));
    TRY(alloc_grow(&ids->ends, &ids->end_room, need, sizeof *ids->ends, "a tokenizer", e));
done:
    return result;
}

// Sets *id to the id of a word that is one token of the model's vocabulary, else to -1.
static status single_token(const tokenizer *t, tokenizer_words *w, const char *string, size_t bytes,
                           int32_t *id, err *e)
{
    status result = OK;
    if (t->byte_level) {
        TRY(alloc_grow(&w->spelling, &w->spelling_room, 2 * bytes, 1, "a tokenizer", e));
        bytes = bpe_spell(string, bytes, w->spelling);
        string = w->spelling;
    }
    *id = tokenizer_name_id(t, string, bytes);
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
        const int32_t id = tokenizer_name_id(t, string + i, length);
        if (id >= 0)
            add_symbol(s, id, i + length);
        else if (t->byte_fallback)
            add_bytes(s, t, string, i, i + length);
        else
            add_unknown(s, t, i + length);
    }
}

// Adds the ids of bytes [first, end) of a word, which no piece covers: of a piece after all, of their bytes, or unknown.
static void add_uncovered(tokenizer_symbols *s, const tokenizer *t, const char *string,
                          size_t first, size_t end)
{
    const int32_t id = tokenizer_name_id(t, string + first, end - first);
    bool has_bytes = t->byte_fallback;
    for (size_t i = first; id < 0 && has_bytes && i < end; i++)
        has_bytes = t->byte_id[(uint8_t)string[i]] >= 0;
    if (id >= 0 || !has_bytes)
        add_symbol(s, id >= 0 ? id : t->unknown, end);
    else
        add_bytes(s, t, string, first, end);
}

// Adds the ids of the best row of pieces of a word. Characters without a piece that are next to each other are one text.
static status add_pieces(tokenizer_symbols *s, const tokenizer *t, tokenizer_unigram_workspace *w,
                         const char *string, size_t bytes, err *e)
{
    status result = OK;
    TRY(tokenizer_unigram_run(t->unigram, w, string, bytes, e));
    for (size_t i = 0, end; i < bytes; i = end) {
        end = w->next[i];
        const int32_t id = w->nodes[end].id;
        if (id != t->unknown) {
            add_symbol(s, id, end);
            continue;
        }
        while (end < bytes && w->nodes[w->next[end]].id == t->unknown) end = w->next[end];
        add_uncovered(s, t, string, i, end);
    }
done:
    return result;
}

// Appends the ids of one word, without the cache.
static status encode_symbols(const tokenizer *t, tokenizer_words *w, tokenizer_ids *out,
                             const char *string, size_t bytes, err *e)
{
    status result = OK;
    int32_t single = -1;
    TRY(tokenizer_ids_room(out, bytes, e));
    tokenizer_symbols s = {.ids = out->items + out->count, .ends = out->ends + out->count};
    if (t->ignore_merges) TRY(single_token(t, w, string, bytes, &single, e));
    if (t->unigram) {
        TRY(add_pieces(&s, t, &w->unigram, string, bytes, e));
    } else if (single >= 0) {
        add_symbol(&s, single, bytes);
    } else {
        if (t->byte_level)
            add_bytes(&s, t, string, 0, bytes);
        else
            add_characters(&s, t, string, bytes);
        TRY(bpe_merge(&w->merger, &t->merges, s.ids, s.ends, &s.count, e));
    }
    out->count += s.count;
done:
    return result;
}

static status cache_add(tokenizer_words *w, const tokenizer_ids *out, const char *string,
                        size_t bytes, size_t count, err *e)
{
    status result = OK;
    uint32_t number;
    if (w->words.count == CACHE_WORDS) {
        bpe_strings_empty(&w->words);
        w->cached.count = 0;
    }
    TRY(tokenizer_ids_room(&w->cached, count, e));
    TRY(alloc_grow(&w->spans, &w->span_room, w->words.count + 1, sizeof *w->spans, "a tokenizer",
                   e));
    TRY(bpe_strings_add(&w->words, string, bytes, &number, e));
    w->spans[number] = (tokenizer_id_span){(uint32_t)w->cached.count, (uint32_t)count};
    for (size_t i = 0; i < count; i++) {
        w->cached.items[w->cached.count] = out->items[out->count - count + i];
        w->cached.ends[w->cached.count++] = out->ends[out->count - count + i];
    }
done:
    return result;
}

status tokenizer_words_encode(const tokenizer *t, tokenizer_words *w, tokenizer_ids *out,
                              const char *string, size_t bytes, err *e)
{
    status result = OK;
    if (bytes > CACHE_WORD_BYTES) {
        TRY(encode_symbols(t, w, out, string, bytes, e));
        goto done;
    }
    int64_t number = bpe_strings_find(&w->words, string, bytes);
    if (number < 0) {
        size_t before = out->count;
        TRY(encode_symbols(t, w, out, string, bytes, e));
        TRY(cache_add(w, out, string, bytes, out->count - before, e));
    } else {
        tokenizer_id_span span = w->spans[number];
        TRY(tokenizer_ids_room(out, span.count, e));
        for (uint32_t i = 0; i < span.count; i++) {
            out->items[out->count] = w->cached.items[span.offset + i];
            out->ends[out->count++] = w->cached.ends[span.offset + i];
        }
    }
done:
    return result;
}
