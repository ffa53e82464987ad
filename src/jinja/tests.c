// tests.c -- what may stand behind "is".
#include "jinja/builtins.h"
#include "jinja/unicode.h"

#define KINDS(kind) (UINT32_C(1) << (kind))
#define TEXT_LIKE   (KINDS(KIND_STRING) | KINDS(KIND_UNDEFINED))
#define SEQUENCES   (KINDS(KIND_LIST) | KINDS(KIND_TUPLE) | KINDS(KIND_RANGE) | KINDS(KIND_DICT))
#define WALKED      (KINDS(KIND_VIEW) | KINDS(KIND_ITERATOR) | KINDS(KIND_LOOP))
#define NUMBERS     (KINDS(KIND_BOOL) | KINDS(KIND_INT) | KINDS(KIND_FLOAT))
#define CALLED                                                                                     \
    (KINDS(KIND_MACRO) | KINDS(KIND_FUNCTION) | KINDS(KIND_METHOD) | KINDS(KIND_LOOP) |            \
     KINDS(KIND_JOINER))

// The row's variant are the kinds of values for which the test holds.
static status test_kind(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    (void)s;
    (void)e;
    *out = jinja_bool(c->row->variant & KINDS(c->self.kind));
    return OK;
}

static status test_truth(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    (void)s;
    (void)e;
    *out = jinja_bool(c->self.kind == KIND_BOOL && c->self.truth == c->row->variant);
    return OK;
}

static status test_escaped(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    (void)s;
    (void)e;
    *out = jinja_bool(c->self.kind == KIND_STRING && c->self.string->markup);
    return OK;
}

enum { REST_EVEN, REST_ODD, REST_DIVISIBLE };

static status test_rest(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    status result = OK;
    const uint32_t variant = c->row->variant;
    jinja_value rest;
    bool equal = false;
    TRY(jinja_binary(s, '%', c->self, variant == REST_DIVISIBLE ? *c->arg[0] : jinja_int(2), &rest,
                     e));
    TRY(jinja_equal(s, rest, jinja_int(variant == REST_ODD), &equal, e));
    *out = jinja_bool(equal);
done:
    return result;
}

// The row's variant is the operator.
static status test_compare(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    bool holds = false;
    const status result = jinja_compare(s, (int)c->row->variant, c->self, *c->arg[0], &holds, e);
    *out = jinja_bool(holds);
    return result;
}

static status test_same(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    status result = OK;
    bool equal = false;
    if (c->self.kind == c->arg[0]->kind) TRY(jinja_equal(s, c->self, *c->arg[0], &equal, e));
    const bool by_place = c->self.kind == KIND_LIST || c->self.kind == KIND_DICT;
    *out = jinja_bool(equal && (!by_place || c->self.dict == c->arg[0]->dict));
done:
    return result;
}

// Whether a string has cased letters, and only those of one case.
status jinja_run_has_case(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    status result = OK;
    const jinja_string *p = NULL;
    const bool wants_upper = c->row->variant == RECASE_UPPER;
    bool upper = false, lower = false;
    TRY(jinja_to_string(s, c->self, &p, e));
    for (size_t i = 0, n; i < p->bytes; i += n) {
        uint32_t point;
        n = jinja_decode(p->chars + i, p->bytes - i, &point);
        upper |= jinja_is_upper(point);
        lower |= jinja_is_lower(point);
    }
    *out = jinja_bool(wants_upper ? upper && !lower : lower && !upper);
done:
    return result;
}

enum { NAMED_FILTER, NAMED_TEST };

// Whether a name is one of a filter or a test.
static status test_named(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)
{
    status result = OK;
    const jinja_string *p = NULL;
    char *name = NULL;
    TRY(jinja_to_string(s, c->self, &p, e));
    TRY(jinja_take_copy(&s->memory, p->chars, p->bytes, &name, e));
    *out = jinja_bool(
        (c->row->variant == NAMED_TEST ? jinja_find_test(name) : jinja_find_filter(name)) != NULL);
done:
    return result;
}

const jinja_row JINJA_TESTS[] = {{"defined", "", test_kind, ~KINDS(KIND_UNDEFINED)},
                                 {"undefined", "", test_kind, KINDS(KIND_UNDEFINED)},
                                 {"none", "", test_kind, KINDS(KIND_NONE)},
                                 {"boolean", "", test_kind, KINDS(KIND_BOOL)},
                                 {"integer", "", test_kind, KINDS(KIND_INT)},
                                 {"float", "", test_kind, KINDS(KIND_FLOAT)},
                                 {"number", "", test_kind, NUMBERS},
                                 {"string", "", test_kind, KINDS(KIND_STRING)},
                                 {"mapping", "", test_kind, KINDS(KIND_DICT)},
                                 {"callable", "", test_kind, CALLED},
                                 {"iterable", "", test_kind, TEXT_LIKE | SEQUENCES | WALKED},
                                 {"sequence", "", test_kind, TEXT_LIKE | SEQUENCES},
                                 {"true", "", test_truth, true},
                                 {"false", "", test_truth, false},
                                 {"escaped", "", test_escaped, 0},
                                 {"odd", "", test_rest, REST_ODD},
                                 {"even", "", test_rest, REST_EVEN},
                                 {"divisibleby", "num!", test_rest, REST_DIVISIBLE},
                                 {"in", "seq!", test_compare, OPERATOR_IN},
                                 {"eq", "other!", test_compare, OPERATOR('=', '=')},
                                 {"==", "other!", test_compare, OPERATOR('=', '=')},
                                 {"equalto", "other!", test_compare, OPERATOR('=', '=')},
                                 {"ne", "other!", test_compare, OPERATOR('!', '=')},
                                 {"!=", "other!", test_compare, OPERATOR('!', '=')},
                                 {"gt", "other!", test_compare, '>'},
                                 {">", "other!", test_compare, '>'},
                                 {"greaterthan", "other!", test_compare, '>'},
                                 {"ge", "other!", test_compare, OPERATOR('>', '=')},
                                 {">=", "other!", test_compare, OPERATOR('>', '=')},
                                 {"lt", "other!", test_compare, '<'},
                                 {"<", "other!", test_compare, '<'},
                                 {"lessthan", "other!", test_compare, '<'},
                                 {"le", "other!", test_compare, OPERATOR('<', '=')},
                                 {"<=", "other!", test_compare, OPERATOR('<', '=')},
                                 {"sameas", "other!", test_same, 0},
                                 {"upper", "", jinja_run_has_case, RECASE_UPPER},
                                 {"lower", "", jinja_run_has_case, RECASE_LOWER},
                                 {"filter", "", test_named, NAMED_FILTER},
                                 {"test", "", test_named, NAMED_TEST},
                                 {0}};
