// Tests strings, numbers that people write, the nearest valid word, and UTF-8.
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_string_grows_and_keeps_zero_bytes(void **state)
{
    (void)state;
    text t = {0};
    for (int i = 0; i < 1000; i++) text_addf(&t, "%d,", i);
    assert_int_equal(t.bytes, 10 * 2 + 90 * 3 + 900 * 4);
    assert_int_equal(t.chars[t.bytes], 0);
    text_clear(&t);
    text_add_bytes(&t, "a\0b", 3);
    text_add(&t, "c");
    assert_memory_equal(t.chars, "a\0bc", 5);
    text_clear(&t);
    assert_null(t.chars);
}

static void counts_take_exponents_and_suffixes(void **state)
{
    (void)state;
    static const struct {
        const char *s;
        int64_t value;
    } good[] = {{"0", 0},           {"5e8", 500000000},
                {"64Mi", 64 << 20}, {"10k", 10000},
                {"1_000", 1000},    {"1.5k", 1500},
                {"2.5e1", 25},      {"100e-2", 1},
                {"-3", -3},         {"1Ti", INT64_C(1) << 40},
                {"0.5Ki", 512},     {"9223372036854775807", INT64_MAX},
                {"0e999", 0}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        int64_t value = -77;
        assert_true(text_to_count(good[i].s, &value));
        assert_int_equal(value, good[i].value);
    }
    static const char *const bad[] = {"",
                                      "k",
                                      "1.5",
                                      "1e-1",
                                      "9223372036854775808",
                                      "1e19",
                                      "9000000Ti",
                                      "1 k",
                                      "0x10",
                                      "1__0",
                                      "_1",
                                      "1_",
                                      "1e",
                                      "10kk",
                                      "nan",
                                      "1e99999999999",
                                      ".",
                                      "--1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t value;
        assert_false(text_to_count(bad[i], &value));
    }
}

static void durations_take_units(void **state)
{
    (void)state;
    static const struct {
        const char *s;
        int64_t ms;
    } good[] = {{"30s", 30000}, {"500ms", 500}, {"2m", 120000}, {"1h", 3600000}, {"1.5", 1500}};
    int64_t ms;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(text_to_duration_ms(good[i].s, &ms));
        assert_int_equal(ms, good[i].ms);
    }
    assert_false(text_to_duration_ms("3d", &ms));
    assert_false(text_to_duration_ms("0.1ms", &ms));
    assert_false(text_to_duration_ms("s", &ms));
}

static void a_number_or_word_with_trailing_text_is_refused(void **state)
{
    (void)state;
    double d;
    bool b;
    assert_true(text_to_double("3e-4", &d) && d == 3e-4);
    assert_true(text_to_double("-.5", &d) && d == -0.5);
    assert_false(text_to_double("", &d) || text_to_double("1x", &d) || text_to_double("nan", &d));
    assert_false(text_to_double("inf", &d) || text_to_double("1e999", &d));
    assert_false(text_to_double("0x1", &d) || text_to_double(" 1", &d));
    assert_true(text_to_bool("Yes", &b) && b);
    assert_true(text_to_bool("off", &b) && !b);
    assert_false(text_to_bool("maybe", &b) || text_to_bool("", &b));
}

static void text_nearest_returns_a_near_word_or_null(void **state)
{
    (void)state;
    static const char *const words[] = {"global_batch", "micro_batch", "steps", "seed", "out"};
    size_t n = sizeof words / sizeof words[0];
    assert_string_equal(text_nearest("global-batch", words, n), "global_batch");
    assert_string_equal(text_nearest("gobal_bacth", words, n), "global_batch");
    assert_string_equal(text_nearest("STEP", words, n), "steps");
    assert_string_equal(text_nearest("sede", words, n), "seed");
    assert_null(text_nearest("banana", words, n));
    assert_null(text_nearest("", words, n));
    assert_null(text_nearest("x", words, 0));
}

static void sizes_are_shown_in_powers_of_1024(void **state)
{
    (void)state;
    char s[24];
    text_bytes(s, 1.5 * (1 << 30));
    assert_string_equal(s, "1.50 GiB");
    text_bytes(s, 1023);
    assert_string_equal(s, "1023 B");
    text_bytes(s, -2048);
    assert_string_equal(s, "-2.00 KiB");
}

