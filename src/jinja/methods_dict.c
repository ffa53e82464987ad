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
    TRY(jinja_arg_needed(c, 0, "key", e));
    TRY(jinja_find_key(s, c->self.dict, *c->arg[0], &number, e));
    *out = number >= 0 ? c->self.dict->item[number] : c->arg[1] ? *c->arg[1] : jinja_none();
done:
    return result;
}

static status view(jinja_state *s, const jinja_call *c, const char *tag, bool keys, bool values,
                   jinja_value *out, err *e)
{
    status result = OK;
    const jinja_dict *d = c->self.dict;
    TRY(jinja_spend(s, d->count, e));
    TRY(jinja_new_list(s, KIND_VIEW, d->count, out, e));
    out->list->tag = tag;
    for (size_t i = 0; i < d->count; i++) {
        jinja_value v = keys ? d->key[i] : d->item[i];
        if (keys && values) {
            TRY(jinja_new_list(s, KIND_TUPLE, 2, &v, e));
            TRY(jinja_push(s, v.list, d->key[i], e));
            TRY(jinja_push(s, v.list, d->item[i], e));
        }
        TRY(jinja_push(s, out->list, v, e));
    }
done:
    return result;
}

METHOD(items)
{
    return view(s, c, "dict_items", true, true, out, e);
}

METHOD(keys)
{
    return view(s, c, "dict_keys", true, false, out, e);
}

METHOD(values)
{
    return view(s, c, "dict_values", false, true, out, e);
}

// Values cannot change, so a copy is the value itself.
METHOD(copy)
{
    (void)s;
    (void)e;
    *out = c->self;
    return OK;
}

METHOD(index)
{
    status result = OK;
    const jinja_list *l = c->self.list;
    TRY(jinja_arg_needed(c, 0, "value", e));
    for (size_t i = 0; i < l->count; i++) {
        bool equal = false;
        TRY(jinja_equal(s, l->item[i], *c->arg[0], &equal, e));
        if (!equal) continue;
        *out = jinja_int((int64_t)i);
        goto done;
    }
    FAIL(E_USAGE, "an item that index() looks for is not there");
done:
    return result;
}

METHOD(count)
{
    status result = OK;
    const jinja_list *l = c->self.list;
    int64_t count = 0;
    TRY(jinja_arg_needed(c, 0, "value", e));
    for (size_t i = 0; i < l->count; i++) {
        bool equal = false;
        TRY(jinja_equal(s, l->item[i], *c->arg[0], &equal, e));
        count += equal;
    }
    *out = jinja_int(count);
done:
    return result;
}

const jinja_row JINJA_DICT_METHODS[] = {
    {"get", "key default", method_get}, {"items", "", method_items}, {"keys", "", method_keys},
    {"values", "", method_values},      {"copy", "", method_copy},   {0}};
const jinja_row JINJA_LIST_METHODS[] = {{"index", "value", method_index},
                                        {"count", "value", method_count},
                                        {"copy", "", method_copy},
                                        {0}};
