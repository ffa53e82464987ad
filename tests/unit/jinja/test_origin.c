// Each byte of a rendered text has the origin of the string that it came from, through what templates do with strings;
// and what is refused is refused with a line, within limits.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "jinja/jinja.h"

#include <stdlib.h>
#include <string.h>

static const char VARIABLES[] = "{\"u\": \"<|end|>\", \"v\": \"abc DEF\", \"o\": {\"k<|\": "
                                "\"<|x|>\"}, \"l\": [\"p\", \"q<|\"]}";

static json_t *variables(void)
{
    json_t *j = json_loads(VARIABLES, 0, NULL);
    assert_non_null(j);
    return j;
}

static status render(const char *source, const jinja_limits *limits, jinja_output *o, err *e)
{
    jinja *t = NULL;
    json_t *j = variables();
    status s = jinja_open("t.jinja", source, strlen(source), &t, e);
    if (s == OK) s = jinja_render(t, j, 0, limits, o, e);
    jinja_close(t);
    json_decref(j);
    return s;
}

// Writes a text with its bytes of strings in brackets: "a[u:bc]".
static void describe(const jinja_output *o, text *out)
{
    json_t *j = variables();
    size_t byte = 0;
    for (size_t i = 0; i < o->runs; byte += o->run[i++].bytes) {
        if (o->run[i].string >= 0) {
            text_add(out, "[");
            jinja_string_path(j, o->run[i].string, out);
            text_add(out, ":");
        }
        text_add_bytes(out, o->chars.chars + byte, o->run[i].bytes);
        if (o->run[i].string >= 0) text_add(out, "]");
    }
    json_decref(j);
}

