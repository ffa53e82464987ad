// print_json.c -- json.dumps(), as the filter tojson has it. The origin of each byte of a string stays with it.
#include "jinja/builder.h"

#include "jinja/state.h"
#include "jinja/unicode.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct json_writer {
    jinja_state *s;
    jinja_builder *b;
    const jinja_json_format *f;
    int level; // of nesting
} json_writer;

static status write_value(json_writer *w, jinja_value v, err *e);

static status write_char(json_writer *w, const jinja_string *p, size_t i, uint32_t c, err *e)
{
    static const char SHORT[] = "\"\\\n\r\t\f\b", MEANING[] = "\"\\nrtfb";
    char out[16];
    const char *known = c && c < 0x80 ? strchr(SHORT, (int)c) : NULL;
    if (known)
        snprintf(out, sizeof out, "\\%c", MEANING[known - SHORT]);
    else if (c < 0x10000)
        snprintf(out, sizeof out, "\\u%04x", c);
    else
        snprintf(out, sizeof out, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                 0xdc00 + ((c - 0x10000) & 0x3ff));
    return jinja_append(w->s, w->b, out, strlen(out), jinja_origin(p, i), e);
}

static status write_string(json_writer *w, const jinja_string *p, err *e)
{
    status result = OK;
    size_t from = 0;
    TRY(jinja_spend(w->s, p->bytes / 16, e));
    TRY(jinja_append_text(w->s, w->b, "\"", e));
    for (size_t i = 0, n; i < p->bytes; i += n) {
        uint32_t c;
        n = jinja_decode(p->chars + i, p->bytes - i, &c);
        const bool plain = c >= ' ' && c != '"' && c != '\\' && (c < 0x7f || !w->f->ascii);
        if (plain) continue;
        TRY(jinja_append_part(w->s, w->b, p, from, i, e));
        TRY(write_char(w, p, i, c, e));
        from = i + n;
    }
    TRY(jinja_append_part(w->s, w->b, p, from, p->bytes, e));
    TRY(jinja_append_text(w->s, w->b, "\"", e));
done:
    return result;
}

static status write_number(json_writer *w, jinja_value v, err *e)
{
    char out[32];
    if (v.kind == KIND_INT)
        snprintf(out, sizeof out, "%" PRId64, v.whole);
    else if (isfinite(v.real))
        jinja_write_float(v.real, out);
    else
        snprintf(out, sizeof out, "%s",
                 isnan(v.real) ? "NaN"
                 : v.real < 0  ? "-Infinity"
                               : "Infinity");
    return jinja_append_text(w->s, w->b, out, e);
}

// A newline and the indent of this level, where there is one.
static status write_indent(json_writer *w, err *e)
{
    status result = OK;
    if (!w->f->indent) goto done;
    TRY(jinja_append_text(w->s, w->b, "\n", e));
    for (int i = 0; i < w->level; i++) TRY(jinja_append_string(w->s, w->b, w->f->indent, e));
done:
    return result;
}

static status write_comma(json_writer *w, err *e)
{
    if (w->f->item) return jinja_append_string(w->s, w->b, w->f->item, e);
    return jinja_append_text(w->s, w->b, w->f->indent ? "," : ", ", e);
}

static status write_list(json_writer *w, const jinja_list *l, err *e)
{
    status result = OK;
    TRY(jinja_append_text(w->s, w->b, "[", e));
    w->level++;
    for (size_t i = 0; i < l->count; i++) {
        if (i) TRY(write_comma(w, e));
        TRY(write_indent(w, e));
        TRY(write_value(w, l->item[i], e));
    }
    w->level--;
    if (l->count) TRY(write_indent(w, e));
    TRY(jinja_append_text(w->s, w->b, "]", e));
done:
    return result;
}

static status write_key(json_writer *w, jinja_value key, err *e)
{
    status result = OK;
    if (key.kind == KIND_STRING) {
        TRY(write_string(w, key.string, e));
    } else if (key.kind == KIND_NONE || jinja_is_number(key)) {
        TRY(jinja_append_text(w->s, w->b, "\"", e));
        TRY(write_value(w, key, e));
        TRY(jinja_append_text(w->s, w->b, "\"", e));
    } else {
        FAIL(E_USAGE, "tojson: a %s cannot be a key in JSON", jinja_type(key));
    }
    if (w->f->pair)
        TRY(jinja_append_string(w->s, w->b, w->f->pair, e));
    else
        TRY(jinja_append_text(w->s, w->b, ": ", e));
done:
    return result;
}

// Sorts the numbers of a dict's items by key.
static status sort_keys(json_writer *w, const jinja_dict *d, size_t *order, err *e)
{
    status result = OK;
    for (size_t i = 0; i < d->count; i++) {
        size_t k = i;
        TRY(jinja_spend(w->s, 1, e));
        for (; k > 0; k--) {
            bool less = false;
            TRY(jinja_less(w->s, d->key[i], d->key[order[k - 1]], &less, e));
            if (!less) break;
            order[k] = order[k - 1];
        }
        order[k] = i;
    }
done:
    return result;
}

static status write_dict(json_writer *w, const jinja_dict *d, err *e)
{
    status result = OK;
    size_t *order = NULL;
    TRY(jinja_take(&w->s->memory, &order, (d->count + 1) * sizeof *order, e));
    for (size_t i = 0; i < d->count; i++) order[i] = i;
    if (w->f->sorted) TRY(sort_keys(w, d, order, e));
    TRY(jinja_append_text(w->s, w->b, "{", e));
    w->level++;
    for (size_t i = 0; i < d->count; i++) {
        if (i) TRY(write_comma(w, e));
        TRY(write_indent(w, e));
        TRY(write_key(w, d->key[order[i]], e));
        TRY(write_value(w, d->item[order[i]], e));
    }
    w->level--;
    if (d->count) TRY(write_indent(w, e));
    TRY(jinja_append_text(w->s, w->b, "}", e));
done:
    return result;
}

static status write_value(json_writer *w, jinja_value v, err *e)
{
    status result = OK;
    TRY(jinja_enter(w->s, e));
    switch (v.kind) {
    case KIND_NONE:
        TRY(jinja_append_text(w->s, w->b, "null", e));
        break;
    case KIND_BOOL:
        TRY(jinja_append_text(w->s, w->b, v.truth ? "true" : "false", e));
        break;
    case KIND_INT:
    case KIND_FLOAT:
        TRY(write_number(w, v, e));
        break;
    case KIND_STRING:
        TRY(write_string(w, v.string, e));
        break;
    case KIND_LIST:
    case KIND_TUPLE:
        TRY(write_list(w, v.list, e));
        break;
    case KIND_DICT:
        TRY(write_dict(w, v.dict, e));
        break;
    default:
        FAIL(E_USAGE, "tojson: a %s cannot be written as JSON", jinja_type(v));
    }
done:
    w->s->depth--;
    return result;
}

status jinja_print_json(jinja_state *s, jinja_builder *b, const jinja_json_format *f, jinja_value v,
                        err *e)
{
    json_writer w = {.s = s, .b = b, .f = f};
    return write_value(&w, v, e);
}
