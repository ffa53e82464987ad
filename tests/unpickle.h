// unpickle.h -- reads a pickle of Python of dicts, lists, texts, numbers, booleans and None, for tests: what base/values.h
// writes. A sequence of bytes that is no such pickle fails the test.
#ifndef TESTS_UNPICKLE_H
#define TESTS_UNPICKLE_H

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { UNPICKLE_STACK = 4096 };

// Values that are not yet in a list or a dict; NULL is a mark.
typedef struct unpickle_stack {
    json_t *values[UNPICKLE_STACK];
    int count;
} unpickle_stack;

static void unpickle_push(unpickle_stack *s, json_t *value)
{
    assert_true(s->count < UNPICKLE_STACK);
    s->values[s->count++] = value;
}

static uint64_t unpickle_number(const unsigned char *p, int bytes)
{
    uint64_t n = 0;
    for (int i = bytes; i-- > 0;) n = n << 8 | p[i];
    return n;
}

static double unpickle_double(const unsigned char *p)
{
    uint64_t bits = 0;
    double x;
    for (int i = 0; i < 8; i++) bits = bits << 8 | p[i];
    memcpy(&x, &bits, sizeof x);
    return x;
}

// Adds the values behind the last mark to the list or the dict in front of it.
static void unpickle_add(unpickle_stack *s, bool pairs)
{
    int mark = s->count - 1;
    while (mark >= 0 && s->values[mark]) mark--;
    assert_true(mark > 0);
    json_t *to = s->values[mark - 1];
    for (int i = mark + 1; i < s->count; i++)
        if (pairs) {
            assert_true(json_is_string(s->values[i]) && i + 1 < s->count);
            assert_int_equal(
                json_object_set_new(to, json_string_value(s->values[i]), s->values[i + 1]), 0);
            json_decref(s->values[i++]);
        } else {
            assert_int_equal(json_array_append_new(to, s->values[i]), 0);
        }
    s->count = mark;
}

// The caller releases it with json_decref.
static json_t *unpickle(const void *data, size_t bytes)
{
    static unpickle_stack s;
    const unsigned char *p = data, *end = p + bytes;
    s.count = 0;
    assert_true(bytes > 3 && p[0] == 0x80 && p[1] == 2);
    for (p += 2; p < end && *p != '.';) {
        const int op = *p++;
        const size_t left = (size_t)(end - p), text = left > 4 ? unpickle_number(p, 4) : 0;
        size_t took = 0;
        if (op == '}') unpickle_push(&s, json_object());
        if (op == ']') unpickle_push(&s, json_array());
        if (op == '(') unpickle_push(&s, NULL);
        if (op == 'N') unpickle_push(&s, json_null());
        if (op == 0x88 || op == 0x89) unpickle_push(&s, json_boolean(op == 0x88));
        if (op == 'u' || op == 'e') unpickle_add(&s, op == 'u');
        if (op == 'J') unpickle_push(&s, json_integer((int32_t)unpickle_number(p, took = 4)));
        if (op == 0x8a) {
            assert_int_equal(*p, 8);
            unpickle_push(&s, json_integer((int64_t)unpickle_number(p + 1, 8)));
            took = 9;
        }
        if (op == 'G') {
            unpickle_push(&s, json_real(unpickle_double(p)));
            took = 8;
        }
        if (op == 'X') {
            assert_true(text + 4 < left);
            json_t *string = json_stringn((const char *)p + 4, text);
            assert_non_null(string); // it is UTF-8
            unpickle_push(&s, string);
            took = 4 + text;
        }
        assert_true(memchr("}](N\x88\x89ueJ\x8aGX", op, 13) && took < left);
        p += took;
    }
    assert_true(p == end - 1 && s.count == 1);
    return s.values[0];
}

#endif