static void origins(void **state)
{
    static const char *const CASES[][2] = {
        {"a{{ u }}b", "a[u:<|end|>]b"},
        {"{% set x = '<' + u ~ 1 %}{{ x }}", "<[u:<|end|>]1"},
        {"{{ (' ' + v + ' ') | trim }}", "[v:abc DEF]"},
        {"{{ v.split(' ')[1] }}{{ v[::-1] }}", "[v:DEFFED cba]"},
        {"{{ v | upper }}{{ v.title() }}", "[v:ABC DEFAbc Def]"},
        {"{{ v.replace('c', 'X') }}", "[v:ab]X[v: DEF]"},
        {"{{ u | tojson }}", "\"[u:<|end|>]\""},
        {"{{ o | tojson }}", "{\"[o.k<|:k<|]\": \"[o.k<|:<|x|>]\"}"},
        {"{{ o }}{{ l }}", "{'[o.k<|:k<|]': '[o.k<|:<|x|>]'}['[l[0]:p]', '[l[1]:q<|]']"},
        {"{{ l | join('-') }}{{ l | map('upper') | list | first }}", "[l[0]:p]-[l[1]:q<|][l[0]:P]"},
        {"{% macro m(x) %}({{ x }}){% endmacro %}{{ m(u) }}{{ v ~ '!' }}",
         "([u:<|end|>])[v:abc DEF]!"},
        {"{% set b %}{{ u }}.{% endset %}{{ b | indent(1, true) }}{{ u | e }}",
         " [u:<|end|>].[u:&lt;|end|&gt;]"},
        {"{% for c in u[:2] %}{{ c }}-{% endfor %}{{ '{}'.format(u) }}{{ u | length }}",
         "[u:<]-[u:|]-[u:<|end|>]7"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        jinja_output o = {0};
        text found = {0};
        err e = {0};
        if (render(CASES[i][0], NULL, &o, &e) != OK) fail_msg("%s: %s", CASES[i][0], e.text);
        describe(&o, &found);
        assert_string_equal(found.chars, CASES[i][1]);
        text_clear(&found);
        jinja_output_clear(&o);
    }
}

static void refusals(void **state)
{
    static const char *const CASES[][2] = {
        {"a\n{{ 1 | tojsn }}", "t.jinja:2: unknown filter 'tojsn'; did you mean 'tojson'?"},
        {"{{ 1 is strng }}", "t.jinja:1: unknown test 'strng'; did you mean 'string'?"},
        {"\n\n{% fro x in y %}{% endfor %}",
         "t.jinja:3: unknown statement 'fro'; did you mean 'for'?"},
        {"{% include 'x' %}", "t.jinja:1: the statement 'include' is not supported"},
        {"{% for a in b recursive %}{% endfor %}", "t.jinja:1: recursive loops are not supported"},
        {"{% if a %}\n{{ b }}\n", "t.jinja:2: the template ends before {% endif %}"},
        {"{{ a b }}", "t.jinja:1: 'b' stands where '}}' is expected"},
        {"{{ (1 }}", "t.jinja:1: unexpected '}'; expected ')'"},
        {"{{ 'a }}", "t.jinja:1: a string has no closing '"},
        {"a\n{# b", "t.jinja:2: a comment {# has no #}"},
        {"{% break %}", "t.jinja:1: 'break' stands outside of a loop"},
        {"{{ 99999999999999999999 }}",
         "t.jinja:1: the number 99999999999999999999 is beyond 64 bits"},
        {"\n{{ m.x }}", "t.jinja:2: 'm' is undefined"},
        {"{{ u.x.y }}", "t.jinja:1: 'x' is undefined"},
        {"{% if true %}\n{{ 1 | nope }}{% endif %}", "t.jinja:2: unknown filter 'nope'"},
        {"\n{{ '%s' % u }}", "t.jinja:2: a str % a str is not defined"},
        {"\n{{ u.zfill(3) }}", "t.jinja:2: 'zfill' is undefined, and cannot be called"},
        {"{{ u.replace('a') }}", "t.jinja:1: argument 'new' of replace is missing"},
        {"{{ u.split(1) }}", "t.jinja:1: argument 'sep' of split is a int; valid is a string"},
        {"{{ raise_exception('Roles\nmust ' ~ 'alternate') }}",
         "t.jinja:1: the template refuses the conversation: Roles\\nmust alternate"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        jinja_output o = {0};
        err e = {0};
        assert_int_equal(render(CASES[i][0], NULL, &o, &e), E_USAGE);
        assert_string_equal(e.text, CASES[i][1]);
        jinja_output_clear(&o);
    }
}

static void check_limit(const char *source, const jinja_limits *limits, const char *wanted)
{
    jinja_output o = {0};
    err e = {0};
    assert_int_equal(render(source, limits, &o, &e), E_USAGE);
    if (!strstr(e.text, wanted)) fail_msg("%s", e.text);
    jinja_output_clear(&o);
}

static void limits_hold(void **state)
{
    const jinja_limits some = {.steps = 100000, .bytes = 1 << 20}, few = {.steps = 5000};
    text deep = {0};
    (void)state;
    check_limit("{% for a in range(999) %}{% for b in range(999) %}{% endfor %}{% endfor %}", &few,
                "steps");
    check_limit("{% set n = namespace(s='x') %}{% for a in range(99) %}{% set n.s = n.s + n.s %}{% "
                "endfor %}",
                &some, "memory");
    check_limit("{{ 'x' * 99999999 }}", &some, "than the limit");
    check_limit("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", NULL, "nested too deeply");
    check_limit("{% set n = namespace(v=[]) %}{% for a in range(9999) %}{% set n.v = [n.v] %}{% "
                "endfor %}{{ n.v }}",
                NULL, "nested too deeply");
    for (int i = 0; i < 100000; i++) text_add(&deep, i ? "(" : "{{ ");
    check_limit(deep.chars, NULL, "nested too deeply");
    text_clear(&deep);
    for (int i = 0; i < 100000; i++) text_add(&deep, "{% if u %}");
    check_limit(deep.chars, NULL, "nested too deeply");
    text_clear(&deep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(origins), cmocka_unit_test(refusals),
                                       cmocka_unit_test(limits_hold)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
