// tokenizer_span.h -- pieces of text on their way to ids, which know where in the original text their bytes come from.
// The normalizer and the pre-tokenizer write changed text here; encoding asks at the end which bytes a token covers.
#ifndef TRIREME_DATA_TOKENIZER_SPAN_H
#define TRIREME_DATA_TOKENIZER_SPAN_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A piece of text, borrowed.
typedef struct tokenizer_span {
    const char *ptr;
    size_t bytes;
    bool traced; // somebody asks for the original; if not, the members below mean nothing
    const uint32_t *
        ends; // [bytes] the original's end of the character that each byte comes from; NULL: nothing changed
    uint32_t begin; // where in the original the piece begins
} tokenizer_span;

// The byte of the original behind the first n bytes of the piece.
static inline uint32_t tokenizer_span_end(const tokenizer_span *s, size_t n)
{
    return n == 0 ? s->begin : s->ends ? s->ends[n - 1] : s->begin + (uint32_t)n;
}

// Bytes [first, first + bytes) of the piece.
static inline tokenizer_span tokenizer_span_part(const tokenizer_span *s, size_t first,
                                                 size_t bytes)
{
    tokenizer_span part = {.ptr = s->ptr + first, .bytes = bytes, .traced = s->traced};
    if (!s->traced) return part;
    part.ends = s->ends ? s->ends + first : NULL;
    part.begin = tokenizer_span_end(s, first);
    return part;
}

// A text that a step writes from a piece. Start with {0}; the owner calls tokenizer_copy_clear.
typedef struct tokenizer_copy {
    char *chars;
    uint32_t *ends; // as in tokenizer_span, where the piece is traced
    size_t bytes, room, end_room;
    const tokenizer_span *from;
} tokenizer_copy;

void tokenizer_copy_clear(tokenizer_copy *c);
// Starts anew with a text that comes from `from`, which stays valid until the copy is finished.
void tokenizer_copy_start(tokenizer_copy *c, const tokenizer_span *from);
// Appends bytes [first, first + bytes) of the piece, unchanged.
status tokenizer_copy_keep(tokenizer_copy *c, size_t first, size_t bytes, err *e);
// Appends text that stands for what ends at byte `until` of the piece.
status tokenizer_copy_put(tokenizer_copy *c, const char *chars, size_t bytes, size_t until, err *e);
// The text, as a piece that is valid until the copy changes.
tokenizer_span tokenizer_copy_span(const tokenizer_copy *c);

#endif
