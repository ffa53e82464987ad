// macro.c -- defines macros and calls them. A macro sees the variables among which it was defined.
#include "jinja/render.h"

#include <string.h>

status jinja_define_macro(jinja_state *s, const jinja_node *n, jinja_value *out, err *e)
{
    status result = OK;
    jinja_macro *m = NULL;
    TRY(jinja_take(&s->memory, &m, sizeof *m, e));
    *m = (jinja_macro){.node = n, .scope = s->scope};
    *out = (jinja_value){.kind = KIND_MACRO, .macro = m};
done:
    return result;
}

// Finds the number of a name that the template uses; -1: it does not.
static int name_number(const jinja_state *s, const char *name)
{
    for (size_t i = 0; i < s->t->name_count; i++)
        if (strcmp(s->t->names[i], name) == 0) return (int)i;
    return -1;
}

static status set_named(jinja_state *s, const char *name, jinja_value v, err *e)
{
    const int number = name_number(s, name);
    return number < 0 ? OK : jinja_set(s, s->scope, number, v, e);
}

// Gives the parameters their values. used[] are the arguments by name that a parameter has taken.
static status bind_parameters(jinja_state *s, const jinja_node *n, jinja_call *c, bool *used,
                              size_t *taken, err *e)
{
    status result = OK;
    for (const jinja_node *p = n->first; p; p = p->next) {
        jinja_value v = jinja_undefined(p->text);
        bool given = *taken < c->count;
        if (given) v = c->item[(*taken)++];
        for (size_t i = 0; i < c->keys; i++) {
            if (strcmp(c->key[i], p->text) != 0) continue;
            if (given)
                FAIL(E_USAGE, "macro '%.*s' has two values for '%.*s'", TEXT_CUT(n->text, 60),
                     TEXT_CUT(p->text, 60));
            v = c->keyed[i];
            given = used[i] = true;
        }
        if (!given && p->a) TRY(jinja_evaluate(s, p->a, &v, e));
        TRY(jinja_set(s, s->scope, p->name, v, e));
    }
done:
    return result;
}

// Gives the body varargs, kwargs and caller, or refuses arguments that are left over.
static status bind_rest(jinja_state *s, const jinja_node *n, jinja_call *c, bool *used,
                        size_t taken, err *e)
{
    status result = OK;
    jinja_value list, pairs, key, caller = jinja_undefined("caller");
    TRY(jinja_new_list(s, KIND_TUPLE, 0, &list, e));
    TRY(jinja_new_dict(s, KIND_DICT, 0, &pairs, e));
    if (taken < c->count && !n->takes_list)
        FAIL(E_USAGE, "macro '%.*s' has %zu arguments; %zu are given", TEXT_CUT(n->text, 60), taken,
             c->count);
    for (size_t i = taken; i < c->count; i++) TRY(jinja_push(s, list.list, c->item[i], e));
    for (size_t i = 0; i < c->keys; i++) {
        if (used[i]) continue;
        if (n->takes_caller && strcmp(c->key[i], "caller") == 0) {
            caller = c->keyed[i];
            continue;
        }
        if (!n->takes_pairs)
            FAIL(E_USAGE, "macro '%.*s' has no parameter '%.*s'", TEXT_CUT(n->text, 60),
                 TEXT_CUT(c->key[i], 60));
        TRY(jinja_string_of(s, c->key[i], &key, e));
        TRY(jinja_put(s, pairs.dict, key, c->keyed[i], e));
    }
    if (n->takes_list) TRY(set_named(s, "varargs", list, e));
    if (n->takes_pairs) TRY(set_named(s, "kwargs", pairs, e));
    if (n->takes_caller) TRY(set_named(s, "caller", caller, e));
done:
    return result;
}

status jinja_call_macro(jinja_state *s, const jinja_macro *m, jinja_call *c, jinja_value *out,
                        err *e)
{
    status result = OK;
    jinja_scope *before = s->scope;
    size_t taken = 0;
    bool *used = NULL;
    const int line = s->line;
    TRY(jinja_take(&s->memory, &used, (c->keys + 1) * sizeof *used, e));
    TRY(jinja_open_scope(s, m->scope, e));
    TRY(bind_parameters(s, m->node, c, used, &taken, e));
    TRY(bind_rest(s, m->node, c, used, taken, e));
    TRY(jinja_capture(s, m->node->body, out, e));
    s->line = line;
done:
    s->scope = before;
    return result;
}
