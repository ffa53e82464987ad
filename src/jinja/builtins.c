// builtins.c -- finds filters, tests and methods by name, binds arguments to parameters, and calls.
#include "jinja/builtins.h"

#include "jinja/render.h"

#include <string.h>

static const jinja_row *const FILTERS[] = {JINJA_TEXT_FILTERS, JINJA_LIST_FILTERS,
                                           JINJA_PICK_FILTERS, JINJA_VALUE_FILTERS};
enum { FILTER_TABLES = sizeof FILTERS / sizeof *FILTERS, NAMES_MOST = 128 };

const jinja_row *jinja_find_row(const jinja_row *table, const char *name)
{
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0) return table;
    return NULL;
}

const jinja_row *jinja_find_filter(const char *name)
{
    const jinja_row *row = NULL;
    for (int i = 0; i < FILTER_TABLES && !row; i++) row = jinja_find_row(FILTERS[i], name);
    return row;
}

const jinja_row *jinja_find_test(const char *name)
{
    return jinja_find_row(JINJA_TESTS, name);
}

const jinja_row *jinja_find_method(jinja_value v, const char *name)
{
    const jinja_row *row = NULL;
    if (v.kind == KIND_STRING) {
        row = jinja_find_row(JINJA_STRING_METHODS, name);
        return row ? row : jinja_find_row(JINJA_SPLIT_METHODS, name);
    }
    if (v.kind == KIND_DICT) return jinja_find_row(JINJA_DICT_METHODS, name);
    if (v.kind == KIND_LIST || v.kind == KIND_TUPLE || v.kind == KIND_RANGE)
        return jinja_find_row(JINJA_LIST_METHODS, name);
    return v.kind == KIND_CYCLER ? jinja_find_row(JINJA_CYCLER_METHODS, name) : NULL;
}

static size_t add_names(const jinja_row *table, const char **names, size_t count)
{
    for (; table->name && count < NAMES_MOST; table++) names[count++] = table->name;
    return count;
}

const char *jinja_nearest_filter(const char *name)
{
    const char *names[NAMES_MOST];
    size_t count = 0;
    for (int i = 0; i < FILTER_TABLES; i++) count = add_names(FILTERS[i], names, count);
    return text_nearest(name, names, count);
}

const char *jinja_nearest_test(const char *name)
{
    const char *names[NAMES_MOST];
    return text_nearest(name, names, add_names(JINJA_TESTS, names, 0));
}

// ---- Calls

// Returns the number of a parameter among the words of `parameters`; -1: none.
static int parameter_number(const char *parameters, const char *name)
{
    const size_t bytes = strlen(name);
    int i = 0;
    for (const char *p = parameters; *p; i++) {
        const size_t n = strcspn(p, " ");
        if (n == bytes && memcmp(p, name, n) == 0) return i;
        p += n + (p[n] == ' ');
    }
    return -1;
}

static status bind(const jinja_row *row, jinja_call *c, err *e)
{
    status result = OK;
    size_t most = row->parameters[0] != 0;
    for (const char *p = row->parameters; *p; p++) most += *p == ' ';
    for (int i = 0; i < JINJA_PARAMETERS; i++) c->arg[i] = NULL;
    if (strcmp(row->parameters, "*") == 0) goto done;
    if (c->count > most)
        FAIL(E_USAGE, "%s takes at most %zu arguments; %zu are given", row->name, most, c->count);
    for (size_t i = 0; i < c->count; i++) c->arg[i] = &c->item[i];
    for (size_t i = 0; i < c->keys; i++) {
        const int number = parameter_number(row->parameters, c->key[i]);
        if (number < 0)
            FAIL(E_USAGE, "%s has no argument '%.*s'", row->name, TEXT_CUT(c->key[i], 60));
        if (c->arg[number])
            FAIL(E_USAGE, "argument '%s' of %s is given twice", c->key[i], row->name);
        c->arg[number] = &c->keyed[i];
    }
done:
    return result;
}

status jinja_run_row(jinja_state *s, const jinja_row *row, jinja_call *c, jinja_value *out, err *e)
{
    status result = OK;
    TRY(jinja_enter(s, e));
    TRY(bind(row, c, e));
    TRY(row->run(s, c, out, e));
done:
    s->depth--;
    return result;
}

static status call_joiner(jinja_state *s, jinja_turn *t, jinja_value *out, err *e)
{
    if (t->next++) {
        *out = t->item[0];
        return OK;
    }
    return jinja_borrow(s, "", 0, -1, out, e);
}

status jinja_call_value(jinja_state *s, jinja_value f, jinja_call *c, jinja_value *out, err *e)
{
    switch (f.kind) {
    case KIND_MACRO:
        return jinja_call_macro(s, f.macro, c, out, e);
    case KIND_FUNCTION:
        return jinja_run_row(s, f.row, c, out, e);
    case KIND_METHOD:
        c->self = f.method->self;
        return jinja_run_row(s, f.method->row, c, out, e);
    case KIND_JOINER:
        return call_joiner(s, f.turn, out, e);
    case KIND_UNDEFINED:
        return err_set(e, E_USAGE, "'%.*s' is undefined, and cannot be called",
                       TEXT_CUT(f.name ? f.name : "value", 100));
    default:
        return err_set(e, E_USAGE, "a %s cannot be called", jinja_type(f));
    }
}

// ---- Arguments

status jinja_arg_int(const jinja_call *c, int i, const char *what, int64_t *out, err *e)
{
    if (!c->arg[i]) return OK;
    if (c->arg[i]->kind != KIND_INT && c->arg[i]->kind != KIND_BOOL)
        return err_set(e, E_USAGE, "argument '%s' is a %s; valid is a whole number", what,
                       jinja_type(*c->arg[i]));
    *out = jinja_whole(*c->arg[i]);
    return OK;
}

bool jinja_arg_bool(const jinja_call *c, int i, bool usual)
{
    return c->arg[i] ? jinja_truth(*c->arg[i]) : usual;
}

status jinja_arg_string(const jinja_call *c, int i, const char *what, const jinja_string **out,
                        err *e)
{
    if (!c->arg[i]) return OK;
    if (c->arg[i]->kind != KIND_STRING)
        return err_set(e, E_USAGE, "argument '%s' is a %s; valid is a string", what,
                       jinja_type(*c->arg[i]));
    *out = c->arg[i]->string;
    return OK;
}

status jinja_arg_needed(const jinja_call *c, int i, const char *what, err *e)
{
    return c->arg[i] ? OK : err_set(e, E_USAGE, "argument '%s' is missing", what);
}
