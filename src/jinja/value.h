// value.h -- the values of a rendering: Python's, made of JSON and by the template. Every file that renders uses them.
// It knows no templates. All memory is the rendering's (memory.h), so a value may be copied and is never freed.
#ifndef TRIREME_JINJA_VALUE_H
#define TRIREME_JINJA_VALUE_H

#include "jinja/jinja.h"
#include "jinja/memory.h"

typedef enum jinja_kind {
    KIND_UNDEFINED, // `name` says of what
    KIND_NONE,
    KIND_BOOL,
    KIND_INT,
    KIND_FLOAT,
    KIND_STRING,
    KIND_LIST,
    KIND_TUPLE,
    KIND_RANGE,
    KIND_VIEW,     // keys(), values(), items() of a dict
    KIND_ITERATOR, // of a filter such as map: it has no length, and ends when it was read
    KIND_DICT,
    KIND_NAMESPACE,
    KIND_MACRO,
    KIND_FUNCTION,
    KIND_METHOD,
    KIND_LOOP,
    KIND_JOINER
} jinja_kind;

typedef struct jinja_value {
    jinja_kind kind;
    union {
        bool truth;
        int64_t whole;
        double real;
        const char *name;
        const struct jinja_string *string;
        struct jinja_list *list; // of everything that is a list of items
        struct jinja_dict *dict; // of dicts and namespaces
        struct jinja_macro *macro;
        const struct jinja_row *row; // of functions
        struct jinja_method *method;
        struct jinja_loop *loop;
        struct jinja_joiner *joiner;
    };
} jinja_value;

// Text that cannot change, with the origin of each byte.
typedef struct jinja_string {
    const char *chars;
    size_t bytes, points; // points: characters
    const jinja_run *run; // [runs] they cover `bytes`
    size_t runs;
    bool markup; // |safe: + escapes what is added to it
} jinja_string;

typedef struct jinja_list {
    jinja_value *item;
    size_t count, room;
    size_t taken;    // of an iterator: items that were read
    const char *tag; // of a view or a range: how it is printed
} jinja_list;

// In the order of insertion.
typedef struct jinja_dict {
    jinja_value *key, *item; // [count]
    size_t count, room;
} jinja_dict;

// A method with the value that it is called on.
typedef struct jinja_method {
    const struct jinja_row *row;
    jinja_value self;
} jinja_method;

typedef struct jinja_joiner {
    jinja_value separator;
    bool called;
} jinja_joiner;

static inline jinja_value jinja_none(void)
{
    return (jinja_value){.kind = KIND_NONE};
}

static inline jinja_value jinja_bool(bool b)
{
    return (jinja_value){.kind = KIND_BOOL, .truth = b};
}

static inline jinja_value jinja_int(int64_t n)
{
    return (jinja_value){.kind = KIND_INT, .whole = n};
}

static inline jinja_value jinja_float(double x)
{
    return (jinja_value){.kind = KIND_FLOAT, .real = x};
}

static inline jinja_value jinja_undefined(const char *name)
{
    return (jinja_value){.kind = KIND_UNDEFINED, .name = name};
}

// The name that Python gives the type of a value, for messages.
const char *jinja_type(jinja_value v);
// Returns whether the value is a list of items in memory.
bool jinja_is_list(jinja_value v);
bool jinja_is_number(jinja_value v); // bool, int, float
double jinja_real(jinja_value v);    // of a number
int64_t jinja_whole(jinja_value v);  // of a bool or an int
bool jinja_truth(jinja_value v);

struct jinja_state;
status jinja_new_list(struct jinja_state *s, jinja_kind kind, size_t room, jinja_value *out,
                      err *e);
status jinja_push(struct jinja_state *s, jinja_list *l, jinja_value v, err *e);
void jinja_reverse(jinja_list *l);
status jinja_new_dict(struct jinja_state *s, jinja_kind kind, size_t room, jinja_value *out,
                      err *e);
// The number of an item, or -1.
status jinja_find_key(struct jinja_state *s, const jinja_dict *d, jinja_value key, int64_t *out,
                      err *e);
// The item of a key that is text; NULL: none.
const jinja_value *jinja_get(const jinja_dict *d, const char *key, size_t bytes);
status jinja_put(struct jinja_state *s, jinja_dict *d, jinja_value key, jinja_value v, err *e);
// Adds an item whose key is not there yet.
status jinja_put_new(struct jinja_state *s, jinja_dict *d, jinja_value key, jinja_value v, err *e);

// Python's == and <. E_USAGE where values have no order.
status jinja_equal(struct jinja_state *s, jinja_value a, jinja_value b, bool *out, err *e);
status jinja_less(struct jinja_state *s, jinja_value a, jinja_value b, bool *out, err *e);

// Makes the values of JSON. *string is the number of the first string, and then of the next one.
status jinja_from_json(struct jinja_state *s, const json_t *j, int32_t *string, jinja_value *out,
                       err *e);

#endif
