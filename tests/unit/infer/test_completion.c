// Tests generated text: stop strings may span tokens, and characters are shown when complete.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "infer/completion.h"

#include <string.h>

enum { PIECES = 12 };

// Feeds pieces and checks the text that each piece shows. The last text of `shown` is that of the end.
static void check(const char *const *stop, size_t stops, const char *const pieces[PIECES],
                  const char *const shown[PIECES], const char *found)
{
    completion c = {.stop = stop, .stops = stops};
    text out = {0};
    int i = 0;
    for (; pieces[i] && !c.found; i++) {
        text_clear(&out);
        completion_add(&c, pieces[i], strlen(pieces[i]), &out);
        assert_string_equal(out.chars ? out.chars : "", shown[i]);
    }
    text_clear(&out);
    completion_end(&c, &out);
    assert_string_equal(out.chars ? out.chars : "", shown[i]);
    assert_null(shown[i + 1]);
    if (found)
        assert_string_equal(c.found, found);
    else
        assert_null(c.found);
    text_clear(&out);
    completion_clear(&c);
}

#define CHECK_TEXT(stop, stops, pieces, shown, found)                                              \
    check(stop, stops, (const char *[PIECES])pieces, (const char *[PIECES])shown, found)
#define LIST(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void text_without_stop_strings_is_shown_at_once(void **state)
{
    (void)state;
    CHECK_TEXT(NULL, 0, LIST("a", " b", "", "c"), LIST("a", " b", "", "c", ""), NULL);
}

static void a_stop_string_that_spans_tokens_is_removed(void **state)
{
    (void)state;
    const char *stop[] = {"END", "\n\n"};
    CHECK_TEXT(stop, 2, LIST("one ENDtwo"), LIST("one ", ""), "END");
    CHECK_TEXT(stop, 2, LIST("one E", "N", "D two"), LIST("one ", "", "", ""), "END");
    CHECK_TEXT(stop, 2, LIST("a\n", "\n", "b"), LIST("a", "", ""), "\n\n");
    // The stop string that comes first in the text ends it.
    CHECK_TEXT(stop, 2, LIST("a\n\nEND"), LIST("a", ""), "\n\n");
}

static void a_false_beginning_of_a_stop_string_is_shown_later(void **state)
{
    (void)state;
    const char *stop[] = {"END", "ENDLESS", "aab"};
    CHECK_TEXT(stop, 1, LIST("E", "N", "E", "ND"), LIST("", "", "EN", "", ""), "END");
    CHECK_TEXT(stop, 1, LIST("one E", "N"), LIST("one ", "", "EN"), NULL);
    CHECK_TEXT(stop + 2, 1, LIST("a", "a", "a", "a", "b"), LIST("", "", "a", "a", "", ""), "aab");
}

static void characters_are_shown_when_complete(void **state)
{
    (void)state;
    const char *stop[] = {"\xe2\x82\xac!"}; // the euro sign and a mark
    CHECK_TEXT(NULL, 0, LIST("a\xc3", "\xa9", "\xf0\x9f", "\x98", "\x80"),
               LIST("a", "\xc3\xa9", "", "", "\xf0\x9f\x98\x80", ""), NULL);
    CHECK_TEXT(stop, 1, LIST("\xe2\x82", "\xac", "?"), LIST("", "", "\xe2\x82\xac?", ""), NULL);
    CHECK_TEXT(stop, 1, LIST("x\xe2\x82", "\xac", "!"), LIST("x", "", "", ""), stop[0]);
}

static void bytes_that_are_not_utf8_are_replaced(void **state)
{
    (void)state;
#define MARK "\xef\xbf\xbd"
    CHECK_TEXT(NULL, 0, LIST("a\xff", "b"), LIST("a" MARK, "b", ""), NULL);
    CHECK_TEXT(NULL, 0, LIST("\xe2\x82", "b"), LIST("", MARK "b", ""), NULL);
    CHECK_TEXT(NULL, 0, LIST("\xe2\x82"), LIST("", MARK), NULL);
    CHECK_TEXT(NULL, 0, LIST("\xe0\x80\x80"), LIST(MARK MARK MARK, ""), NULL);      // overlong
    CHECK_TEXT(NULL, 0, LIST("\xed\xa0", "\x80"), LIST(MARK MARK, MARK, ""), NULL); // surrogate
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_without_stop_strings_is_shown_at_once),
        cmocka_unit_test(a_stop_string_that_spans_tokens_is_removed),
        cmocka_unit_test(a_false_beginning_of_a_stop_string_is_shown_later),
        cmocka_unit_test(characters_are_shown_when_complete),
        cmocka_unit_test(bytes_that_are_not_utf8_are_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
