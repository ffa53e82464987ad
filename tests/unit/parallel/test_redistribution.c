// test_redistribution.c -- which collectives each pair of policies needs, as a table; and that on
// every rank the collectives bring every element to where the plan says it lies.
#include "unit/parallel/planned.h"

// ---- The table

static char letter_of(plan_layout l)
{
    return "FIOBG"[l]; // full, inner axis, outer axis, both, post-forward group
}

// "S s F>I": a reduce-scatter (A is an all-reduce, G an all-gather) over dp_shard (r is
// dp_replicate) from the full layout to the inner axis' shards.
static void print_steps(const char *name, const plan_redistribution *m, text *out)
{
    static const char how[] = {[REDISTRIBUTE_ALL_REDUCE] = 'A',
                               [REDISTRIBUTE_REDUCE_SCATTER] = 'S',
                               [REDISTRIBUTE_ALL_GATHER] = 'G'};
    static const char *const axes[PROCESS_GROUPS] = {[MESH_AXIS(AXIS_DP_REPLICATE)] = "r",
                                                     [MESH_AXIS(AXIS_DP_SHARD)] = "s",
                                                     [AXES_DATA] = "rs",
                                                     [GROUP_POST_FORWARD] = "n"};
    if (m->count == 0) return;
    text_addf(out, "%s%s in %c:", out->bytes ? "; " : "", name, letter_of(m->layout));
    for (int i = 0; i < m->count; i++)
        text_addf(out, "%s %c %s %c>%c", i ? "," : "", how[m->step[i].collective],
                  axes[m->step[i].group], letter_of(m->step[i].from), letter_of(m->step[i].to));
}

static void expect_steps(const planned *x, const char *expected)
{
    plan *p = planned_open(x);
    text t = {0};
    print_steps("unshard", &p->group[0].redistribute.unshard, &t);
    print_steps("unshard_pf", &p->group[0].redistribute.unshard_post_forward, &t);
    print_steps("micro", &p->group[0].redistribute.reduce_micro_batch, &t);
    print_steps("step", &p->group[0].redistribute.reduce_step, &t);
    print_steps("update", &p->group[0].redistribute.all_gather_updated, &t);
    if (strcmp(t.chars ? t.chars : "", expected))
        fail_msg("%s over %s:\n%s\nexpected\n%s", x->outer, x->inner, t.chars, expected);
    text_clear(&t);
    plan_free(p);
}

// Reductions go over the inner axis first, all-gathers over the outer axis first.
static const planned_pair PAIRS[] = {
    {"ddp", "ddp", "step in F: A s F>F, A r F>F"},
    {"ddp", "zero1", "step in F: S s F>I, A r I>I; update in F: G s I>F"},
    {"ddp", "zero2", "micro in F: S s F>I; step in I: A r I>I; update in F: G s I>F"},
    {"ddp", "zero3", "unshard in F: G s I>F; micro in F: S s F>I; step in I: A r I>I"},
    {"ddp", "fsdp_no_sync", "unshard in F: G s I>F; step in F: S s F>I, A r I>I"},
    {"zero1", "ddp", "step in F: A s F>F, S r F>O; update in F: G r O>F"},
    {"zero1", "zero1", "step in F: S s F>I, S r I>B; update in F: G r B>I, G s I>F"},
    {"zero1", "zero2", "micro in F: S s F>I; step in I: S r I>B; update in F: G r B>I, G s I>F"},
    {"zero1", "zero3",
     "unshard in F: G s I>F; micro in F: S s F>I; step in I: S r I>B; update in I: G r B>I"},
    {"zero1", "fsdp_no_sync",
     "unshard in F: G s I>F; step in F: S s F>I, S r I>B; update in I: G r B>I"},
    {"zero2", "ddp", "micro in F: A s F>F, S r F>O; update in F: G r O>F"},
    {"zero2", "zero2", "micro in F: S s F>I, S r I>B; update in F: G r B>I, G s I>F"},
    {"zero2", "zero3", "unshard in F: G s I>F; micro in F: S s F>I, S r I>B; update in I: G r B>I"},
    {"zero3", "ddp", "unshard in F: G r O>F; micro in F: A s F>F, S r F>O"},
    {"zero3", "zero3", "unshard in F: G r B>I, G s I>F; micro in F: S s F>I, S r I>B"},
    {"fsdp_no_sync", "ddp", "unshard in F: G r O>F; step in F: A s F>F, S r F>O"},
    {"fsdp_no_sync", "zero3",
     "unshard in F: G r B>I, G s I>F; micro in F: S s F>I; step in I: S r I>B"},
    {"fsdp_no_sync", "fsdp_no_sync", "unshard in F: G r B>I, G s I>F; step in F: S s F>I, S r I>B"},
};
enum { LEGAL = sizeof PAIRS / sizeof *PAIRS };

