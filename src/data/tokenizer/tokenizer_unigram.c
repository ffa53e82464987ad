// tokenizer_unigram.c -- finds the best row of pieces of a word, as HuggingFace's tokenizers do: with sums of doubles from the
// left, where the first of equal rows wins. tokenizer_encode.c calls it. The vocabulary is a trie of bytes whose children lie
// side by side.
#include "data/tokenizer/tokenizer_unigram.h"

#include "base/alloc.h"
#include "data/tokenizer/tokenizer_unicode.h"

#include <stdlib.h>
#include <string.h>

#define UNKNOWN_PENALTY 10.0
#define NO_START        UINT32_MAX

// A node of the trie. Its children are [first_child, first_child + children).
typedef struct unigram_trie_node {
    uint32_t first_child;
    uint16_t children;
    int32_t id; // of the piece that ends here; -1: none
} unigram_trie_node;

struct tokenizer_unigram {
    unigram_trie_node *nodes; // [count]; the root is the first
    uint8_t *labels;          // [count] the byte that leads to a node
    double *scores;           // [count] of the pieces
    size_t count;
    int32_t unknown;
    double unknown_score;
};

void tokenizer_unigram_close(tokenizer_unigram *u)
{
    if (!u) return;
    free(u->nodes);
    free(u->labels);
    free(u->scores);
    free(u);
}

