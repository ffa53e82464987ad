// Tests json_load_python: it accepts the numbers that jansson refuses, and all others stay exact.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"

#include <string.h>

static json_t *load(const char *json)
{
    json_error_t problem;
    json_t *root = json_load_python(json, strlen(json), JSON_REJECT_DUPLICATES, &problem);
    if (!root) fail_msg("%s: %s", json, problem.text);
    return root;
}

static void numbers_that_jansson_refuses_do_not_break_a_file(void **state)
{
    (void)state;
    json_t *root = load("{\"model_max_length\": 1000000000000000019884624838656, \"kept\": "
                        "9223372036854775807, \"low\": -9223372036854775808, \"beyond\": "
                        "-9223372036854775809, \"a\": [NaN, Infinity, -Infinity, 1e999, -1e999],"
                        "\"real\": 0.1, \"text\": \"NaN 1e999 \\\" Infinity \\\\\", \"b\": true}");
    assert_float_equal(json_real_value(json_object_get(root, "model_max_length")), 1e30, 1e15);
    assert_true(json_is_integer(json_object_get(root, "kept")));
    assert_true(json_integer_value(json_object_get(root, "kept")) == INT64_MAX);
    assert_true(json_integer_value(json_object_get(root, "low")) == INT64_MIN);
    assert_true(json_is_real(json_object_get(root, "beyond")));
    static const char *const spelled[] = {"NaN", "Infinity", "-Infinity", "1e999", "-1e999"};
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(json_string_value(json_array_get(json_object_get(root, "a"), i)),
                            spelled[i]);
    assert_true(json_real_value(json_object_get(root, "real")) == 0.1);
    assert_string_equal(json_string_value(json_object_get(root, "text")),
                        "NaN 1e999 \" Infinity \\");
    assert_true(json_is_true(json_object_get(root, "b")));
    json_decref(root);
}

static void an_integer_of_a_thousand_digits_is_read(void **state)
{
    (void)state;
    char json[1100] = "[";
    memset(json + 1, '7', 1000);
    strcpy(json + 1001, ", 5]");
    json_t *root = load(json);
    assert_int_equal(json_string_length(json_array_get(root, 0)), 1000);
    assert_int_equal(json_integer_value(json_array_get(root, 1)), 5);
    json_decref(root);
}

static void invalid_json_is_refused_with_its_line(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "{\n\"a\": NaN,\n\"b\": nan}",
                                      "{\n\"a\": 1e999,\n\"b\": 1-2}",
                                      "[\n-,\n\"NaN]",
                                      "{\n\"a\": 01}",
                                      "[\n\"\\",
                                      "{\n\"a\": NaN, \"a\": 1}"};
    static const int line[] = {0, 3, 3, 2, 2, 2, 2};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_error_t problem = {.line = 0};
        assert_null(json_load_python(bad[i], strlen(bad[i]), JSON_REJECT_DUPLICATES, &problem));
        if (line[i]) assert_int_equal(problem.line, line[i]);
        assert_true(problem.text[0] != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_jansson_refuses_do_not_break_a_file),
        cmocka_unit_test(an_integer_of_a_thousand_digits_is_read),
        cmocka_unit_test(invalid_json_is_refused_with_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
