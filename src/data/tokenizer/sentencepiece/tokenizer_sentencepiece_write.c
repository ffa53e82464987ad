// tokenizer_sentencepiece_write.c -- writes a model of SentencePiece as a tokenizer.json, with the steps that transformers
// gives it. tokenizer_sentencepiece.c calls it. SentencePiece has scores in place of merges: a merge of two pieces ranks by
// the score of the piece that it makes.
#include "base/alloc.h"
#include "base/text.h"
#include "data/tokenizer/bpe/bpe_table.h"
#include "data/tokenizer/sentencepiece/tokenizer_sentencepiece.h"
#include "data/tokenizer/tokenizer_charsmap.h"

#include <stdlib.h>
#include <string.h>

#define MARK "\xe2\x96\x81" // that stands for a space

static json_t *string_of(const tokenizer_piece *piece)
{
    return json_stringn(piece->chars, piece->bytes);
}

static json_t *replacement(const char *kind, const char *pattern, const char *content)
{
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", kind, pattern, "content",
                     content);
}

static json_t *normalizer_of(const tokenizer_pieces *m)
{
    json_t *steps = json_array();
    text map = {0};
    if (m->map_bytes > 0) {
        tokenizer_add_base64(&map, m->map, m->map_bytes);
        json_array_append_new(steps,
                              json_pack("{s:s, s:s}", "type", "Precompiled", "precompiled_charsmap",
                                        map.failed ? "?" : map.chars));
    }
    if (m->removes_spaces) {
        json_array_append_new(steps, replacement("Regex", "\\A +| +\\z", ""));
        json_array_append_new(steps, replacement("Regex", " {2,}", " "));
    }
    if (m->escapes) json_array_append_new(steps, replacement("String", " ", MARK));
    // Metaspace puts no mark before a mark, and SentencePiece does.
    if (m->adds_prefix) json_array_append_new(steps, replacement("Regex", "\\A" MARK, MARK MARK));
    text_clear(&map);
    return json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", steps);
}

static int longer_first(const void *a, const void *b)
{
    const tokenizer_piece *x = *(tokenizer_piece *const *)a, *y = *(tokenizer_piece *const *)b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x < y ? -1 : 1;
}

// Appends a pattern of the pieces that are always whole; they are never part of a merge.
static status add_user_pattern(const tokenizer_pieces *m, text *pattern, err *e)
{
    status result = OK;
    size_t count = 0;
    const tokenizer_piece **users = NULL;
    TRY(alloc_array(&users, m->count, sizeof(tokenizer_piece *), "a tokenizer", e));
    for (size_t i = 0; i < m->count; i++)
        if (m->pieces[i].kind == PIECE_USER && m->pieces[i].bytes > 0)
            users[count++] = &m->pieces[i];
    qsort(users, count, sizeof(tokenizer_piece *), longer_first);
    for (size_t i = 0; i < count; i++) {
        if (i > 0) text_add(pattern, "|");
        for (size_t k = 0; k < users[i]->bytes; k++) {
            const char c = users[i]->chars[k];
            if (strchr("\\^$.|?*+()[]{}&-#", c)) text_add(pattern, "\\");
            text_add_bytes(pattern, &c, 1);
        }
    }
    TRY(text_check(pattern, e));
done:
    free(users);
    return result;
}

static status pre_tokenizer_of(const tokenizer_pieces *m, bool *has_users, json_t **out, err *e)
{
    status result = OK;
    json_t *steps = json_array();
    text pattern = {0};
    TRY(add_user_pattern(m, &pattern, e));
    *has_users = pattern.bytes > 0;
    if (m->adds_prefix)
        json_array_append_new(steps,
                              json_pack("{s:s, s:s, s:s, s:b}", "type", "Metaspace", "replacement",
                                        MARK, "prepend_scheme", "always", "split", 0));
    if (*has_users)
        json_array_append_new(steps, json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split",
                                               "pattern", "Regex", pattern.chars, "behavior",
                                               "Isolated", "invert", 0));
    *out = json_pack("{s:s, s:O}", "type", "Sequence", "pretokenizers", steps);
done:
    text_clear(&pattern);
    json_decref(steps);
    return result;
}

static json_t *decoder_of(const tokenizer_pieces *m)
{
    json_t *steps = json_array();
    json_array_append_new(steps, replacement("String", MARK, " "));
    if (m->byte_fallback) json_array_append_new(steps, json_pack("{s:s}", "type", "ByteFallback"));
    json_array_append_new(steps, json_pack("{s:s}", "type", "Fuse"));
    if (m->adds_prefix)
        json_array_append_new(steps, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content",
                                               " ", "start", 1, "stop", 0));
    return json_pack("{s:s, s:o}", "type", "Sequence", "decoders", steps);
}

// A way to divide a piece into two.
typedef struct sentencepiece_merge {
    const tokenizer_piece *piece;
    size_t left_bytes;
} sentencepiece_merge;

// The order of transformers: the best score first, then the first piece, then the left part.
static int by_rank(const void *a, const void *b)
{
    const sentencepiece_merge *x = a, *y = b;
    if (x->piece->score != y->piece->score) return x->piece->score > y->piece->score ? -1 : 1;
    if (x->piece != y->piece) return x->piece < y->piece ? -1 : 1;
    return x->left_bytes < y->left_bytes ? -1 : x->left_bytes > y->left_bytes;
}

