// methods_split.c -- the methods of strings that cut, search and join, and those of lists and dicts.
#include "jinja/builtins.h"
#include "jinja/strings.h"

#include <string.h>

#define METHOD(name)                                                                               \
    static status method_##name(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)

// ---- Cut

static status split(jinja_state *s, const jinja_call *c, bool last, jinja_value *out, err *e)
{
    status result = OK;
    const jinja_string *separator = NULL;
    int64_t most = -1;
    if (c->arg[0] && c->arg[0]->kind != KIND_NONE)
        TRY(jinja_arg_string(c, 0, "sep", &separator, e));
    TRY(jinja_arg_int(c, 1, "maxsplit", &most, e));
    if (most < 0) most = -1;
    TRY(last ? jinja_split_last(s, c->self.string, separator, most, out, e)
             : jinja_split(s, c->self.string, separator, most, out, e));
done:
    return result;
}

METHOD(split)
{
    return split(s, c, false, out, e);
}

METHOD(rsplit)
{
    return split(s, c, true, out, e);
}

METHOD(splitlines)
{
    return jinja_split_lines(s, c->self.string, jinja_arg_bool(c, 0, false), out, e);
}

static status partition(jinja_state *s, const jinja_call *c, bool last, jinja_value *out, err *e)
{
    status result = OK;
    const jinja_string *p = c->self.string, *separator = NULL;
    jinja_value part;
    TRY(jinja_arg_needed(c, 0, "sep", e));
    TRY(jinja_arg_string(c, 0, "sep", &separator, e));
    if (!separator->bytes) FAIL(E_USAGE, "partition() needs a separator that is not empty");
    TRY(jinja_spend(s, p->bytes / 64, e));
    const size_t i = last ? jinja_search_last(p, separator, 0, p->bytes)
                          : jinja_search(p, separator, 0, p->bytes);
    const size_t none = last ? 0 : p->bytes;
    const size_t cut[] = {0, i == SIZE_MAX ? none : i, i == SIZE_MAX ? none : i + separator->bytes,
                          p->bytes};
    TRY(jinja_new_list(s, KIND_TUPLE, 3, out, e));
    for (int k = 0; k < 3; k++) {
        TRY(jinja_part(s, p, cut[k], cut[k + 1], &part, e));
        TRY(jinja_push(s, out->list, part, e));
    }
done:
    return result;
}

METHOD(partition)
{
    return partition(s, c, false, out, e);
}

METHOD(rpartition)
{
    return partition(s, c, true, out, e);
}

// ---- Search

// The characters [*from, *to) that a search looks at, in bytes. Returns false where they lie behind the end.
static status bounds(const jinja_call *c, size_t *from, size_t *to, bool *valid, err *e)
{
    status result = OK;
    const jinja_string *p = c->self.string;
    const int64_t count = (int64_t)p->points;
    int64_t a = 0, b = count;
    if (c->arg[1] && c->arg[1]->kind != KIND_NONE) TRY(jinja_arg_int(c, 1, "start", &a, e));
    if (c->arg[2] && c->arg[2]->kind != KIND_NONE) TRY(jinja_arg_int(c, 2, "end", &b, e));
    if (a < 0) a = a + count < 0 ? 0 : a + count;
    if (b < 0) b = b + count < 0 ? 0 : b + count;
    if (b > count) b = count;
    *valid = a <= b;
    *from = *valid ? jinja_byte_of(p, (size_t)a) : 0;
    *to = *valid ? jinja_byte_of(p, (size_t)b) : 0;
done:
    return result;
}

static status find(jinja_state *s, const jinja_call *c, bool last, bool needed, jinja_value *out,
                   err *e)
{
    status result = OK;
    const jinja_string *p = c->self.string, *sub = NULL;
    size_t from = 0, to = 0, i = SIZE_MAX;
    bool valid = false;
    TRY(jinja_arg_needed(c, 0, "sub", e));
    TRY(jinja_arg_string(c, 0, "sub", &sub, e));
    TRY(bounds(c, &from, &to, &valid, e));
    TRY(jinja_spend(s, p->bytes / 64, e));
    if (valid) i = last ? jinja_search_last(p, sub, from, to) : jinja_search(p, sub, from, to);
    if (i == SIZE_MAX && needed) FAIL(E_USAGE, "a string that index() looks for is not there");
    *out = jinja_int(i == SIZE_MAX ? -1 : (int64_t)jinja_count(p->chars, i));
done:
    return result;
}

METHOD(find)
{
    return find(s, c, false, false, out, e);
}

