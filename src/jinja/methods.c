// methods.c -- the methods of strings, of which a row's variant says which one it is. Some are filters, too, so the value
// may be of any kind there.
#include "jinja/builtins.h"
#include "jinja/strings.h"

#include <string.h>

#define METHOD(name)                                                                               \
    static status method_##name(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)

// ---- Case and white space

status jinja_run_recase(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    static const struct {
        jinja_case first, rest;
        bool whole;
        const char *breaks;
    } CASES[] = {[RECASE_UPPER] = {CASE_UPPER, CASE_UPPER, true, NULL},
                 [RECASE_LOWER] = {CASE_LOWER, CASE_LOWER, true, NULL},
                 [RECASE_CAPITALIZE] = {CASE_TITLE, CASE_LOWER, true, NULL},
                 [RECASE_TITLE] = {CASE_TITLE, CASE_LOWER, false, NULL},
                 [RECASE_TITLE_FILTER] = {CASE_UPPER, CASE_LOWER, false, "-({[<"}};
    status result = OK;
    const uint32_t i = c->row->variant;
    const jinja_string *p = NULL;
    TRY(jinja_to_string(s, c->self, &p, e));
    TRY(jinja_recase(s, p, CASES[i].first, CASES[i].rest, CASES[i].whole, CASES[i].breaks, out, e));
done:
    return result;
}

// The row's variant are the sides.
status jinja_run_strip(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    status result = OK;
    const jinja_string *p = NULL, *chars = NULL;
    TRY(jinja_to_string(s, c->self, &p, e));
    TRY(jinja_arg_string(c, 0, &chars, e));
    TRY(jinja_strip(s, p, chars, (int)c->row->variant, out, e));
done:
    return result;
}

METHOD(replace)
{
    status result = OK;
    const jinja_string *from = NULL, *to = NULL;
    int64_t most = -1;
    TRY(jinja_arg_string(c, 0, &from, e));
    TRY(jinja_arg_string(c, 1, &to, e));
    TRY(jinja_arg_int(c, 2, &most, e));
    TRY(jinja_replace(s, c->self.string, from, to, most, out, e));
done:
    return result;
}

// ---- Beginning and end

enum { AT_START, AT_END };

static bool stands_at(uint32_t end, const jinja_string *p, const jinja_string *with)
{
    const size_t from = end == AT_END ? p->bytes - with->bytes : 0;
    return p->bytes >= with->bytes && memcmp(p->chars + from, with->chars, with->bytes) == 0;
}

// The part of the string that a search looks at: characters [arg 1, arg 2).
static status searched(jinja_state *s, const jinja_call *c, const jinja_string **out, err *e)
{
    status result = OK;
    jinja_value v;
    const jinja_value bound[3] = {c->arg[1] ? *c->arg[1] : jinja_none(),
                                  c->arg[2] ? *c->arg[2] : jinja_none(), jinja_none()};
    *out = c->self.string;
    if (!c->arg[1] && !c->arg[2]) goto done;
    TRY(jinja_slice(s, c->self, bound, &v, e));
    if (v.kind != KIND_STRING) FAIL(E_USAGE, "the bounds of a search are no whole numbers");
    *out = v.string;
done:
    return result;
}

METHOD(has_end)
{
    status result = OK;
    const jinja_string *p = NULL;
    bool holds = false;
    TRY(searched(s, c, &p, e));
    const jinja_value *v = c->arg[0];
    const bool several = v->kind == KIND_TUPLE;
    for (size_t i = 0; i < (several ? v->list->count : 1); i++) {
        const jinja_value one = several ? v->list->item[i] : *v;
        if (one.kind != KIND_STRING)
            FAIL(E_USAGE, "%s needs a string or a tuple of strings; found a %s", c->row->name,
                 jinja_type(one));
        holds |= stands_at(c->row->variant, p, one.string);
    }
    *out = jinja_bool(holds);
done:
    return result;
}

METHOD(remove_end)
{
    status result = OK;
    const jinja_string *p = c->self.string, *with = NULL;
    const uint32_t end = c->row->variant;
    TRY(jinja_arg_string(c, 0, &with, e));
    const size_t bytes = stands_at(end, p, with) ? with->bytes : 0;
    TRY(jinja_part(s, p, end == AT_START ? bytes : 0, p->bytes - (end == AT_END ? bytes : 0), out,
                   e));
done:
    return result;
}

// ---- Kinds of characters

enum { ALL_DIGITS, ALL_LETTERS, ALL_EITHER, ALL_SPACE };

METHOD(all_are)
{
    static bool (*const IS[])(uint32_t) = {jinja_is_digit, jinja_is_alpha, jinja_is_alnum,
                                           jinja_is_space};
    status result = OK;
    const jinja_string *p = c->self.string;
    bool holds = p->bytes > 0;
    TRY(jinja_spend(s, p->bytes / 16, e));
    for (size_t i = 0, n; i < p->bytes && holds; i += n) {
        uint32_t point;
        n = jinja_decode(p->chars + i, p->bytes - i, &point);
        holds = IS[c->row->variant](point);
    }
    *out = jinja_bool(holds);
done:
    return result;
}

// ---- Cut