static int by_chars(const void *a, const void *b)
{
    const tokenizer_unigram_piece *x = a, *y = b;
    const int order = memcmp(x->chars, y->chars, x->bytes < y->bytes ? x->bytes : y->bytes);
    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

// The trie while it is built: a node stands for a range of the sorted pieces, which agree in `depth` bytes.
typedef struct unigram_range {
    uint32_t first, end, depth;
} unigram_range;
typedef struct unigram_builder {
    tokenizer_unigram *u;
    unigram_range *ranges; // [u->count]
    size_t node_room, label_room, score_room, range_room;
} unigram_builder;

static status add_node(unigram_builder *b, unigram_range range, uint8_t label, err *e)
{
    status result = OK;
    tokenizer_unigram *u = b->u;
    const size_t need = u->count + 1;
    TRY(alloc_grow(&u->nodes, &b->node_room, need, sizeof *u->nodes, "a tokenizer", e));
    TRY(alloc_grow(&u->labels, &b->label_room, need, 1, "a tokenizer", e));
    TRY(alloc_grow(&u->scores, &b->score_room, need, sizeof *u->scores, "a tokenizer", e));
    TRY(alloc_grow(&b->ranges, &b->range_room, need, sizeof *b->ranges, "a tokenizer", e));
    u->nodes[u->count] = (unigram_trie_node){.id = -1};
    u->labels[u->count] = label;
    b->ranges[u->count++] = range;
done:
    return result;
}

// Adds the children of a node.
static status divide_range(unigram_builder *b, const tokenizer_unigram_piece *pieces, size_t node,
                           err *e)
{
    status result = OK;
    const unigram_range r = b->ranges[node];
    uint32_t first = r.first;
    // The piece that ends here comes first.
    if (first < r.end && pieces[first].bytes == r.depth) {
        if (r.depth > 0) b->u->nodes[node].id = pieces[first].id;
        b->u->scores[node] = pieces[first++].score;
    }
    b->u->nodes[node].first_child = (uint32_t)b->u->count;
    while (first < r.end) {
        const uint8_t label = (uint8_t)pieces[first].chars[r.depth];
        uint32_t end = first + 1;
        while (end < r.end && (uint8_t)pieces[end].chars[r.depth] == label) end++;
        TRY(add_node(b, (unigram_range){first, end, r.depth + 1}, label, e));
        b->u->nodes[node].children++;
        first = end;
    }
done:
    return result;
}

status tokenizer_unigram_open(tokenizer_unigram_piece *pieces, size_t count, int32_t unknown,
                              tokenizer_unigram **out, err *e)
{
    status result = OK;
    double least = 0;
    unigram_builder b = {.u = NULL};
    TRY(alloc_zeroed(&b.u, 1, sizeof *b.u, "a tokenizer", e));
    for (size_t i = 0; i < count; i++)
        if (i == 0 || pieces[i].score < least) least = pieces[i].score;
    b.u->unknown = unknown;
    b.u->unknown_score = least - UNKNOWN_PENALTY;
    qsort(pieces, count, sizeof *pieces, by_chars);
    TRY(add_node(&b, (unigram_range){0, (uint32_t)count, 0}, 0, e));
    for (size_t node = 0; node < b.u->count; node++) TRY(divide_range(&b, pieces, node, e));
    *out = b.u;
    b.u = NULL;
done:
    tokenizer_unigram_close(b.u);
    free(b.ranges);
    return result;
}

// The child of a node for a byte; 0: there is none.
static uint32_t child_of(const tokenizer_unigram *u, uint32_t node, uint8_t label)
{
    uint32_t first = u->nodes[node].first_child, end = first + u->nodes[node].children;
    while (end - first > 8) {
        const uint32_t middle = first + (end - first) / 2;
        if (u->labels[middle] <= label)
            first = middle;
        else
            end = middle;
    }
    for (; first < end; first++)
        if (u->labels[first] == label) return first;
    return 0;
}

void tokenizer_unigram_workspace_clear(tokenizer_unigram_workspace *w)
{
    free(w->nodes);
    free(w->next);
    *w = (tokenizer_unigram_workspace){.nodes = NULL};
}

static bool improves(const tokenizer_unigram_node *node, double score)
{
    return node->start == NO_START || score > node->score;
}

static void offer(tokenizer_unigram_node *node, double score, size_t start, int32_t id)
{
    if (improves(node, score)) *node = (tokenizer_unigram_node){score, (uint32_t)start, id};
}

// Offers the pieces that start at a byte, whose character has `length` bytes. Returns whether one is that character.
static bool offer_pieces(const tokenizer_unigram *u, tokenizer_unigram_workspace *w,
                         const char *word, size_t bytes, size_t start, size_t length)
{
    bool has_character = false;
    const double so_far = w->nodes[start].score;
    uint32_t node = 0;
    for (size_t i = start; i < bytes; i++) {
        node = child_of(u, node, (uint8_t)word[i]);
        if (node == 0) break;
        if (u->nodes[node].id < 0) continue;
        offer(&w->nodes[i + 1], u->scores[node] + so_far, start, u->nodes[node].id);
        has_character = has_character || i + 1 == start + length;
    }
    return has_character;
}

status tokenizer_unigram_run(const tokenizer_unigram *u, tokenizer_unigram_workspace *w,
                             const char *word, size_t bytes, err *e)
{
    status result = OK;
    if (bytes >= NO_START)
        FAIL(E_USAGE, "a word of %zu bytes without a break; at most 4 GiB are possible", bytes);
    TRY(alloc_grow(&w->nodes, &w->node_room, bytes + 1, sizeof *w->nodes, "a tokenizer", e));
    TRY(alloc_grow(&w->next, &w->next_room, bytes + 1, sizeof *w->next, "a tokenizer", e));
    for (size_t i = 0; i <= bytes; i++)
        w->nodes[i] = (tokenizer_unigram_node){0, NO_START, u->unknown};
    for (size_t i = 0, length; i < bytes; i += length) {
        unicode_read(word + i, &length);
        if (offer_pieces(u, w, word, bytes, i, length)) continue;
        const double score = u->unknown_score + w->nodes[i].score;
        if (u->unknown < 0 && improves(&w->nodes[i + length], score))
            FAIL(E_USAGE,
                 "the text has the character \"%.*s\", which is not in model.vocab, and "
                 "model.unk_id is null",
                 (int)length, word + i);
        offer(&w->nodes[i + length], score, i, u->unknown);
    }
    for (size_t i = bytes; i > 0; i = w->nodes[i].start) w->next[w->nodes[i].start] = (uint32_t)i;
done:
    return result;
}
