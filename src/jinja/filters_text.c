// filters_text.c -- filters that make strings: case, white space, replacement, JSON.
#include "jinja/builtins.h"
#include "jinja/strings.h"

#include <stdio.h>
#include <string.h>

#define FILTER(name)                                                                               \
    static status filter_##name(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)

static status recase(jinja_state *s, const jinja_call *c, jinja_case first, jinja_case rest,
                     bool whole, jinja_value *out, err *e)
{
    status result = OK;
    const jinja_string *p = NULL;
    TRY(jinja_to_string(s, c->self, &p, e));
    TRY(jinja_recase(s, p, first, rest, whole, "-({[<", out, e));
done:
    return result;
}

FILTER(upper)
{
    return recase(s, c, CASE_UPPER, CASE_UPPER, true, out, e);
}

FILTER(lower)
{
    return recase(s, c, CASE_LOWER, CASE_LOWER, true, out, e);
}

FILTER(capitalize)
{
    return recase(s, c, CASE_TITLE, CASE_LOWER, true, out, e);
}

FILTER(title)
{
    return recase(s, c, CASE_UPPER, CASE_LOWER, false, out, e);
}

FILTER(trim)
{
    status result = OK;
    const jinja_string *p = NULL, *chars = NULL;
    TRY(jinja_to_string(s, c->self, &p, e));
    if (c->arg[0] && c->arg[0]->kind != KIND_NONE) TRY(jinja_arg_string(c, 0, "chars", &chars, e));
    TRY(jinja_strip(s, p, chars, STRIP_LEFT | STRIP_RIGHT, out, e));
done:
    return result;
}

FILTER(replace)
{
    status result = OK;
    const jinja_string *p = NULL, *from = NULL, *to = NULL;
    jinja_string plain;
    int64_t most = -1;
    TRY(jinja_arg_needed(c, 0, "old", e));
    TRY(jinja_arg_needed(c, 1, "new", e));
    TRY(jinja_to_string(s, c->self, &p, e));
    TRY(jinja_to_string(s, *c->arg[0], &from, e));
    TRY(jinja_to_string(s, *c->arg[1], &to, e));
    if (c->arg[2] && c->arg[2]->kind != KIND_NONE) TRY(jinja_arg_int(c, 2, "count", &most, e));
    plain = *p;
    plain.markup = false;
    TRY(jinja_replace(s, &plain, from, to, most, out, e));
done:
    return result;
}

FILTER(string)
{
    status result = OK;
    const jinja_string *p = NULL;
    TRY(jinja_to_string(s, c->self, &p, e));
    *out = (jinja_value){.kind = KIND_STRING, .string = p};
done:
    return result;
}

FILTER(safe)
{
    status result = OK;
    const jinja_string *p = NULL;
    jinja_string *marked = NULL;
    TRY(jinja_to_string(s, c->self, &p, e));
    TRY(jinja_take(&s->memory, &marked, sizeof *marked, e));
    *marked = *p;
    marked->markup = true;
    *out = (jinja_value){.kind = KIND_STRING, .string = marked};
done:
    return result;
}

static status escape(jinja_state *s, const jinja_call *c, bool again, jinja_value *out, err *e)
{
    status result = OK;
    const jinja_string *p = NULL;
    jinja_builder b = {0};
    TRY(jinja_to_string(s, c->self, &p, e));
    TRY(p->markup && !again ? jinja_append_string(s, &b, p, e) : jinja_append_escaped(s, &b, p, e));
    TRY(jinja_build(s, &b, true, out, e));
done:
    return result;
}

FILTER(escape)
{
    return escape(s, c, false, out, e);
}

FILTER(forceescape)
{
    return escape(s, c, true, out, e);
}

FILTER(center)
{
    status result = OK;
    const jinja_string *p = NULL;
    int64_t width = 80;
    TRY(jinja_to_string(s, c->self, &p, e));
    TRY(jinja_arg_int(c, 0, "width", &width, e));
    TRY(jinja_pad(s, p, width, NULL, 1, out, e));
done:
    return result;
}

FILTER(wordcount)
{
    status result = OK;
    const jinja_string *p = NULL;
    int64_t words = 0;
    bool inside = false;
    TRY(jinja_to_string(s, c->self, &p, e));
    for (size_t i = 0, n; i < p->bytes; i += n) {
        uint32_t point;
        n = jinja_decode(p->chars + i, p->bytes - i, &point);
        const bool word = point == '_' || jinja_is_alnum(point);
        words += word && !inside;
        inside = word;
    }
    *out = jinja_int(words);
done:
    return result;
}

