// filters_list.c -- filters of lists and dicts: length, order, parts, sums.
#include "jinja/builtins.h"
#include "jinja/strings.h"

#include <string.h>

#define FILTER(name)                                                                               \
    static status filter_##name(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)

FILTER(length)
{
    status result = OK;
    const jinja_value v = c->self;
    (void)s;
    if (v.kind == KIND_STRING)
        *out = jinja_int((int64_t)v.string->points);
    else if (v.kind == KIND_DICT)
        *out = jinja_int((int64_t)v.dict->count);
    else if (v.kind == KIND_UNDEFINED)
        *out = jinja_int(0);
    else if (jinja_is_list(v) && v.kind != KIND_ITERATOR)
        *out = jinja_int((int64_t)v.list->count);
    else
        FAIL(E_USAGE, "a %s has no length", jinja_type(v));
done:
    return result;
}

// A new list of a value's items.
static status copy_items(jinja_state *s, jinja_value v, jinja_kind kind, jinja_value *out, err *e)
{
    status result = OK;
    const jinja_list *items = NULL;
    TRY(jinja_items(s, v, &items, e));
    TRY(jinja_spend(s, items->count / 8, e));
    TRY(jinja_new_list(s, kind, items->count, out, e));
    if (items->count) memcpy(out->list->item, items->item, items->count * sizeof *items->item);
    out->list->count = items->count;
done:
    return result;
}

FILTER(list)
{
    return copy_items(s, c->self, KIND_LIST, out, e);
}

FILTER(first)
{
    status result = OK;
    const jinja_value v = c->self;
    const jinja_list *items = NULL;
    *out = jinja_undefined("the first item of nothing");
    if (v.kind == KIND_ITERATOR) {
        if (v.list->taken < v.list->count) *out = v.list->item[v.list->taken++];
        goto done;
    }
    if (v.kind == KIND_STRING && v.string->points)
        return jinja_part(s, v.string, 0, jinja_byte_of(v.string, 1), out, e);
    TRY(jinja_items(s, v, &items, e));
    if (items->count) *out = items->item[0];
done:
    return result;
}

FILTER(last)
{
    status result = OK;
    const jinja_value v = c->self;
    const jinja_list *items = NULL;
    *out = jinja_undefined("the last item of nothing");
    if (v.kind == KIND_ITERATOR) FAIL(E_USAGE, "a generator has no last item");
    if (v.kind == KIND_STRING && v.string->points)
        return jinja_part(s, v.string, jinja_byte_of(v.string, v.string->points - 1),
                          v.string->bytes, out, e);
    TRY(jinja_items(s, v, &items, e));
    if (items->count) *out = items->item[items->count - 1];
done:
    return result;
}

FILTER(reverse)
{
    status result = OK;
    const jinja_value back[3] = {jinja_none(), jinja_none(), jinja_int(-1)};
    if (c->self.kind == KIND_STRING) return jinja_slice(s, c->self, back, out, e);
    TRY(copy_items(s, c->self, KIND_ITERATOR, out, e));
    jinja_reverse(out->list);
done:
    return result;
}

FILTER(join)
{
    status result = OK;
    const jinja_list *items = NULL;
    const jinja_string *separator = NULL;
    jinja_value picked, v;
    TRY(jinja_items(s, c->self, &items, e));
    if (c->arg[0]) TRY(jinja_to_string(s, *c->arg[0], &separator, e));
    if (c->arg[1]) {
        TRY(jinja_new_list(s, KIND_LIST, 0, &picked, e));
        for (size_t i = 0; i < items->count; i++) {
            TRY(jinja_path(s, items->item[i], *c->arg[1], NULL, &v, e));
            TRY(jinja_push(s, picked.list, v, e));
        }
        items = picked.list;
    }
    TRY(jinja_join(s, separator, items, out, e));
done:
    return result;
}

// ---- Order

// The value that an item is ordered by.
static status key_of(jinja_state *s, jinja_value item, const jinja_value *attribute,
                     bool case_sensitive, jinja_value *out, err *e)
{
    status result = OK;
    *out = item;
    if (attribute && attribute->kind != KIND_NONE)
        TRY(jinja_path(s, item, *attribute, NULL, out, e));
    if (out->kind == KIND_STRING && !case_sensitive)
        TRY(jinja_recase(s, out->string, CASE_LOWER, CASE_LOWER, true, NULL, out, e));
done:
    return result;
}

// Merges the sorted runs [0, middle) and [middle, count) of keys and items.
static status merge(jinja_state *s, jinja_value *key, jinja_value *item, jinja_value *kept,
                    size_t middle, size_t count, bool reversed, err *e)
{
    status result = OK;
    size_t i = 0, k = middle, n = 0;
    while (i < middle || k < count) {
        bool second = i == middle;
        if (i < middle && k < count)
            TRY(jinja_less(s, reversed ? key[i] : key[k], reversed ? key[k] : key[i], &second, e));
        const size_t from = second ? k++ : i++;
        kept[2 * n] = key[from];
        kept[2 * n++ + 1] = item[from];
    }
    for (i = 0; i < count; i++) {
        key[i] = kept[2 * i];
        item[i] = kept[2 * i + 1];
    }
done:
    return result;
}

// Sorts items by their keys; equal ones keep their order. kept has room for two values an item.
static status sort_by(jinja_state *s, jinja_value *key, jinja_value *item, jinja_value *kept,
                      size_t count, bool reversed, err *e)
{
    status result = OK;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t first = 0; first + width < count; first += 2 * width) {
            const size_t left = count - first;
            TRY(jinja_spend(s, 1, e));
            TRY(merge(s, key + first, item + first, kept, width,
                      left < 2 * width ? left : 2 * width, reversed, e));
        }
    }
