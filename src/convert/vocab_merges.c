// vocab_merges.c -- the merges of a SentencePiece vocabulary, which its file does not list: a pair merges where both parts and
// what they make are pieces, and pairs that make better pieces merge first. As transformers makes them. Import calls it.
#include "convert/vocab.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

typedef struct merge {
    float score;
    uint32_t piece;      // index in `tokens` of what the pair makes
    uint32_t left_bytes; // of it
    uint16_t left_chars, right_chars;
    uint32_t order; // in which the merges were found: equal ones keep it
} merge;

typedef struct merge_list {
    merge *item;
    size_t count, room;
} merge_list;

static int best_first(const void *a, const void *b)
{
    const merge *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->left_chars != y->left_chars) return x->left_chars > y->left_chars ? -1 : 1;
    if (x->right_chars != y->right_chars) return x->right_chars > y->right_chars ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static size_t next_character(const char *s, size_t at_byte, size_t bytes)
{
    do at_byte++;
    while (at_byte < bytes && ((unsigned char)s[at_byte] & 0xc0) == 0x80);
    return at_byte;
}

static bool has_piece(const json_t *vocab, const char *s, size_t bytes, char *name)
{
    memcpy(name, s, bytes);
    name[bytes] = 0;
    return json_object_get(vocab, name) != NULL;
}

enum { PIECE_MOST = 1024 }; // bytes of a piece that merges make

static status find_merges(const gguf_string *s, uint32_t piece, float score, const json_t *vocab,
                          merge_list *list, err *e)
{
    status result = OK;
    char name[PIECE_MOST];
    uint16_t chars = 0, total = 0;
    if (s->bytes >= PIECE_MOST) goto done;
    for (size_t i = 0; i < s->bytes; i = next_character(s->chars, i, s->bytes)) total++;
    for (size_t i = next_character(s->chars, 0, s->bytes); i < s->bytes;
         i = next_character(s->chars, i, s->bytes)) {
        chars++;
        if (!has_piece(vocab, s->chars, i, name) ||
            !has_piece(vocab, s->chars + i, s->bytes - i, name))
            continue;
        TRY(alloc_grow(&list->item, &list->room, list->count + 1, sizeof *list->item, "the merges",
                       e));
        list->item[list->count] = (merge){.score = score,
                                          .piece = piece,
                                          .left_bytes = (uint32_t)i,
                                          .left_chars = chars,
                                          .right_chars = (uint16_t)(total - chars),
                                          .order = (uint32_t)list->count};
        list->count++;
    }
done:
    return result;
}

status vocab_merges_of_scores(const gguf *from, const gguf_value *tokens, const gguf_value *scores,
                              const json_t *vocab, json_t **out, err *e)
{
    status result = OK;
    merge_list list = {NULL, 0, 0};
    json_t *merges = json_array();
    const gguf_value *types = gguf_value_find(from, "tokenizer.ggml.token_type");
    for (uint64_t i = 0; i < tokens->count; i++) {
        double score;
        int64_t type = VOCAB_NORMAL;
        if (types) (void)gguf_value_int(types, i, &type);
        if (!gguf_value_real(scores, i, &score)) score = 0;
        if (type != VOCAB_NORMAL) continue;
        TRY(find_merges(&tokens->strings[i], (uint32_t)i, (float)score, vocab, &list, e));
    }
    if (list.count) qsort(list.item, list.count, sizeof *list.item, best_first);
    for (size_t i = 0; i < list.count; i++) {
        const merge *m = &list.item[i];
        const gguf_string *s = &tokens->strings[m->piece];
        json_t *pair = json_pack("[s%, s%]", s->chars, (size_t)m->left_bytes,
                                 s->chars + m->left_bytes, s->bytes - m->left_bytes);
        if (!pair || json_array_append_new(merges, pair))
            FAIL(E_MEMORY, "no memory for the merges of the tokenizer");
    }
    *out = merges;
    merges = NULL;
done:
    free(list.item);
    json_decref(merges);
    return result;
}
