// Small templates give the text and the generation blocks that Jinja2 gives in the environment of transformers
// (tests/golden/make_jinja_golden.py), and both refuse the same ones.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "jinja/jinja.h"

#include <stdlib.h>
#include <string.h>

static size_t points(const char *s, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) n += ((unsigned char)s[i] & 0xc0) != 0x80;
    return n;
}

// The generation blocks of a text, adjacent ones as one, in characters.
static json_t *spans(const jinja_output *o)
{
    json_t *all = json_array(), *open = NULL;
    size_t byte = 0, point = 0;
    for (size_t i = 0; i < o->runs; i++) {
        const size_t end = point + points(o->chars.chars + byte, o->run[i].bytes);
        byte += o->run[i].bytes;
        if (!o->run[i].generation) open = NULL;
        if (o->run[i].generation && open) json_array_set_new(open, 1, json_integer((int)end));
        if (o->run[i].generation && !open) {
            open = json_pack("[i, i]", (int)point, (int)end);
            json_array_append_new(all, open);
        }
        point = end;
    }
    return all;
}

static json_t *joined(const json_t *given)
{
    json_t *all = json_array(), *last = NULL;
    for (size_t i = 0; i < json_array_size(given); i++) {
        const json_t *span = json_array_get(given, i);
        if (last && json_equal(json_array_get(last, 1), json_array_get(span, 0)))
            json_array_set(last, 1, json_array_get(span, 1));
        else
            json_array_append_new(all, last = json_deep_copy(span));
    }
    return all;
}

static void check_text(const char *name, const json_t *c, const jinja_output *o)
{
    const json_t *wanted = json_object_get(c, "text");
    json_t *ours = spans(o), *theirs = joined(json_object_get(c, "generation"));
    if (o->chars.bytes != json_string_length(wanted) ||
        memcmp(o->chars.chars, json_string_value(wanted), o->chars.bytes) != 0)
        fail_msg("%s:\n%s\nwanted:\n%s", name, o->chars.chars, json_string_value(wanted));
    if (!json_equal(ours, theirs)) fail_msg("%s: other generation blocks", name);
    json_decref(ours);
    json_decref(theirs);
}

static void check_case(const json_t *c, const json_t *variables)
{
    const char *name = json_string_value(json_object_get(c, "name"));
    const json_t *source = json_object_get(c, "template");
    jinja *t = NULL;
    jinja_output o = {0};
    err e = {0};
    status s = jinja_open("case", json_string_value(source), json_string_length(source), &t, &e);
    if (s == OK) s = jinja_render(t, variables, 0, NULL, &o, &e);
    if (json_object_get(c, "refused")) {
        if (s != E_USAGE) fail_msg("%s is not refused: %s", name, o.chars.chars);
        assert_ptr_equal(strstr(e.text, "case:1: "), e.text);
    } else {
        if (s != OK) fail_msg("%s: %s", name, e.text);
        check_text(name, c, &o);
    }
    jinja_output_clear(&o);
    jinja_close(t);
}

static void as_jinja2(void **state)
{
    char *chars = NULL;
    size_t bytes = 0;
    err e = {0};
    json_error_t problem;
    (void)state;
    assert_int_equal(file_read(TESTS_DIR "/golden/jinja/cases.json", &chars, &bytes, &e), OK);
    json_t *root = json_loadb(chars, bytes, JSON_ALLOW_NUL, &problem);
    assert_non_null(root);
    const json_t *cases = json_object_get(root, "cases");
    assert_true(json_array_size(cases) > 250);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_case(json_array_get(cases, i), json_object_get(root, "variables"));
    json_decref(root);
    free(chars);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_jinja2)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
