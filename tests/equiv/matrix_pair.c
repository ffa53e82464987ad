// matrix_pair.c -- draws pairs of points that must have the same bits. See matrix_pair.h. The search and
// its test call it. It does not run them.
#include "equiv/matrix_pair.h"

#include "comm/registry.h"
#include "equiv/matrix_cover.h"
#include "late/late_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 2000 };

// ---- Which points are equal

// Over which levels the gradients of a parameter group are reduced after every micro-batch: bit 0 is the
// inner level, bit 1 the outer one. 0: all are reduced once a step.
static unsigned reduced_in_micro_batches(const trainer_options *o, const policies *dp)
{
    const mesh *m = &o->mesh;
    const batch_split s = trainer_split(o);
    const bool several = o->global_batch > batch_split_before(&s, s.ranks);
    unsigned levels = 0;
    if (!several || o->strategy.no_sync == NO_SYNC_TRUE) return 0;
    for (int l = 0; l < POLICY_LEVELS; l++)
        if (mesh_group_size(m, POLICY_AXES.level[l]) > 1 &&
            policies_at(dp, (policy_level)l)->gradient == SHARD)
            levels |= 1U << l;
    return levels;
}

static unsigned levels_in_use(const mesh *m)
{
    unsigned levels = 0;
    for (int l = 0; l < POLICY_LEVELS; l++)
        if (mesh_group_size(m, POLICY_AXES.level[l]) > 1) levels |= 1U << l;
    return levels;
}

// Whether the gradients of groups with these policies are added in one order. Where each micro-batch is
// reduced over one of two levels, its ranks are added before the micro-batches, and those of the other
// level after them.
static bool same_order(const trainer_options *a, const policies *of_a, const trainer_options *b,
                       const policies *of_b)
{
    const unsigned x = reduced_in_micro_batches(a, of_a), y = reduced_in_micro_batches(b, of_b);
    const bool all_of_x = x == levels_in_use(&a->mesh), all_of_y = y == levels_in_use(&b->mesh);
    if (x == 0 || y == 0) return x == y;
    if (all_of_x || all_of_y) return all_of_x && all_of_y;
    return x == y && memcmp(&a->mesh.size[AXIS_DP_REPLICATE], &b->mesh.size[AXIS_DP_REPLICATE],
                            2 * sizeof(int)) == 0;
}

// The policies of the MLPs, which may have a group of their own.
static policies policies_of_mlps(const param_groups *groups, const trainer_options *o)
{
    for (int i = 0; i + 1 < groups->count; i++)
        if (strcmp(groups->items[i].match, "*.mlp.*") == 0) return groups->items[i].dp;
    return o->strategy.dp;
}

// Whether the value of DIM_GROUPS changes policies only.
static bool is_policy_only(int groups)
{
    const char *name = matrix_value(DIM_GROUPS, groups);
    return strcmp(name, "one") == 0 || strncmp(name, "mlp_", 4) == 0;
}

static bool same_settings(const point *a, const point *b)
{
    const int x = a->v[DIM_GROUPS], y = b->v[DIM_GROUPS];
    return x == y || (is_policy_only(x) && is_policy_only(y));
}

bool pair_must_equal(const point *a, const point *b)
{
    static const dim same[] = {DIM_MODEL, DIM_CP, DIM_TP, DIM_MICROS, DIM_PRECISION, DIM_SPLIT};
    trainer_options x, y;
    param_group of_x[MATRIX_GROUPS], of_y[MATRIX_GROUPS];
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (a->v[same[i]] != b->v[same[i]]) return false;
    if (!same_settings(a, b)) return false;
    matrix_options(a, &x);
    matrix_options(b, &y);
    if (mesh_data_ranks(&x.mesh) != mesh_data_ranks(&y.mesh)) return false;
    const param_groups in_x = matrix_groups(a, &x, of_x), in_y = matrix_groups(b, &y, of_y);
    const policies mlp_x = policies_of_mlps(&in_x, &x), mlp_y = policies_of_mlps(&in_y, &y);
    return same_order(&x, &x.strategy.dp, &y, &y.strategy.dp) && same_order(&x, &mlp_x, &y, &mlp_y);
}

// ---- Drawing

// Whether this build has a communicator for ranks of several hosts.
static bool spans_hosts(int ranks)
{
    comm_description d;
    return comm_describe("hier", ranks, true, true, &d, NULL) == OK;
}

static matrix_run draw_run(dice *d, const point *p)
{
    matrix_run how = {.steps = 3};
    const int kind = dice_throw(d, 8);
    if (kind == 0)
        how.late = true, how.late_order = dice_throw(d, 2) ? LATE_OTHERS_FIRST : LATE_OTHERS_LAST;
    if (kind == 1) how.toy = true;
    if (kind >= 2 && kind <= 4) how.processes = matrix_ranks(p) > 1;
    if (how.processes && kind == 4 && spans_hosts(matrix_ranks(p)))
        how.second_host = 1 + dice_throw(d, matrix_ranks(p) - 1);
    return how;
}

// A factor of n, each with the same chance.
static int draw_factor(dice *d, int n)
{
    int factor[MATRIX_RANKS], count = 0;
    for (int i = 1; i <= n; i++)
        if (n % i == 0) factor[count++] = i;
    return factor[dice_throw(d, count)];
}

// Draws a point that must equal `a`; false if it finds none but `a`.
static bool draw_other(dice *d, const point *a, point *out)
{
    const bool settings = !is_policy_only(a->v[DIM_GROUPS]);
    const bool fixed[DIMS] = {[DIM_MODEL] = true,     [DIM_REPLICATE] = true,  [DIM_SHARD] = true,
                              [DIM_CP] = true,        [DIM_TP] = true,         [DIM_MICROS] = true,
                              [DIM_PRECISION] = true, [DIM_GROUPS] = settings, [DIM_SPLIT] = true};
    const int data = (a->v[DIM_REPLICATE] + 1) * (a->v[DIM_SHARD] + 1);
    for (int i = 0; i < TRIES; i++) {
        point with = *a;
        const int replicate = draw_factor(d, data);
        with.v[DIM_REPLICATE] = replicate - 1;
        with.v[DIM_SHARD] = data / replicate - 1;
        if (points_draw(d, &with, fixed, out) && pair_must_equal(a, out) &&
            memcmp(a, out, sizeof *a) != 0)
            return true;
    }
    return false;
}

void pair_draw(uint64_t seed, uint64_t number, pair *out)
{
    dice d = {.key = rng_key_make(seed, RNG_MOCK, number, 0)};
    const bool fixed[DIMS] = {false};
    const point none = {{0}};
    do {
        if (!points_draw(&d, &none, fixed, &out->point[0])) abort();
    } while (!draw_other(&d, &out->point[0], &out->point[1]));
    for (int i = 0; i < 2; i++) out->how[i] = draw_run(&d, &out->point[i]);
}

void pair_describe_run(const matrix_run *how, char out[PAIR_RUN_NAME])
{
    if (how->late)
        snprintf(out, PAIR_RUN_NAME, "late device, order %d", how->late_order);
    else if (how->second_host)
        snprintf(out, PAIR_RUN_NAME, "two hosts, the second from rank %d", how->second_host);
    else
        snprintf(out, PAIR_RUN_NAME, "%s",
                 how->toy         ? "toy"
                 : how->processes ? "processes"
                                  : "threads");
}
