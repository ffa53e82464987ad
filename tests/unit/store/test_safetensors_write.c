// The reader returns what the writer wrote: bytes, order, alignment and hash. A folder of shards is
// checked against its index.
#include "base/text.h"
#include "own_text.h"
#include "store/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/trireme-write-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return file_remove_tree(folder, NULL) == OK ? 0 : -1;
}

// Byte k of tensor i is i*31 + k*7, modulo 251.
static uint8_t pattern(size_t i, uint64_t k)
{
    return (uint8_t)((i * 31 + k * 7) % 251);
}

typedef struct write_source {
    size_t biggest;
    size_t fail_at; // tensor whose reading fails; SIZE_MAX for none
} write_source;

static status read_pattern(void *arg, size_t i, uint64_t offset, void *out, size_t bytes, err *e)
{
    write_source *source = arg;
    if (bytes > source->biggest) source->biggest = bytes;
    if (i == source->fail_at) return err_set(e, E_IO, "the source has failed");
    for (size_t k = 0; k < bytes; k++) ((uint8_t *)out)[k] = pattern(i, offset + k);
    return OK;
}

static safetensors_tensor make(const char *name, dtype type, int dims, int64_t a, int64_t b)
{
    safetensors_tensor t = {.name = name, .type = type, .dims = dims, .dim = {a, b}};
    t.bytes = dtype_bytes(type);
    for (int i = 0; i < dims; i++) t.bytes *= (uint64_t)t.dim[i];
    return t;
}

