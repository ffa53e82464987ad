// methods.c -- the methods of strings that give a string or a truth, and those of lists and dicts. methods_split.c has the
// others of strings. Methods that change a list or a dict are not there: the sandbox of transformers refuses them.
#include "jinja/builtins.h"
#include "jinja/strings.h"

#include <string.h>

#define METHOD(name)                                                                               \
    static status method_##name(jinja_state *s, const jinja_call *c, jinja_value *out, err *e)

// ---- Case and white space

METHOD(upper)
{
    return jinja_recase(s, c->self.string, CASE_UPPER, CASE_UPPER, true, NULL, out, e);
}

METHOD(lower)
{
    return jinja_recase(s, c->self.string, CASE_LOWER, CASE_LOWER, true, NULL, out, e);
}

METHOD(capitalize)
{
    return jinja_recase(s, c->self.string, CASE_TITLE, CASE_LOWER, true, NULL, out, e);
}

METHOD(title)
{
    return jinja_recase(s, c->self.string, CASE_TITLE, CASE_LOWER, false, NULL, out, e);
}

static status strip(jinja_state *s, const jinja_call *c, int sides, jinja_value *out, err *e)
{
    status result = OK;
    const jinja_string *chars = NULL;
    if (c->arg[0] && c->arg[0]->kind != KIND_NONE) TRY(jinja_arg_string(c, 0, "chars", &chars, e));
    TRY(jinja_strip(s, c->self.string, chars, sides, out, e));
done:
    return result;
}

METHOD(strip)
{
    return strip(s, c, STRIP_LEFT | STRIP_RIGHT, out, e);
}

METHOD(lstrip)
{
    return strip(s, c, STRIP_LEFT, out, e);
}

METHOD(rstrip)
{
    return strip(s, c, STRIP_RIGHT, out, e);
}

METHOD(replace)
{
    status result = OK;
    const jinja_string *from = NULL, *to = NULL;
    int64_t most = -1;
    TRY(jinja_arg_needed(c, 0, "old", e));
    TRY(jinja_arg_needed(c, 1, "new", e));
    TRY(jinja_arg_string(c, 0, "old", &from, e));
    TRY(jinja_arg_string(c, 1, "new", &to, e));
    TRY(jinja_arg_int(c, 2, "count", &most, e));
    TRY(jinja_replace(s, c->self.string, from, to, most, out, e));
done:
    return result;
}

static status pad(jinja_state *s, const jinja_call *c, int share, jinja_value *out, err *e)
{
    status result = OK;
    const jinja_string *fill = NULL;
    int64_t width = 0;
    TRY(jinja_arg_needed(c, 0, "width", e));
    TRY(jinja_arg_int(c, 0, "width", &width, e));
    TRY(jinja_arg_string(c, 1, "fillchar", &fill, e));
    TRY(jinja_pad(s, c->self.string, width, fill, share, out, e));
done:
    return result;
}

METHOD(ljust)
{
    return pad(s, c, 0, out, e);
}

METHOD(center)
{
    return pad(s, c, 1, out, e);
}

METHOD(rjust)
{
    return pad(s, c, 2, out, e);
}

METHOD(zfill)
{
    status result = OK;
    const jinja_string *p = c->self.string;
    jinja_value zero, rest;
    jinja_builder b = {0};
    int64_t width = 0;
    TRY(jinja_arg_needed(c, 0, "width", e));
    TRY(jinja_arg_int(c, 0, "width", &width, e));
    TRY(jinja_borrow(s, "0", 1, -1, &zero, e));
    const size_t sign = p->bytes && (p->chars[0] == '-' || p->chars[0] == '+');
    TRY(jinja_part(s, p, sign, p->bytes, &rest, e));
    TRY(jinja_append_part(s, &b, p, 0, sign, e));
    TRY(jinja_pad(s, rest.string, width - (int64_t)sign, zero.string, 2, &rest, e));
    TRY(jinja_append_string(s, &b, rest.string, e));
    TRY(jinja_build(s, &b, p->markup, out, e));
done:
    return result;
}

// ---- Beginning and end

static bool begins(const jinja_string *p, const jinja_string *with)
{
    return p->bytes >= with->bytes && memcmp(p->chars, with->chars, with->bytes) == 0;
}

static bool ends(const jinja_string *p, const jinja_string *with)
{
    return p->bytes >= with->bytes &&
           memcmp(p->chars + p->bytes - with->bytes, with->chars, with->bytes) == 0;
}

// The part of the string that a search looks at: characters [arg 1, arg 2).
static status searched(jinja_state *s, const jinja_call *c, const jinja_string **out, err *e)
{
    status result = OK;
    jinja_value v;
    const jinja_value bound[3] = {c->arg[1] ? *c->arg[1] : jinja_none(),
                                  c->arg[2] ? *c->arg[2] : jinja_none(), jinja_none()};
    *out = c->self.string;
    if (!c->arg[1] && !c->arg[2]) goto done;
    TRY(jinja_slice(s, c->self, bound, &v, e));
    if (v.kind != KIND_STRING) FAIL(E_USAGE, "the bounds of a search are no whole numbers");
    *out = v.string;
done:
    return result;
}