static void test_every_legal_pair_has_its_collectives(void **state)
{
    (void)state;
    assert_int_equal(LEGAL, 18);
    for (int i = 0; i < LEGAL; i++) {
        planned x = planned_blocks(2, 8, 4);
        x.replicate = x.shard = 2;
        x.outer = PAIRS[i].outer, x.inner = PAIRS[i].inner;
        expect_steps(&x, PAIRS[i].expected);
    }
}

static void test_an_axis_of_one_rank_needs_no_collective(void **state)
{
    (void)state;
    planned x = planned_blocks(2, 8, 4);
    x.outer = x.inner = "zero3";
    expect_steps(&x, "");
    x.shard = 2;
    expect_steps(&x, "unshard in F: G s I>F; micro in F: S s F>I");
    x.shard = 1, x.replicate = 2;
    expect_steps(&x, "unshard in F: G r O>F; micro in F: S r F>O");
}

static void test_no_sync_leaves_all_sums_to_the_steps_end(void **state)
{
    (void)state;
    planned x = planned_blocks(2, 8, 4);
    x.shard = 2, x.micros = 4, x.no_sync = true;
    x.inner = "zero2";
    expect_steps(&x, "step in F: S s F>I; update in F: G s I>F");
    x.inner = "zero3";
    expect_steps(&x, "unshard in F: G s I>F; step in F: S s F>I");
}

// With one micro-batch the inner axis is summed first. With several, gradients that only one axis
// shards are summed over the other axis once a step.
static void test_a_second_sum_is_left_to_the_steps_end(void **state)
{
    (void)state;
    planned x = planned_blocks(2, 8, 4);
    x.replicate = x.shard = 2, x.micros = 4;
    x.outer = "zero2", x.inner = "ddp";
    expect_steps(&x, "micro in F: S r F>O; step in O: A s O>O; update in F: G r O>F");
    x.outer = "ddp", x.inner = "zero2";
    expect_steps(&x, "micro in F: S s F>I; step in I: A r I>I; update in F: G s I>F");
}

// Sums of three ranks are no subtrees of one sum over six. So one all-reduce sums both axes where both are
// summed at once, and each rank takes its shard of the sum.
static void test_an_inner_axis_of_three_ranks_is_summed_together_with_the_outer_one(void **state)
{
    (void)state;
    static const planned_pair at_once[] = {
        {"ddp", "ddp", "step in F: A rs F>F"},
        {"ddp", "zero1", "step in F: A rs F>F; update in F: G s I>F"},
        {"ddp", "zero3", "unshard in F: G s I>F; micro in F: A rs F>F"},
        {"zero1", "zero2", "micro in F: A rs F>F; update in F: G r B>I, G s I>F"},
        {"zero2", "ddp", "micro in F: A rs F>F; update in F: G r O>F"},
        {"zero3", "zero3", "unshard in F: G r B>I, G s I>F; micro in F: A rs F>F"},
    };
    planned x = planned_blocks(2, 12, 4);
    x.replicate = 2, x.shard = 3;
    for (size_t i = 0; i < sizeof at_once / sizeof *at_once; i++) {
        x.outer = at_once[i].outer, x.inner = at_once[i].inner;
        expect_steps(&x, at_once[i].expected);
    }
    x.micros = 4, x.outer = "ddp", x.inner = "zero2"; // one axis in each micro-batch
    expect_steps(&x, "micro in F: S s F>I; step in I: A r I>I; update in F: G s I>F");
    x.no_sync = true;
    expect_steps(&x, "step in F: A rs F>F; update in F: G s I>F");
}

static void test_backward_gathers_in_the_post_forward_group(void **state)
{
    (void)state;
    planned x = planned_blocks(2, 8, 4);
    x.shard = 4, x.inner = "zero3", x.reshard = 2;
    expect_steps(&x, "unshard in F: G s I>F; unshard_pf in F: G n G>F; micro in F: S s F>I");
}

// ---- Their effect: the collectives, simulated on the arrays of all ranks

enum { RANKS = 6, ELEMENTS = 256, GARBAGE = -1 };

typedef struct all_ranks {
    int count;
    plan *p[RANKS];
    double array[RANKS][ELEMENTS];  // one bucket, in the layout that the test is looking at
    double source[RANKS][ELEMENTS]; // the same bucket, where an all-gather reads shards from
} all_ranks;

typedef const plan_redistribution *pick(const plan *p);

static const plan_redistribution *unshard_of(const plan *p)
{
    return &p->group[0].redistribute.unshard;
}

static const plan_redistribution *micro_of(const plan *p)
{
    return &p->group[0].redistribute.reduce_micro_batch;
}