static void written_data_reads_back(void **state)
{
    (void)state;
    const safetensors_tensor t[] = {
        make("z.bytes", U8, 1, 5, 0),
        make("b", BF16, 2, 3, 5),
        make("int64", I64, 1, 2, 0),
        make("a", F32, 2, 1500, 700),
        make("scalar", F32, 0, 0, 0),
        make("empty", F32, 2, 0, 9),
        make("\"quoted\"\n\u00e9", F16, 1, 1, 0),
    };
    size_t count = sizeof t / sizeof t[0];
    write_source source = {.fail_at = SIZE_MAX};
    char *path = own_path(folder, "x.safetensors");
    uint64_t hash;
    assert_int_equal(safetensors_write(path, t, count, read_pattern, &source, &hash, NULL), OK);
    assert_true(source.biggest <= 1 << 20); // although a tensor has 4.2 MB

    file_map map;
    assert_int_equal(file_map_open(path, &map, NULL), OK);
    assert_true(hash == XXH3_64bits(map.ptr, map.bytes));
    uint64_t header;
    memcpy(&header, map.ptr, 8);
    assert_int_equal(header % 8, 0);
    file_unmap(&map);

    err e = {0};
    safetensors *s = NULL;
    if (safetensors_open(path, &s, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(safetensors_count(s), count);
    assert_string_equal(safetensors_metadata(s, "format"), "pt");
    assert_null(safetensors_metadata(s, "other"));
    assert_null(safetensors_find(s, "absent"));
    for (size_t i = 0; i < count; i++) {
        const safetensors_tensor *r = safetensors_find(s, t[i].name);
        assert_non_null(r);
        assert_int_equal(r->type, t[i].type);
        assert_int_equal(r->dims, t[i].dims);
        for (int d = 0; d < t[i].dims; d++) assert_int_equal(r->dim[d], t[i].dim[d]);
        assert_int_equal(r->bytes, t[i].bytes);
        assert_int_equal((uintptr_t)r->data % dtype_bytes(r->type), 0);
        for (uint64_t k = 0; k < r->bytes; k++)
            if (((const uint8_t *)r->data)[k] != pattern(i, k)) fail_msg("byte of %s", t[i].name);
    }
    safetensors_close(s);
    free(path);
}

static void a_failing_source_leaves_no_file(void **state)
{
    (void)state;
    const safetensors_tensor t[] = {make("a", F32, 1, 10, 0), make("b", F32, 1, 10, 0)};
    write_source source = {.fail_at = 1};
    err e = {0};
    char *path = own_path(folder, "y.safetensors");
    assert_int_equal(safetensors_write(path, t, 2, read_pattern, &source, NULL, &e), E_IO);
    assert_non_null(strstr(e.text, "the source has failed"));
    assert_false(file_exists(path));
    free(path);
}

static void a_full_disk_is_named(void **state)
{
    (void)state;
    const safetensors_tensor t[] = {make("a", F32, 1, 1 << 20, 0)};
    write_source source = {.fail_at = SIZE_MAX};
    err e = {0};
    if (access("/dev/full", W_OK) != 0) skip();
    char *path = own_path(folder, "full.safetensors");
    assert_int_equal(symlink("/dev/full", path), 0);
    assert_int_equal(safetensors_write(path, t, 1, read_pattern, &source, NULL, &e), E_IO);
    assert_non_null(strstr(e.text, "full.safetensors"));
    assert_non_null(strstr(e.text, "No space left"));
    assert_false(file_exists(path));
    free(path);
}

static void tensors_that_no_file_can_hold_are_refused(void **state)
{
    (void)state;
    write_source source = {.fail_at = SIZE_MAX};
    char *path = own_path(folder, "n.safetensors");
    safetensors_tensor twice[] = {make("a", F32, 1, 1, 0), make("a", U8, 1, 1, 0)};
    assert_int_equal(safetensors_write(path, twice, 2, read_pattern, &source, NULL, NULL),
                     E_INTERNAL);
    safetensors_tensor wrong = make("a", F32, 1, 3, 0);
    wrong.bytes = 13;
    assert_int_equal(safetensors_write(path, &wrong, 1, read_pattern, &source, NULL, NULL),
                     E_INTERNAL);
    safetensors_tensor meta = make("__metadata__", F32, 1, 3, 0);
    assert_int_equal(safetensors_write(path, &meta, 1, read_pattern, &source, NULL, NULL),
                     E_INTERNAL);
    safetensors_tensor unknown = make("a", U8, 1, 3, 0);
    unknown.type = DTYPES;
    assert_int_equal(safetensors_write(path, &unknown, 1, read_pattern, &source, NULL, NULL),
                     E_INTERNAL);
    assert_false(file_exists(path));
    free(path);
}

static void write_one(const char *file, const char *tensor)
{
    safetensors_tensor t = make(tensor, F32, 1, 4, 0);
    write_source source = {.fail_at = SIZE_MAX};
    char *path = own_path(folder, file);
    assert_int_equal(safetensors_write(path, &t, 1, read_pattern, &source, NULL, NULL), OK);
    free(path);
}

static void write_index(const char *json)
{
    char *path = own_path(folder, "model.safetensors.index.json");
    assert_int_equal(file_replace(path, json, strlen(json), NULL), OK);
    free(path);
}

static void refuse_folder(const char *because)
{
    err e = {0};
    safetensors *s = NULL;
    assert_int_equal(safetensors_open_folder(folder, &s, &e), E_USAGE);
    assert_null(s);
    if (!strstr(e.text, because)) fail_msg("\"%s\" does not say \"%s\"", e.text, because);
}

static void a_folder_of_shards_is_one_object(void **state)
{
    (void)state;
    write_one("m-1.safetensors", "a");
    write_one("m-2.safetensors", "b");
    write_index("{\"metadata\":{\"total_size\":99999999999999999999},\"weight_map\":{\"b\":\"m-2."
                "safetensors\","
                "\"a\":\"m-1.safetensors\"}}");
    err e = {0};
    safetensors *s = NULL;
    if (safetensors_open_folder(folder, &s, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(safetensors_count(s), 2);
    assert_non_null(safetensors_find(s, "a"));
    assert_non_null(safetensors_find(s, "b"));
    safetensors_close(s);
}

static void an_index_that_disagrees_with_its_shards_is_refused(void **state)
{
    (void)state;
    write_one("m-1.safetensors", "a");
    write_one("m-2.safetensors", "b");
    write_index("{\"weight_map\":{\"b\":\"m-1.safetensors\",\"a\":\"m-2.safetensors\"}}");
    refuse_folder("is not in m-1.safetensors");
    write_index("{\"weight_map\":{\"a\":\"m-1.safetensors\",\"c\":\"m-2.safetensors\"}}");
    refuse_folder("\"c\" is not in m-2.safetensors");
    write_index("{\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-3.safetensors\"}}");
    refuse_folder("m-3.safetensors");
    write_index("{\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"../m-2.safetensors\"}}");
    refuse_folder("not the name of a file");
    write_index("{\"weight_map\":{\"a\":\"m-1.safetensors\",\"a\":\"m-2.safetensors\"}}");
    refuse_folder("duplicate");
    write_index("{\"weight_map\":{}}");
    refuse_folder("lists no tensors");
    write_index("{}");
    refuse_folder("weight_map");
    write_index("{\"weight_map\":");
    refuse_folder("index.json:1:");
    write_one("m-2.safetensors", "a");
    write_index("{\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-2.safetensors\"}}");
    refuse_folder("\"a\" is in two files");
}

static void a_tensor_that_the_index_does_not_list_is_refused(void **state)
{
    (void)state;
    const safetensors_tensor t[] = {make("a", F32, 1, 4, 0), make("b", F32, 1, 4, 0)};
    write_source source = {.fail_at = SIZE_MAX};
    char *path = own_path(folder, "m-1.safetensors");
    assert_int_equal(safetensors_write(path, t, 2, read_pattern, &source, NULL, NULL), OK);
    free(path);
    write_index("{\"weight_map\":{\"a\":\"m-1.safetensors\"}}");
    refuse_folder("\"b\" of m-1.safetensors is not in the index");
}

static void an_empty_folder_is_refused(void **state)
{
    (void)state;
    refuse_folder("holds neither");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(written_data_reads_back),
        IN_FOLDER(a_failing_source_leaves_no_file),
        IN_FOLDER(a_full_disk_is_named),
        IN_FOLDER(tensors_that_no_file_can_hold_are_refused),
        IN_FOLDER(a_folder_of_shards_is_one_object),
        IN_FOLDER(an_index_that_disagrees_with_its_shards_is_refused),
        IN_FOLDER(a_tensor_that_the_index_does_not_list_is_refused),
        IN_FOLDER(an_empty_folder_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
