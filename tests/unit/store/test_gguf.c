// GGUF files: what the writer writes the reader reads, and each file that breaks a rule is refused with one line that
// names the file.
#include "store/gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

static int make_path(void **state)
{
    (void)state;
    strcpy(path, "/tmp/trireme-gguf-XXXXXX");
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static status give_row(void *arg, size_t i, int64_t row, float *out, err *e)
{
    (void)arg;
    (void)e;
    for (int k = 0; k < 32; k++) out[k] = (float)(100 * (int)i + 10 * (int)row + k);
    return OK;
}

static void a_written_file_is_read(void **state)
{
    (void)state;
    err e = {.code = OK};
    gguf *g = NULL;
    gguf_keys k = {.count = 0};
    const int32_t numbers[] = {7, -8};
    gguf_add_string(&k, "general.architecture", "llama", 5);
    gguf_add_u32(&k, "a.u", 5);
    gguf_add_real(&k, "a.r", 0.5);
    gguf_add_bool(&k, "a.b", true);
    gguf_add_array(&k, "a.n", GGUF_I32, 2);
    gguf_put(&k, numbers, sizeof numbers);
    gguf_add_array(&k, "a.s", GGUF_STRING, 2);
    gguf_put_string(&k, "", 0);
    gguf_put_string(&k, "two", 3);
    gguf_output t[] = {
        {.name = "matrix", .kind = gguf_kind_find(GGUF_F16), .dims = 2, .dim = {32, 3, 1, 1}},
        {.name = "vector", .kind = gguf_kind_find(GGUF_F32), .dims = 1, .dim = {32, 1, 1, 1}}};
    assert_int_equal(gguf_write(path, &k, t, 2, give_row, NULL, &e), OK);
    gguf_keys_clear(&k);
    assert_int_equal(gguf_open(path, &g, &e), OK);
    int64_t whole;
    double real;
    bool flag;
    assert_true(gguf_value_int(gguf_value_find(g, "a.u"), 0, &whole));
    assert_int_equal(whole, 5);
    assert_true(gguf_value_real(gguf_value_find(g, "a.r"), 0, &real));
    assert_true(real == 0.5);
    assert_true(gguf_value_bool(gguf_value_find(g, "a.b"), &flag));
    assert_true(flag);
    assert_true(gguf_value_int(gguf_value_find(g, "a.n"), 1, &whole));
    assert_int_equal(whole, -8);
    assert_false(gguf_value_int(gguf_value_find(g, "a.n"), 2, &whole));
    const gguf_value *s = gguf_value_find(g, "a.s");
    assert_int_equal(s->count, 2);
    assert_int_equal(s->strings[0].bytes, 0);
    assert_memory_equal(s->strings[1].chars, "two", 3);
    assert_null(gguf_value_find(g, "a.x"));
    const gguf_tensor *m = gguf_tensor_find(g, "matrix");
    float row[32];
    gguf_dequantize(m->kind, m->data + 64, 0, 32, row);
    assert_true(row[31] == 41);
    assert_int_equal(gguf_tensor_find(g, "vector")->bytes, 128);
    gguf_close(g);
}

// ---- Files that break a rule

typedef struct bytes {
    uint8_t b[4096];
    size_t n;
} bytes;

static void put(bytes *x, const void *p, size_t n)
{
    memcpy(x->b + x->n, p, n);
    x->n += n;
}

static void put32(bytes *x, uint32_t v)
{
    put(x, &v, sizeof v);
}

static void put64(bytes *x, uint64_t v)
{
    put(x, &v, sizeof v);
}

static void put_text(bytes *x, const char *s)
{
    put64(x, strlen(s));
    put(x, s, strlen(s));
}

static void begin(bytes *x, uint64_t tensors, uint64_t keys)
{
    x->n = 0;
    put(x, "GGUF", 4);
    put32(x, 3);
    put64(x, tensors);
    put64(x, keys);
}

static void put_tensor(bytes *x, const char *name, uint32_t dims, const uint64_t *dim,
                       uint32_t kind, uint64_t offset)
{
    put_text(x, name);
    put32(x, dims);
    for (uint32_t i = 0; i < dims; i++) put64(x, dim[i]);
    put32(x, kind);
    put64(x, offset);
}

static void refuse(const bytes *x, const char *because)
{
    err e = {.code = OK};
    gguf *g = NULL;
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(x->b, 1, x->n, f), x->n);
    fclose(f);
    assert_int_equal(gguf_open(path, &g, &e), E_USAGE);
    assert_null(g);
    if (!strstr(e.text, because)) fail_msg("\"%s\" does not say \"%s\"", e.text, because);
    assert_non_null(strstr(e.text, path));
}

static void headers_that_break_a_rule(void **state)
{
    (void)state;
    bytes x = {.n = 0};
    put(&x, "GGML", 4);
    refuse(&x, "no GGUF file");
    begin(&x, 0, 0);
    x.b[4] = 1;
    refuse(&x, "version 1; valid: 2, 3");
    x.b[4] = 0, x.b[7] = 3;
    refuse(&x, "big-endian");
    begin(&x, 0, UINT64_MAX);
    refuse(&x, "more than fit in it");
    begin(&x, UINT64_C(1) << 60, 0);
    refuse(&x, "more than fit in it");
    x.n = 20;
    refuse(&x, "ends within the description");
}

