// operators.c -- arithmetic and comparisons of values as Python computes them. Integers have 64 bits; a result that does
// not fit is an error.
#include "jinja/builtins.h"

#include <math.h>
#include <string.h>

static status refuse(const char *op, jinja_value a, jinja_value b, err *e)
{
    const jinja_value *bad = a.kind == KIND_UNDEFINED ? &a : b.kind == KIND_UNDEFINED ? &b : NULL;
    if (bad)
        return err_set(e, E_USAGE, "'%.*s' is undefined",
                       TEXT_CUT(bad->name ? bad->name : "value", 100));
    return err_set(e, E_USAGE, "a %s %s a %s is not defined", jinja_type(a), op, jinja_type(b));
}

static status too_large(err *e)
{
    return err_set(e, E_USAGE, "a number is beyond 64 bits");
}

// ---- Numbers

static status divide_whole(int op, int64_t a, int64_t b, jinja_value *out, err *e)
{
    if (b == 0) return err_set(e, E_USAGE, "a division by zero");
    if (op == '/') {
        *out = jinja_float((double)a / (double)b);
        return OK;
    }
    if (b == -1) { // INT64_MIN / -1 is a trap
        int64_t n;
        if (__builtin_sub_overflow((int64_t)0, a, &n)) return too_large(e);
        *out = jinja_int(op == '%' ? 0 : n);
        return OK;
    }
    int64_t quotient = a / b, rest = a % b;
    if (rest && (rest < 0) != (b < 0)) {
        quotient--;
        rest += b;
    }
    *out = jinja_int(op == '%' ? rest : quotient);
    return OK;
}

static status power(int64_t a, int64_t b, jinja_value *out, err *e)
{
    int64_t n = 1;
    if (b < 0) {
        if (a == 0) return err_set(e, E_USAGE, "a division by zero");
        *out = jinja_float(pow((double)a, (double)b));
        return OK;
    }
    if (a == 0 || a == 1 || a == -1) b = a == -1 ? b % 2 : b > 0;
    for (; b > 0; b--)
        if (__builtin_mul_overflow(n, a, &n)) return too_large(e);
    *out = jinja_int(n);
    return OK;
}

static status whole_binary(int op, int64_t a, int64_t b, jinja_value *out, err *e)
{
    int64_t n = 0;
    bool overflow = false;
    switch (op) {
    case '+':
        overflow = __builtin_add_overflow(a, b, &n);
        break;
    case '-':
        overflow = __builtin_sub_overflow(a, b, &n);
        break;
    case '*':
        overflow = __builtin_mul_overflow(a, b, &n);
        break;
    case OPERATOR('*', '*'):
        return power(a, b, out, e);
    default:
        return divide_whole(op, a, b, out, e);
    }
    if (overflow) return too_large(e);
    *out = jinja_int(n);
    return OK;
}

static status real_binary(int op, double a, double b, jinja_value *out, err *e)
{
    double x;
    const bool divides = op == '/' || op == '%' || op == OPERATOR('/', '/');
    if (divides && b == 0) return err_set(e, E_USAGE, "a division by zero");
    switch (op) {
    case '+':
        x = a + b;
        break;
    case '-':
        x = a - b;
        break;
    case '*':
        x = a * b;
        break;
    case '/':
        x = a / b;
        break;
    case OPERATOR('*', '*'):
        x = pow(a, b);
        break;
    case '%':
        x = fmod(a, b);
        if (x != 0 && (x < 0) != (b < 0)) x += b;
        break;
    default:
        x = floor(a / b);
    }
    *out = jinja_float(x);
    return OK;
}

// ---- Strings and lists

static status add_strings(jinja_state *s, const jinja_string *a, const jinja_string *b,
                          jinja_value *out, err *e)
{
    status result = OK;
    jinja_builder x = {0};
    const bool markup = a->markup || b->markup;
    TRY(markup && !a->markup ? jinja_append_escaped(s, &x, a, e)
                             : jinja_append_string(s, &x, a, e));
    TRY(markup && !b->markup ? jinja_append_escaped(s, &x, b, e)
                             : jinja_append_string(s, &x, b, e));
    TRY(jinja_build(s, &x, markup, out, e));
done:
    return result;
}

static status add_lists(jinja_state *s, jinja_value a, jinja_value b, jinja_value *out, err *e)
{
    status result = OK;
    TRY(jinja_new_list(s, a.kind, a.list->count + b.list->count, out, e));
    TRY(jinja_spend(s, (a.list->count + b.list->count) / 8, e));
    for (size_t i = 0; i < a.list->count; i++) TRY(jinja_push(s, out->list, a.list->item[i], e));
    for (size_t i = 0; i < b.list->count; i++) TRY(jinja_push(s, out->list, b.list->item[i], e));
done:
    return result;
}

