// builder.c -- see builder.h.
#define _GNU_SOURCE
#include "jinja/builder.h"

#include "jinja/state.h"
#include "jinja/unicode.h"

#include <string.h>

// Makes room for `more` items behind `count` items of an array.
static status grow(jinja_state *s, void *array, size_t *room, size_t count, size_t more,
                   size_t size, err *e)
{
    status result = OK;
    void *old, *wider = NULL;
    if (count + more <= *room) goto done;
    size_t next = *room ? 2 * *room : 16;
    if (next < count + more) next = count + more;
    TRY(jinja_take(&s->memory, &wider, next * size, e));
    memcpy(&old, array, sizeof old);
    if (count) memcpy(wider, old, count * size);
    memcpy(array, &wider, sizeof wider);
    *room = next;
done:
    return result;
}

status jinja_append(jinja_state *s, jinja_builder *b, const char *chars, size_t bytes,
                    jinja_run like, err *e)
{
    status result = OK;
    if (!bytes) goto done;
    TRY(jinja_spend(s, bytes / 64, e));
    TRY(grow(s, &b->chars, &b->room, b->bytes, bytes, 1, e));
    memcpy(b->chars + b->bytes, chars, bytes);
    jinja_run *last = b->runs > b->closed ? &b->run[b->runs - 1] : NULL;
    if (last && last->string == like.string && last->generation == like.generation) {
        last->bytes += bytes;
    } else {
        TRY(grow(s, &b->run, &b->run_room, b->runs, 1, sizeof *b->run, e));
        like.bytes = bytes;
        b->run[b->runs++] = like;
    }
    b->bytes += bytes;
done:
    return result;
}

status jinja_append_text(jinja_state *s, jinja_builder *b, const char *chars, err *e)
{
    return jinja_append(s, b, chars, strlen(chars), JINJA_OWN, e);
}

status jinja_append_part(jinja_state *s, jinja_builder *b, const jinja_string *p, size_t from,
                         size_t to, err *e)
{
    status result = OK;
    size_t begin = 0;
    for (size_t i = 0; i < p->runs && begin < to; begin += p->run[i++].bytes) {
        const size_t end = begin + p->run[i].bytes;
        const size_t first = from > begin ? from : begin, last = to < end ? to : end;
        if (first < last) TRY(jinja_append(s, b, p->chars + first, last - first, p->run[i], e));
    }
done:
    return result;
}

status jinja_append_string(jinja_state *s, jinja_builder *b, const jinja_string *p, err *e)
{
    return jinja_append_part(s, b, p, 0, p->bytes, e);
}

status jinja_append_escaped(jinja_state *s, jinja_builder *b, const jinja_string *p, err *e)
{
    static const char SPECIAL[] = "&<>\"'";
    static const char *const ESCAPED[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
    status result = OK;
    size_t from = 0;
    for (size_t i = 0; i < p->bytes; i++) {
        const char *special = p->chars[i] ? strchr(SPECIAL, p->chars[i]) : NULL;
        if (!special) continue;
        const char *as = ESCAPED[special - SPECIAL];
        TRY(jinja_append_part(s, b, p, from, i, e));
        TRY(jinja_append(s, b, as, strlen(as), jinja_origin(p, i), e));
        from = i + 1;
    }
    TRY(jinja_append_part(s, b, p, from, p->bytes, e));
done:
    return result;
}

static status new_string(jinja_state *s, jinja_string p, jinja_value *out, err *e)
{
    status result = OK;
    jinja_string *q = NULL;
    TRY(jinja_take(&s->memory, &q, sizeof *q, e));
    *q = p;
    q->points = jinja_count(p.chars, p.bytes);
    *out = (jinja_value){.kind = KIND_STRING, .string = q};
done:
    return result;
}

status jinja_build(jinja_state *s, const jinja_builder *b, bool markup, jinja_value *out, err *e)
{
    const jinja_string p = {.chars = b->bytes ? b->chars : "",
                            .bytes = b->bytes,
                            .run = b->run,
                            .runs = b->runs,
                            .markup = markup};
    return new_string(s, p, out, e);
}

status jinja_borrow(jinja_state *s, const char *chars, size_t bytes, int32_t string,
                    jinja_value *out, err *e)
{
    status result = OK;
    jinja_run *run = NULL;
    TRY(jinja_take(&s->memory, &run, sizeof *run, e));
    *run = (jinja_run){.bytes = bytes, .string = string};
    TRY(new_string(s, (jinja_string){.chars = chars, .bytes = bytes, .run = run, .runs = 1}, out,
                   e));
done:
    return result;
}

status jinja_string_of(jinja_state *s, const char *from, jinja_value *out, err *e)
{
    status result = OK;
    char *chars = NULL;
    const size_t bytes = strlen(from);
    TRY(jinja_take_copy(&s->memory, from, bytes, &chars, e));
    TRY(jinja_borrow(s, chars, bytes, -1, out, e));
done:
    return result;
}

status jinja_part(jinja_state *s, const jinja_string *p, size_t from, size_t to, jinja_value *out,
                  err *e)
{
    status result = OK;
    size_t first = 0, begin = 0, runs = 0;
    jinja_run *run = NULL;
    if (to > p->bytes) to = p->bytes;
    if (from > to) from = to;
    while (first < p->runs && begin + p->run[first].bytes <= from) begin += p->run[first++].bytes;
    for (size_t i = first, at = begin; i < p->runs && at < to; at += p->run[i++].bytes) runs++;
    TRY(jinja_spend(s, (to - from) / 256 + runs, e));
    TRY(jinja_take(&s->memory, &run, (runs + 1) * sizeof *run, e));
    for (size_t i = 0, at = begin; i < runs; i++) {
        const size_t end = at + p->run[first + i].bytes;
        run[i] = p->run[first + i];
        run[i].bytes = (end < to ? end : to) - (at > from ? at : from);
        at = end;
    }
    TRY(new_string(s,
                   (jinja_string){.chars = p->chars + from,
                                  .bytes = to - from,
                                  .run = run,
                                  .runs = runs,
                                  .markup = p->markup},
                   out, e));
done:
    return result;
}

size_t jinja_byte_of(const jinja_string *p, size_t point)
{
    if (point >= p->points) return p->bytes;
    if (p->points == p->bytes) return point;
    size_t i = 0;
    for (size_t n = 0;; i++) {
        if (((unsigned char)p->chars[i] & 0xc0) == 0x80) continue;
        if (n++ == point) return i;
    }
}

size_t jinja_search(const jinja_string *a, const jinja_string *b, size_t from, size_t to)
{
    if (to > a->bytes) to = a->bytes;
    if (from > to || b->bytes > to - from) return SIZE_MAX;
    if (!b->bytes) return from;
    const char *p = memmem(a->chars + from, to - from, b->chars, b->bytes);
    return p ? (size_t)(p - a->chars) : SIZE_MAX;
}

size_t jinja_search_last(const jinja_string *a, const jinja_string *b, size_t from, size_t to)
{
    if (to > a->bytes) to = a->bytes;
    if (from > to || b->bytes > to - from) return SIZE_MAX;
    for (size_t i = to - b->bytes + 1; i > from; i--)
        if (memcmp(a->chars + i - 1, b->chars, b->bytes) == 0) return i - 1;
    return SIZE_MAX;
}

jinja_run jinja_origin(const jinja_string *p, size_t byte)
{
    size_t begin = 0;
    for (size_t i = 0; i < p->runs; begin += p->run[i++].bytes)
        if (byte < begin + p->run[i].bytes) return p->run[i];
    return JINJA_OWN;
}
