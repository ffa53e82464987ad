// The bytes of messages of Protocol Buffers, compared with those of its own documentation and of protoc.
#include "base/protobuf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define EXPECT(t, expected)                                                                        \
    do {                                                                                           \
        assert_int_equal((t).bytes, sizeof(expected) - 1);                                         \
        assert_memory_equal((t).chars, expected, sizeof(expected) - 1);                            \
        text_clear(&(t));                                                                          \
    } while (0)

// The documentation's own example: field 1 with the value 150.
static void test_varints(void **state)
{
    (void)state;
    text t = {0};
    protobuf_add_uint(&t, 1, 150);
    EXPECT(t, "\x08\x96\x01");
    protobuf_add_uint(&t, 1, 0);
    EXPECT(t, "\x08\x00");
    protobuf_add_uint(&t, 1, UINT64_MAX); // -1 as int64
    EXPECT(t, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    protobuf_add_uint(&t, 2047, 127); // a field number of two bytes
    EXPECT(t, "\xf8\x7f\x7f");
    protobuf_add_uint(&t, (1 << 29) - 1, 1);
    EXPECT(t, "\xf8\xff\xff\xff\x0f\x01");
    protobuf_add_varint(&t, 300);
    EXPECT(t, "\xac\x02");
}

static void test_fixed(void **state)
{
    (void)state;
    text t = {0};
    protobuf_add_double(&t, 1, 1.0);
    EXPECT(t, "\x09\x00\x00\x00\x00\x00\x00\xf0\x3f");
    protobuf_add_float(&t, 2, -2.5f);
    EXPECT(t, "\x15\x00\x00\x20\xc0");
    protobuf_add_fixed64(&t, 8, UINT64_C(0x0102030405060708));
    EXPECT(t, "\x41\x08\x07\x06\x05\x04\x03\x02\x01");
}

static void test_bytes(void **state)
{
    (void)state;
    text t = {0}, inner = {0};
    protobuf_add_bytes(&t, 2, "testing", 7);
    EXPECT(t, "\x12\x07testing");
    protobuf_add_bytes(&t, 2, NULL, 0);
    EXPECT(t, "\x12\x00");
    protobuf_add_uint(&inner, 1, 150);
    protobuf_add_message(&t, 3, &inner);
    EXPECT(t, "\x1a\x03\x08\x96\x01");
    text_clear(&inner);
}

static void test_failed(void **state)
{
    (void)state;
    text t = {0}, inner = {0};
    text_fail(&inner);
    protobuf_add_uint(&t, 1, 1);
    protobuf_add_message(&t, 2, &inner);
    assert_true(t.failed);
    text_clear(&t);
    text_clear(&inner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_varints),
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