enum { FROM_START, FROM_END, FROM_START_NEEDED, FROM_END_NEEDED };

METHOD(split)
{
    status result = OK;
    const jinja_string *separator = NULL;
    int64_t most = -1;
    TRY(jinja_arg_string(c, 0, &separator, e));
    TRY(jinja_arg_int(c, 1, &most, e));
    if (most < 0) most = -1;
    TRY(c->row->variant == FROM_END ? jinja_split_last(s, c->self.string, separator, most, out, e)
                                    : jinja_split(s, c->self.string, separator, most, out, e));
done:
    return result;
}

METHOD(splitlines)
{
    return jinja_split_lines(s, c->self.string, jinja_arg_bool(c, 0), out, e);
}

METHOD(partition)
{
    status result = OK;
    const bool last = c->row->variant == FROM_END;
    const jinja_string *p = c->self.string, *separator = NULL;
    jinja_value part;
    TRY(jinja_arg_string(c, 0, &separator, e));
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

// ---- Search

// The characters [*from, *to) that a search looks at, in bytes. Returns false where they lie behind the end.
static status bounds(const jinja_call *c, size_t *from, size_t *to, bool *valid, err *e)
{
    status result = OK;
    const jinja_string *p = c->self.string;
    const int64_t count = (int64_t)p->points;
    int64_t a = 0, b = count;
    TRY(jinja_arg_int(c, 1, &a, e));
    TRY(jinja_arg_int(c, 2, &b, e));
    if (a < 0) a = a + count < 0 ? 0 : a + count;
    if (b < 0) b = b + count < 0 ? 0 : b + count;
    if (b > count) b = count;
    *valid = a <= b;
    *from = *valid ? jinja_byte_of(p, (size_t)a) : 0;
    *to = *valid ? jinja_byte_of(p, (size_t)b) : 0;
done:
    return result;
}

METHOD(find)
{
    status result = OK;
    const uint32_t variant = c->row->variant;
    const bool last = variant == FROM_END || variant == FROM_END_NEEDED;
    const jinja_string *p = c->self.string, *sub = NULL;
    size_t from = 0, to = 0, i = SIZE_MAX;
    bool valid = false;
    TRY(jinja_arg_string(c, 0, &sub, e));
    TRY(bounds(c, &from, &to, &valid, e));
    TRY(jinja_spend(s, p->bytes / 64, e));
    if (valid) i = last ? jinja_search_last(p, sub, from, to) : jinja_search(p, sub, from, to);
    if (i == SIZE_MAX && variant >= FROM_START_NEEDED)
        FAIL(E_USAGE, "a string that index() looks for is not there");
    *out = jinja_int(i == SIZE_MAX ? -1 : (int64_t)jinja_count(p->chars, i));
done:
    return result;
}

METHOD(count)
{
    status result = OK;
    const jinja_string *p = c->self.string, *sub = NULL;
    size_t from = 0, to = 0;
    bool valid = false;
    int64_t count = 0;
    TRY(jinja_arg_string(c, 0, &sub, e));
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

const jinja_row JINJA_STRING_METHODS[] = {
    {"upper", "", jinja_run_recase, RECASE_UPPER},
    {"lower", "", jinja_run_recase, RECASE_LOWER},
    {"capitalize", "", jinja_run_recase, RECASE_CAPITALIZE},
    {"title", "", jinja_run_recase, RECASE_TITLE},
    {"strip", "chars", jinja_run_strip, STRIP_LEFT | STRIP_RIGHT},
    {"lstrip", "chars", jinja_run_strip, STRIP_LEFT},
    {"rstrip", "chars", jinja_run_strip, STRIP_RIGHT},
    {"replace", "old! new! count", method_replace, 0},
    {"startswith", "prefix! start end", method_has_end, AT_START},
    {"endswith", "suffix! start end", method_has_end, AT_END},
    {"removeprefix", "prefix!", method_remove_end, AT_START},
    {"removesuffix", "suffix!", method_remove_end, AT_END},
    {"isdigit", "", method_all_are, ALL_DIGITS},
    {"isdecimal", "", method_all_are, ALL_DIGITS},
    {"isnumeric", "", method_all_are, ALL_DIGITS},
    {"isalpha", "", method_all_are, ALL_LETTERS},
    {"isalnum", "", method_all_are, ALL_EITHER},
    {"isspace", "", method_all_are, ALL_SPACE},
    {"isupper", "", jinja_run_has_case, RECASE_UPPER},
    {"islower", "", jinja_run_has_case, RECASE_LOWER},
    {"split", "sep maxsplit", method_split, FROM_START},
    {"rsplit", "sep maxsplit", method_split, FROM_END},
    {"splitlines", "keepends", method_splitlines, 0},
    {"partition", "sep!", method_partition, FROM_START},
    {"rpartition", "sep!", method_partition, FROM_END},
    {"find", "sub! start end", method_find, FROM_START},
    {"rfind", "sub! start end", method_find, FROM_END},
    {"index", "sub! start end", method_find, FROM_START_NEEDED},
    {"rindex", "sub! start end", method_find, FROM_END_NEEDED},
    {"count", "sub! start end", method_count, 0},
    {"join", "iterable!", method_join, 0},
    {"format", "*", method_format, 0},
    {0}};