static void the_first_invalid_utf8_byte_is_found(void **state)
{
    (void)state;
    size_t offset = 99;
    const char *good =
        "plain text of some length, z\xc3\xbc \xe2\x82\xac \xf0\x9f\x8e\x89 \xf4\x8f\xbf\xbf";
    assert_true(text_is_utf8(good, strlen(good), &offset));
    assert_true(text_is_utf8("", 0, &offset));
    static const char *const bad[] = {
        "12345678\x80",         // a continuation byte alone
        "12345678\xc0\xaf",     // overlong
        "12345678\xe0\x9f\xbf", // overlong
        "12345678\xed\xa0\x80", // surrogate
        "12345678\xf0\x8f\xbf\xbf",
        "12345678\xf4\x90\x80\x80",
        "12345678\xff",
        "12345678\xe2\x82", // truncated
        "12345678\xe2\x28\xa1",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(text_is_utf8(bad[i], strlen(bad[i]), &offset));
        assert_int_equal(offset, 8);
    }
    assert_false(text_is_utf8("\xff", 1, NULL));
}

static void expect_printable(const char *s, const char *allowed, const char *shown)
{
    text t = {0};
    text_add_printable(&t, s, strlen(s), allowed);
    assert_string_equal(t.chars, shown);
    text_clear(&t);
}

static void terminal_control_characters_are_escaped(void **state)
{
    (void)state;
    expect_printable("", "", "");
    expect_printable("plain, z\xc3\xbc \xe2\x82\xac \xf0\x9f\x8e\x89", "",
                     "plain, z\xc3\xbc \xe2\x82\xac \xf0\x9f\x8e\x89");
    expect_printable("a\x1b[31mb\r\n\t\x7f", "", "a\\x1b[31mb\\r\\n\\t\\x7f");
    expect_printable("a\x1b\n\t\r", "\n\t", "a\\x1b\n\t\\r");
    // U+009B starts a command of a terminal as ESC [ does; U+0085 and U+2028 break lines; U+202E
    // turns the direction of writing.
    expect_printable("\xc2\x9b\xc2\x85\xc2\xa0", "", "\\xc2\\x9b\\xc2\\x85\xc2\xa0");
    expect_printable("\xe2\x80\xa8\xe2\x80\xae\xe2\x80\x93", "",
                     "\\xe2\\x80\\xa8\\xe2\\x80\\xae\xe2\x80\x93");
    expect_printable("caf\xe9 \x9b", "", "caf\\xe9 \\x9b"); // not UTF-8
    text t = {0};
    text_add_printable(&t, "a\0b", 3, "\n");
    assert_string_equal(t.chars, "a\\x00b");
    text_clear(&t);
}

static void texts_are_cut_at_characters(void **state)
{
    (void)state;
    static const char euros[] = "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac";
    static const size_t kept[] = {0, 0, 0, 3, 3, 3, 6, 6, 6, 9, 9};
    for (size_t most = 0; most < sizeof kept / sizeof *kept; most++) {
        char line[16] = {0};
        assert_int_equal(text_cut(euros, most), kept[most]);
        memcpy(line, euros, most < 9 ? most : 9);
        text_trim(line);
        assert_int_equal(strlen(line), kept[most]);
    }
    assert_int_equal(text_cut("\xf0\x9f\x8e\x89", 3), 0);
    assert_int_equal(text_cut("plain", 3), 3);
    assert_int_equal(text_cut("\x80\x80\x80\x80\x80\x80", 5), 5); // not UTF-8: counts bytes
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_string_grows_and_keeps_zero_bytes),
        cmocka_unit_test(counts_take_exponents_and_suffixes),
        cmocka_unit_test(durations_take_units),
        cmocka_unit_test(a_number_or_word_with_trailing_text_is_refused),
        cmocka_unit_test(text_nearest_returns_a_near_word_or_null),
        cmocka_unit_test(sizes_are_shown_in_powers_of_1024),
        cmocka_unit_test(the_first_invalid_utf8_byte_is_found),
        cmocka_unit_test(terminal_control_characters_are_escaped),
        cmocka_unit_test(texts_are_cut_at_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
