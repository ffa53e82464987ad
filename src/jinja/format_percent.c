// format_percent.c -- "text %s" % values, as Python formats: s, r, d, i, x, o, f, e, g, c and %%, with flags, a width and a
// precision, and %(name)s of a dict. The format filter calls it, too.
#include "jinja/builtins.h"
#include "jinja/strings.h"

#include <stdio.h>
#include <string.h>

typedef struct format_item {
    char flags[8];
    int64_t width, places; // places < 0: none
    char kind;
} format_item;

typedef struct format_reader {
    jinja_state *s;
    const jinja_string *p;
    size_t offset;
    jinja_value values;
    size_t taken;
} format_reader;

static status next_value(format_reader *r, jinja_value *out, err *e)
{
    status result = OK;
    const size_t count = r->values.kind == KIND_TUPLE ? r->values.list->count : 1;
    if (r->taken == count) FAIL(E_USAGE, "a format has more places than values");
    *out = r->values.kind == KIND_TUPLE ? r->values.list->item[r->taken] : r->values;
    r->taken++;
done:
    return result;
}

// The name in %(name)s, whose value it takes.
static status named_value(format_reader *r, jinja_value *out, err *e)
{
    status result = OK;
    const char *from = r->p->chars + r->offset + 1;
    const char *end = memchr(from, ')', r->p->bytes - r->offset - 1);
    if (!end) FAIL(E_USAGE, "a format has %%( without )");
    const size_t bytes = (size_t)(end - from);
    const jinja_value *v =
        r->values.kind == KIND_DICT ? jinja_get(r->values.dict, from, bytes) : NULL;
    if (!v) FAIL(E_USAGE, "a format has a name that its values lack");
    *out = *v;
    r->offset += bytes + 2;
done:
    return result;
}

static char peek(const format_reader *r)
{
    return r->offset < r->p->bytes ? r->p->chars[r->offset] : 0;
}

static int64_t read_digits(format_reader *r)
{
    int64_t n = 0;
    for (; peek(r) >= '0' && peek(r) <= '9' && n < 100000; r->offset++) n = 10 * n + peek(r) - '0';
    return n;
}

static status read_item(format_reader *r, format_item *x, err *e)
{
    status result = OK;
    size_t n = 0;
    *x = (format_item){.places = -1};
    while (peek(r) && strchr("#0- +", peek(r)) && n < sizeof x->flags - 1)
        x->flags[n++] = r->p->chars[r->offset++];
    x->width = read_digits(r);
    if (peek(r) == '.') {
        r->offset++;
        x->places = read_digits(r);
    }
    x->kind = peek(r);
    if (!x->kind || !strchr("srdiuxXofFeEgGc%", x->kind))
        FAIL(E_USAGE, "a format has '%%' without a kind that is known");
    if (x->width > 1000 || x->places > 100) FAIL(E_USAGE, "a format is too wide");
    r->offset++;
done:
    return result;
}

static status append_number(format_reader *r, jinja_builder *b, const format_item *x, jinja_value v,
                            err *e)
{
    status result = OK;
    char format[32], out[1600];
    if (!jinja_is_number(v)) FAIL(E_USAGE, "a format needs a number; found a %s", jinja_type(v));
    const bool whole = strchr("diuxXo", x->kind) != NULL;
    if (whole) {
        const int64_t n = v.kind == KIND_FLOAT ? (int64_t)v.real : jinja_whole(v);
        const bool minus = n < 0 && x->kind != 'd' && x->kind != 'i' && x->kind != 'u';
        if (minus) FAIL(E_USAGE, "a format of a negative number in base 8 or 16 is not supported");
        if (v.kind == KIND_FLOAT && !(v.real > -9e18 && v.real < 9e18))
            FAIL(E_USAGE, "a number is beyond 64 bits");
        snprintf(format, sizeof format, "%%%s*ll%c", x->flags, x->kind == 'u' ? 'd' : x->kind);
        snprintf(out, sizeof out, format, (int)x->width, (long long)n);
    } else {
        snprintf(format, sizeof format, "%%%s*.*%c", x->flags, x->kind);
        snprintf(out, sizeof out, format, (int)x->width, x->places < 0 ? 6 : (int)x->places,
                 jinja_real(v));
    }
    TRY(jinja_append_text(r->s, b, out, e));
done:
    return result;
}

static status append_item(format_reader *r, jinja_builder *b, const format_item *x, jinja_value v,
                          err *e)
{
    status result = OK;
    jinja_builder quoted = {0};
    const jinja_string *p = NULL;
    if (!strchr("src", x->kind)) return append_number(r, b, x, v, e);
    if (x->kind == 'r') {
        TRY(jinja_print_quoted(r->s, &quoted, v, e));
        TRY(jinja_build(r->s, &quoted, false, &v, e));
    }
    TRY(jinja_to_string(r->s, v, &p, e));
    if (x->places >= 0) {
        TRY(jinja_part(r->s, p, 0, jinja_byte_of(p, (size_t)x->places), &v, e));
        p = v.string;
    }
    TRY(jinja_pad(r->s, p, x->width, NULL, strchr(x->flags, '-') ? 0 : 2, &v, e));
    TRY(jinja_append_string(r->s, b, v.string, e));
done:
    return result;
}

status jinja_format_percent(jinja_state *s, const jinja_string *p, jinja_value values,
                            jinja_value *out, err *e)
{
    status result = OK;
    format_reader r = {.s = s, .p = p, .values = values};
    jinja_builder b = {0};
    while (r.offset < p->bytes) {
        const char *percent = memchr(p->chars + r.offset, '%', p->bytes - r.offset);
        const size_t end = percent ? (size_t)(percent - p->chars) : p->bytes;
        format_item x;
        jinja_value v;
        TRY(jinja_spend(s, 1, e));
        TRY(jinja_append_part(s, &b, p, r.offset, end, e));
        if (!percent) break;
        r.offset = end + 1;
        const bool named = peek(&r) == '(';
        if (named) TRY(named_value(&r, &v, e));
        TRY(read_item(&r, &x, e));
        if (x.kind == '%') {
            TRY(jinja_append_part(s, &b, p, end, end + 1, e));
            continue;
        }
        if (!named) TRY(next_value(&r, &v, e));
        TRY(append_item(&r, &b, &x, v, e));
    }
    if (values.kind == KIND_TUPLE && r.taken < values.list->count)
        FAIL(E_USAGE, "a format has fewer places than values");
    TRY(jinja_build(s, &b, p->markup, out, e));
done:
    return result;
}
