// print.c -- str() and repr() of values, as Python writes them. The origin of each byte of a string stays with it.
#include "jinja/builder.h"

#include "jinja/state.h"
#include "jinja/unicode.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void jinja_write_float(double x, char out[32])
{
    char digits[26];
    if (!isfinite(x)) {
        snprintf(out, 32, "%s", isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
        return;
    }
    for (int n = 0; n < 17; n++) {
        snprintf(digits, sizeof digits, "%.*e", n, x);
        if (strtod(digits, NULL) == x) break;
    }
    char *e = strchr(digits, 'e');
    const int exponent = atoi(e + 1);
    const int places = (int)(e - digits) - (digits[0] == '-') - 1 - (strchr(digits, '.') != NULL);
    if (exponent >= -4 && exponent < 16) {
        const int behind = places > exponent ? places - exponent : 1;
        snprintf(out, 32, "%.*f", behind, x);
        return;
    }
    *e = 0;
    snprintf(out, 32, "%se%c%02u", digits, exponent < 0 ? '-' : '+',
             (unsigned)abs(exponent) % 1000);
}

static status quote_char(jinja_state *s, jinja_builder *b, const jinja_string *p, size_t i,
                         size_t bytes, uint32_t c, char quote, err *e)
{
    char out[16];
    const char *known = c && c < 0x80 ? strchr("\nn\rr\tt", (int)c) : NULL;
    if (c == (unsigned char)quote || c == '\\')
        snprintf(out, sizeof out, "\\%c", (char)c);
    else if (known && (c == '\n' || c == '\r' || c == '\t'))
        snprintf(out, sizeof out, "\\%c", known[1]);
    else if (jinja_is_printable(c))
        return jinja_append_part(s, b, p, i, i + bytes, e);
    else if (c < 0x100)
        snprintf(out, sizeof out, "\\x%02x", c);
    else
        snprintf(out, sizeof out, c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
    return jinja_append(s, b, out, strlen(out), jinja_origin(p, i), e);
}

static status print_quoted_string(jinja_state *s, jinja_builder *b, const jinja_string *p, err *e)
{
    status result = OK;
    const bool has_single = memchr(p->chars, '\'', p->bytes) != NULL;
    const char quote = has_single && !memchr(p->chars, '"', p->bytes) ? '"' : '\'';
    TRY(jinja_spend(s, p->bytes / 16, e));
    TRY(jinja_append(s, b, &quote, 1, JINJA_OWN, e));
    size_t from = 0;
    for (size_t i = 0, n; i < p->bytes; i += n) {
        uint32_t c;
        n = jinja_decode(p->chars + i, p->bytes - i, &c);
        if (c >= ' ' && c < 0x7f && c != '\\' && c != (unsigned char)quote) continue;
        TRY(jinja_append_part(s, b, p, from, i, e));
        TRY(quote_char(s, b, p, i, n, c, quote, e));
        from = i + n;
    }
    TRY(jinja_append_part(s, b, p, from, p->bytes, e));
    TRY(jinja_append(s, b, &quote, 1, JINJA_OWN, e));
done:
    return result;
}

static status print_list(jinja_state *s, jinja_builder *b, jinja_value v, err *e)
{
    status result = OK;
    const bool tuple = v.kind == KIND_TUPLE;
    const char *tag = v.list->tag ? v.list->tag : "";
    if (v.kind == KIND_ITERATOR) FAIL(E_USAGE, "a generator cannot be printed; |list makes a list");
    if (v.kind == KIND_RANGE) {
        TRY(jinja_append_text(s, b, tag, e));
        goto done;
    }
    TRY(jinja_append_text(s, b, tag, e));
    TRY(jinja_append_text(s, b, *tag ? "([" : tuple ? "(" : "[", e));
    for (size_t i = 0; i < v.list->count; i++) {
        if (i) TRY(jinja_append_text(s, b, ", ", e));
        TRY(jinja_print_quoted(s, b, v.list->item[i], e));
    }
    if (tuple && v.list->count == 1) TRY(jinja_append_text(s, b, ",", e));
    TRY(jinja_append_text(s, b, *tag ? "])" : tuple ? ")" : "]", e));
done:
    return result;
}

static status print_dict(jinja_state *s, jinja_builder *b, jinja_value v, err *e)
{
    status result = OK;
    const bool is_namespace = v.kind == KIND_NAMESPACE;
    TRY(jinja_append_text(s, b, is_namespace ? "<Namespace {" : "{", e));
    for (size_t i = 0; i < v.dict->count; i++) {
        if (i) TRY(jinja_append_text(s, b, ", ", e));
        TRY(jinja_print_quoted(s, b, v.dict->key[i], e));
        TRY(jinja_append_text(s, b, ": ", e));
        TRY(jinja_print_quoted(s, b, v.dict->item[i], e));
    }
    TRY(jinja_append_text(s, b, is_namespace ? "}>" : "}", e));
done:
    return result;
}

static status print_number(jinja_state *s, jinja_builder *b, jinja_value v, err *e)
{
    char out[32];
    if (v.kind == KIND_INT)
        snprintf(out, sizeof out, "%" PRId64, v.whole);
    else
        jinja_write_float(v.real, out);
    return jinja_append_text(s, b, out, e);
}

status jinja_print_quoted(jinja_state *s, jinja_builder *b, jinja_value v, err *e)
{
    status result = OK;
    TRY(jinja_enter(s, e));
    switch (v.kind) {
    case KIND_UNDEFINED:
        TRY(jinja_append_text(s, b, "Undefined", e));
        break;
    case KIND_NONE:
        TRY(jinja_append_text(s, b, "None", e));
        break;
    case KIND_BOOL:
        TRY(jinja_append_text(s, b, v.truth ? "True" : "False", e));
        break;
    case KIND_INT:
    case KIND_FLOAT:
        TRY(print_number(s, b, v, e));
        break;
    case KIND_STRING:
        TRY(print_quoted_string(s, b, v.string, e));
        break;
    case KIND_DICT:
    case KIND_NAMESPACE:
        TRY(print_dict(s, b, v, e));
        break;
    default:
        if (jinja_is_list(v)) {
            TRY(print_list(s, b, v, e));
        } else {
            TRY(jinja_append_text(s, b, "<", e));
            TRY(jinja_append_text(s, b, jinja_type(v), e));
            TRY(jinja_append_text(s, b, ">", e));
        }
    }
done:
    s->depth--;
    return result;
}

status jinja_print(jinja_state *s, jinja_builder *b, jinja_value v, err *e)
{
    if (v.kind == KIND_STRING) return jinja_append_string(s, b, v.string, e);
    if (v.kind == KIND_UNDEFINED) return OK;
    return jinja_print_quoted(s, b, v, e);
}

status jinja_to_string(jinja_state *s, jinja_value v, const jinja_string **out, err *e)
{
    status result = OK;
    jinja_builder b = {0};
    jinja_value printed = v;
    if (v.kind != KIND_STRING) {
        TRY(jinja_print(s, &b, v, e));
        TRY(jinja_build(s, &b, false, &printed, e));
    }
    *out = printed.string;
done:
    return result;
}
