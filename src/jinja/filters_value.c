// filters_value.c -- filters of single values: default, numbers, attributes.
#include "jinja/builtins.h"
#include "jinja/strings.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILTER(name)                                                                               \
    static status filter_##name(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)

FILTER(default)
{
    const bool replaces =
        c->self.kind == KIND_UNDEFINED || (jinja_arg_bool(c, 1, false) && !jinja_truth(c->self));
    *out = c->self;
    if (!replaces) return OK;
    if (!c->arg[0]) return jinja_borrow(s, "", 0, -1, out, e);
    *out = *c->arg[0];
    return OK;
}

// ---- Numbers from strings

// Copies a string without white space at its ends and without the underscores between digits. Returns false where it is
// no number for that alone.
static bool plain_number(const jinja_string *p, char *out, size_t room)
{
    size_t from = 0, to = p->bytes, n = 0;
    while (from < to && isspace((unsigned char)p->chars[from])) from++;
    while (to > from && isspace((unsigned char)p->chars[to - 1])) to--;
    if (to == from || to - from >= room) return false;
    for (size_t i = from; i < to; i++) {
        const char c = p->chars[i];
        if (c == '_') {
            if (i == from || i + 1 == to || !isalnum((unsigned char)p->chars[i - 1]) ||
                !isalnum((unsigned char)p->chars[i + 1]))
                return false;
            continue;
        }
        if (!c || isspace((unsigned char)c)) return false;
        out[n++] = c;
    }
    out[n] = 0;
    return true;
}

bool jinja_read_int(const jinja_string *p, int64_t base, int64_t *out)
{
    char s[100], *end;
    if (!plain_number(p, s, sizeof s) || (base != 0 && (base < 2 || base > 36))) return false;
    const char *digits = s + (*s == '-' || *s == '+');
    if (base == 10 && strspn(digits, "0123456789") != strlen(digits)) return false;
    errno = 0;
    *out = strtoll(s, &end, (int)base);
    return !*end && *digits && !errno;
}

bool jinja_read_float(const jinja_string *p, double *out)
{
    char s[400], *end;
    if (!plain_number(p, s, sizeof s)) return false;
    const char *digits = s + (*s == '-' || *s == '+');
    const bool word = strcasecmp(digits, "inf") == 0 || strcasecmp(digits, "infinity") == 0 ||
                      strcasecmp(digits, "nan") == 0;
    if (!word && strspn(digits, "0123456789.eE+-") != strlen(digits)) return false;
    *out = strtod(s, &end);
    return !*end;
}

FILTER(int)
{
    status result = OK;
    int64_t base = 10, n;
    double x;
    (void)s;
    TRY(jinja_arg_int(c, 1, "base", &base, e));
    *out = c->arg[0] ? *c->arg[0] : jinja_int(0);
    if (c->self.kind == KIND_INT || c->self.kind == KIND_BOOL) {
        *out = jinja_int(jinja_whole(c->self));
        goto done;
    }
    if (c->self.kind == KIND_UNDEFINED) FAIL(E_USAGE, "int: the value is undefined");
    if (c->self.kind == KIND_STRING && jinja_read_int(c->self.string, base, &n)) {
        *out = jinja_int(n);
        goto done;
    }
    if (c->self.kind == KIND_FLOAT)
        x = c->self.real;
    else if (c->self.kind != KIND_STRING || !jinja_read_float(c->self.string, &x))
        goto done;
    if (isfinite(x) && x > -9e18 && x < 9e18) *out = jinja_int((int64_t)x);
done:
    return result;
}

FILTER(float)
{
    double x;
    (void)s;
    *out = c->arg[0] ? *c->arg[0] : jinja_float(0);
    if (c->self.kind == KIND_UNDEFINED) return err_set(e, E_USAGE, "float: the value is undefined");
    if (jinja_is_number(c->self))
        *out = jinja_float(jinja_real(c->self));
    else if (c->self.kind == KIND_STRING && jinja_read_float(c->self.string, &x))
        *out = jinja_float(x);
    return OK;
}

// ---- Arithmetic

static status need_number(jinja_value v, const char *filter, err *e)
{
    if (jinja_is_number(v)) return OK;
    return err_set(e, E_USAGE, "%s needs a number; found a %s", filter, jinja_type(v));
}

FILTER(abs)
{
    status result = OK;
    (void)s;
    TRY(need_number(c->self, "abs", e));
    if (c->self.kind == KIND_FLOAT)
        *out = jinja_float(fabs(c->self.real));
    else
        TRY(jinja_negate(c->self, jinja_whole(c->self) < 0, out, e));
done:
    return result;
}

double jinja_round(double x, int64_t places)
{
    char digits[400];
    if (!isfinite(x)) return x;
    if (places >= 0) {
        snprintf(digits, sizeof digits, "%.*f", places > 60 ? 60 : (int)places, x);
        return strtod(digits, NULL);
    }
    const double unit = pow(10, (double)-places);
    return isfinite(unit) ? rint(x / unit) * unit : 0;
}

FILTER(round)
{
    status result = OK;
    int64_t places = 0;
    const jinja_string *method = NULL;
    (void)s;
    TRY(need_number(c->self, "round", e));
    TRY(jinja_arg_int(c, 0, "precision", &places, e));
    TRY(jinja_arg_string(c, 1, "method", &method, e));
    const bool up = method && method->bytes == 4 && memcmp(method->chars, "ceil", 4) == 0;
    const bool down = method && method->bytes == 5 && memcmp(method->chars, "floor", 5) == 0;
    if (method && !up && !down && (method->bytes != 6 || memcmp(method->chars, "common", 6) != 0))
        FAIL(E_USAGE, "round knows the methods common, ceil and floor");
    const double unit = pow(10, (double)places), x = jinja_real(c->self);
    if (up || down)
        *out = jinja_float((up ? ceil(x * unit) : floor(x * unit)) / unit);
    else if (c->self.kind != KIND_FLOAT && places >= 0)
        *out = jinja_int(jinja_whole(c->self));
    else if (c->self.kind != KIND_FLOAT)
        *out = jinja_int((int64_t)jinja_round(x, places));
    else
        *out = jinja_float(jinja_round(x, places));
done:
    return result;
}

FILTER(attr)
{
    status result = OK;
    const jinja_string *p = NULL;
    char *name = NULL;
    TRY(jinja_arg_needed(c, 0, "name", e));
    TRY(jinja_to_string(s, *c->arg[0], &p, e));
    TRY(jinja_take_copy(&s->memory, p->chars, p->bytes, &name, e));
    if (c->self.kind == KIND_DICT && !jinja_find_method(c->self, name))
        *out = jinja_undefined(name); // an attribute, never an item
    else
        TRY(jinja_attribute(s, c->self, name, out, e));
done:
    return result;
}

const jinja_row JINJA_VALUE_FILTERS[] = {{"default", "default_value boolean", filter_default},
                                         {"d", "default_value boolean", filter_default},
                                         {"int", "default base", filter_int},
                                         {"float", "default", filter_float},
                                         {"abs", "", filter_abs},
                                         {"round", "precision method", filter_round},
                                         {"attr", "name", filter_attr},
                                         {0}};
