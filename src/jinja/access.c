// access.c -- reads parts of values: attributes, items, slices, and the items that a loop walks over. As in Jinja, what is
// missing is undefined, and a part of something undefined is an error.
#include "jinja/render.h"
#include "jinja/unicode.h"

#include <string.h>

static status refuse_undefined(jinja_value v, err *e)
{
    return err_set(e, E_USAGE, "'%.*s' is undefined", TEXT_CUT(v.name ? v.name : "value", 100));
}

// ---- Attributes

static status bind_method(jinja_state *s, jinja_value v, const jinja_row *row, jinja_value *out,
                          err *e)
{
    status result = OK;
    jinja_method *m = NULL;
    TRY(jinja_take(&s->memory, &m, sizeof *m, e));
    *m = (jinja_method){.row = row, .self = v};
    *out = (jinja_value){.kind = KIND_METHOD, .method = m};
done:
    return result;
}

status jinja_attribute(jinja_state *s, jinja_value v, const char *name, jinja_value *out, err *e)
{
    status result = OK;
    const jinja_value *item = NULL;
    if (v.kind == KIND_UNDEFINED) TRY(refuse_undefined(v, e));
    if (v.kind == KIND_LOOP) return jinja_loop_attribute(s, v, name, out, e);
    const jinja_row *row = jinja_find_method(v, name);
    if (row) return bind_method(s, v, row, out, e);
    if (v.kind == KIND_DICT || v.kind == KIND_NAMESPACE)
        item = jinja_get(v.dict, name, strlen(name));
    *out = item ? *item : jinja_undefined(name);
done:
    return result;
}

// ---- Items

static status char_of(jinja_state *s, const jinja_string *p, int64_t i, jinja_value *out, err *e)
{
    const size_t from = jinja_byte_of(p, (size_t)i), to = jinja_byte_of(p, (size_t)i + 1);
    return jinja_part(s, p, from, to, out, e);
}

// A copy of a string as a name, for undefined values and methods.
static status name_of(jinja_state *s, jinja_value key, const char **out, err *e)
{
    status result = OK;
    char *name = NULL;
    TRY(jinja_take_copy(&s->memory, key.string->chars, key.string->bytes, &name, e));
    *out = name;
done:
    return result;
}

static bool has_length(jinja_value v)
{
    return jinja_is_list(v) && v.kind != KIND_VIEW && v.kind != KIND_ITERATOR;
}

status jinja_item(jinja_state *s, jinja_value v, jinja_value key, jinja_value *out, err *e)
{
    status result = OK;
    const char *name = "item";
    const bool is_text = v.kind == KIND_STRING;
    *out = jinja_undefined(name);
    if (v.kind == KIND_UNDEFINED) TRY(refuse_undefined(v, e));
    if (v.kind == KIND_DICT) {
        int64_t number = -1;
        TRY(jinja_find_key(s, v.dict, key, &number, e));
        if (number >= 0) {
            *out = v.dict->item[number];
            goto done;
        }
    } else if ((is_text || has_length(v)) && (key.kind == KIND_INT || key.kind == KIND_BOOL)) {
        const int64_t count = (int64_t)(is_text ? v.string->points : v.list->count);
        int64_t i = jinja_whole(key);
        if (i < 0) i += count;
        if (i < 0 || i >= count) goto done;
        if (!is_text) *out = v.list->item[i];
        if (is_text) TRY(char_of(s, v.string, i, out, e));
        goto done;
    }
    if (key.kind != KIND_STRING) goto done;
    TRY(name_of(s, key, &name, e));
    TRY(jinja_attribute(s, v, name, out, e));
done:
    return result;
}

// ---- Slices

// The bound of a slice as Python clips it.
static int64_t clip(jinja_value bound, int64_t usual, int64_t count, int64_t least, int64_t most)
{
    if (bound.kind == KIND_NONE) return usual;
    int64_t i = jinja_whole(bound);
    if (i < 0) i += count;
    return i < least ? least : i > most ? most : i;
}

static status slice_string(jinja_state *s, const jinja_string *p, int64_t from, int64_t to,
                           int64_t step, jinja_value *out, err *e)
{
    status result = OK;
    jinja_builder b = {0};
    if (step == 1) {
        TRY(jinja_part(s, p, jinja_byte_of(p, (size_t)from),
                       jinja_byte_of(p, (size_t)(to > from ? to : from)), out, e));
        goto done;
    }
    TRY(jinja_spend(s, p->points, e));
    size_t *offset = NULL; // of each character
    TRY(jinja_take(&s->memory, &offset, (p->points + 1) * sizeof *offset, e));
    for (size_t i = 0, n = 0; i < p->bytes; i++)
        if (((unsigned char)p->chars[i] & 0xc0) != 0x80) offset[n++] = i;
    offset[p->points] = p->bytes;
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
        TRY(jinja_append(s, &b, p->chars + offset[i], offset[i + 1] - offset[i],
                         jinja_origin(p, offset[i]), e));
    TRY(jinja_build(s, &b, p->markup, out, e));
done:
    return result;
}

