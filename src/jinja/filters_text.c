// filters_text.c -- filters that make strings: replacement, HTML, indents, JSON. methods.c has those that are methods, too.
#include "jinja/builtins.h"
#include "jinja/strings.h"

#define FILTER(name)                                                                               \
    static status filter_##name(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)

FILTER(replace)
{
    status result = OK;
    const jinja_string *p = NULL, *from = NULL, *to = NULL;
    jinja_string plain;
    int64_t most = -1;
    TRY(jinja_to_string(s, c->self, &p, e));
    TRY(jinja_to_string(s, *c->arg[0], &from, e));
    TRY(jinja_to_string(s, *c->arg[1], &to, e));
    TRY(jinja_arg_int(c, 2, &most, e));
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

FILTER(escape)
{
    status result = OK;
    const jinja_string *p = NULL;
    jinja_builder b = {0};
    TRY(jinja_to_string(s, c->self, &p, e));
    TRY(p->markup ? jinja_append_string(s, &b, p, e) : jinja_append_escaped(s, &b, p, e));
    TRY(jinja_build(s, &b, true, out, e));
done:
    return result;
}

// The indent of a number of spaces, or the string itself.
static status indent_of(jinja_state *s, const jinja_value *given, int64_t usual,
                        const jinja_string **out, err *e)
{
    status result = OK;
    jinja_value space, v;
    int64_t width = usual;
    if (given && given->kind == KIND_STRING) {
        *out = given->string;
        goto done;
    }
    if (given && given->kind != KIND_INT && given->kind != KIND_BOOL)
        FAIL(E_USAGE, "an indent is a %s; valid is a whole number or a string", jinja_type(*given));
    if (given) width = jinja_whole(*given);
    TRY(jinja_borrow(s, " ", 1, -1, &space, e));
    TRY(jinja_binary(s, '*', space, jinja_int(width), &v, e));
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
    const bool first = jinja_arg_bool(c, 1), blank = jinja_arg_bool(c, 2);
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
    jinja_json_format f = {.ascii = jinja_arg_bool(c, 0), .sorted = jinja_arg_bool(c, 3)};
    if (c->arg[1] && c->arg[1]->kind != KIND_NONE) TRY(indent_of(s, c->arg[1], 0, &f.indent, e));
    TRY(separators_of(c->arg[2], &f, e));
    TRY(jinja_print_json(s, &b, &f, c->self, e));
    TRY(jinja_build(s, &b, false, out, e));
done:
    return result;
}

const jinja_row JINJA_TEXT_FILTERS[] = {
    {"upper", "", jinja_run_recase, RECASE_UPPER},
    {"lower", "", jinja_run_recase, RECASE_LOWER},
    {"capitalize", "", jinja_run_recase, RECASE_CAPITALIZE},
    {"title", "", jinja_run_recase, RECASE_TITLE_FILTER},
    {"trim", "chars", jinja_run_strip, STRIP_LEFT | STRIP_RIGHT},
    {"replace", "old! new! count", filter_replace, 0},
    {"string", "", filter_string, 0},
    {"safe", "", filter_safe, 0},
    {"escape", "", filter_escape, 0},
    {"e", "", filter_escape, 0},
    {"indent", "width first blank", filter_indent, 0},
    {"tojson", "ensure_ascii indent separators sort_keys", filter_tojson, 0},
    {0}};
