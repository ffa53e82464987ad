// value.c -- see value.h: truth, equality and order as Python has them, lists and dicts.
#include "jinja/value.h"

#include "jinja/state.h"

#include <math.h>
#include <string.h>

const char *jinja_type(jinja_value v)
{
    static const char *const NAMES[] = {
        "undefined", "NoneType", "bool",           "int",       "float", "str",       "list",
        "tuple",     "range",    "view of a dict", "generator", "dict",  "namespace", "macro",
        "function",  "method",   "loop",           "joiner"};
    return NAMES[v.kind];
}

bool jinja_is_list(jinja_value v)
{
    return v.kind >= KIND_LIST && v.kind <= KIND_ITERATOR;
}

bool jinja_is_number(jinja_value v)
{
    return v.kind == KIND_BOOL || v.kind == KIND_INT || v.kind == KIND_FLOAT;
}

double jinja_real(jinja_value v)
{
    return v.kind == KIND_FLOAT ? v.real : v.kind == KIND_INT ? (double)v.whole : (double)v.truth;
}

int64_t jinja_whole(jinja_value v)
{
    return v.kind == KIND_INT ? v.whole : v.truth;
}

bool jinja_truth(jinja_value v)
{
    switch (v.kind) {
    case KIND_UNDEFINED:
    case KIND_NONE:
        return false;
    case KIND_BOOL:
        return v.truth;
    case KIND_INT:
        return v.whole != 0;
    case KIND_FLOAT:
        return v.real != 0;
    case KIND_STRING:
        return v.string->bytes > 0;
    case KIND_LIST:
    case KIND_TUPLE:
    case KIND_RANGE:
    case KIND_VIEW:
        return v.list->count > 0;
    case KIND_DICT:
        return v.dict->count > 0;
    default:
        return true;
    }
}

// ---- Lists and dicts

status jinja_new_list(jinja_state *s, jinja_kind kind, size_t room, jinja_value *out, err *e)
{
    status result = OK;
    jinja_list *l = NULL;
    TRY(jinja_take(&s->memory, &l, sizeof *l, e));
    if (room) TRY(jinja_take(&s->memory, &l->item, room * sizeof *l->item, e));
    l->room = room;
    *out = (jinja_value){.kind = kind, .list = l};
done:
    return result;
}

status jinja_push(jinja_state *s, jinja_list *l, jinja_value v, err *e)
{
    status result = OK;
    if (l->count == l->room) {
        jinja_value *more = NULL;
        const size_t room = l->room ? 2 * l->room : 8;
        TRY(jinja_spend(s, l->count / 8, e));
        TRY(jinja_take(&s->memory, &more, room * sizeof *more, e));
        if (l->count) memcpy(more, l->item, l->count * sizeof *more);
        l->item = more;
        l->room = room;
    }
    l->item[l->count++] = v;
done:
    return result;
}

void jinja_reverse(jinja_list *l)
{
    for (size_t i = 0; i + 1 < l->count - i; i++) {
        const jinja_value v = l->item[i];
        l->item[i] = l->item[l->count - 1 - i];
        l->item[l->count - 1 - i] = v;
    }
}

static status widen(jinja_state *s, jinja_dict *d, size_t room, err *e)
{
    status result = OK;
    jinja_value *both = NULL;
    if (room <= d->room) goto done;
    TRY(jinja_take(&s->memory, &both, 2 * room * sizeof *both, e));
    if (d->count) {
        memcpy(both, d->key, d->count * sizeof *both);
        memcpy(both + room, d->item, d->count * sizeof *both);
    }
    d->key = both;
    d->item = both + room;
    d->room = room;
done:
    return result;
}

status jinja_new_dict(jinja_state *s, jinja_kind kind, size_t room, jinja_value *out, err *e)
{
    status result = OK;
    jinja_dict *d = NULL;
    TRY(jinja_take(&s->memory, &d, sizeof *d, e));
    TRY(widen(s, d, room, e));
    *out = (jinja_value){.kind = kind, .dict = d};
done:
    return result;
}

