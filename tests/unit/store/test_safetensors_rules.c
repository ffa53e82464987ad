// Each file breaks one rule of the safetensors format. The reader refuses it with one line that names
// the file, and never reads a byte outside it.
#include "store/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

static int make_path(void **state)
{
    (void)state;
    strcpy(path, "/tmp/trireme-rules-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    return close(fd);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static void put(const void *bytes, size_t count)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, count, f), count);
    fclose(f);
}

// Builds a file of this header and `data` zero bytes. Returns the file's length.
static size_t build(const char *header, size_t data, uint8_t *out)
{
    uint64_t n = strlen(header);
    for (int i = 0; i < 8; i++) out[i] = (uint8_t)(n >> 8 * i);
    memcpy(out + 8, header, n);
    memset(out + 8 + n, 0, data);
    return 8 + n + data;
}

static void refuse_bytes(const void *bytes, size_t count, const char *because)
{
    err e = {0};
    safetensors *s = NULL;
    put(bytes, count);
    assert_int_equal(safetensors_open(path, &s, &e), E_USAGE);
    assert_null(s);
    if (!strstr(e.text, because)) fail_msg("\"%s\" does not say \"%s\"", e.text, because);
    assert_non_null(strstr(e.text, path));
    assert_null(strchr(e.text, '\n'));
}

static void refuse(const char *header, size_t data, const char *because)
{
    uint8_t bytes[4096];
    refuse_bytes(bytes, build(header, data, bytes), because);
}

static void accept(const char *header, size_t data, size_t tensors)
{
    err e = {0};
    safetensors *s = NULL;
    uint8_t bytes[4096];
    put(bytes, build(header, data, bytes));
    if (safetensors_open(path, &s, &e) != OK) fail_msg("refused: %s", e.text);
    assert_int_equal(safetensors_count(s), tensors);
    safetensors_close(s);
}

static void valid_files_are_read(void **state)
{
    (void)state;
    accept("{}", 0, 0);
    accept("{}      ", 0, 0);
    accept("{\"__metadata__\":{\"format\":\"pt\"}}", 0, 0);
    accept("{\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, 1);
    accept("{\"e\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[0,0]},"
           "\"f\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
           "\"g\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[3,3]}}",
           3, 3);
    // The order in the header differs from the order of the data.
    accept("{\"b\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[2,10]},"
           "\"a\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[0,2]}}",
           10, 2);
}

static void a_type_that_trireme_lacks_is_listed_but_marked(void **state)
{
    (void)state;
    uint8_t bytes[512];
    safetensors *s = NULL;
    put(bytes, build("{\"a\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                     "\"b\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[2,4]},"
                     "\"c\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[4,6]}}",
                     6, bytes));
    assert_int_equal(safetensors_open(path, &s, NULL), OK);
    assert_false(safetensors_find(s, "a")->known_type);
    assert_int_equal(safetensors_find(s, "a")->type, DTYPES);
    assert_string_equal(safetensors_find(s, "a")->type_word, "I8");
    assert_int_equal(safetensors_find(s, "b")->bytes, 2);
    assert_true(safetensors_find(s, "c")->known_type);
    assert_int_equal(safetensors_find(s, "c")->type, F16);
    safetensors_close(s);
}

static void a_broken_length_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[64] = {0};
    refuse_bytes(bytes, 0, "0 bytes long");
    refuse_bytes(bytes, 7, "7 bytes long");
    refuse_bytes(bytes, 8, "does not start");
    bytes[0] = 3;
    refuse_bytes(bytes, 10, "only 2 bytes follow");
    memset(bytes, 0xff, 8);
    refuse_bytes(bytes, 64, "at most 100000000");
    uint64_t n = 100000001;
    memcpy(bytes, &n, 8);
    refuse_bytes(bytes, 64, "at most 100000000");
}

static void a_header_that_is_no_json_object_is_refused(void **state)
{
    (void)state;
    refuse("[]", 0, "does not start with '{'");
    refuse(" {}", 0, "does not start with '{'");
    refuse("{\"a\":", 0, "header:");
    refuse("{} {}", 0, "header:");
    refuse("{\"\xff\":1}", 0, "header:");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[99999999999999999999],\"data_offsets\":[0,0]}}", 0,
           "header:");
}

