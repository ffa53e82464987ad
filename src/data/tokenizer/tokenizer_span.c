// tokenizer_span.c -- text that steps of a tokenizer write, with the place in the original of each byte where somebody
// asks for it. The normalizer and the pre-tokenizer call it. It does not know tokens.
#include "data/tokenizer/tokenizer_span.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

void tokenizer_copy_clear(tokenizer_copy *c)
{
    free(c->chars);
    free(c->ends);
    *c = (tokenizer_copy){.chars = NULL};
}

void tokenizer_copy_start(tokenizer_copy *c, const tokenizer_span *from)
{
    c->bytes = 0;
    c->from = from;
}

static status make_room(tokenizer_copy *c, size_t more, err *e)
{
    status result = OK;
    if (c->bytes + more > c->room)
        TRY(alloc_grow(&c->chars, &c->room, c->bytes + more, 1, "a tokenizer", e));
    if (c->from->traced && c->bytes + more > c->end_room)
        TRY(alloc_grow(&c->ends, &c->end_room, c->bytes + more, sizeof *c->ends, "a tokenizer", e));
done:
    return result;
}

status tokenizer_copy_keep(tokenizer_copy *c, size_t first, size_t bytes, err *e)
{
    status result = OK;
    if (bytes == 0) goto done;
    TRY(make_room(c, bytes, e));
    memcpy(c->chars + c->bytes, c->from->ptr + first, bytes);
    for (size_t i = 0; c->from->traced && i < bytes; i++)
        c->ends[c->bytes + i] = tokenizer_span_end(c->from, first + i + 1);
    c->bytes += bytes;
done:
    return result;
}

status tokenizer_copy_put(tokenizer_copy *c, const char *chars, size_t bytes, size_t until, err *e)
{
    status result = OK;
    if (bytes == 0) goto done;
    TRY(make_room(c, bytes, e));
    memcpy(c->chars + c->bytes, chars, bytes);
    for (size_t i = 0; c->from->traced && i < bytes; i++)
        c->ends[c->bytes + i] = tokenizer_span_end(c->from, until);
    c->bytes += bytes;
done:
    return result;
}

tokenizer_span tokenizer_copy_span(const tokenizer_copy *c)
{
    return (tokenizer_span){.ptr = c->bytes ? c->chars : "",
                            .bytes = c->bytes,
                            .traced = c->from->traced,
                            .ends = c->ends,
                            .begin = c->from->begin};
}
