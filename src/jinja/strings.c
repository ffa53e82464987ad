// strings.c -- see strings.h: strips, replaces, changes case, cuts and joins strings.
#include "jinja/strings.h"

#include <string.h>

// ---- Strip

static bool is_stripped(uint32_t c, const jinja_string *chars)
{
    if (!chars) return jinja_is_space(c);
    for (size_t i = 0, n; i < chars->bytes; i += n) {
        uint32_t other;
        n = jinja_decode(chars->chars + i, chars->bytes - i, &other);
        if (other == c) return true;
    }
    return false;
}

status jinja_strip(jinja_state *s, const jinja_string *p, const jinja_string *chars, int sides,
                   jinja_value *out, err *e)
{
    size_t from = 0, to = p->bytes;
    uint32_t c;
    while (sides & STRIP_LEFT && from < to) {
        const size_t n = jinja_decode(p->chars + from, to - from, &c);
        if (!is_stripped(c, chars)) break;
        from += n;
    }
    while (sides & STRIP_RIGHT && to > from) {
        size_t first = to - 1;
        while (first > from && ((unsigned char)p->chars[first] & 0xc0) == 0x80) first--;
        jinja_decode(p->chars + first, to - first, &c);
        if (!is_stripped(c, chars)) break;
        to = first;
    }
    const status result = jinja_spend(s, (p->bytes - (to - from)) / 8, e);
    return result == OK ? jinja_part(s, p, from, to, out, e) : result;
}

// ---- Replace

// Python's replace with an empty `from`: `to` stands before each character and at the end.
static status interleave(jinja_state *s, const jinja_string *p, const jinja_string *to,
                         int64_t most, jinja_value *out, err *e)
{
    status result = OK;
    jinja_builder b = {0};
    for (size_t i = 0, n; i <= p->bytes; i += n) {
        uint32_t c;
        n = i < p->bytes ? jinja_decode(p->chars + i, p->bytes - i, &c) : 1;
        TRY(jinja_spend(s, 1, e));
        if (most-- != 0)
            TRY(jinja_append_string(s, &b, to, e));
        else
            most = 0;
        if (i < p->bytes) TRY(jinja_append(s, &b, p->chars + i, n, jinja_origin(p, i), e));
    }
    TRY(jinja_build(s, &b, p->markup, out, e));
done:
    return result;
}

status jinja_replace(jinja_state *s, const jinja_string *p, const jinja_string *from,
                     const jinja_string *to, int64_t most, jinja_value *out, err *e)
{
    status result = OK;
    jinja_builder b = {0};
    size_t done_bytes = 0;
    if (!from->bytes) return interleave(s, p, to, most, out, e);
    TRY(jinja_spend(s, p->bytes / 256, e));
    while (most != 0) {
        const size_t i = jinja_search(p, from, done_bytes, p->bytes);
        if (i == SIZE_MAX) break;
        TRY(jinja_spend(s, 1 + p->runs / 8, e));
        TRY(jinja_append_part(s, &b, p, done_bytes, i, e));
        TRY(jinja_append_string(s, &b, to, e));
        done_bytes = i + from->bytes;
        if (most > 0) most--;
    }
    TRY(jinja_append_part(s, &b, p, done_bytes, p->bytes, e));
    TRY(jinja_build(s, &b, p->markup, out, e));
done:
    return result;
}

// ---- Case

static bool begins_word(uint32_t before, const char *breaks)
{
    if (!breaks) return !jinja_is_alpha(before);
    return jinja_is_space(before) || (before && before < 0x80 && strchr(breaks, (int)before));
}

status jinja_recase(jinja_state *s, const jinja_string *p, jinja_case first, jinja_case rest,
                    bool whole, const char *breaks, jinja_value *out, err *e)
{
    status result = OK;
    jinja_builder b = {0};
    uint32_t before = ' ';
    size_t run = 0, run_end = p->runs ? p->run[0].bytes : 0;
    TRY(jinja_spend(s, p->bytes / 16, e));
    for (size_t i = 0, n; i < p->bytes; i += n) {
        uint32_t c, changed[2];
        n = jinja_decode(p->chars + i, p->bytes - i, &c);
        while (i >= run_end && run + 1 < p->runs) run_end += p->run[++run].bytes;
        const bool begins = whole ? i == 0 : begins_word(before, breaks);
        const size_t count = jinja_change_case(c, begins ? first : rest, changed);
        for (size_t k = 0; k < count; k++) {
            char bytes[4];
            const size_t size = jinja_encode(changed[k], bytes);
            TRY(jinja_append(s, &b, bytes, size, p->run[run], e));
        }
        before = c;
    }
    TRY(jinja_build(s, &b, p->markup, out, e));
done:
    return result;
}

// ---- Split

static status push_part(jinja_state *s, jinja_value list, const jinja_string *p, size_t from,
                        size_t to, err *e)
{
    status result = OK;
    jinja_value part;
    TRY(jinja_spend(s, 1 + p->runs / 8, e));
    TRY(jinja_part(s, p, from, to, &part, e));
    TRY(jinja_push(s, list.list, part, e));
done:
    return result;
}