// The indent of a number of spaces, or the string itself.
static status indent_of(jinja_state *s, const jinja_value *given, int64_t usual,
                        const jinja_string **out, err *e)
{
    status result = OK;
    jinja_value v;
    int64_t width = usual;
    if (given && given->kind == KIND_STRING) {
        *out = given->string;
        goto done;
    }
    if (given && given->kind != KIND_INT && given->kind != KIND_BOOL)
        FAIL(E_USAGE, "an indent is a %s; valid is a whole number or a string", jinja_type(*given));
    if (given) width = jinja_whole(*given);
    TRY(jinja_borrow(s, "", 0, -1, &v, e));
    TRY(jinja_pad(s, v.string, width, NULL, 0, &v, e));
    *out = v.string;
done:
    return result;
}

FILTER(indent)
{
    status result = OK;
    const jinja_string *p = NULL, *indent = NULL;
    jinja_value lines;
    jinja_builder b = {0};
    const bool first = jinja_arg_bool(c, 1, false), blank = jinja_arg_bool(c, 2, false);
    TRY(jinja_to_string(s, c->self, &p, e));
    TRY(indent_of(s, c->arg[0], 4, &indent, e));
    TRY(jinja_split_lines(s, p, false, &lines, e));
    // Jinja adds a newline before it cuts, so a newline at the end begins one more line.
    uint32_t last = 'x';
    size_t begin = p->bytes;
    while (begin > 0 && ((unsigned char)p->chars[--begin] & 0xc0) == 0x80) continue;
    if (p->bytes) jinja_decode(p->chars + begin, p->bytes - begin, &last);
    const bool empty = !p->bytes || last == '\n' || (last >= 0x0b && last <= 0x0c) ||
                       last == 0x85 || (last >= 0x1c && last <= 0x1e) || last == 0x2028 ||
                       last == 0x2029;
    const size_t count = lines.list->count + empty;
    for (size_t i = 0; i < count; i++) {
        const jinja_string *line = i < lines.list->count ? lines.list->item[i].string : NULL;
        if (i) TRY(jinja_append_text(s, &b, "\n", e));
        if (i ? blank || (line && line->bytes) : first) TRY(jinja_append_string(s, &b, indent, e));
        if (line) TRY(jinja_append_string(s, &b, line, e));
    }
    TRY(jinja_build(s, &b, p->markup, out, e));
done:
    return result;
}

static status separators_of(const jinja_value *given, jinja_json_format *f, err *e)
{
    status result = OK;
    if (!given || given->kind == KIND_NONE) goto done;
    const bool list = given->kind == KIND_TUPLE || given->kind == KIND_LIST;
    if (!list || given->list->count != 2 || given->list->item[0].kind != KIND_STRING ||
        given->list->item[1].kind != KIND_STRING)
        FAIL(E_USAGE, "tojson: separators are not two strings");
    f->item = given->list->item[0].string;
    f->pair = given->list->item[1].string;
done:
    return result;
}

FILTER(tojson)
{
    status result = OK;
    jinja_builder b = {0};
    jinja_json_format f = {.ascii = jinja_arg_bool(c, 0, false),
                           .sorted = jinja_arg_bool(c, 3, false)};
    if (c->arg[1] && c->arg[1]->kind != KIND_NONE) TRY(indent_of(s, c->arg[1], 0, &f.indent, e));
    TRY(separators_of(c->arg[2], &f, e));
    TRY(jinja_print_json(s, &b, &f, c->self, e));
    TRY(jinja_build(s, &b, false, out, e));
done:
    return result;
}

FILTER(format)
{
    status result = OK;
    const jinja_string *p = NULL;
    jinja_value values, key;
    if (c->count && c->keys) FAIL(E_USAGE, "format takes values by position or by name, not both");
    TRY(jinja_to_string(s, c->self, &p, e));
    if (c->keys) {
        TRY(jinja_new_dict(s, KIND_DICT, 0, &values, e));
        for (size_t i = 0; i < c->keys; i++) {
            TRY(jinja_string_of(s, c->key[i], &key, e));
            TRY(jinja_put(s, values.dict, key, c->keyed[i], e));
        }
    } else {
        TRY(jinja_new_list(s, KIND_TUPLE, 0, &values, e));
        for (size_t i = 0; i < c->count; i++) TRY(jinja_push(s, values.list, c->item[i], e));
    }
    TRY(jinja_format_percent(s, p, values, out, e));
done:
    return result;
}

const jinja_row JINJA_TEXT_FILTERS[] = {
    {"upper", "", filter_upper},
    {"lower", "", filter_lower},
    {"capitalize", "", filter_capitalize},
    {"title", "", filter_title},
    {"trim", "chars", filter_trim},
    {"replace", "old new count", filter_replace},
    {"string", "", filter_string},
    {"safe", "", filter_safe},
    {"escape", "", filter_escape},
    {"e", "", filter_escape},
    {"forceescape", "", filter_forceescape},
    {"center", "width", filter_center},
    {"wordcount", "", filter_wordcount},
    {"indent", "width first blank", filter_indent},
    {"tojson", "ensure_ascii indent separators sort_keys", filter_tojson},
    {"format", "*", filter_format},
    {0}};
