// loop.c -- runs {% for %}, and gives the variable `loop` its attributes.
#include "jinja/render.h"

#include <string.h>

// The items for which the condition of the loop holds.
static status pick_items(jinja_state *s, const jinja_node *n, const jinja_list **items, err *e)
{
    status result = OK;
    jinja_value picked, v;
    jinja_scope *outer = s->scope;
    TRY(jinja_new_list(s, KIND_LIST, 0, &picked, e));
    for (size_t i = 0; i < (*items)->count; i++) {
        TRY(jinja_open_scope(s, outer, e));
        TRY(jinja_assign(s, n->a, (*items)->item[i], e));
        TRY(jinja_evaluate(s, n->c, &v, e));
        if (jinja_truth(v)) TRY(jinja_push(s, picked.list, (*items)->item[i], e));
        s->scope = outer;
    }
    *items = picked.list;
done:
    s->scope = outer;
    return result;
}

// One pass. *completed: no jump ended it.
static status run_pass(jinja_state *s, const jinja_node *n, jinja_loop *loop, jinja_jump *jump,
                       err *e)
{
    status result = OK;
    s->line = n->line;
    TRY(jinja_set(s, s->scope, n->name, (jinja_value){.kind = KIND_LOOP, .loop = loop}, e));
    TRY(jinja_assign(s, n->a, loop->items->item[loop->index], e));
    TRY(jinja_run_body(s, n->body, jump, e));
done:
    return result;
}

status jinja_run_for(jinja_state *s, const jinja_node *n, jinja_jump *jump, err *e)
{
    status result = OK;
    jinja_value v;
    jinja_loop *loop = NULL;
    jinja_scope *outer = s->scope;
    bool completed = false, breaks = false;
    TRY(jinja_evaluate(s, n->b, &v, e));
    TRY(jinja_take(&s->memory, &loop, sizeof *loop, e));
    TRY(jinja_items(s, v, &loop->items, e));
    if (n->c) TRY(pick_items(s, n, &loop->items, e));
    for (; loop->index < loop->items->count && !breaks; loop->index++) {
        jinja_jump own = {0};
        TRY(jinja_open_scope(s, outer, e));
        TRY(run_pass(s, n, loop, &own, e));
        s->scope = outer;
        breaks = own.breaks;
        if (!breaks && !own.continues) completed = true;
    }
    // As in Jinja: {% else %} also runs when a jump has ended every pass.
    if (!completed) TRY(jinja_run_body(s, n->other, jump, e));
done:
    s->scope = outer;
    return result;
}

status jinja_loop_attribute(jinja_state *s, jinja_value v, const char *name, jinja_value *out,
                            err *e)
{
    const jinja_loop *l = v.loop;
    const size_t count = l->items->count, i = l->index;
    const struct {
        const char *name;
        jinja_value value;
    } rows[] = {
        {"index", jinja_int((int64_t)i + 1)},
        {"index0", jinja_int((int64_t)i)},
        {"revindex", jinja_int((int64_t)count - (int64_t)i)},
        {"revindex0", jinja_int((int64_t)count - (int64_t)i - 1)},
        {"first", jinja_bool(i == 0)},
        {"last", jinja_bool(i + 1 >= count)},
        {"length", jinja_int((int64_t)count)},
        {"depth", jinja_int(1)}, // that of recursive loops, as in Jinja
        {"depth0", jinja_int(0)},
        {"previtem", i > 0 && i <= count ? l->items->item[i - 1] : jinja_undefined("previtem")},
        {"nextitem", i + 1 < count ? l->items->item[i + 1] : jinja_undefined("nextitem")},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (strcmp(rows[k].name, name) != 0) continue;
        *out = rows[k].value;
        return OK;
    }
    const jinja_row *row = jinja_find_row(JINJA_LOOP_METHODS, name);
    *out = jinja_undefined(name);
    if (!row) return OK;
    jinja_method *m = NULL;
    const status result = jinja_take(&s->memory, &m, sizeof *m, e);
    if (result != OK) return result;
    *m = (jinja_method){.row = row, .self = v};
    *out = (jinja_value){.kind = KIND_METHOD, .method = m};
    return OK;
}

static status loop_cycle(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    (void)s;
    if (!c->count) return err_set(e, E_USAGE, "cycle() needs values");
    *out = c->item[c->self.loop->index % c->count];
    return OK;
}

static status loop_changed(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    status result = OK;
    jinja_loop *l = c->self.loop;
    jinja_value now;
    bool equal = false;
    TRY(jinja_new_list(s, KIND_TUPLE, c->count, &now, e));
    for (size_t i = 0; i < c->count; i++) TRY(jinja_push(s, now.list, c->item[i], e));
    if (l->has_changed) TRY(jinja_equal(s, l->changed, now, &equal, e));
    l->changed = now;
    l->has_changed = true;
    *out = jinja_bool(!equal);
done:
    return result;
}

const jinja_row JINJA_LOOP_METHODS[] = {
    {"cycle", "*", loop_cycle, 0}, {"changed", "*", loop_changed, 0}, {0}};
