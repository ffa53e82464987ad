// Packing: the rows equal TRL's, every sample stands in one row, and no row is too long.
#include "unit/data/samples_golden.h"

#include "base/rng.h"

static void rows_equal_those_of_trl(void **state)
{
    (void)state;
    err e = {0};
    json_t *cases = sft_json("packings.json"), *one;
    size_t c;
    json_array_foreach(cases, c, one)
    {
        const json_t *lengths = json_object_get(one, "lengths"),
                     *rows = json_object_get(one, "rows");
        const size_t count = json_array_size(lengths);
        uint32_t *length = malloc(count * sizeof *length);
        assert_non_null(length);
        for (size_t i = 0; i < count; i++) length[i] = (uint32_t)item(lengths, i);
        samples_rows r;
        assert_int_equal(samples_pack(PACKING_BFD, length, count, whole(one, "most"), &r, &e), OK);
        assert_int_equal(r.rows, json_array_size(rows));
        for (size_t row = 0; row < r.rows; row++) {
            const json_t *want = json_array_get(rows, row);
            assert_int_equal(r.first[row + 1] - r.first[row], json_array_size(want));
            for (size_t i = 0; i < json_array_size(want); i++)
                assert_int_equal(r.sample[r.first[row] + i], item(want, i));
        }
        samples_rows_clear(&r);
        free(length);
    }
    json_decref(cases);
}

static void check_rows(const samples_rows *r, const uint32_t *length, size_t count, int64_t most)
{
    unsigned char *seen = calloc(count + 1, 1);
    assert_non_null(seen);
    assert_int_equal(r->first[0], 0);
    assert_int_equal(r->first[r->rows], count);
    for (size_t row = 0; row < r->rows; row++) {
        uint64_t used = 0;
        assert_true(r->first[row] < r->first[row + 1]);
        for (uint64_t i = r->first[row]; i < r->first[row + 1]; i++) {
            assert_true(r->sample[i] < count && !seen[r->sample[i]]);
            seen[r->sample[i]] = 1;
            used += length[r->sample[i]];
        }
        assert_true(used <= (uint64_t)most);
    }
    free(seen);
}

static void every_sample_stands_in_one_row_that_holds_it(void **state)
{
    (void)state;
    err e = {0};
    const int64_t mosts[] = {1, 2, 63, 64, 65, 4096, 4097, 300000};
    for (size_t m = 0; m < sizeof mosts / sizeof *mosts; m++)
        for (int packing = 0; packing < SAMPLES_PACKINGS; packing++) {
            uint32_t length[700];
            const rng_key key = rng_key_make(m, RNG_SHUFFLE, 0, 0);
            for (size_t i = 0; i < 700; i++)
                length[i] = 1 + (uint32_t)(rng_uniform(rng_word(key, i)) * (double)mosts[m]);
            for (size_t i = 0; i < 700; i++)
                if (length[i] > mosts[m]) length[i] = (uint32_t)mosts[m];
            for (size_t count = 0; count <= 700; count += 350) {
                samples_rows r;
                assert_int_equal(
                    samples_pack((samples_packing)packing, length, count, mosts[m], &r, &e), OK);
                check_rows(&r, length, count, mosts[m]);
                samples_rows_clear(&r);
            }
        }
}

static void next_fit_keeps_the_order_and_none_gives_each_a_row(void **state)
{
    (void)state;
    err e = {0};
    const uint32_t length[] = {3, 5, 1, 8, 2, 6};
    const uint64_t first[] = {0, 2, 3, 4, 6};
    samples_rows r;
    assert_int_equal(samples_pack(PACKING_NEXT_FIT, length, 6, 8, &r, &e), OK);
    assert_int_equal(r.rows, 4);
    for (int i = 0; i <= 4; i++) assert_int_equal(r.first[i], first[i]);
    for (uint32_t i = 0; i < 6; i++) assert_int_equal(r.sample[i], i);
    samples_rows_clear(&r);
    assert_int_equal(samples_pack(PACKING_NONE, length, 6, 8, &r, &e), OK);
    assert_int_equal(r.rows, 6);
    samples_rows_clear(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_equal_those_of_trl),
        cmocka_unit_test(every_sample_stands_in_one_row_that_holds_it),
        cmocka_unit_test(next_fit_keeps_the_order_and_none_gives_each_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