static status find_merges(const tokenizer_pieces *m, sentencepiece_merge **out, size_t *count,
                          err *e)
{
    status result = OK;
    bpe_strings names = {0};
    size_t room = 0;
    for (size_t i = 0; i < m->count; i++)
        if (m->pieces[i].kind == PIECE_NORMAL)
            TRY(bpe_strings_add(&names, m->pieces[i].chars, m->pieces[i].bytes, NULL, e));
    for (size_t i = 0; i < m->count; i++) {
        const tokenizer_piece *piece = &m->pieces[i];
        for (size_t k = 1; piece->kind == PIECE_NORMAL && k < piece->bytes; k++) {
            if (((uint8_t)piece->chars[k] & 0xC0) == 0x80 ||
                bpe_strings_find(&names, piece->chars, k) < 0 ||
                bpe_strings_find(&names, piece->chars + k, piece->bytes - k) < 0)
                continue;
            TRY(alloc_grow(out, &room, *count + 1, sizeof **out, "a tokenizer", e));
            (*out)[(*count)++] = (sentencepiece_merge){piece, k};
        }
    }
    if (*count > 0) qsort(*out, *count, sizeof **out, by_rank);
done:
    bpe_strings_close(&names);
    return result;
}

static status bpe_of(const tokenizer_pieces *m, bool has_users, json_t **out, err *e)
{
    status result = OK;
    sentencepiece_merge *merges = NULL;
    size_t count = 0;
    json_t *vocab = json_object(), *list = json_array();
    TRY(find_merges(m, &merges, &count, e));
    for (size_t i = 0; i < m->count; i++)
        if (m->pieces[i].bytes > 0)
            json_object_setn_new(vocab, m->pieces[i].chars, m->pieces[i].bytes,
                                 json_integer((json_int_t)i));
    for (size_t i = 0; i < count; i++) {
        const sentencepiece_merge *g = &merges[i];
        json_array_append_new(list, json_pack("[s%, s%]", g->piece->chars, g->left_bytes,
                                              g->piece->chars + g->left_bytes,
                                              g->piece->bytes - g->left_bytes));
    }
    json_t *unknown = m->unknown >= 0 ? string_of(&m->pieces[m->unknown]) : NULL;
    *out = json_pack("{s:s, s:n, s:o*, s:b, s:b, s:b, s:O, s:O}", "type", "BPE", "dropout",
                     "unk_token", unknown, "fuse_unk", 1, "byte_fallback", m->byte_fallback,
                     "ignore_merges", has_users, "vocab", vocab, "merges", list);
done:
    free(merges);
    json_decref(vocab);
    json_decref(list);
    return result;
}

static json_t *unigram_of(const tokenizer_pieces *m)
{
    json_t *vocab = json_array();
    for (size_t i = 0; i < m->count; i++)
        json_array_append_new(
            vocab, json_pack("[o, f]", string_of(&m->pieces[i]), (double)m->pieces[i].score));
    return json_pack("{s:s, s:I, s:b, s:o}", "type", "Unigram", "unk_id", (json_int_t)m->unknown,
                     "byte_fallback", m->byte_fallback, "vocab", vocab);
}

static json_t *added_of(const tokenizer_pieces *m)
{
    json_t *list = json_array();
    for (size_t i = 0; i < m->count; i++) {
        const uint64_t kind = m->pieces[i].kind;
        if ((kind != PIECE_UNKNOWN && kind != PIECE_CONTROL && kind != PIECE_USER) ||
            m->pieces[i].bytes == 0)
            continue;
        json_array_append_new(list, json_pack("{s:I, s:o, s:b, s:b, s:b, s:b, s:b}", "id",
                                              (json_int_t)i, "content", string_of(&m->pieces[i]),
                                              "single_word", 0, "lstrip", 0, "rstrip", 0,
                                              "normalized", 0, "special", kind != PIECE_USER));
    }
    return list;
}

// The template of a text between control tokens; null where it has none.
static json_t *post_processor_of(const tokenizer_pieces *m,
                                 const tokenizer_sentencepiece_options *o)
{
    json_t *single = json_array(), *known = json_object();
    const int64_t ids[2] = {o->adds_begin ? m->begin : -1, o->adds_end ? m->end : -1};
    for (int side = 0; side < 2; side++) {
        if (side == 1)
            json_array_append_new(single,
                                  json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0));
        if (ids[side] < 0 || ids[side] >= (int64_t)m->count) continue;
        const tokenizer_piece *piece = &m->pieces[ids[side]];
        json_array_append_new(single, json_pack("{s:{s:o, s:i}}", "SpecialToken", "id",
                                                string_of(piece), "type_id", 0));
        json_object_setn_new(known, piece->chars, piece->bytes,
                             json_pack("{s:o, s:[I], s:[o]}", "id", string_of(piece), "ids",
                                       (json_int_t)ids[side], "tokens", string_of(piece)));
    }
    if (json_array_size(single) > 1)
        return json_pack("{s:s, s:o, s:[], s:o}", "type", "TemplateProcessing", "single", single,
                         "pair", "special_tokens", known);
    json_decref(single);
    json_decref(known);
    return json_null();
}

status tokenizer_pieces_write(const tokenizer_pieces *m, const tokenizer_sentencepiece_options *o,
                              json_t **out, err *e)
{
    status result = OK;
    json_t *pre = NULL, *body = NULL;
    bool has_users = false;
    TRY(pre_tokenizer_of(m, &has_users, &pre, e));
    if (m->kind == MODEL_BPE)
        TRY(bpe_of(m, has_users, &body, e));
    else
        body = unigram_of(m);
    *out = json_pack("{s:s, s:n, s:n, s:o, s:o, s:O, s:o, s:o, s:O}", "version", "1.0",
                     "truncation", "padding", "added_tokens", added_of(m), "normalizer",
                     normalizer_of(m), "pre_tokenizer", pre, "post_processor",
                     post_processor_of(m, o), "decoder", decoder_of(m), "model", body);
done:
    json_decref(pre);
    json_decref(body);
    return result;
}