METHOD(rfind)
{
    return find(s, c, true, false, out, e);
}

METHOD(index)
{
    return find(s, c, false, true, out, e);
}

METHOD(rindex)
{
    return find(s, c, true, true, out, e);
}

METHOD(count)
{
    status result = OK;
    const jinja_string *p = c->self.string, *sub = NULL;
    size_t from = 0, to = 0;
    bool valid = false;
    int64_t count = 0;
    TRY(jinja_arg_needed(c, 0, "sub", e));
    TRY(jinja_arg_string(c, 0, "sub", &sub, e));
    TRY(bounds(c, &from, &to, &valid, e));
    TRY(jinja_spend(s, p->bytes / 64, e));
    if (valid && !sub->bytes) count = (int64_t)jinja_count(p->chars + from, to - from) + 1;
    while (valid && sub->bytes) {
        const size_t i = jinja_search(p, sub, from, to);
        if (i == SIZE_MAX) break;
        count++;
        from = i + sub->bytes;
    }
    *out = jinja_int(count);
done:
    return result;
}

METHOD(join)
{
    status result = OK;
    const jinja_list *items = NULL;
    TRY(jinja_arg_needed(c, 0, "iterable", e));
    TRY(jinja_items(s, *c->arg[0], &items, e));
    for (size_t i = 0; i < items->count; i++)
        if (items->item[i].kind != KIND_STRING)
            FAIL(E_USAGE, "join() needs strings; item %zu is a %s", i, jinja_type(items->item[i]));
    TRY(jinja_join(s, c->self.string, items, out, e));
done:
    return result;
}

// ---- str.format

// One place of the form {}, {0} or {name}, from offset `from` to `end`.
static status format_place(const jinja_call *c, size_t from, size_t end, size_t *next,
                           const jinja_value **out, err *e)
{
    status result = OK;
    const char *name = c->self.string->chars + from;
    const size_t bytes = end - from;
    size_t number = 0;
    bool digits = true;
    *out = NULL;
    for (size_t i = 0; i < bytes; i++) {
        if (name[i] == ':' || name[i] == '!' || name[i] == '.' || name[i] == '[')
            FAIL(E_USAGE, "format() knows {}, {0} and {name}; a conversion is not supported");
        digits &= name[i] >= '0' && name[i] <= '9' && bytes < 6;
        if (digits) number = 10 * number + (size_t)(name[i] - '0');
    }
    if (digits && !bytes) number = (*next)++;
    if (digits && number < c->count) *out = &c->item[number];
    for (size_t i = 0; i < c->keys && !digits; i++)
        if (strlen(c->key[i]) == bytes && memcmp(c->key[i], name, bytes) == 0) *out = &c->keyed[i];
    if (!*out) FAIL(E_USAGE, "format() has a place without a value");
done:
    return result;
}

METHOD(format)
{
    status result = OK;
    const jinja_string *p = c->self.string;
    jinja_builder b = {0};
    size_t next = 0;
    for (size_t i = 0; i < p->bytes;) {
        const char brace = p->chars[i];
        TRY(jinja_spend(s, 1, e));
        if (brace != '{' && brace != '}') {
            TRY(jinja_append_part(s, &b, p, i, i + 1, e));
            i++;
        } else if (i + 1 < p->bytes && p->chars[i + 1] == brace) {
            TRY(jinja_append_part(s, &b, p, i, i + 1, e));
            i += 2;
        } else {
            const char *close = memchr(p->chars + i, '}', p->bytes - i);
            const jinja_value *v = NULL;
            if (brace == '}' || !close) FAIL(E_USAGE, "format() has a brace without its other");
            const size_t end = (size_t)(close - p->chars);
            TRY(format_place(c, i + 1, end, &next, &v, e));
            TRY(jinja_print(s, &b, *v, e));
            i = end + 1;
        }
    }
    TRY(jinja_build(s, &b, p->markup, out, e));
done:
    return result;
}

const jinja_row JINJA_SPLIT_METHODS[] = {{"split", "sep maxsplit", method_split},
                                         {"rsplit", "sep maxsplit", method_rsplit},
                                         {"splitlines", "keepends", method_splitlines},
                                         {"partition", "sep", method_partition},
                                         {"rpartition", "sep", method_rpartition},
                                         {"find", "sub start end", method_find},
                                         {"rfind", "sub start end", method_rfind},
                                         {"index", "sub start end", method_index},
                                         {"rindex", "sub start end", method_rindex},
                                         {"count", "sub start end", method_count},
                                         {"join", "iterable", method_join},
                                         {"format", "*", method_format},
                                         {0}};