static void names_that_appear_twice_are_refused(void **state)
{
    (void)state;
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
           "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
           2, "duplicate");
    refuse("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
           "duplicate");
}

static void broken_entries_are_refused_by_name(void **state)
{
    (void)state;
    refuse("{\"a\":3}", 0, "\"a\": not an object");
    refuse("{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "F33");
    refuse("{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype");
    refuse("{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype");
    refuse("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "shape");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4,
           "unknown field \"x\"");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "shape[0]");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "shape[0]");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
           "9 dimensions");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "data_offsets");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "data_offsets");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "before");
    refuse("{\"__metadata__\":[]}", 0, "__metadata__");
    refuse("{\"__metadata__\":{\"a\":1}}", 0, "__metadata__");
    refuse("{\"new\\nline\":3}", 0, "new?line");
}

static void shapes_that_overflow_are_refused(void **state)
{
    (void)state;
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}",
           0, "overflow");
    refuse("{\"a\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0,
           "overflow");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[0,9223372036854775807,9],\"data_offsets\":[0,0]}}",
           0, "overflow");
    refuse("{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, "not whole");
}

static void offsets_that_do_not_cover_the_data_exactly_are_refused(void **state)
{
    (void)state;
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "needs 8 bytes");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 3, "only 3 bytes");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, "1 bytes follow");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "hole");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]}}",
           5, "hole");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
           3, "inside");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,1]}}",
           2, "inside");
    refuse("{}", 1, "1 bytes follow");
}

static void a_missing_file_is_refused(void **state)
{
    (void)state;
    err e = {0};
    safetensors *s = NULL;
    assert_int_equal(safetensors_open("/nonexistent/x.safetensors", &s, &e), E_USAGE);
    assert_non_null(strstr(e.text, "/nonexistent/x.safetensors"));
}

static const char *const GOOD =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[24,30]}}";

// Reads every byte of every tensor, so that a sanitizer or the kernel sees a bad range.
static unsigned read_everything(const safetensors *s)
{
    unsigned sum = 0;
    for (size_t i = 0; i < safetensors_count(s); i++) {
        const safetensors_tensor *t = safetensors_get(s, i);
        assert_ptr_equal(safetensors_find(s, t->name), t);
        for (uint64_t k = 0; k < t->bytes; k++) sum += ((const uint8_t *)t->data)[k];
    }
    return sum;
}

static void try_bytes(const uint8_t *bytes, size_t count, bool may_be_good)
{
    err e = {0};
    safetensors *s = NULL;
    put(bytes, count);
    status result = safetensors_open(path, &s, &e);
    assert_true(result == E_USAGE || (may_be_good && result == OK));
    if (s) read_everything(s);
    safetensors_close(s);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[4096];
    size_t count = build(GOOD, 30, bytes);
    for (size_t n = 0; n < count; n++) try_bytes(bytes, n, false);
    try_bytes(bytes, count, true);
}

static void every_single_bit_flip_is_refused_or_harmless(void **state)
{
    (void)state;
    uint8_t bytes[4096];
    size_t count = build(GOOD, 30, bytes);
    for (size_t bit = 0; bit < (count - 30) * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        try_bytes(bytes, count, true);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_files_are_read),
        cmocka_unit_test(a_type_that_trireme_lacks_is_listed_but_marked),
        cmocka_unit_test(a_broken_length_is_refused),
        cmocka_unit_test(a_header_that_is_no_json_object_is_refused),
        cmocka_unit_test(names_that_appear_twice_are_refused),
        cmocka_unit_test(broken_entries_are_refused_by_name),
        cmocka_unit_test(shapes_that_overflow_are_refused),
        cmocka_unit_test(offsets_that_do_not_cover_the_data_exactly_are_refused),
        cmocka_unit_test(a_missing_file_is_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_single_bit_flip_is_refused_or_harmless),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
