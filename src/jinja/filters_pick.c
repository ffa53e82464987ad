// filters_pick.c -- filters that walk over items and keep some or change each: map, select, reject, and those that look at
// an attribute. The first argument names another filter or test.
#include "jinja/builtins.h"

#include <string.h>

// A copy of a name that is an argument.
static status name_of(jinja_state *s, jinja_value v, const char *what, char **out, err *e)
{
    status result = OK;
    if (v.kind != KIND_STRING)
        FAIL(E_USAGE, "the name of a %s is a %s; valid is a string", what, jinja_type(v));
    TRY(jinja_take_copy(&s->memory, v.string->chars, v.string->bytes, out, e));
done:
    return result;
}

// Finds a value by name among the arguments.
static const jinja_value *keyed(const jinja_call *c, const char *key)
{
    for (size_t i = 0; i < c->keys; i++)
        if (strcmp(c->key[i], key) == 0) return &c->keyed[i];
    return NULL;
}

static status map_one(jinja_state *s, const jinja_call *c, const jinja_row *row, jinja_value item,
                      jinja_value *out, err *e)
{
    if (!row) return jinja_path(s, item, *keyed(c, "attribute"), keyed(c, "default"), out, e);
    jinja_call inner = {.self = item, .item = c->item + 1, .count = c->count - 1};
    inner.key = c->key;
    inner.keyed = c->keyed;
    inner.keys = c->keys;
    return jinja_run_row(s, row, &inner, out, e);
}

static status filter_map(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    status result = OK;
    const jinja_list *items = NULL;
    const jinja_row *row = NULL;
    char *name = NULL;
    jinja_value v;
    TRY(jinja_new_list(s, KIND_ITERATOR, 0, out, e));
    if (!jinja_truth(c->self)) goto done; // as in Jinja, also for None
    if (c->count) {
        TRY(name_of(s, c->item[0], "filter", &name, e));
        row = jinja_find_filter(name);
        if (!row) FAIL(E_USAGE, "map: unknown filter '%.*s'", TEXT_CUT(name, 60));
    } else if (!keyed(c, "attribute")) {
        FAIL(E_USAGE, "map needs the name of a filter, or attribute=");
    }
    TRY(jinja_items(s, c->self, &items, e));
    for (size_t i = 0; i < items->count; i++) {
        TRY(map_one(s, c, row, items->item[i], &v, e));
        TRY(jinja_push(s, out->list, v, e));
    }
done:
    return result;
}

enum { PICK_REJECTS = 1, PICK_ATTRIBUTE = 2 };

// Keeps the items for which a test holds, or does not. PICK_ATTRIBUTE: the test is of that attribute, the first argument.
static status filter_pick(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    status result = OK;
    const bool wanted = !(c->row->variant & PICK_REJECTS);
    const bool attribute = c->row->variant & PICK_ATTRIBUTE;
    const jinja_list *items = NULL;
    const jinja_row *row = NULL;
    const size_t skip = attribute;
    char *name = NULL;
    TRY(jinja_new_list(s, KIND_ITERATOR, 0, out, e));
    if (!jinja_truth(c->self)) goto done;
    if (c->count < skip) FAIL(E_USAGE, "the name of an attribute is missing");
    if (c->count > skip) {
        TRY(name_of(s, c->item[skip], "test", &name, e));
        row = jinja_find_test(name);
        if (!row) FAIL(E_USAGE, "unknown test '%.*s'", TEXT_CUT(name, 60));
    }
    TRY(jinja_items(s, c->self, &items, e));
    for (size_t i = 0; i < items->count; i++) {
        jinja_value v = items->item[i], holds;
        TRY(jinja_spend(s, 1, e));
        if (attribute) TRY(jinja_path(s, v, c->item[0], NULL, &v, e));
        holds = v;
        if (row) {
            jinja_call inner = {.self = v,
                                .item = c->item + skip + 1,
                                .count = c->count - skip - 1,
                                .key = c->key,
                                .keyed = c->keyed,
                                .keys = c->keys};
            TRY(jinja_run_row(s, row, &inner, &holds, e));
        }
        if (jinja_truth(holds) == wanted) TRY(jinja_push(s, out->list, items->item[i], e));
    }
done:
    return result;
}

const jinja_row JINJA_PICK_FILTERS[] = {
    {"map", "*", filter_map, 0},
    {"select", "*", filter_pick, 0},
    {"reject", "*", filter_pick, PICK_REJECTS},
    {"selectattr", "*", filter_pick, PICK_ATTRIBUTE},
    {"rejectattr", "*", filter_pick, PICK_ATTRIBUTE | PICK_REJECTS},
    {0}};