static void values_that_break_a_rule(void **state)
{
    (void)state;
    bytes x = {.n = 0};
    begin(&x, 0, 1);
    put_text(&x, "");
    put64(&x, 0), put64(&x, 0);
    refuse(&x, "empty or not UTF-8");
    begin(&x, 0, 1);
    put64(&x, UINT64_MAX);
    put64(&x, 0), put64(&x, 0);
    refuse(&x, "more than the format allows");
    begin(&x, 0, 1);
    put_text(&x, "key"), put32(&x, 99), put64(&x, 0);
    refuse(&x, "type 99");
    begin(&x, 0, 1);
    put_text(&x, "key"), put32(&x, GGUF_ARRAY), put32(&x, GGUF_ARRAY), put64(&x, 1);
    refuse(&x, "which the format does not have");
    begin(&x, 0, 1);
    put_text(&x, "key"), put32(&x, GGUF_ARRAY), put32(&x, GGUF_U64), put64(&x, UINT64_C(1) << 61);
    refuse(&x, "more than the file has left");
    begin(&x, 0, 1);
    put_text(&x, "key"), put32(&x, GGUF_ARRAY), put32(&x, GGUF_STRING),
        put64(&x, UINT64_C(1) << 61);
    refuse(&x, "more than the file has left");
    begin(&x, 0, 1);
    put_text(&x, "key"), put32(&x, GGUF_STRING), put64(&x, 9);
    refuse(&x, "more than the file has left");
    begin(&x, 0, 1);
    put_text(&x, "key"), put32(&x, GGUF_BOOL), put(&x, "\2", 1);
    refuse(&x, "flag of value 2");
    begin(&x, 0, 2);
    for (int i = 0; i < 2; i++) put_text(&x, "key"), put32(&x, GGUF_U32), put32(&x, 0);
    refuse(&x, "key key is there twice");
    begin(&x, 0, 1);
    put_text(&x, "general.alignment"), put32(&x, GGUF_U32), put32(&x, 24);
    refuse(&x, "no power of two");
}

// One tensor and 64 bytes of data.
static void one_tensor(bytes *x, const char *name, uint32_t dims, const uint64_t *dim,
                       uint32_t kind, uint64_t offset)
{
    static const uint8_t zeros[128];
    begin(x, 1, 0);
    put_tensor(x, name, dims, dim, kind, offset);
    put(x, zeros, 32 - x->n % 32);
    put(x, zeros, 64);
}

static void tensors_that_break_a_rule(void **state)
{
    (void)state;
    static const uint64_t dim[] = {16, 1, 1, 1, 1}, none[] = {0},
                          huge[] = {UINT64_C(1) << 40, UINT64_C(1) << 40};
    static const uint64_t odd[] = {33}, wide[] = {17};
    static const uint8_t zeros[256];
    bytes x = {.n = 0};
    one_tensor(&x, "t", 0, dim, GGUF_F32, 0);
    refuse(&x, "0 dimensions; valid: 1 to 4");
    one_tensor(&x, "t", 5, dim, GGUF_F32, 0);
    refuse(&x, "5 dimensions");
    one_tensor(&x, "t", 1, none, GGUF_F32, 0);
    refuse(&x, "dimension of 0 elements");
    one_tensor(&x, "t", 2, huge, GGUF_F32, 0);
    refuse(&x, "2^63 elements in all");
    one_tensor(&x, "t", 1, dim, 27, 0);
    refuse(&x, "kind I64; valid are F32, F16");
    one_tensor(&x, "t", 1, dim, 1234, 0);
    refuse(&x, "kind number 1234");
    one_tensor(&x, "t", 1, odd, GGUF_Q8_0, 0);
    refuse(&x, "multiples of 32");
    one_tensor(&x, "t", 1, dim, GGUF_F32, 8);
    refuse(&x, "no multiple of the alignment 32");
    one_tensor(&x, "t", 1, dim, GGUF_F32, UINT64_MAX - 31);
    refuse(&x, "behind the end of the file");
    one_tensor(&x, "t", 1, wide, GGUF_F32, 0);
    refuse(&x, "behind the end of the file");
    begin(&x, 2, 0);
    put_tensor(&x, "a", 1, dim, GGUF_F32, 0), put_tensor(&x, "b", 1, dim, GGUF_F32, 32);
    put(&x, zeros, 256);
    refuse(&x, "tensors a and b share bytes");
    begin(&x, 2, 0);
    put_tensor(&x, "a", 1, dim, GGUF_F32, 0), put_tensor(&x, "a", 1, dim, GGUF_F32, 64);
    put(&x, zeros, 256);
    refuse(&x, "tensor a is there twice");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_written_file_is_read),
        cmocka_unit_test(headers_that_break_a_rule),
        cmocka_unit_test(values_that_break_a_rule),
        cmocka_unit_test(tensors_that_break_a_rule),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
