// Paths: suffixes, prefixes of token shards, and different paths to one file.
#include "unit/data/scratch.h"

#include "data/paths.h"

#include <unistd.h>

static void the_prefix_of_a_shard_has_no_suffix(void **state)
{
    (void)state;
    static const struct {
        const char *path, *prefix;
    } cases[] = {
        {"p", "p"},           {"p.bin", "p"},
        {"p.idx", "p"},       {"d/p.bin.idx", "d/p.bin"},
        {"p.json", "p.json"}, {"p.bins", "p.bins"},
        {".bin", ".bin"},     {"", ""},
        {"bin", "bin"},       {"p.idx/q", "p.idx/q"},
        {"p.bin.", "p.bin."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(data_path_prefix_bytes(cases[i].path), strlen(cases[i].prefix));
}

static void a_suffix_is_the_end_of_a_path(void **state)
{
    (void)state;
    assert_true(data_path_has_suffix("a.jsonl.gz", ".gz"));
    assert_true(data_path_has_suffix(".gz", ".gz"));
    assert_false(data_path_has_suffix("a.gz.txt", ".gz"));
    assert_false(data_path_has_suffix("gz", ".gz"));
}

static void links_lead_to_the_same_file(void **state)
{
    const char *a = in_folder(state, "a"), *b = in_folder(state, "b"), *c = in_folder(state, "c");
    put_text(a, "x");
    put_text(b, "x");
    assert_int_equal(symlink("a", c), 0);
    assert_true(data_path_is_same_file(a, a));
    assert_true(data_path_is_same_file(c, a));
    assert_false(data_path_is_same_file(a, b));
    assert_false(data_path_is_same_file(a, in_folder(state, "none")));
    assert_false(data_path_is_same_file(in_folder(state, "none"), in_folder(state, "none")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_prefix_of_a_shard_has_no_suffix),
        cmocka_unit_test(a_suffix_is_the_end_of_a_path),
        SCRATCH_TEST(links_lead_to_the_same_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