static status repeat(jinja_state *s, jinja_value v, int64_t times, jinja_value *out, err *e)
{
    status result = OK;
    jinja_builder b = {0};
    if (v.kind == KIND_STRING) {
        for (int64_t i = 0; i < times && v.string->bytes; i++) {
            TRY(jinja_spend(s, 1, e));
            TRY(jinja_append_string(s, &b, v.string, e));
        }
        TRY(jinja_build(s, &b, v.string->markup, out, e));
        goto done;
    }
    TRY(jinja_new_list(s, v.kind, 0, out, e));
    for (int64_t k = 0; k < times && v.list->count; k++) {
        TRY(jinja_spend(s, 1 + v.list->count / 8, e));
        for (size_t i = 0; i < v.list->count; i++)
            TRY(jinja_push(s, out->list, v.list->item[i], e));
    }
done:
    return result;
}

static bool is_sequence(jinja_value v)
{
    return v.kind == KIND_STRING || v.kind == KIND_LIST || v.kind == KIND_TUPLE;
}

static bool is_whole(jinja_value v)
{
    return v.kind == KIND_INT || v.kind == KIND_BOOL;
}

status jinja_binary(jinja_state *s, int op, jinja_value a, jinja_value b, jinja_value *out, err *e)
{
    const char name[] = {(char)(op & 255), (char)(op >> 8), 0};
    if (is_whole(a) && is_whole(b)) return whole_binary(op, jinja_whole(a), jinja_whole(b), out, e);
    if (jinja_is_number(a) && jinja_is_number(b))
        return real_binary(op, jinja_real(a), jinja_real(b), out, e);
    if (op == '+' && a.kind == b.kind && a.kind == KIND_STRING)
        return add_strings(s, a.string, b.string, out, e);
    if (op == '+' && a.kind == b.kind && is_sequence(a)) return add_lists(s, a, b, out, e);
    if (op == '*' && is_sequence(a) && is_whole(b)) return repeat(s, a, jinja_whole(b), out, e);
    if (op == '*' && is_whole(a) && is_sequence(b)) return repeat(s, b, jinja_whole(a), out, e);
    return refuse(name, a, b, e);
}

status jinja_negate(jinja_value a, bool minus, jinja_value *out, err *e)
{
    if (!jinja_is_number(a)) return refuse(minus ? "-" : "+", jinja_int(0), a, e);
    if (a.kind == KIND_FLOAT) {
        *out = jinja_float(minus ? -a.real : a.real);
        return OK;
    }
    return whole_binary(minus ? '-' : '+', 0, jinja_whole(a), out, e);
}

// ---- Comparisons

static status contains(jinja_state *s, jinja_value a, jinja_value b, bool *out, err *e)
{
    status result = OK;
    const jinja_list *items = NULL;
    int64_t number = -1;
    *out = false;
    if (b.kind == KIND_STRING) {
        if (a.kind != KIND_STRING) TRY(refuse("in", a, b, e));
        TRY(jinja_spend(s, b.string->bytes / 256, e));
        *out = jinja_search(b.string, a.string, 0, b.string->bytes) != SIZE_MAX;
    } else if (b.kind == KIND_DICT) {
        TRY(jinja_find_key(s, b.dict, a, &number, e));
        *out = number >= 0;
    } else if (jinja_is_list(b) || b.kind == KIND_UNDEFINED) {
        TRY(jinja_items(s, b, &items, e));
        for (size_t i = 0; i < items->count && !*out; i++)
            TRY(jinja_equal(s, items->item[i], a, out, e));
    } else {
        TRY(refuse("in", a, b, e));
    }
done:
    return result;
}

status jinja_compare(jinja_state *s, int op, jinja_value a, jinja_value b, bool *out, err *e)
{
    status result = OK;
    bool holds = false;
    const bool negates =
        op == OPERATOR('!', '=') || op == OPERATOR('<', '=') || op == OPERATOR('>', '=');
    if (op == OPERATOR_IN || op == OPERATOR_NOT_IN) {
        TRY(contains(s, a, b, &holds, e));
        *out = holds == (op == OPERATOR_IN);
        goto done;
    }
    if (op == OPERATOR('=', '=') || op == OPERATOR('!', '=')) {
        TRY(jinja_equal(s, a, b, &holds, e));
        *out = holds != negates;
        goto done;
    }
    if (a.kind == KIND_UNDEFINED || b.kind == KIND_UNDEFINED) TRY(refuse("<", a, b, e));
    const bool nan =
        (a.kind == KIND_FLOAT && isnan(a.real)) || (b.kind == KIND_FLOAT && isnan(b.real));
    const bool swaps = op == '>' || op == OPERATOR('<', '=');
    TRY(jinja_less(s, swaps ? b : a, swaps ? a : b, &holds, e));
    *out = !nan && holds != negates;
done:
    return result;
}
