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
    if (v.kind == KIND_STRING) return jinja_find_row(JINJA_STRING_METHODS, name);
    if (v.kind == KIND_DICT) return jinja_find_row(JINJA_DICT_METHODS, name);
    if (v.kind == KIND_LIST || v.kind == KIND_TUPLE || v.kind == KIND_RANGE)
        return jinja_find_row(JINJA_LIST_METHODS, name);
    return NULL;
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

// Returns the word of a parameter by its number, and its bytes. NULL: there are fewer.
static const char *parameter(const jinja_row *row, int number, int *bytes)
{
    const char *p = row->parameters;
    for (; *p; p += strcspn(p, " "), p += *p == ' ') {
        *bytes = (int)strcspn(p, "! ");
        if (number-- == 0) return p;
    }
    return NULL;
}

// Puts the argument c->keyed[key] where its parameter is.
static status bind_keyed(jinja_call *c, size_t key, err *e)
{
    int bytes, i = 0;
    const char *p = parameter(c->row, 0, &bytes), *name = c->key[key];
    while (p && (strlen(name) != (size_t)bytes || memcmp(p, name, (size_t)bytes) != 0))
        p = parameter(c->row, ++i, &bytes);
    if (!p)
        return err_set(e, E_USAGE, "%s has no argument '%.*s'", c->row->name, TEXT_CUT(name, 60));
    if (c->arg[i])
        return err_set(e, E_USAGE, "argument '%s' of %s is given twice", name, c->row->name);
    c->arg[i] = &c->keyed[key];
    return OK;
}

static status bind(jinja_call *c, err *e)
{
    status result = OK;
    size_t most = 0;
    int bytes;
    for (int i = 0; i < JINJA_PARAMETERS; i++) c->arg[i] = NULL;
    if (strcmp(c->row->parameters, "*") == 0) goto done;
    while (parameter(c->row, (int)most, &bytes)) most++;
    if (c->count > most)
        FAIL(E_USAGE, "%s takes at most %zu arguments; %zu are given", c->row->name, most,
             c->count);
    for (size_t i = 0; i < c->count; i++) c->arg[i] = &c->item[i];
    for (size_t i = 0; i < c->keys; i++) TRY(bind_keyed(c, i, e));
    for (int i = 0; i < (int)most; i++) {
        const char *p = parameter(c->row, i, &bytes);
        if (p[bytes] == '!' && !c->arg[i])
            FAIL(E_USAGE, "argument '%.*s' of %s is missing", bytes, p, c->row->name);
    }
done:
    return result;
}

status jinja_run_row(jinja_state *s, const jinja_row *row, jinja_call *c, jinja_value *out, err *e)
{
    status result = OK;
    TRY(jinja_enter(s, e));
    c->row = row;
    TRY(bind(c, e));
    TRY(row->run(s, c, out, e));
done:
    s->depth--;
    return result;
}

// The first call of a joiner gives nothing, the others its separator.
static status call_joiner(jinja_state *s, jinja_joiner *j, jinja_value *out, err *e)
{
    *out = j->separator;
    if (j->called) return OK;
    j->called = true;
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
        return call_joiner(s, f.joiner, out, e);
    case KIND_UNDEFINED:
        return err_set(e, E_USAGE, "'%.*s' is undefined, and cannot be called",
                       TEXT_CUT(f.name ? f.name : "value", 100));
    default:
        return err_set(e, E_USAGE, "a %s cannot be called", jinja_type(f));
    }
}

// ---- Arguments

static status refuse_argument(const jinja_call *c, int i, const char *valid, err *e)
{
    int bytes = 0;
    const char *p = parameter(c->row, i, &bytes);
    return err_set(e, E_USAGE, "argument '%.*s' of %s is a %s; valid is %s", bytes, p, c->row->name,
                   jinja_type(*c->arg[i]), valid);
}

// Returns whether an argument stands for none: it is not given, or is None where it may be left out.
static bool left_out(const jinja_call *c, int i)
{
    int bytes = 0;
    const char *p = parameter(c->row, i, &bytes);
    return !c->arg[i] || (c->arg[i]->kind == KIND_NONE && p[bytes] != '!');
}

status jinja_arg_int(const jinja_call *c, int i, int64_t *out, err *e)
{
    if (left_out(c, i)) return OK;
    if (c->arg[i]->kind != KIND_INT && c->arg[i]->kind != KIND_BOOL)
        return refuse_argument(c, i, "a whole number", e);
    *out = jinja_whole(*c->arg[i]);
    return OK;
}

status jinja_arg_string(const jinja_call *c, int i, const jinja_string **out, err *e)
{
    if (left_out(c, i)) return OK;
    if (c->arg[i]->kind != KIND_STRING) return refuse_argument(c, i, "a string", e);
    *out = c->arg[i]->string;
    return OK;
}

bool jinja_arg_bool(const jinja_call *c, int i)
{
    return c->arg[i] && jinja_truth(*c->arg[i]);
}