static status test_ends(jinja_state *s, const jinja_call *c, bool first, jinja_value *out, err *e)
{
    status result = OK;
    const jinja_string *p = NULL;
    bool holds = false;
    TRY(jinja_arg_needed(c, 0, "prefix", e));
    TRY(searched(s, c, &p, e));
    const jinja_value *v = c->arg[0];
    const bool several = v->kind == KIND_TUPLE;
    for (size_t i = 0; i < (several ? v->list->count : 1); i++) {
        const jinja_value one = several ? v->list->item[i] : *v;
        if (one.kind != KIND_STRING)
            FAIL(E_USAGE, "%s needs a string or a tuple of strings; found a %s",
                 first ? "startswith" : "endswith", jinja_type(one));
        holds |= first ? begins(p, one.string) : ends(p, one.string);
    }
    *out = jinja_bool(holds);
done:
    return result;
}

METHOD(startswith)
{
    return test_ends(s, c, true, out, e);
}

METHOD(endswith)
{
    return test_ends(s, c, false, out, e);
}

static status remove_end(jinja_state *s, const jinja_call *c, bool first, jinja_value *out, err *e)
{
    status result = OK;
    const jinja_string *p = c->self.string, *with = NULL;
    TRY(jinja_arg_needed(c, 0, "prefix", e));
    TRY(jinja_arg_string(c, 0, "prefix", &with, e));
    const bool has = first ? begins(p, with) : ends(p, with);
    const size_t bytes = has ? with->bytes : 0;
    TRY(jinja_part(s, p, first ? bytes : 0, p->bytes - (first ? 0 : bytes), out, e));
done:
    return result;
}

METHOD(removeprefix)
{
    return remove_end(s, c, true, out, e);
}

METHOD(removesuffix)
{
    return remove_end(s, c, false, out, e);
}

// ---- Kinds of characters

typedef bool method_is(uint32_t c);

static bool is_decimal(uint32_t c)
{
    return jinja_is_digit(c);
}

static status all_are(jinja_state *s, const jinja_call *c, method_is *is, jinja_value *out, err *e)
{
    status result = OK;
    const jinja_string *p = c->self.string;
    bool holds = p->bytes > 0;
    TRY(jinja_spend(s, p->bytes / 16, e));
    for (size_t i = 0, n; i < p->bytes && holds; i += n) {
        uint32_t point;
        n = jinja_decode(p->chars + i, p->bytes - i, &point);
        holds = is(point);
    }
    *out = jinja_bool(holds);
done:
    return result;
}

METHOD(isdigit)
{
    return all_are(s, c, is_decimal, out, e);
}

METHOD(isalpha)
{
    return all_are(s, c, jinja_is_alpha, out, e);
}

METHOD(isalnum)
{
    return all_are(s, c, jinja_is_alnum, out, e);
}

METHOD(isspace)
{
    return all_are(s, c, jinja_is_space, out, e);
}

METHOD(isupper)
{
    jinja_call inner = {.self = c->self};
    return jinja_run_row(s, jinja_find_test("upper"), &inner, out, e);
}

METHOD(islower)
{
    jinja_call inner = {.self = c->self};
    return jinja_run_row(s, jinja_find_test("lower"), &inner, out, e);
}

const jinja_row JINJA_STRING_METHODS[] = {{"upper", "", method_upper},
                                          {"lower", "", method_lower},
                                          {"capitalize", "", method_capitalize},
                                          {"title", "", method_title},
                                          {"strip", "chars", method_strip},
                                          {"lstrip", "chars", method_lstrip},
                                          {"rstrip", "chars", method_rstrip},
                                          {"replace", "old new count", method_replace},
                                          {"ljust", "width fillchar", method_ljust},
                                          {"center", "width fillchar", method_center},
                                          {"rjust", "width fillchar", method_rjust},
                                          {"zfill", "width", method_zfill},
                                          {"startswith", "prefix start end", method_startswith},
                                          {"endswith", "suffix start end", method_endswith},
                                          {"removeprefix", "prefix", method_removeprefix},
                                          {"removesuffix", "suffix", method_removesuffix},
                                          {"isdigit", "", method_isdigit},
                                          {"isdecimal", "", method_isdigit},
                                          {"isnumeric", "", method_isdigit},
                                          {"isalpha", "", method_isalpha},
                                          {"isalnum", "", method_isalnum},
                                          {"isspace", "", method_isspace},
                                          {"isupper", "", method_isupper},
                                          {"islower", "", method_islower},
                                          {0}};