static const plan_redistribution *step_of(const plan *p)
{
    return &p->group[0].redistribute.reduce_step;
}

static const plan_redistribution *update_of(const plan *p)
{
    return &p->group[0].redistribute.all_gather_updated;
}

static bool same_group(const all_ranks *r, int a, int b, int group)
{
    const mesh *m = &r->p[a]->o.mesh;
    return mesh_group_first(m, r->p[a]->coord, (mesh_axes)group) ==
           mesh_group_first(m, r->p[b]->coord, (mesh_axes)group);
}

static bool in_shard(const comm_segment *s, int position, int64_t element)
{
    int64_t first;
    const int64_t count = comm_segment_shard(s, position, &first);
    return element >= first && element < first + count;
}

// The sum of one element over the ranks of the group.
static double sum_of(const all_ranks *was, int rank, int along, int64_t index)
{
    double sum = 0;
    for (int k = 0; k < was->count; k++)
        if (same_group(was, rank, k, along)) sum += was->array[k][index];
    return sum;
}

// One row's segment on one rank. `separate`: an all-gather reads the shards from `source`.
static void run_segment(all_ranks *r, const all_ranks *was, int rank,
                        const plan_redistribution_step *x, const comm_segment *s, bool separate)
{
    const bool gathers = x->collective == REDISTRIBUTE_ALL_GATHER;
    for (int64_t e = 0; e < s->count; e++) {
        double *to = &r->array[rank][s->full_offset + e];
        const bool mine = in_shard(s, plan_group_index(was->p[rank], x->group), e);
        if (!gathers && (mine || x->collective == REDISTRIBUTE_ALL_REDUCE))
            *to = sum_of(was, rank, x->group, s->full_offset + e);
        for (int k = 0; gathers && k < r->count; k++) {
            const int position = plan_group_index(was->p[k], x->group);
            if (!same_group(was, rank, k, x->group) || !in_shard(s, position, e)) continue;
            *to = separate ? was->source[k][s->shard_offset + e - position * s->shard_count]
                           : was->array[k][s->full_offset + e];
        }
    }
}

static void run_rank(all_ranks *r, const all_ranks *was, int rank, int b, pick *redistribution,
                     int i, bool separate)
{
    const plan_bucket *range = &r->p[rank]->bucket[b];
    const plan_redistribution *m = redistribution(r->p[rank]);
    const plan_redistribution_step *x = &m->step[i];
    for (int64_t e = 0; !x->segment && e < range->count[m->layout]; e++)
        r->array[rank][e] = sum_of(was, rank, x->group, e);
    for (int k = range->first_row; x->segment && k < range->first_row + range->rows; k++) {
        for (int other = 0; other < r->count; other++) // all ranks of a group give the same list
            if (same_group(was, rank, other, x->group))
                assert_memory_equal(&x->segment[k],
                                    &redistribution(r->p[other])->step[i].segment[k],
                                    sizeof(comm_segment));
        run_segment(r, was, rank, x, &x->segment[k], separate && i == 0);
    }
}

static void apply(all_ranks *r, int b, pick *redistribution, bool separate)
{
    all_ranks *was = malloc(sizeof *was);
    assert_non_null(was);
    for (int i = 0; i < redistribution(r->p[0])->count; i++) {
        *was = *r;
        for (int rank = 0; rank < r->count; rank++)
            run_rank(r, was, rank, b, redistribution, i, separate);
    }
    free(was);
}

// ---- Where elements lie. The value of an element tells its row and its index in the row.

static double value_of(int row, int64_t element)
{
    return 1000.0 * (row + 1) + (double)element;
}

// The index of a row's element in a bucket of an array of layout l.
static int64_t index_of(const plan *p, const plan_row *r, plan_layout l, int64_t element)
{
    return r->offset[l] + element - plan_local_shard(p, r, l, p->coord).first;
}

// Walks the elements that a rank has in layout `held`, as they lie in an array of layout `l`. Their
// value is `times` the element's. Writes it and fills the rest with garbage, or expects it.
static void walk_values(all_ranks *r, int b, plan_layout held, plan_layout l, double times,
                        bool expect)
{
    for (int rank = 0; rank < r->count; rank++) {
        const plan *p = r->p[rank];
        const plan_bucket *range = &p->bucket[b];
        for (int e = 0; e < ELEMENTS && !expect; e++) r->array[rank][e] = GARBAGE;
        for (int i = range->first_row; i < range->first_row + range->rows; i++) {
            const plan_row *row = &p->row[p->order[i]];
            const plan_shard s = plan_local_shard(p, row, held, p->coord);
            for (int64_t e = s.first; e < s.first + s.count; e++) {
                double *x = &r->array[rank][index_of(p, row, l, e)];
                const double v = times * value_of(p->order[i], e);
                if (expect && *x != v)
                    fail_msg("%s over %s, rank %d, row %s, element %d: %g, expected %g",
                             p->o.strategy.dp.outer.name, p->o.strategy.dp.inner.name, rank,
                             row->name, (int)e, *x, v);
                *x = v;
            }
        }
    }
}

