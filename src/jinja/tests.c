// tests.c -- what may stand behind "is".
#include "jinja/builtins.h"
#include "jinja/unicode.h"

#define TEST(name)                                                                                 \
    static status test_##name(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)

// Tests of the value's kind need nothing else.
#define KIND_TEST(name, holds)                                                                     \
    TEST(name)                                                                                     \
    {                                                                                              \
        const jinja_value v = c->self;                                                             \
        (void)s;                                                                                   \
        (void)e;                                                                                   \
        *out = jinja_bool(holds);                                                                  \
        return OK;                                                                                 \
    }

KIND_TEST(defined, v.kind != KIND_UNDEFINED)
KIND_TEST(undefined, v.kind == KIND_UNDEFINED)
KIND_TEST(none, v.kind == KIND_NONE)
KIND_TEST(boolean, v.kind == KIND_BOOL)
KIND_TEST(is_true, v.kind == KIND_BOOL && v.truth)
KIND_TEST(is_false, v.kind == KIND_BOOL && !v.truth)
KIND_TEST(integer, v.kind == KIND_INT)
KIND_TEST(float, v.kind == KIND_FLOAT)
KIND_TEST(number, jinja_is_number(v))
KIND_TEST(string, v.kind == KIND_STRING)
KIND_TEST(mapping, v.kind == KIND_DICT)
KIND_TEST(escaped, v.kind == KIND_STRING && v.string->markup)
KIND_TEST(callable, v.kind >= KIND_MACRO && v.kind <= KIND_JOINER && v.kind != KIND_CYCLER)
KIND_TEST(iterable, v.kind == KIND_STRING || v.kind == KIND_UNDEFINED || jinja_is_list(v) ||
                        v.kind == KIND_DICT || v.kind == KIND_LOOP)
KIND_TEST(sequence, v.kind == KIND_STRING || v.kind == KIND_UNDEFINED || v.kind == KIND_LIST ||
                        v.kind == KIND_TUPLE || v.kind == KIND_RANGE || v.kind == KIND_DICT)

// The rest of a division by `by`.
static status rest_of(jinja_state *s, const jinja_call *c, jinja_value by, int64_t wanted,
                      jinja_value *out, err *e)
{
    status result = OK;
    jinja_value rest;
    bool equal = false;
    TRY(jinja_binary(s, '%', c->self, by, &rest, e));
    TRY(jinja_equal(s, rest, jinja_int(wanted), &equal, e));
    *out = jinja_bool(equal);
done:
    return result;
}

TEST(odd)
{
    return rest_of(s, c, jinja_int(2), 1, out, e);
}

TEST(even)
{
    return rest_of(s, c, jinja_int(2), 0, out, e);
}

TEST(divisibleby)
{
    const status result = jinja_arg_needed(c, 0, "num", e);
    return result == OK ? rest_of(s, c, *c->arg[0], 0, out, e) : result;
}

static status compare(jinja_state *s, const jinja_call *c, int op, jinja_value *out, err *e)
{
    status result = OK;
    bool holds = false;
    TRY(jinja_arg_needed(c, 0, "other", e));
    TRY(jinja_compare(s, op, c->self, *c->arg[0], &holds, e));
    *out = jinja_bool(holds);
done:
    return result;
}

TEST(in)
{
    return compare(s, c, OPERATOR_IN, out, e);
}

TEST(eq)
{
    return compare(s, c, OPERATOR('=', '='), out, e);
}

TEST(ne)
{
    return compare(s, c, OPERATOR('!', '='), out, e);
}

TEST(gt)
{
    return compare(s, c, '>', out, e);
}

TEST(ge)
{
    return compare(s, c, OPERATOR('>', '='), out, e);
}

TEST(lt)
{
    return compare(s, c, '<', out, e);
}

TEST(le)
{
    return compare(s, c, OPERATOR('<', '='), out, e);
}

TEST(sameas)
{
    status result = OK;
    bool equal = false;
    TRY(jinja_arg_needed(c, 0, "other", e));
    if (c->self.kind == c->arg[0]->kind) TRY(jinja_equal(s, c->self, *c->arg[0], &equal, e));
    const bool by_place = c->self.kind == KIND_LIST || c->self.kind == KIND_DICT;
    *out = jinja_bool(equal && (!by_place || c->self.dict == c->arg[0]->dict));
done:
    return result;
}

// Returns whether a string has cased letters, and only those of one case.
static status has_case(jinja_state *s, const jinja_call *c, bool upper, jinja_value *out, err *e)
{
    status result = OK;
    const jinja_string *p = NULL;
    bool any = false, other = false;
    TRY(jinja_to_string(s, c->self, &p, e));
    for (size_t i = 0, n; i < p->bytes; i += n) {
        uint32_t point;
        n = jinja_decode(p->chars + i, p->bytes - i, &point);
        any |= upper ? jinja_is_upper(point) : jinja_is_lower(point);
        other |= upper ? jinja_is_lower(point) : jinja_is_upper(point);
    }
    *out = jinja_bool(any && !other);
done:
    return result;
}

TEST(upper)
{
    return has_case(s, c, true, out, e);
}

TEST(lower)
{
    return has_case(s, c, false, out, e);
}

// Returns whether a name is one of a filter or a test.
static status is_named(jinja_state *s, const jinja_call *c, bool test, jinja_value *out, err *e)
{
    status result = OK;
    const jinja_string *p = NULL;
    char *name = NULL;
    TRY(jinja_to_string(s, c->self, &p, e));
    TRY(jinja_take_copy(&s->memory, p->chars, p->bytes, &name, e));
    *out = jinja_bool((test ? jinja_find_test(name) : jinja_find_filter(name)) != NULL);
done:
    return result;
}

TEST(filter)
{
    return is_named(s, c, false, out, e);
}

TEST(test)
{
    return is_named(s, c, true, out, e);
}

const jinja_row JINJA_TESTS[] = {{"defined", "", test_defined},
                                 {"undefined", "", test_undefined},
                                 {"none", "", test_none},
                                 {"boolean", "", test_boolean},
                                 {"true", "", test_is_true},
                                 {"false", "", test_is_false},
                                 {"integer", "", test_integer},
                                 {"float", "", test_float},
                                 {"number", "", test_number},
                                 {"string", "", test_string},
                                 {"mapping", "", test_mapping},
                                 {"escaped", "", test_escaped},
                                 {"callable", "", test_callable},
                                 {"iterable", "", test_iterable},
                                 {"sequence", "", test_sequence},
                                 {"odd", "", test_odd},
                                 {"even", "", test_even},
                                 {"divisibleby", "num", test_divisibleby},
                                 {"in", "seq", test_in},
                                 {"eq", "other", test_eq},
                                 {"==", "other", test_eq},
                                 {"equalto", "other", test_eq},
                                 {"ne", "other", test_ne},
                                 {"!=", "other", test_ne},
                                 {"gt", "other", test_gt},
                                 {">", "other", test_gt},
                                 {"greaterthan", "other", test_gt},
                                 {"ge", "other", test_ge},
                                 {">=", "other", test_ge},
                                 {"lt", "other", test_lt},
                                 {"<", "other", test_lt},
                                 {"lessthan", "other", test_lt},
                                 {"le", "other", test_le},
                                 {"<=", "other", test_le},
                                 {"sameas", "other", test_sameas},
                                 {"upper", "", test_upper},
                                 {"lower", "", test_lower},
                                 {"filter", "", test_filter},
                                 {"test", "", test_test},
                                 {0}};