// The end of the run of characters from `i` on that are white space, or that are none.
static size_t run_of(const jinja_string *p, size_t i, bool space)
{
    while (i < p->bytes) {
        uint32_t c;
        const size_t n = jinja_decode(p->chars + i, p->bytes - i, &c);
        if (jinja_is_space(c) != space) break;
        i += n;
    }
    return i;
}

static status split_spaces(jinja_state *s, const jinja_string *p, int64_t most, jinja_value *out,
                           err *e)
{
    status result = OK;
    for (size_t i = run_of(p, 0, true); i < p->bytes;) {
        const size_t end = most-- == 0 ? p->bytes : run_of(p, i, false);
        TRY(push_part(s, *out, p, i, end, e));
        i = run_of(p, end, true);
    }
done:
    return result;
}

status jinja_split(jinja_state *s, const jinja_string *p, const jinja_string *separator,
                   int64_t most, jinja_value *out, err *e)
{
    status result = OK;
    size_t from = 0;
    TRY(jinja_spend(s, p->bytes / 256, e));
    TRY(jinja_new_list(s, KIND_LIST, 0, out, e));
    if (!separator) return split_spaces(s, p, most, out, e);
    if (!separator->bytes) FAIL(E_USAGE, "split() needs a separator that is not empty");
    for (; most != 0; most -= most > 0) {
        const size_t i = jinja_search(p, separator, from, p->bytes);
        if (i == SIZE_MAX) break;
        TRY(push_part(s, *out, p, from, i, e));
        from = i + separator->bytes;
    }
    TRY(push_part(s, *out, p, from, p->bytes, e));
done:
    return result;
}

// rsplit() at white space: the words are those of split(), and the first of the last `most` ends the part before them.
static status split_spaces_last(jinja_state *s, const jinja_string *p, int64_t most,
                                jinja_value *out, err *e)
{
    status result = OK;
    jinja_value all, rest;
    TRY(jinja_new_list(s, KIND_LIST, 0, &all, e));
    TRY(split_spaces(s, p, -1, &all, e));
    const size_t count = all.list->count;
    size_t first = most >= 0 && (uint64_t)most < count ? count - (size_t)most : 0;
    if (first) {
        const jinja_string *next = first < count ? all.list->item[first].string : NULL;
        const size_t end = next ? (size_t)(next->chars - p->chars) : p->bytes;
        TRY(jinja_part(s, p, 0, end, &rest, e));
        TRY(jinja_strip(s, rest.string, NULL, STRIP_RIGHT, &rest, e));
        TRY(jinja_push(s, out->list, rest, e));
    }
    for (; first < count; first++) TRY(jinja_push(s, out->list, all.list->item[first], e));
done:
    return result;
}

status jinja_split_last(jinja_state *s, const jinja_string *p, const jinja_string *separator,
                        int64_t most, jinja_value *out, err *e)
{
    status result = OK;
    size_t to = p->bytes;
    TRY(jinja_spend(s, p->bytes / 64, e));
    TRY(jinja_new_list(s, KIND_LIST, 0, out, e));
    if (!separator) return split_spaces_last(s, p, most, out, e);
    if (!separator->bytes) FAIL(E_USAGE, "rsplit() needs a separator that is not empty");
    for (; most != 0; most -= most > 0) {
        const size_t i = jinja_search_last(p, separator, 0, to);
        if (i == SIZE_MAX) break;
        TRY(push_part(s, *out, p, i + separator->bytes, to, e));
        to = i;
    }
    TRY(push_part(s, *out, p, 0, to, e));
    jinja_reverse(out->list);
done:
    return result;
}

// Returns whether a character ends a line, as str.splitlines has it.
static bool ends_line(uint32_t c)
{
    return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

status jinja_split_lines(jinja_state *s, const jinja_string *p, bool keep, jinja_value *out, err *e)
{
    status result = OK;
    size_t from = 0;
    TRY(jinja_spend(s, p->bytes / 16, e));
    TRY(jinja_new_list(s, KIND_LIST, 0, out, e));
    for (size_t i = 0, n; i < p->bytes; i += n) {
        uint32_t c;
        n = jinja_decode(p->chars + i, p->bytes - i, &c);
        if (!ends_line(c)) continue;
        if (c == '\r' && i + 1 < p->bytes && p->chars[i + 1] == '\n') n = 2;
        TRY(push_part(s, *out, p, from, keep ? i + n : i, e));
        from = i + n;
    }
    if (from < p->bytes) TRY(push_part(s, *out, p, from, p->bytes, e));
done:
    return result;
}

// ---- Joining

status jinja_join(jinja_state *s, const jinja_string *separator, const jinja_list *items,
                  jinja_value *out, err *e)
{
    status result = OK;
    jinja_builder b = {0};
    for (size_t i = 0; i < items->count; i++) {
        TRY(jinja_spend(s, 1, e));
        if (i && separator) TRY(jinja_append_string(s, &b, separator, e));
        TRY(jinja_print(s, &b, items->item[i], e));
    }
    TRY(jinja_build(s, &b, false, out, e));
done:
    return result;
}
