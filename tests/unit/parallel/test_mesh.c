// test_mesh.c -- coordinates of ranks: tp varies fastest, every rank has other coordinates, and the
// sizes of the axes must multiply to the number of ranks.
#include "base/mesh.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static mesh open_mesh(int pp, int replicate, int shard, int tp)
{
    const int size[AXES] = {pp, replicate, shard, 1, tp};
    mesh m;
    err e = {0};
    if (mesh_make(size, pp * replicate * shard * tp, &m, &e) != OK) fail_msg("%s", e.text);
    return m;
}

static void test_tp_varies_fastest_and_pp_slowest(void **state)
{
    (void)state;
    static const axis order[] = {AXIS_TP, AXIS_DP_SHARD, AXIS_DP_REPLICATE, AXIS_PP};
    const mesh m = open_mesh(2, 2, 2, 2);
    for (int i = 0; i < 4; i++)
        for (int rank = 0; rank < 16; rank++)
            assert_int_equal(mesh_coord(&m, rank, order[i]), rank >> i & 1);
}

static void test_coordinates_and_ranks_are_each_others_inverse(void **state)
{
    (void)state;
    for (int code = 0; code < 81; code++) {
        const mesh m =
            open_mesh(1 + code % 3, 1 + code / 3 % 3, 1 + code / 9 % 3, 1 + code / 27 % 3);
        for (int rank = 0; rank < m.ranks; rank++) {
            int coord[AXES];
            for (int a = 0; a < AXES; a++) {
                coord[a] = mesh_coord(&m, rank, (axis)a);
                assert_in_range(coord[a], 0, m.size[a] - 1);
            }
            assert_int_equal(mesh_rank(&m, coord), rank);
        }
    }
}

static void test_data_ranks_count_over_both_data_parallel_axes(void **state)
{
    (void)state;
    const mesh m = open_mesh(2, 2, 3, 2);
    int seen[6] = {0};
    assert_int_equal(mesh_data_ranks(&m), 6);
    for (int rank = 0; rank < m.ranks; rank++) {
        const int data = mesh_data_rank(&m, rank);
        assert_int_equal(data, mesh_coord(&m, rank, AXIS_DP_REPLICATE) * 3 +
                                   mesh_coord(&m, rank, AXIS_DP_SHARD));
        seen[data]++;
    }
    // 2 stages x 2 tensor-parallel ranks read the same samples.
    for (int i = 0; i < 6; i++) assert_int_equal(seen[i], 4);
}

static void test_process_groups_are_flattened_axes(void **state)
{
    (void)state;
    const mesh_axes sharded = MESH_AXIS(AXIS_DP_SHARD) | MESH_AXIS(AXIS_CP);
    char name[MESH_NAME_BYTES];
    mesh m;
    assert_int_equal(mesh_make((const int[AXES]){2, 2, 2, 2, 2}, 32, &m, NULL), OK);
    assert_int_equal(mesh_group_size(&m, sharded), 4);
    assert_string_equal(mesh_group_name(&m, sharded, name), "dp_shard_cp");
    for (int rank = 0; rank < m.ranks; rank++) {
        int coord[AXES];
        mesh_coords(&m, rank, coord);
        const int index = mesh_group_index(&m, coord, sharded);
        assert_int_equal(index, 2 * coord[AXIS_DP_SHARD] + coord[AXIS_CP]);
        // tp varies faster than both axes, so that neighbours in the group are 2 ranks apart.
        assert_int_equal(mesh_group_first(&m, coord, sharded), rank - 2 * index);
    }
    assert_int_equal(mesh_make((const int[AXES]){2, 1, 2, 1, 2}, 8, &m, NULL), OK);
    assert_int_equal(mesh_axes_in_use(&m, sharded), MESH_AXIS(AXIS_DP_SHARD));
    assert_string_equal(mesh_group_name(&m, sharded, name), "dp_shard");
}

static void test_sizes_that_do_not_make_the_ranks_are_refused(void **state)
{
    (void)state;
    mesh m;
    err e = {0};
    assert_int_equal(mesh_make((const int[AXES]){2, 1, 3, 1, 2}, 8, &m, &e), E_USAGE);
    assert_string_equal(
        e.text, "pp 2 x dp_replicate 1 x dp_shard 3 x cp 1 x tp 2 make 12 ranks; there are 8");
    assert_int_equal(mesh_make((const int[AXES]){1, 1, 0, 1, 1}, 0, &m, &e), E_USAGE);
    assert_string_equal(e.text, "parallel.dp_shard: found 0; valid: 1 or more");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tp_varies_fastest_and_pp_slowest),
        cmocka_unit_test(test_coordinates_and_ranks_are_each_others_inverse),
        cmocka_unit_test(test_data_ranks_count_over_both_data_parallel_axes),
        cmocka_unit_test(test_process_groups_are_flattened_axes),
        cmocka_unit_test(test_sizes_that_do_not_make_the_ranks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
