// evaluate.c -- computes expressions. access.c reads parts of values, operators.c computes, builtins.c calls.
#include "jinja/render.h"

#include <string.h>

// ---- Arguments

status jinja_add_keyed(jinja_state *s, jinja_call *c, const char *key, jinja_value v, err *e)
{
    status result = OK;
    const char **keys = NULL;
    jinja_value *values = NULL;
    for (size_t i = 0; i < c->keys; i++)
        if (strcmp(c->key[i], key) == 0)
            FAIL(E_USAGE, "argument '%.*s' is given twice", TEXT_CUT(key, 60));
    if (!c->keys || (c->keys >= 4 && !(c->keys & (c->keys - 1)))) {
        const size_t room = c->keys ? 2 * c->keys : 4;
        TRY(jinja_take(&s->memory, &keys, room * sizeof *keys, e));
        TRY(jinja_take(&s->memory, &values, room * sizeof *values, e));
        if (c->keys) {
            memcpy(keys, c->key, c->keys * sizeof *keys);
            memcpy(values, c->keyed, c->keys * sizeof *values);
        }
        c->key = keys;
        c->keyed = values;
    }
    TRY(jinja_spend(s, c->keys, e));
    c->key[c->keys] = key;
    c->keyed[c->keys++] = v;
done:
    return result;
}

static status spread_pairs(jinja_state *s, jinja_call *c, jinja_value v, err *e)
{
    status result = OK;
    if (v.kind != KIND_DICT) FAIL(E_USAGE, "** needs a dict; found a %s", jinja_type(v));
    for (size_t i = 0; i < v.dict->count; i++) {
        char *key = NULL;
        if (v.dict->key[i].kind != KIND_STRING) FAIL(E_USAGE, "** needs keys that are strings");
        const jinja_string *p = v.dict->key[i].string;
        TRY(jinja_take_copy(&s->memory, p->chars, p->bytes, &key, e));
        TRY(jinja_add_keyed(s, c, key, v.dict->item[i], e));
    }
done:
    return result;
}

status jinja_arguments(jinja_state *s, const jinja_node *first, jinja_call *c, err *e)
{
    status result = OK;
    jinja_value list, v;
    const jinja_list *items = NULL;
    if (!first) goto done;
    TRY(jinja_new_list(s, KIND_LIST, 4, &list, e));
    for (const jinja_node *n = first; n; n = n->next) {
        const bool plain = n->kind != JINJA_NODE_KEYWORD && n->kind != JINJA_NODE_SPREAD &&
                           n->kind != JINJA_NODE_SPREAD_PAIRS;
        TRY(jinja_evaluate(s, plain ? n : n->a, &v, e));
        if (plain) {
            TRY(jinja_push(s, list.list, v, e));
        } else if (n->kind == JINJA_NODE_KEYWORD) {
            TRY(jinja_add_keyed(s, c, n->text, v, e));
        } else if (n->kind == JINJA_NODE_SPREAD) {
            TRY(jinja_items(s, v, &items, e));
            for (size_t i = 0; i < items->count; i++)
                TRY(jinja_push(s, list.list, items->item[i], e));
        } else {
            TRY(spread_pairs(s, c, v, e));
        }
    }
    c->item = list.list->item;
    c->count = list.list->count;
done:
    return result;
}

static status evaluate_call(jinja_state *s, const jinja_node *n, jinja_value *out, err *e)
{
    status result = OK;
    jinja_call c = {0};
    jinja_value f;
    TRY(jinja_evaluate(s, n->a, &f, e));
    TRY(jinja_arguments(s, n->first, &c, e));
    s->line = n->line;
    TRY(jinja_call_value(s, f, &c, out, e));
done:
    return result;
}

// A filter or a test.
static status evaluate_row(jinja_state *s, const jinja_node *n, jinja_value *out, err *e)
{
    status result = OK;
    jinja_call c = {0};
    TRY(jinja_evaluate(s, n->a, &c.self, e));
    TRY(jinja_arguments(s, n->first, &c, e));
    s->line = n->line;
    if (!n->row)
        FAIL(E_USAGE, "unknown %s '%.*s'", n->kind == JINJA_NODE_TEST ? "test" : "filter",
             TEXT_CUT(n->text, 60));
    TRY(jinja_run_row(s, n->row, &c, out, e));
done:
    return result;
}

status jinja_evaluate_block(jinja_state *s, const jinja_node *n, jinja_value block,
                            jinja_value *out, err *e)
{
    const jinja_value before = s->block;
    s->block = block;
    const status result = jinja_evaluate(s, n, out, e);
    s->block = before;
    return result;
}

// ---- Values

static status evaluate_list(jinja_state *s, const jinja_node *n, jinja_value *out, err *e)
{
    status result = OK;
    jinja_value v;
    TRY(jinja_new_list(s, n->kind == JINJA_NODE_TUPLE ? KIND_TUPLE : KIND_LIST, 0, out, e));
    for (const jinja_node *item = n->first; item; item = item->next) {
        TRY(jinja_evaluate(s, item, &v, e));
        TRY(jinja_push(s, out->list, v, e));
    }
done:
    return result;
}

static status evaluate_dict(jinja_state *s, const jinja_node *n, jinja_value *out, err *e)
{
    status result = OK;
    jinja_value key, v;
    TRY(jinja_new_dict(s, KIND_DICT, 0, out, e));
    for (const jinja_node *item = n->first; item; item = item->next->next) {
        TRY(jinja_evaluate(s, item, &key, e));
        TRY(jinja_evaluate(s, item->next, &v, e));
        TRY(jinja_put(s, out->dict, key, v, e));
    }
done:
    return result;
}

