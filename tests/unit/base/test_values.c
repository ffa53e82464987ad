// Tests both forms of a document: they hold the same, and the pickle has the bytes that Python reads.
#include "unpickle.h"

#include "base/values.h"

static void write(values *v)
{
    values_open_object(v);
    values_key(v, "none");
    values_none(v);
    values_key(v, "text");
    values_text(v, "a \"quoted\"\nline, \xc3\xa9");
    values_key(v, "not UTF-8");
    values_text(v, "\xff!");
    values_key(v, "numbers");
    values_open_list(v);
    values_int(v, 0);
    values_int(v, -1);
    values_int(v, INT32_MAX);
    values_int(v, (int64_t)INT32_MAX + 1);
    values_int(v, INT64_MIN);
    values_double(v, -2.5);
    values_close_list(v);
    values_key(v, "empty");
    values_open_list(v);
    values_open_list(v);
    values_close_list(v);
    values_open_object(v);
    values_close_object(v);
    values_bool(v, true);
    values_bool(v, false);
    values_close_list(v);
    values_close_object(v);
    values_end(v);
}

static void test_both_forms_hold_the_same(void **state)
{
    (void)state;
    json_error_t why;
    values json = {.form = VALUES_JSON}, pickle = {.form = VALUES_PICKLE};
    write(&json);
    write(&pickle);
    json_t *a = json_loads(json.out.chars, 0, &why),
           *b = unpickle(pickle.out.chars, pickle.out.bytes);
    if (!a) fail_msg("%s: %s", why.text, json.out.chars);
    assert_int_equal(json_object_size(a), 5);
    assert_true(json_equal(a, b));
    assert_string_equal(json_string_value(json_object_get(b, "not UTF-8")), "\xef\xbf\xbd!");
    json_decref(a);
    json_decref(b);
    text_clear(&json.out);
    text_clear(&pickle.out);
}

// pickle.loads of Python 3.11 gives {'a': [1, None, 4294967296, 0.5, True], 'b': {}}.
static void test_a_pickle_has_these_bytes(void **state)
{
    (void)state;
    static const char want[] = "\x80\x02}(X\1\0\0\0a](J\1\0\0\0N\x8a\x08\0\0\0\0\1\0\0\0G\x3f\xe0\0"
                               "\0\0\0\0\0\x88"
                               "eX\1\0\0\0b}(uu.";
    values v = {.form = VALUES_PICKLE};
    values_open_object(&v);
    values_key(&v, "a");
    values_open_list(&v);
    values_int(&v, 1);
    values_none(&v);
    values_int(&v, INT64_C(1) << 32);
    values_double(&v, 0.5);
    values_bool(&v, true);
    values_close_list(&v);
    values_key(&v, "b");
    values_open_object(&v);
    values_close_object(&v);
    values_close_object(&v);
    values_end(&v);
    assert_int_equal(text_check(&v.out, NULL), OK);
    assert_int_equal(v.out.bytes, sizeof want - 1);
    assert_memory_equal(v.out.chars, want, sizeof want - 1);
    text_clear(&v.out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_forms_hold_the_same),
        cmocka_unit_test(test_a_pickle_has_these_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
