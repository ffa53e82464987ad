// filters_value.c -- filters of single values: default, and numbers.
#include "jinja/builtins.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FILTER(name)                                                                               \
    static status filter_##name(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)

FILTER(default)
{
    const bool replaces =
        c->self.kind == KIND_UNDEFINED || (jinja_arg_bool(c, 1) && !jinja_truth(c->self));
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
    TRY(jinja_arg_int(c, 1, &base, e));
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

FILTER(abs)
{
    (void)s;
    if (!jinja_is_number(c->self))
        return err_set(e, E_USAGE, "abs needs a number; found a %s", jinja_type(c->self));
    return jinja_negate(c->self, jinja_real(c->self) < 0 || signbit(jinja_real(c->self)), out, e);
}

const jinja_row JINJA_VALUE_FILTERS[] = {{"default", "default_value boolean", filter_default, 0},
                                         {"d", "default_value boolean", filter_default, 0},
                                         {"int", "default base", filter_int, 0},
                                         {"float", "default", filter_float, 0},
                                         {"abs", "", filter_abs, 0},
                                         {0}};
