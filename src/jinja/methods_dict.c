// methods_dict.c -- the methods of dicts and lists. Those that change them are not there: the sandbox of transformers
// refuses them, too.
#include "jinja/builtins.h"

#include <string.h>

#define METHOD(name)                                                                               \
    static status method_##name(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)

METHOD(get)
{
    status result = OK;
    int64_t number = -1;
    TRY(jinja_find_key(s, c->self.dict, *c->arg[0], &number, e));
    *out = number >= 0 ? c->self.dict->item[number] : c->arg[1] ? *c->arg[1] : jinja_none();
done:
    return result;
}

enum { VIEW_KEYS = 1, VIEW_VALUES, VIEW_ITEMS };

METHOD(view)
{
    static const char *const TAGS[] = {"", "dict_keys", "dict_values", "dict_items"};
    status result = OK;
    const uint32_t variant = c->row->variant;
    const jinja_dict *d = c->self.dict;
    TRY(jinja_spend(s, d->count, e));
    TRY(jinja_new_list(s, KIND_VIEW, d->count, out, e));
    out->list->tag = TAGS[variant];
    for (size_t i = 0; i < d->count; i++) {
        jinja_value v = variant == VIEW_KEYS ? d->key[i] : d->item[i];
        if (variant == VIEW_ITEMS) {
            TRY(jinja_new_list(s, KIND_TUPLE, 2, &v, e));
            TRY(jinja_push(s, v.list, d->key[i], e));
            TRY(jinja_push(s, v.list, d->item[i], e));
        }
        TRY(jinja_push(s, out->list, v, e));
    }
done:
    return result;
}

// Values cannot change, so a copy is the value itself.
METHOD(copy)
{
    (void)s;
    (void)e;
    *out = c->self;
    return OK;
}

enum { ITEMS_INDEX, ITEMS_COUNT };

// The place of the first item that equals a value, or the number of such items.
METHOD(search)
{
    status result = OK;
    const jinja_list *l = c->self.list;
    const bool counts = c->row->variant == ITEMS_COUNT;
    int64_t found = 0;
    for (size_t i = 0; i < l->count; i++) {
        bool equal = false;
        TRY(jinja_equal(s, l->item[i], *c->arg[0], &equal, e));
        found += equal;
        if (!equal || counts) continue;
        *out = jinja_int((int64_t)i);
        goto done;
    }
    if (!counts) FAIL(E_USAGE, "an item that index() looks for is not there");
    *out = jinja_int(found);
done:
    return result;
}

const jinja_row JINJA_DICT_METHODS[] = {{"get", "key! default", method_get, 0},
                                        {"keys", "", method_view, VIEW_KEYS},
                                        {"values", "", method_view, VIEW_VALUES},
                                        {"items", "", method_view, VIEW_ITEMS},
                                        {"copy", "", method_copy, 0},
                                        {0}};
const jinja_row JINJA_LIST_METHODS[] = {{"index", "value!", method_search, ITEMS_INDEX},
                                        {"count", "value!", method_search, ITEMS_COUNT},
                                        {"copy", "", method_copy, 0},
                                        {0}};
