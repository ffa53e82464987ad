// memory.c -- see memory.h. Blocks double, so a rendering has few of them. It knows nothing of templates.
#include "jinja/memory.h"

#include "base/alloc.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_LEAST = 16 << 10, BLOCK_MOST = 4 << 20 };

static status add_block(jinja_memory *m, size_t bytes, err *e)
{
    status result = OK;
    jinja_block *b = NULL;
    size_t room = m->last ? 2 * m->last->room : BLOCK_LEAST;
    if (room > BLOCK_MOST) room = BLOCK_MOST;
    if (room < bytes) room = bytes;
    if (bytes > m->most || m->bytes > m->most - bytes) {
        char most[24];
        text_bytes(most, (double)m->most);
        FAIL(E_USAGE, "the template needs more memory than the limit of %s", most);
    }
    TRY(alloc_array(&b, 1, sizeof *b + room, "a template", e));
    *b = (jinja_block){.before = m->last, .room = room};
    m->last = b;
    m->bytes += room;
done:
    return result;
}

status jinja_take(jinja_memory *m, void *out, size_t bytes, err *e)
{
    status result = OK;
    const size_t most = (size_t)1 << 48;
    if (bytes > most) bytes = most; // no limit is as large
    bytes = (bytes + 15) / 16 * 16;
    if (!m->last || m->last->room - m->last->used < bytes) TRY(add_block(m, bytes, e));
    void *p = m->last->bytes + m->last->used;
    m->last->used += bytes;
    memset(p, 0, bytes);
    memcpy(out, &p, sizeof p);
done:
    return result;
}

status jinja_take_copy(jinja_memory *m, const char *chars, size_t count, char **out, err *e)
{
    status result = OK;
    TRY(jinja_take(m, out, count + 1, e));
    if (count) memcpy(*out, chars, count);
done:
    return result;
}

void jinja_memory_clear(jinja_memory *m)
{
    while (m->last) {
        jinja_block *b = m->last;
        m->last = b->before;
        free(b);
    }
    m->bytes = 0;
}