static status evaluate_part(jinja_state *s, const jinja_node *n, jinja_value *out, err *e)
{
    status result = OK;
    jinja_value v, key;
    TRY(jinja_evaluate(s, n->a, &v, e));
    if (n->kind == JINJA_NODE_ATTRIBUTE) {
        s->line = n->line;
        TRY(jinja_attribute(s, v, n->text, out, e));
    } else {
        TRY(jinja_evaluate(s, n->b, &key, e));
        s->line = n->line;
        TRY(jinja_item(s, v, key, out, e));
    }
done:
    return result;
}

static status evaluate_slice(jinja_state *s, const jinja_node *n, jinja_value *out, err *e)
{
    status result = OK;
    jinja_value v, bound[3];
    const jinja_node *nodes[3] = {n->b, n->c, n->d};
    TRY(jinja_evaluate(s, n->a, &v, e));
    for (int i = 0; i < 3; i++) {
        bound[i] = jinja_none();
        if (nodes[i]) TRY(jinja_evaluate(s, nodes[i], &bound[i], e));
    }
    s->line = n->line;
    TRY(jinja_slice(s, v, bound, out, e));
done:
    return result;
}

// ---- Operators

static status evaluate_binary(jinja_state *s, const jinja_node *n, jinja_value *out, err *e)
{
    status result = OK;
    jinja_value a, b;
    TRY(jinja_evaluate(s, n->a, &a, e));
    TRY(jinja_evaluate(s, n->b, &b, e));
    s->line = n->line;
    TRY(jinja_binary(s, n->op, a, b, out, e));
done:
    return result;
}

static status evaluate_concat(jinja_state *s, const jinja_node *n, jinja_value *out, err *e)
{
    status result = OK;
    jinja_builder b = {0};
    jinja_value v;
    for (const jinja_node *item = n->first; item; item = item->next) {
        TRY(jinja_evaluate(s, item, &v, e));
        TRY(jinja_print(s, &b, v, e));
    }
    TRY(jinja_build(s, &b, false, out, e));
done:
    return result;
}

static status evaluate_compare(jinja_state *s, const jinja_node *n, jinja_value *out, err *e)
{
    status result = OK;
    jinja_value a, b;
    bool holds = true;
    TRY(jinja_evaluate(s, n->a, &a, e));
    for (const jinja_node *x = n->first; x && holds; x = x->next) {
        TRY(jinja_evaluate(s, x->a, &b, e));
        s->line = n->line;
        TRY(jinja_compare(s, x->op, a, b, &holds, e));
        a = b;
    }
    *out = jinja_bool(holds);
done:
    return result;
}

static status evaluate_logic(jinja_state *s, const jinja_node *n, jinja_value *out, err *e)
{
    status result = OK;
    TRY(jinja_evaluate(s, n->a, out, e));
    if (n->kind == JINJA_NODE_NOT)
        *out = jinja_bool(!jinja_truth(*out));
    else if (jinja_truth(*out) == (n->kind == JINJA_NODE_AND))
        TRY(jinja_evaluate(s, n->b, out, e));
done:
    return result;
}

static status evaluate_choice(jinja_state *s, const jinja_node *n, jinja_value *out, err *e)
{
    status result = OK;
    jinja_value v;
    TRY(jinja_evaluate(s, n->a, &v, e));
    if (jinja_truth(v))
        TRY(jinja_evaluate(s, n->b, out, e));
    else if (n->c)
        TRY(jinja_evaluate(s, n->c, out, e));
    else
        *out = jinja_undefined("the value of an if without else");
done:
    return result;
}

static status evaluate_sign(jinja_state *s, const jinja_node *n, jinja_value *out, err *e)
{
    status result = OK;
    jinja_value v;
    TRY(jinja_evaluate(s, n->a, &v, e));
    s->line = n->line;
    TRY(jinja_negate(v, n->kind == JINJA_NODE_NEGATE, out, e));
done:
    return result;
}

static status evaluate_node(jinja_state *s, const jinja_node *n, jinja_value *out, err *e)
{
    switch (n->kind) {
    case JINJA_NODE_TUPLE:
    case JINJA_NODE_LIST:
        return evaluate_list(s, n, out, e);
    case JINJA_NODE_DICT:
        return evaluate_dict(s, n, out, e);
    case JINJA_NODE_ATTRIBUTE:
    case JINJA_NODE_ITEM:
        return evaluate_part(s, n, out, e);
    case JINJA_NODE_SLICE:
        return evaluate_slice(s, n, out, e);
    case JINJA_NODE_CALL:
        return evaluate_call(s, n, out, e);
    case JINJA_NODE_FILTER:
    case JINJA_NODE_TEST:
        return evaluate_row(s, n, out, e);
    case JINJA_NODE_NEGATE:
    case JINJA_NODE_PLUS:
        return evaluate_sign(s, n, out, e);
    case JINJA_NODE_BINARY:
        return evaluate_binary(s, n, out, e);
    case JINJA_NODE_CONCAT:
        return evaluate_concat(s, n, out, e);
    case JINJA_NODE_COMPARE:
        return evaluate_compare(s, n, out, e);
    case JINJA_NODE_CHOICE:
        return evaluate_choice(s, n, out, e);
    default:
        return evaluate_logic(s, n, out, e);
    }
}

status jinja_evaluate(jinja_state *s, const jinja_node *n, jinja_value *out, err *e)
{
    status result = OK;
    TRY(jinja_enter(s, e));
    if (n->kind == JINJA_NODE_CONSTANT)
        *out = n->constant;
    else if (n->kind == JINJA_NODE_NAME)
        *out = jinja_lookup(s, n->name);
    else if (n->kind == JINJA_NODE_BLOCK)
        *out = s->block;
    else
        TRY(evaluate_node(s, n, out, e));
done:
    s->depth--;
    return result;
}
