// render.c -- runs the statements of a template: text, output, conditions, assignments, blocks. The text goes to s->out.
#include "jinja/render.h"

#include <string.h>

status jinja_capture(jinja_state *s, const jinja_node *first, jinja_value *out, err *e)
{
    status result = OK;
    jinja_builder b = {0}, *before = s->out;
    s->out = &b;
    TRY(jinja_run_body(s, first, &(jinja_jump){0}, e));
    TRY(jinja_build(s, &b, false, out, e));
done:
    s->out = before;
    return result;
}

status jinja_open_scope(jinja_state *s, jinja_scope *outer, err *e)
{
    status result = OK;
    jinja_scope *own = NULL;
    TRY(jinja_take(&s->memory, &own, sizeof *own, e));
    own->outer = outer;
    s->scope = own;
done:
    return result;
}

// The same with variables of its own.
static status capture_scoped(jinja_state *s, const jinja_node *first, jinja_value *out, err *e)
{
    status result = OK;
    jinja_scope *outer = s->scope;
    TRY(jinja_open_scope(s, outer, e));
    TRY(jinja_capture(s, first, out, e));
done:
    s->scope = outer;
    return result;
}

// ---- Assignments

static status assign_tuple(jinja_state *s, const jinja_node *target, jinja_value v, err *e)
{
    status result = OK;
    const jinja_list *items = NULL;
    size_t wanted = 0;
    for (const jinja_node *n = target->first; n; n = n->next) wanted++;
    TRY(jinja_items(s, v, &items, e));
    if (items->count != wanted)
        FAIL(E_USAGE, "%zu values are assigned to %zu names", items->count, wanted);
    size_t i = 0;
    for (const jinja_node *n = target->first; n; n = n->next)
        TRY(jinja_assign(s, n, items->item[i++], e));
done:
    return result;
}

static status assign_member(jinja_state *s, const jinja_node *target, jinja_value v, err *e)
{
    status result = OK;
    jinja_value object = jinja_lookup(s, target->a->name), key;
    if (object.kind != KIND_NAMESPACE)
        FAIL(E_USAGE, "'%.*s' is a %s; only members of a namespace can be set",
             TEXT_CUT(target->a->text, 60), jinja_type(object));
    if (target->text[0] == '_')
        FAIL(E_USAGE, "a namespace has no member '%.*s': the name begins with '_'",
             TEXT_CUT(target->text, 60));
    TRY(jinja_borrow(s, target->text, target->bytes, -1, &key, e));
    TRY(jinja_put(s, object.dict, key, v, e));
done:
    return result;
}

status jinja_assign(jinja_state *s, const jinja_node *target, jinja_value v, err *e)
{
    if (target->kind == JINJA_NODE_NAME) return jinja_set(s, s->scope, target->name, v, e);
    if (target->kind == JINJA_NODE_TUPLE) return assign_tuple(s, target, v, e);
    return assign_member(s, target, v, e);
}

static status run_set(jinja_state *s, const jinja_node *n, err *e)
{
    status result = OK;
    jinja_value v;
    TRY(jinja_evaluate(s, n->b, &v, e));
    s->line = n->line;
    TRY(jinja_assign(s, n->a, v, e));
done:
    return result;
}

static status run_set_block(jinja_state *s, const jinja_node *n, err *e)
{
    status result = OK;
    jinja_value v;
    TRY(capture_scoped(s, n->body, &v, e));
    if (n->b) TRY(jinja_evaluate_block(s, n->b, v, &v, e));
    TRY(jinja_assign(s, n->a, v, e));
done:
    return result;
}

// ---- Blocks

static status run_filter_block(jinja_state *s, const jinja_node *n, err *e)
{
    status result = OK;
    jinja_value v;
    TRY(capture_scoped(s, n->body, &v, e));
    TRY(jinja_evaluate_block(s, n->a, v, &v, e));
    TRY(jinja_print(s, s->out, v, e));
done:
    return result;
}