static void fill_values(all_ranks *r, int b, plan_layout held, plan_layout l)
{
    walk_values(r, b, held, l, 1, false);
}

static void expect_values(all_ranks *r, int b, plan_layout held, plan_layout l, double times)
{
    walk_values(r, b, held, l, times, true);
}

static void check_gradients(all_ranks *r, int b)
{
    const plan *p = r->p[0];
    fill_values(r, b, LAYOUT_FULL, LAYOUT_FULL); // each rank's summand
    apply(r, b, micro_of, false);
    // This rank copies its shard from the slot to the array, as the trainer does.
    for (int rank = 0; rank < r->count; rank++)
        memcpy(r->source[rank], r->array[rank], sizeof r->source[rank]);
    for (int rank = 0; rank < r->count; rank++) {
        const plan *q = r->p[rank];
        const plan_bucket *range = &q->bucket[b];
        for (int i = range->first_row; i < range->first_row + range->rows; i++) {
            const plan_row *row = &q->row[q->order[i]];
            const plan_shard s = plan_local_shard(q, row, p->group[0].gradient, q->coord);
            for (int64_t e = s.first; e < s.first + s.count; e++)
                r->array[rank][index_of(q, row, p->group[0].gradient, e)] =
                    r->source[rank][index_of(q, row, LAYOUT_FULL, e)];
        }
    }
    apply(r, b, step_of, false);
    expect_values(r, b, p->group[0].optimizer, p->group[0].gradient, r->count);
}

static void check_weights(all_ranks *r, int b)
{
    const plan *p = r->p[0];
    fill_values(r, b, p->group[0].optimizer, p->group[0].weight); // the optimizer's result
    apply(r, b, update_of, false);
    expect_values(r, b, p->group[0].weight, p->group[0].weight, 1);
    memcpy(r->source, r->array, sizeof r->source);
    for (int rank = 0; rank < r->count && p->group[0].redistribute.unshard.count; rank++)
        for (int e = 0; e < ELEMENTS; e++) r->array[rank][e] = GARBAGE;
    apply(r, b, unshard_of, true);
    expect_values(r, b, LAYOUT_FULL, LAYOUT_FULL, 1);
}

// Rows that do not divide, that are fewer than ranks, and vectors; a bucket of two blocks.
static void check_mesh(int replicate, int shard, const planned_pair *pair, dtype compute)
{
    planned x = {.params = 5, .blocks = 3, .bucket_bytes = 300};
    x.param[0] = (planned_param){7, 5, .block = 0};
    x.param[1] = (planned_param){11, 0, .block = 0};
    x.param[2] = (planned_param){1, 9, .block = 1};
    x.param[3] = (planned_param){12, 4, .block = 1};
    x.param[4] = (planned_param){5, 3, .block = 2};
    x.replicate = replicate, x.shard = shard;
    x.outer = pair->outer, x.inner = pair->inner;
    x.compute = compute;
    all_ranks *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->count = replicate * shard;
    for (; x.rank < r->count; x.rank++) r->p[x.rank] = planned_open(&x);
    for (int b = 0; b < r->p[0]->buckets; b++) {
        assert_in_range(r->p[0]->bucket[b].count[LAYOUT_FULL], 1, ELEMENTS);
        check_gradients(r, b);
        check_weights(r, b);
    }
    for (int i = 0; i < r->count; i++) plan_free(r->p[i]);
    free(r);
}

static void test_the_collectives_bring_every_element_to_its_place(void **state)
{
    (void)state;
    static const int meshes[][2] = {{1, 1}, {1, 4}, {4, 1}, {2, 2}, {2, 3}, {3, 2}};
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
        for (int i = 0; i < LEGAL; i++) {
            check_mesh(meshes[m][0], meshes[m][1], &PAIRS[i], F32);
            check_mesh(meshes[m][0], meshes[m][1], &PAIRS[i], BF16);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_legal_pair_has_its_collectives),
        cmocka_unit_test(test_an_axis_of_one_rank_needs_no_collective),
        cmocka_unit_test(test_no_sync_leaves_all_sums_to_the_steps_end),
        cmocka_unit_test(test_a_second_sum_is_left_to_the_steps_end),
        cmocka_unit_test(test_an_inner_axis_of_three_ranks_is_summed_together_with_the_outer_one),
        cmocka_unit_test(test_backward_gathers_in_the_post_forward_group),
        cmocka_unit_test(test_the_collectives_bring_every_element_to_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
