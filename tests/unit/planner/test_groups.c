// test_groups.c -- how process groups lie on hosts, against brute force over all ranks of many meshes: ranks with one
// color are a group, as train/groups.c colors them.
#include "planner/groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { RANKS_MOST = 128, KEPT = 2, SHARED = 2 };

static plan plan_of(const mesh *m, int rank)
{
    plan p = {.o = {.mesh = *m, .rank = rank}};
    mesh_coords(m, rank, p.coord);
    p.kept_over = MESH_AXIS(AXIS_DP_SHARD) | MESH_AXIS(AXIS_CP);
    p.o.strategy.reshard_after_forward = KEPT;
    p.shared_over = MESH_AXIS(AXIS_TP);
    p.shared_ranks = SHARED;
    return p;
}

// Equal for ranks of one group; -1: in none.
static int color_of(const mesh *m, int rank, int group)
{
    int coord[AXES];
    mesh_coords(m, rank, coord);
    const mesh_axes kept = MESH_AXIS(AXIS_DP_SHARD) | MESH_AXIS(AXIS_CP), tp = MESH_AXIS(AXIS_TP);
    const bool is_end = coord[AXIS_PP] == 0 || coord[AXIS_PP] == m->size[AXIS_PP] - 1;
    if (group == GROUP_WORLD) return 0;
    if (group == GROUP_TIED) return is_end ? mesh_group_first(m, coord, MESH_AXIS(AXIS_PP)) : -1;
    if (group == GROUP_POST_FORWARD)
        return mesh_group_first(m, coord, kept) * RANKS_MOST +
               mesh_group_index(m, coord, kept) / KEPT;
    if (group == GROUP_SHARED)
        return mesh_group_first(m, coord, tp) * RANKS_MOST + coord[AXIS_TP] / SHARED;
    return mesh_group_first(m, coord, (mesh_axes)group);
}

// The group of `rank`, or, where it is in none, that of its pipeline's first rank.
static planner_group expected(const mesh *m, int rank, int group, int each)
{
    planner_group out = {0};
    if (color_of(m, rank, group) < 0) {
        int coord[AXES];
        mesh_coords(m, rank, coord);
        coord[AXIS_PP] = 0;
        rank = mesh_rank(m, coord);
    }
    for (int host = 0; host * each < m->ranks; host++) {
        int mine = 0, seen[RANKS_MOST], colors = 0;
        for (int r = host * each; r < (host + 1) * each && r < m->ranks; r++) {
            const int color = color_of(m, r, group);
            int k = 0;
            mine += color == color_of(m, rank, group);
            while (k < colors && seen[k] != color) k++;
            if (k == colors && color >= 0) seen[colors++] = color;
        }
        out.ranks += mine;
        out.hosts += mine > 0;
        if (mine > out.per_host) out.per_host = mine;
        if (rank / each == host) out.neighbours = colors;
    }
    return out;
}

static bool exists(const mesh *m, int group)
{
    if (group == GROUP_TIED) return m->size[AXIS_PP] > 1;
    if (group == GROUP_POST_FORWARD) return m->size[AXIS_DP_SHARD] * m->size[AXIS_CP] % KEPT == 0;
    if (group == GROUP_SHARED) return m->size[AXIS_TP] % SHARED == 0;
    return true;
}

static void check_rank(const mesh *m, int rank, int each)
{
    const plan p = plan_of(m, rank);
    for (int group = 0; group < PROCESS_GROUPS; group++) {
        if (!exists(m, group)) continue;
        const planner_group want = expected(m, rank, group, each ? each : m->ranks),
                            got = planner_group_of(&p, group, each);
        if (got.ranks != want.ranks || got.per_host != want.per_host || got.hosts != want.hosts ||
            got.neighbours != want.neighbours)
            fail_msg("group %d of rank %d of %d, %d on a host: {%d %d %d %d}, not {%d %d %d %d}",
                     group, rank, m->ranks, each, got.ranks, got.per_host, got.hosts,
                     got.neighbours, want.ranks, want.per_host, want.hosts, want.neighbours);
    }
}

static void test_groups_lie_on_hosts_as_their_ranks_do(void **state)
{
    (void)state;
    static const int sizes[][AXES] = {{1, 1, 1, 1, 1}, {1, 1, 8, 1, 1}, {1, 2, 4, 1, 2},
                                      {2, 1, 4, 2, 1}, {2, 2, 2, 2, 2}, {3, 1, 2, 1, 4},
                                      {4, 2, 1, 1, 2}, {1, 3, 5, 1, 1}, {2, 1, 3, 1, 2},
                                      {1, 1, 2, 3, 1}, {5, 1, 1, 1, 2}, {2, 4, 1, 2, 4}};
    static const int hosts[] = {0, 1, 2, 3, 4, 6, 8, 16, 100};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const mesh m = mesh_of_sizes(sizes[i]);
        for (size_t h = 0; h < sizeof hosts / sizeof *hosts; h++)
            for (int rank = 0; rank < m.ranks; rank++) check_rank(&m, rank, hosts[h]);
    }
}

static void test_messages_between_stages_meet_those_of_their_neighbours(void **state)
{
    (void)state;
    const mesh m = mesh_of_sizes((const int[AXES]){2, 1, 4, 1, 2});
    const plan p = plan_of(&m, 0), last = plan_of(&m, 15);
    planner_group g = planner_message_of(&p, 1, 8); // a stage is a host
    assert_int_equal(g.hosts, 2);
    assert_int_equal(g.per_host, 1);
    assert_int_equal(g.neighbours, 8);
    g = planner_message_of(&p, 1, 0);
    assert_int_equal(g.ranks, 2);
    assert_int_equal(g.hosts, 1);
    assert_int_equal(g.per_host, 2);
    assert_int_equal(g.neighbours, 8);
    g = planner_message_of(&last, 0, 3); // rank 15 is alone on its host
    assert_int_equal(g.hosts, 2);
    assert_int_equal(g.neighbours, 1);
}

// 16,384 ranks of 8 a host, as Llama 3 405B ran: figures that one can count by hand.
static void test_a_large_mesh(void **state)
{
    (void)state;
    const mesh m = mesh_of_sizes((const int[AXES]){16, 1, 128, 1, 8});
    const plan p = plan_of(&m, 4711);
    const planner_group tp = planner_group_of(&p, MESH_AXIS(AXIS_TP), 8),
                        dp = planner_group_of(&p, MESH_AXIS(AXIS_DP_SHARD), 8),
                        all = planner_group_of(&p, GROUP_WORLD, 8);
    assert_int_equal(tp.hosts, 1);
    assert_int_equal(tp.per_host, 8);
    assert_int_equal(tp.neighbours, 1);
    assert_int_equal(dp.hosts, 128);
    assert_int_equal(dp.per_host, 1);
    assert_int_equal(dp.neighbours, 8);
    assert_int_equal(all.hosts, 2048);
    assert_int_equal(all.per_host, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_lie_on_hosts_as_their_ranks_do),
        cmocka_unit_test(test_messages_between_stages_meet_those_of_their_neighbours),
        cmocka_unit_test(test_a_large_mesh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
