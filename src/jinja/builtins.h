// builtins.h -- the filters, tests, functions and methods, as tables of rows. parse.c finds filters and tests in them,
// evaluate.c calls them.
#ifndef TRIREME_JINJA_BUILTINS_H
#define TRIREME_JINJA_BUILTINS_H

#include "base/text.h"
#include "jinja/lexer.h"
#include "jinja/state.h"

enum { JINJA_PARAMETERS = 6 };

// The arguments of a call.
typedef struct jinja_call {
    const struct jinja_row *row; // that runs
    jinja_value self;            // the value before the filter, the test or the method
    jinja_value *item;           // [count] by position
    size_t count;
    const char **key; // [keys] by name
    jinja_value *keyed;
    size_t keys;
    const jinja_value *arg[JINJA_PARAMETERS]; // by the row's parameters; NULL: not given
} jinja_call;

typedef status jinja_function(jinja_state *s, const jinja_call *c, jinja_value *out, err *e);

typedef struct jinja_row {
    const char *name;
    const char *
        parameters; // words, with '!' behind those that must be given; "*": `item` and `key` as they are
    jinja_function *run;
    uint32_t variant; // of a function that serves several rows
} jinja_row;

// Tables end with a row without a name.
extern const jinja_row JINJA_TEXT_FILTERS[], JINJA_LIST_FILTERS[], JINJA_PICK_FILTERS[],
    JINJA_VALUE_FILTERS[], JINJA_TESTS[], JINJA_FUNCTIONS[], JINJA_STRING_METHODS[],
    JINJA_DICT_METHODS[], JINJA_LIST_METHODS[], JINJA_LOOP_METHODS[];

const jinja_row *jinja_find_row(const jinja_row *table, const char *name); // NULL: none
const jinja_row *jinja_find_filter(const char *name);
const jinja_row *jinja_find_test(const char *name);
const jinja_row *jinja_find_method(jinja_value v, const char *name);
// The nearest name of a filter or a test; NULL: none is near.
const char *jinja_nearest_filter(const char *name);
const char *jinja_nearest_test(const char *name);

// Calls a row with arguments that it binds.
status jinja_run_row(jinja_state *s, const jinja_row *row, jinja_call *c, jinja_value *out, err *e);
// Calls a value, such as a macro.
status jinja_call_value(jinja_state *s, jinja_value f, jinja_call *c, jinja_value *out, err *e);

// Arguments of a type. Without the argument, and for None where it may be left out, *out stays as it is.
status jinja_arg_int(const jinja_call *c, int i, int64_t *out, err *e);
status jinja_arg_string(const jinja_call *c, int i, const jinja_string **out, err *e);
bool jinja_arg_bool(const jinja_call *c, int i); // false without it
// What several tables use: upper, lower, capitalize and title, strip, and a walk over characters.
enum { RECASE_UPPER, RECASE_LOWER, RECASE_CAPITALIZE, RECASE_TITLE, RECASE_TITLE_FILTER };
jinja_function jinja_run_recase, jinja_run_strip, jinja_run_has_case;

// The items of a value that a loop can walk over. An iterator is read to its end.
status jinja_items(jinja_state *s, jinja_value v, const jinja_list **out, err *e);

// Access to a value's parts, as v.name and v[key].
status jinja_attribute(jinja_state *s, jinja_value v, const char *name, jinja_value *out, err *e);
status jinja_item(jinja_state *s, jinja_value v, jinja_value key, jinja_value *out, err *e);
status jinja_slice(jinja_state *s, jinja_value v, const jinja_value bound[3], jinja_value *out,
                   err *e);
// v.a.b.0, for filters that take the name of an attribute. `missing` may be NULL.
status jinja_path(jinja_state *s, jinja_value v, jinja_value path, const jinja_value *missing,
                  jinja_value *out, err *e);

// Operators.
status jinja_binary(jinja_state *s, int op, jinja_value a, jinja_value b, jinja_value *out, err *e);
status jinja_negate(jinja_value a, bool minus, jinja_value *out, err *e);
status jinja_compare(jinja_state *s, int op, jinja_value a, jinja_value b, bool *out, err *e);
// int(text) and float(text) as Python reads them.
bool jinja_read_int(const jinja_string *p, int64_t base, int64_t *out);
bool jinja_read_float(const jinja_string *p, double *out);

#endif