static bool can_be_key(jinja_value v)
{
    return v.kind != KIND_LIST && v.kind != KIND_DICT;
}

status jinja_find_key(jinja_state *s, const jinja_dict *d, jinja_value key, int64_t *out, err *e)
{
    status result = OK;
    *out = -1;
    TRY(jinja_spend(s, d->count / 16, e));
    if (key.kind == KIND_STRING) {
        const jinja_value *item = jinja_get(d, key.string->chars, key.string->bytes);
        if (item) *out = item - d->item;
        goto done;
    }
    for (size_t i = 0; i < d->count && *out < 0; i++) {
        bool equal = false;
        TRY(jinja_equal(s, d->key[i], key, &equal, e));
        if (equal) *out = (int64_t)i;
    }
done:
    return result;
}

const jinja_value *jinja_get(const jinja_dict *d, const char *key, size_t bytes)
{
    for (size_t i = 0; i < d->count; i++) {
        const jinja_string *k = d->key[i].string;
        if (d->key[i].kind == KIND_STRING && k->bytes == bytes && memcmp(k->chars, key, bytes) == 0)
            return &d->item[i];
    }
    return NULL;
}

status jinja_put_new(jinja_state *s, jinja_dict *d, jinja_value key, jinja_value v, err *e)
{
    status result = OK;
    if (d->count == d->room) TRY(widen(s, d, d->room ? 2 * d->room : 4, e));
    d->key[d->count] = key;
    d->item[d->count++] = v;
done:
    return result;
}

status jinja_put(jinja_state *s, jinja_dict *d, jinja_value key, jinja_value v, err *e)
{
    status result = OK;
    int64_t number = -1;
    if (!can_be_key(key)) FAIL(E_USAGE, "a %s cannot be a key of a dict", jinja_type(key));
    TRY(jinja_find_key(s, d, key, &number, e));
    if (number >= 0)
        d->item[number] = v;
    else
        TRY(jinja_put_new(s, d, key, v, e));
done:
    return result;
}

// ---- Equality and order

static status equal_lists(jinja_state *s, const jinja_list *a, const jinja_list *b, bool *out,
                          err *e)
{
    status result = OK;
    *out = a->count == b->count;
    for (size_t i = 0; i < a->count && *out; i++)
        TRY(jinja_equal(s, a->item[i], b->item[i], out, e));
done:
    return result;
}

static status equal_dicts(jinja_state *s, const jinja_dict *a, const jinja_dict *b, bool *out,
                          err *e)
{
    status result = OK;
    *out = a->count == b->count;
    for (size_t i = 0; i < a->count && *out; i++) {
        int64_t other = -1;
        TRY(jinja_find_key(s, b, a->key[i], &other, e));
        *out = other >= 0;
        if (*out) TRY(jinja_equal(s, a->item[i], b->item[other], out, e));
    }
done:
    return result;
}

static bool equal_numbers(jinja_value a, jinja_value b)
{
    if (a.kind == KIND_FLOAT || b.kind == KIND_FLOAT) return jinja_real(a) == jinja_real(b);
    return jinja_whole(a) == jinja_whole(b);
}

status jinja_equal(jinja_state *s, jinja_value a, jinja_value b, bool *out, err *e)
{
    status result = OK;
    TRY(jinja_enter(s, e));
    *out = false;
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *out = equal_numbers(a, b);
    } else if (a.kind != b.kind) {
        *out = false;
    } else if (a.kind == KIND_STRING) {
        TRY(jinja_spend(s, a.string->bytes / 64, e));
        *out = a.string->bytes == b.string->bytes &&
               memcmp(a.string->chars, b.string->chars, a.string->bytes) == 0;
    } else if (a.kind == KIND_LIST || a.kind == KIND_TUPLE || a.kind == KIND_RANGE) {
        TRY(equal_lists(s, a.list, b.list, out, e));
    } else if (a.kind == KIND_DICT) {
        TRY(equal_dicts(s, a.dict, b.dict, out, e));
    } else {
        *out = a.kind == KIND_UNDEFINED || a.kind == KIND_NONE || a.dict == b.dict;
    }