done:
    return result;
}

static status sort_list(jinja_state *s, jinja_value list, const jinja_value *attribute,
                        bool case_sensitive, bool reversed, err *e)
{
    status result = OK;
    jinja_value *key = NULL;
    jinja_list *l = list.list;
    TRY(jinja_take(&s->memory, &key, (3 * l->count + 1) * sizeof *key, e));
    for (size_t i = 0; i < l->count; i++)
        TRY(key_of(s, l->item[i], attribute, case_sensitive, &key[i], e));
    TRY(sort_by(s, key, l->item, key + l->count, l->count, reversed, e));
done:
    return result;
}

FILTER(sort)
{
    status result = OK;
    TRY(copy_items(s, c->self, KIND_LIST, out, e));
    TRY(sort_list(s, *out, c->arg[2], jinja_arg_bool(c, 1), jinja_arg_bool(c, 0), e));
done:
    return result;
}

// The pairs of a dict.
static status pairs_of(jinja_state *s, jinja_value v, jinja_kind kind, jinja_value *out, err *e)
{
    status result = OK;
    jinja_value pair;
    TRY(jinja_new_list(s, kind, 0, out, e));
    if (v.kind == KIND_UNDEFINED) goto done;
    if (v.kind != KIND_DICT) FAIL(E_USAGE, "a %s has no pairs; valid is a dict", jinja_type(v));
    for (size_t i = 0; i < v.dict->count; i++) {
        TRY(jinja_new_list(s, KIND_TUPLE, 2, &pair, e));
        TRY(jinja_push(s, pair.list, v.dict->key[i], e));
        TRY(jinja_push(s, pair.list, v.dict->item[i], e));
        TRY(jinja_push(s, out->list, pair, e));
    }
done:
    return result;
}

FILTER(items)
{
    return pairs_of(s, c->self, KIND_ITERATOR, out, e);
}

FILTER(dictsort)
{
    status result = OK;
    const jinja_string *by = NULL;
    if (c->self.kind == KIND_UNDEFINED) FAIL(E_USAGE, "dictsort: the value is undefined");
    TRY(jinja_arg_string(c, 1, &by, e));
    const bool is_key = !by || (by->bytes == 3 && memcmp(by->chars, "key", 3) == 0);
    if (!is_key && !(by->bytes == 5 && memcmp(by->chars, "value", 5) == 0))
        FAIL(E_USAGE, "dictsort sorts by 'key' or 'value'");
    const jinja_value position = jinja_int(is_key ? 0 : 1);
    TRY(pairs_of(s, c->self, KIND_LIST, out, e));
    TRY(sort_list(s, *out, &position, jinja_arg_bool(c, 0), jinja_arg_bool(c, 2), e));
done:
    return result;
}

FILTER(unique)
{
    status result = OK;
    const jinja_list *items = NULL;
    jinja_value seen, key;
    TRY(jinja_items(s, c->self, &items, e));
    TRY(jinja_new_dict(s, KIND_DICT, 0, &seen, e));
    TRY(jinja_new_list(s, KIND_ITERATOR, 0, out, e));
    for (size_t i = 0; i < items->count; i++) {
        int64_t number = -1;
        TRY(key_of(s, items->item[i], c->arg[1], jinja_arg_bool(c, 0), &key, e));
        TRY(jinja_find_key(s, seen.dict, key, &number, e));
        if (number >= 0) continue;
        TRY(jinja_put(s, seen.dict, key, jinja_none(), e));
        TRY(jinja_push(s, out->list, items->item[i], e));
    }
done:
    return result;
}

// The least item (variant 1) or the greatest.
FILTER(extreme)
{
    status result = OK;
    const bool least = c->row->variant;
    const jinja_list *items = NULL;
    jinja_value best, key;
    *out = jinja_undefined("an item of nothing");
    TRY(jinja_items(s, c->self, &items, e));
    for (size_t i = 0; i < items->count; i++) {
        bool better = i == 0;
        TRY(key_of(s, items->item[i], c->arg[1], jinja_arg_bool(c, 0), &key, e));
        if (i) TRY(jinja_less(s, least ? key : best, least ? best : key, &better, e));
        if (!better) continue;
        best = key;
        *out = items->item[i];
    }
done:
    return result;
}

FILTER(sum)
{
    status result = OK;
    const jinja_list *items = NULL;
    jinja_value v;
    TRY(jinja_items(s, c->self, &items, e));
    *out = c->arg[1] ? *c->arg[1] : jinja_int(0);
    for (size_t i = 0; i < items->count; i++) {
        v = items->item[i];
        if (c->arg[0] && c->arg[0]->kind != KIND_NONE)
            TRY(jinja_path(s, v, *c->arg[0], NULL, &v, e));
        TRY(jinja_binary(s, '+', *out, v, out, e));
    }
done:
    return result;
}

const jinja_row JINJA_LIST_FILTERS[] = {
    {"length", "", filter_length, 0},
    {"count", "", filter_length, 0},
    {"list", "", filter_list, 0},
    {"first", "", filter_first, 0},
    {"last", "", filter_last, 0},
    {"reverse", "", filter_reverse, 0},
    {"join", "d attribute", filter_join, 0},
    {"sort", "reverse case_sensitive attribute", filter_sort, 0},
    {"items", "", filter_items, 0},
    {"dictsort", "case_sensitive by reverse", filter_dictsort, 0},
    {"unique", "case_sensitive attribute", filter_unique, 0},
    {"min", "case_sensitive attribute", filter_extreme, 1},
    {"max", "case_sensitive attribute", filter_extreme, 0},
    {"sum", "attribute start", filter_sum, 0},
    {0}};
