// sentence.c -- see sentence.h.
#include "diagnose/sentence.h"

#include <string.h>

enum { VALUE_BYTES = 240 };

// The group whose name is at `name`[bytes], or NULL. An empty value counts as none.
static const expression_group *find(const expression_match *m, const char *name, size_t bytes)
{
    for (int i = 0; i < m->count; i++)
        if (strlen(m->group[i].name) == bytes && memcmp(m->group[i].name, name, bytes) == 0)
            return m->group[i].end > m->group[i].begin ? &m->group[i] : NULL;
    return NULL;
}

static void add_value(text *out, const char *value, size_t bytes)
{
    while (bytes && (value[bytes - 1] == ' ' || value[bytes - 1] == '\t')) bytes--;
    text_add_printable(out, value, bytes < VALUE_BYTES ? bytes : VALUE_BYTES, "");
    if (bytes > VALUE_BYTES) text_add(out, "...");
}

static bool has_all(const char *form, const char *end, const expression_match *m)
{
    for (const char *name = form; (name = memchr(name, '{', (size_t)(end - name))); name++)
        if (!find(m, name + 1, strcspn(name + 1, "}"))) return false;
    return true;
}

void sentence_add(text *out, const char *form, const char *line, const expression_match *m)
{
    for (const char *c = form; *c; c++) {
        if (*c == '[') {
            const char *end = c + strcspn(c, "]");
            if (!has_all(c, end, m)) c = *end ? end : end - 1;
        } else if (*c == '{') {
            const size_t bytes = strcspn(c + 1, "}");
            const expression_group *g = find(m, c + 1, bytes);
            if (g) add_value(out, line + g->begin, g->end - g->begin);
            c += bytes + (c[1 + bytes] == '}');
        } else if (*c != ']') {
            text_add_bytes(out, c, 1);
        }
    }
}

void sentence_add_line(text *out, const char *line, size_t bytes, size_t begin, size_t end,
                       size_t most)
{
    size_t blanks = 0, to = bytes;
    while (blanks < bytes && (line[blanks] == ' ' || line[blanks] == '\t')) blanks++;
    size_t from = blanks;
    while (to > from && (line[to - 1] == ' ' || line[to - 1] == '\t')) to--;
    const size_t all = to;
    if (to - from > most) {
        // The match at the end of the first third.
        if (begin > from + most / 3) from = begin - most / 3;
        if (end > from + most && end - begin <= most) from = end - most;
        if (to > from + most) to = from + most;
    }
    if (from > blanks) text_add(out, "...");
    text_add_printable(out, line + from, to - from, "");
    if (to < all) text_add(out, "...");
}