done:
    s->depth--;
    return result;
}

static status less_lists(jinja_state *s, const jinja_list *a, const jinja_list *b, bool *out,
                         err *e)
{
    status result = OK;
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        bool equal = false;
        TRY(jinja_equal(s, a->item[i], b->item[i], &equal, e));
        if (equal) continue;
        TRY(jinja_less(s, a->item[i], b->item[i], out, e));
        goto done;
    }
    *out = a->count < b->count;
done:
    return result;
}

status jinja_less(jinja_state *s, jinja_value a, jinja_value b, bool *out, err *e)
{
    status result = OK;
    TRY(jinja_enter(s, e));
    if (a.kind == KIND_FLOAT || b.kind == KIND_FLOAT) {
        if (!jinja_is_number(a) || !jinja_is_number(b)) goto refuse;
        *out = jinja_real(a) < jinja_real(b);
    } else if (jinja_is_number(a) && jinja_is_number(b)) {
        *out = jinja_whole(a) < jinja_whole(b);
    } else if (a.kind != b.kind) {
        goto refuse;
    } else if (a.kind == KIND_STRING) {
        const size_t least = a.string->bytes < b.string->bytes ? a.string->bytes : b.string->bytes;
        const int order = memcmp(a.string->chars, b.string->chars, least);
        TRY(jinja_spend(s, least / 64, e));
        *out = order ? order < 0 : a.string->bytes < b.string->bytes;
    } else if (a.kind == KIND_LIST || a.kind == KIND_TUPLE) {
        TRY(less_lists(s, a.list, b.list, out, e));
    } else {
        goto refuse;
    }
    goto done;
refuse:
    result = err_set(e, E_USAGE, "a %s and a %s have no order", jinja_type(a), jinja_type(b));
done:
    s->depth--;
    return result;
}

// ---- JSON

static status from_array(jinja_state *s, const json_t *j, int32_t *string, jinja_value *out, err *e)
{
    status result = OK;
    const size_t count = json_array_size(j);
    TRY(jinja_new_list(s, KIND_LIST, count, out, e));
    for (size_t i = 0; i < count; i++) {
        jinja_value v;
        TRY(jinja_from_json(s, json_array_get(j, i), string, &v, e));
        TRY(jinja_push(s, out->list, v, e));
    }
done:
    return result;
}

static status from_object(jinja_state *s, const json_t *j, int32_t *string, jinja_value *out,
                          err *e)
{
    status result = OK;
    TRY(jinja_new_dict(s, KIND_DICT, json_object_size(j), out, e));
    json_t *object = (json_t *)(uintptr_t)j; // jansson's walk takes no const
    for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
        const char *key = json_object_iter_key(i);
        jinja_value k, v;
        TRY(jinja_borrow(s, key, strlen(key), (*string)++, &k, e));
        TRY(jinja_from_json(s, json_object_iter_value(i), string, &v, e));
        TRY(jinja_put_new(s, out->dict, k, v, e));
    }
done:
    return result;
}

status jinja_from_json(jinja_state *s, const json_t *j, int32_t *string, jinja_value *out, err *e)
{
    status result = OK;
    TRY(jinja_enter(s, e));
    switch (json_typeof(j)) {
    case JSON_STRING:
        TRY(jinja_borrow(s, json_string_value(j), json_string_length(j), (*string)++, out, e));
        break;
    case JSON_ARRAY:
        TRY(from_array(s, j, string, out, e));
        break;
    case JSON_OBJECT:
        TRY(from_object(s, j, string, out, e));
        break;
    case JSON_INTEGER:
        *out = jinja_int(json_integer_value(j));
        break;
    case JSON_REAL:
        *out = jinja_float(json_real_value(j));
        break;
    case JSON_NULL:
        *out = jinja_none();
        break;
    default:
        *out = jinja_bool(json_is_true(j));
    }
done:
    s->depth--;
    return result;
}