// A block with variables of its own, which starts with those of `n->first`: {% with %} and {% generation %}.
static status run_scoped(jinja_state *s, const jinja_node *n, jinja_jump *jump, err *e)
{
    status result = OK;
    jinja_scope *outer = s->scope, *own;
    TRY(jinja_open_scope(s, outer, e));
    own = s->scope;
    for (const jinja_node *target = n->first; target; target = target->next->next) {
        jinja_value v;
        s->scope = outer;
        TRY(jinja_evaluate(s, target->next, &v, e));
        s->scope = own;
        TRY(jinja_assign(s, target, v, e));
    }
    TRY(jinja_run_body(s, n->body, jump, e));
done:
    s->scope = outer;
    return result;
}

static status run_generation(jinja_state *s, const jinja_node *n, err *e)
{
    status result = OK;
    jinja_builder *b = s->out;
    const size_t first = b->runs;
    b->closed = b->runs;
    TRY(run_scoped(s, n, &(jinja_jump){0}, e));
    for (size_t i = first; i < b->runs; i++) b->run[i].generation = true;
    b->closed = b->runs;
done:
    return result;
}

static status run_call_block(jinja_state *s, const jinja_node *n, err *e)
{
    status result = OK;
    jinja_value caller, f, v;
    jinja_call c = {0};
    TRY(jinja_define_macro(s, n->b, &caller, e));
    TRY(jinja_evaluate(s, n->a->a, &f, e));
    TRY(jinja_arguments(s, n->a->first, &c, e));
    TRY(jinja_add_keyed(s, &c, "caller", caller, e));
    s->line = n->line;
    TRY(jinja_call_value(s, f, &c, &v, e));
    TRY(jinja_print(s, s->out, v, e));
done:
    return result;
}

static status run_macro(jinja_state *s, const jinja_node *n, err *e)
{
    status result = OK;
    jinja_value v;
    TRY(jinja_define_macro(s, n, &v, e));
    TRY(jinja_set(s, s->scope, n->name, v, e));
done:
    return result;
}

static status run_if(jinja_state *s, const jinja_node *n, jinja_jump *jump, err *e)
{
    status result = OK;
    jinja_value v;
    for (;;) {
        TRY(jinja_evaluate(s, n->a, &v, e));
        if (jinja_truth(v)) {
            TRY(jinja_run_body(s, n->body, jump, e));
            break;
        }
        n = n->other;
        if (!n || n->kind != JINJA_NODE_IF || n->next) { // {% else %}, or nothing
            TRY(jinja_run_body(s, n, jump, e));
            break;
        }
    }
done:
    return result;
}

static status run_output(jinja_state *s, const jinja_node *n, err *e)
{
    status result = OK;
    jinja_value v;
    TRY(jinja_evaluate(s, n->a, &v, e));
    TRY(jinja_print(s, s->out, v, e));
done:
    return result;
}

static status run_statement(jinja_state *s, const jinja_node *n, jinja_jump *jump, err *e)
{
    switch (n->kind) {
    case JINJA_NODE_TEXT:
        return jinja_append(s, s->out, n->text, n->bytes, JINJA_OWN, e);
    case JINJA_NODE_OUTPUT:
        return run_output(s, n, e);
    case JINJA_NODE_IF:
        return run_if(s, n, jump, e);
    case JINJA_NODE_FOR:
        return jinja_run_for(s, n, jump, e);
    case JINJA_NODE_SET:
        return run_set(s, n, e);
    case JINJA_NODE_SET_BLOCK:
        return run_set_block(s, n, e);
    case JINJA_NODE_MACRO:
        return run_macro(s, n, e);
    case JINJA_NODE_CALL_BLOCK:
        return run_call_block(s, n, e);
    case JINJA_NODE_FILTER_BLOCK:
        return run_filter_block(s, n, e);
    case JINJA_NODE_WITH:
        return run_scoped(s, n, jump, e);
    case JINJA_NODE_GENERATION:
        return run_generation(s, n, e);
    case JINJA_NODE_BREAK:
        jump->breaks = true;
        return OK;
    default:
        jump->continues = true;
        return OK;
    }
}

status jinja_run_body(jinja_state *s, const jinja_node *first, jinja_jump *jump, err *e)
{
    status result = OK;
    TRY(jinja_enter(s, e));
    for (const jinja_node *n = first; n && !jump->breaks && !jump->continues; n = n->next) {
        s->line = n->line;
        TRY(jinja_spend(s, 1, e));
        TRY(run_statement(s, n, jump, e));
    }
done:
    s->depth--;
    return result;
}