static status slice_list(jinja_state *s, jinja_value v, int64_t from, int64_t to, int64_t step,
                         jinja_value *out, err *e)
{
    status result = OK;
    const jinja_kind kind = v.kind == KIND_TUPLE ? KIND_TUPLE : KIND_LIST;
    TRY(jinja_new_list(s, kind, 0, out, e));
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
        TRY(jinja_push(s, out->list, v.list->item[i], e));
done:
    return result;
}

status jinja_slice(jinja_state *s, jinja_value v, const jinja_value bound[3], jinja_value *out,
                   err *e)
{
    status result = OK;
    const bool is_text = v.kind == KIND_STRING;
    if (v.kind == KIND_UNDEFINED) TRY(refuse_undefined(v, e));
    *out = jinja_undefined("slice");
    if (!is_text && !has_length(v)) goto done;
    for (int i = 0; i < 3; i++)
        if (bound[i].kind != KIND_NONE && bound[i].kind != KIND_INT && bound[i].kind != KIND_BOOL)
            goto done;
    const int64_t count = (int64_t)(is_text ? v.string->points : v.list->count);
    int64_t step = bound[2].kind == KIND_NONE ? 1 : jinja_whole(bound[2]);
    if (step == 0) FAIL(E_USAGE, "the step of a slice is 0");
    if (step > count) step = count + 1;
    if (step < -count) step = -count - 1;
    const int64_t least = step > 0 ? 0 : -1, most = step > 0 ? count : count - 1;
    const int64_t from = clip(bound[0], step > 0 ? 0 : count - 1, count, least, most);
    const int64_t to = clip(bound[1], step > 0 ? count : -1, count, least, most);
    if (is_text)
        TRY(slice_string(s, v.string, from, to, step, out, e));
    else
        TRY(slice_list(s, v, from, to, step, out, e));
done:
    return result;
}

// ---- Items to walk over

static status chars_of(jinja_state *s, const jinja_string *p, const jinja_list **out, err *e)
{
    status result = OK;
    jinja_value list, c;
    TRY(jinja_new_list(s, KIND_LIST, p->points, &list, e));
    for (size_t i = 0, n; i < p->bytes; i += n) {
        uint32_t point;
        n = jinja_decode(p->chars + i, p->bytes - i, &point);
        TRY(jinja_spend(s, 1 + p->runs / 8, e));
        TRY(jinja_part(s, p, i, i + n, &c, e));
        TRY(jinja_push(s, list.list, c, e));
    }
    *out = list.list;
done:
    return result;
}

status jinja_items(jinja_state *s, jinja_value v, const jinja_list **out, err *e)
{
    status result = OK;
    jinja_value rest;
    if (v.kind == KIND_STRING) {
        TRY(chars_of(s, v.string, out, e));
    } else if (v.kind == KIND_ITERATOR) {
        TRY(jinja_new_list(s, KIND_LIST, 0, &rest, e));
        for (; v.list->taken < v.list->count; v.list->taken++)
            TRY(jinja_push(s, rest.list, v.list->item[v.list->taken], e));
        *out = rest.list;
    } else if (jinja_is_list(v)) {
        *out = v.list;
    } else if (v.kind == KIND_DICT || v.kind == KIND_UNDEFINED) {
        TRY(jinja_new_list(s, KIND_LIST, 0, &rest, e));
        for (size_t i = 0; v.kind == KIND_DICT && i < v.dict->count; i++)
            TRY(jinja_push(s, rest.list, v.dict->key[i], e));
        *out = rest.list;
    } else {
        FAIL(E_USAGE, "a %s has no items", jinja_type(v));
    }
done:
    return result;
}

// ---- Paths

status jinja_path(jinja_state *s, jinja_value v, jinja_value path, const jinja_value *missing,
                  jinja_value *out, err *e)
{
    status result = OK;
    if (path.kind != KIND_STRING) {
        TRY(jinja_item(s, v, path, &v, e));
        if (v.kind == KIND_UNDEFINED && missing) v = *missing;
        *out = v;
        goto done;
    }
    for (size_t from = 0; from <= path.string->bytes;) {
        const char *chars = path.string->chars + from;
        const char *dot = memchr(chars, '.', path.string->bytes - from);
        const size_t bytes = dot ? (size_t)(dot - chars) : path.string->bytes - from;
        jinja_value part;
        TRY(jinja_part(s, path.string, from, from + bytes, &part, e));
        int64_t number = 0;
        bool digits = bytes > 0;
        for (size_t i = 0; i < bytes; i++) digits &= chars[i] >= '0' && chars[i] <= '9';
        if (digits && jinja_read_int(part.string, 10, &number)) part = jinja_int(number);
        TRY(jinja_item(s, v, part, &v, e));
        if (v.kind == KIND_UNDEFINED && missing) v = *missing;
        from += bytes + 1;
    }
    *out = v;
done:
    return result;
}
