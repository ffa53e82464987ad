// test_moves.c -- which collectives each pair of policies needs, as a table; and that on every rank
// they bring every element where the plan says that it lies.
#include "unit/parallel/planned.h"

// ---- The table

static char letter_of(plan_layout l)
{
    return "WIOBG"[l]; // whole, inner, outer, both, group
}

// "S s W>I": a reduce-scatter (A an all-reduce, G an all-gather) over dp_shard (r: dp_replicate)
// from what is whole to the inner axis' part.
static void print_moves(const char *name, const plan_redistribution *m, text *out)
{
    static const char how[] = {[REDISTRIBUTE_ALL_REDUCE] = 'A',
                               [REDISTRIBUTE_REDUCE_SCATTER] = 'S',
                               [REDISTRIBUTE_ALL_GATHER] = 'G'};
    static const char *const axes[PROCESS_GROUPS] = {
        [AXIS_DP_REPLICATE] = "r", [AXIS_DP_SHARD] = "s", [GROUP_POST_FORWARD] = "n"};
    if (m->count == 0) return;
    text_addf(out, "%s%s in %c:", out->bytes ? "; " : "", name, letter_of(m->layout));
    for (int i = 0; i < m->count; i++)
        text_addf(out, "%s %c %s %c>%c", i ? "," : "", how[m->step[i].collective],
                  axes[m->step[i].axis], letter_of(m->step[i].from), letter_of(m->step[i].to));
}

static void expect_moves(const planned *x, const char *expected)
{
    plan *p = planned_open(x);
    text t = {0};
    print_moves("gather", &p->unshard, &t);
    print_moves("regather", &p->unshard_post_forward, &t);
    print_moves("micro", &p->reduce_micro_batch, &t);
    print_moves("step", &p->reduce_step, &t);
    print_moves("publish", &p->all_gather_updated, &t);
    if (strcmp(t.chars ? t.chars : "", expected))
        fail_msg("%s over %s:\n%s\nexpected\n%s", x->outer, x->inner, t.chars, expected);
    text_clear(&t);
    plan_free(p);
}

// Sums go inner axis first, gathers outer axis first. PAIRS x 2 axes.
static const planned_pair PAIRS[] = {
    {"ddp", "ddp", "step in W: A s W>W, A r W>W"},
    {"ddp", "zero1", "step in W: S s W>I, A r I>I; publish in W: G s I>W"},
    {"ddp", "zero2", "micro in W: S s W>I; step in I: A r I>I; publish in W: G s I>W"},
    {"ddp", "zero3", "gather in W: G s I>W; micro in W: S s W>I; step in I: A r I>I"},
    {"ddp", "fsdp_no_sync", "gather in W: G s I>W; step in W: S s W>I, A r I>I"},
    {"zero1", "ddp", "step in W: A s W>W, S r W>O; publish in W: G r O>W"},
    {"zero1", "zero1", "step in W: S s W>I, S r I>B; publish in W: G r B>I, G s I>W"},
    {"zero1", "zero2", "micro in W: S s W>I; step in I: S r I>B; publish in W: G r B>I, G s I>W"},
    {"zero1", "zero3",
     "gather in W: G s I>W; micro in W: S s W>I; step in I: S r I>B; publish in I: G r B>I"},
    {"zero1", "fsdp_no_sync",
     "gather in W: G s I>W; step in W: S s W>I, S r I>B; publish in I: G r B>I"},
    {"zero2", "ddp", "micro in W: A s W>W, S r W>O; publish in W: G r O>W"},
    {"zero2", "zero2", "micro in W: S s W>I, S r I>B; publish in W: G r B>I, G s I>W"},
    {"zero2", "zero3", "gather in W: G s I>W; micro in W: S s W>I, S r I>B; publish in I: G r B>I"},
    {"zero3", "ddp", "gather in W: G r O>W; micro in W: A s W>W, S r W>O"},
    {"zero3", "zero3", "gather in W: G r B>I, G s I>W; micro in W: S s W>I, S r I>B"},
    {"fsdp_no_sync", "ddp", "gather in W: G r O>W; step in W: A s W>W, S r W>O"},
    {"fsdp_no_sync", "zero3",
     "gather in W: G r B>I, G s I>W; micro in W: S s W>I; step in I: S r I>B"},
    {"fsdp_no_sync", "fsdp_no_sync", "gather in W: G r B>I, G s I>W; step in W: S s W>I, S r I>B"},
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
        expect_moves(&x, PAIRS[i].expected);
    }
}

static void test_an_axis_of_one_rank_needs_none(void **state)
{
    (void)state;
    planned x = planned_blocks(2, 8, 4);
    x.outer = x.inner = "zero3";
    expect_moves(&x, "");
    x.shard = 2;
    expect_moves(&x, "gather in W: G s I>W; micro in W: S s W>I");
    x.shard = 1, x.replicate = 2;
    expect_moves(&x, "gather in W: G r O>W; micro in W: S r W>O");
}

static void test_no_sync_leaves_all_sums_to_the_steps_end(void **state)
{
    (void)state;
    planned x = planned_blocks(2, 8, 4);
    x.shard = 2, x.micros = 4, x.no_sync = true;
    x.inner = "zero2";
    expect_moves(&x, "step in W: S s W>I; publish in W: G s I>W");
    x.inner = "zero3";
    expect_moves(&x, "gather in W: G s I>W; step in W: S s W>I");
}

// With one micro-batch neighbours come first; with several, what only one axis cuts is summed over
// the other once a step.
static void test_a_second_sum_is_left_to_the_steps_end(void **state)
{
    (void)state;
    planned x = planned_blocks(2, 8, 4);
    x.replicate = x.shard = 2, x.micros = 4;
    x.outer = "zero2", x.inner = "ddp";
    expect_moves(&x, "micro in W: S r W>O; step in O: A s O>O; publish in W: G r O>W");
    x.outer = "ddp", x.inner = "zero2";
    expect_moves(&x, "micro in W: S s W>I; step in I: A r I>I; publish in W: G s I>W");
}

static void test_backward_gathers_among_neighbours(void **state)
{
    (void)state;
    planned x = planned_blocks(2, 8, 4);
    x.shard = 4, x.inner = "zero3", x.reshard = 2;
    expect_moves(&x, "gather in W: G s I>W; regather in W: G n G>W; micro in W: S s W>I");
}

// ---- Their effect: the arrays of all ranks, moved as the collectives would

enum { RANKS = 6, ELEMENTS = 256, GARBAGE = -1 };

typedef struct ranks {
    int count;
    plan *p[RANKS];
    double at[RANKS][ELEMENTS]; // a bucket in an array of the level at hand
    double own[RANKS][ELEMENTS];
} ranks;

typedef const plan_redistribution *pick(const plan *p);

static const plan_redistribution *gather_of(const plan *p)
{
    return &p->unshard;
}

static const plan_redistribution *micro_of(const plan *p)
{
    return &p->reduce_micro_batch;
}

static const plan_redistribution *step_of(const plan *p)
{
    return &p->reduce_step;
}

static const plan_redistribution *publish_of(const plan *p)
{
    return &p->all_gather_updated;
}

static bool same_group(const ranks *r, int a, int b, int along)
{
    for (int k = 0; k < AXES; k++)
        if (k != along && r->p[a]->coord[k] != r->p[b]->coord[k]) return false;
    return true;
}

static bool in_part(const comm_segment *s, int position, int64_t element)
{
    int64_t first;
    const int64_t count = comm_segment_shard(s, position, &first);
    return element >= first && element < first + count;
}

// The same place in the arrays of all ranks of the group.
static double sum_of(const ranks *was, int rank, int along, int64_t at)
{
    double sum = 0;
    for (int k = 0; k < was->count; k++)
        if (same_group(was, rank, k, along)) sum += was->at[k][at];
    return sum;
}

// One row's run on one rank; `own`: parts come from arrays of their own.
static void move_segment(ranks *r, const ranks *was, int rank, const plan_redistribution_step *x,
                         const comm_segment *s, bool own)
{
    const bool gathers = x->collective == REDISTRIBUTE_ALL_GATHER;
    for (int64_t e = 0; e < s->count; e++) {
        double *to = &r->at[rank][s->full_offset + e];
        const bool mine = in_part(s, was->p[rank]->coord[x->axis], e);
        if (!gathers && (mine || x->collective == REDISTRIBUTE_ALL_REDUCE))
            *to = sum_of(was, rank, x->axis, s->full_offset + e);
        for (int k = 0; gathers && k < r->count; k++) {
            const int position = was->p[k]->coord[x->axis];
            if (!same_group(was, rank, k, x->axis) || !in_part(s, position, e)) continue;
            *to = own ? was->own[k][s->shard_offset + e - position * s->shard_count]
                      : was->at[k][s->full_offset + e];
        }
    }
}

static void move_rank(ranks *r, const ranks *was, int rank, int b, pick *moves, int i, bool own)
{
    const plan_bucket *range = &r->p[rank]->bucket[b];
    const plan_redistribution *m = moves(r->p[rank]);
    const plan_redistribution_step *x = &m->step[i];
    for (int64_t e = 0; !x->segment && e < range->count[m->layout]; e++)
        r->at[rank][e] = sum_of(was, rank, x->axis, e);
    for (int k = range->first_row; x->segment && k < range->first_row + range->rows; k++) {
        for (int other = 0; other < r->count; other++) // all ranks of a group give the same list
            if (same_group(was, rank, other, x->axis))
                assert_memory_equal(&x->segment[k], &moves(r->p[other])->step[i].segment[k],
                                    sizeof(comm_segment));
        move_segment(r, was, rank, x, &x->segment[k], own && i == 0);
    }
}

static void apply(ranks *r, int b, pick *moves, bool own)
{
    ranks *was = malloc(sizeof *was);
    assert_non_null(was);
    for (int i = 0; i < moves(r->p[0])->count; i++) {
        *was = *r;
        for (int rank = 0; rank < r->count; rank++) move_rank(r, was, rank, b, moves, i, own);
    }
    free(was);
}

// ---- What lies where. An element's value tells its row and its place in it.

static double value_of(int row, int64_t element)
{
    return 1000.0 * (row + 1) + (double)element;
}

// Element of a row in an array of level l.
static int64_t place_of(const plan *p, const plan_row *r, plan_layout l, int64_t element)
{
    return r->offset[l] - p->bucket[r->bucket].first[l] + element -
           plan_local_shard(p, r, l, p->coord).first;
}

// Writes values of the part that a level has into an array of another, or looks whether they are
// there. `times` the value.
static void touch(const ranks *r, int b, plan_layout part, plan_layout array, double times,
                  double (*at)[ELEMENTS], bool look)
{
    for (int rank = 0; rank < r->count; rank++) {
        const plan *p = r->p[rank];
        const plan_bucket *range = &p->bucket[b];
        for (int e = 0; e < ELEMENTS && !look; e++) at[rank][e] = GARBAGE;
        for (int i = range->first_row; i < range->first_row + range->rows; i++) {
            const plan_row *row = &p->row[p->order[i]];
            const plan_shard s = plan_local_shard(p, row, part, p->coord);
            for (int64_t e = s.first; e < s.first + s.count; e++) {
                double *x = &at[rank][place_of(p, row, array, e)];
                const double v = times * value_of(p->order[i], e);
                if (look && *x != v)
                    fail_msg("%s over %s, rank %d, row %s, element %d: %g, expected %g",
                             p->o.strategy.dp.outer.name, p->o.strategy.dp.inner.name, rank,
                             row->name, (int)e, *x, v);
                *x = v;
            }
        }
    }
}

static void check_gradients(ranks *r, int b)
{
    const plan *p = r->p[0];
    touch(r, b, LAYOUT_FULL, LAYOUT_FULL, 1, r->at, false); // each rank's summand
    apply(r, b, micro_of, false);
    // This rank's part moves from the slot to the array.
    for (int rank = 0; rank < r->count; rank++)
        memcpy(r->own[rank], r->at[rank], sizeof r->own[rank]);
    for (int rank = 0; rank < r->count; rank++) {
        const plan *mine = r->p[rank];
        const plan_bucket *range = &mine->bucket[b];
        for (int i = range->first_row; i < range->first_row + range->rows; i++) {
            const plan_row *row = &mine->row[mine->order[i]];
            const plan_shard s = plan_local_shard(mine, row, p->gradient, mine->coord);
            for (int64_t e = s.first; e < s.first + s.count; e++)
                r->at[rank][place_of(mine, row, p->gradient, e)] =
                    r->own[rank][place_of(mine, row, LAYOUT_FULL, e)];
        }
    }
    apply(r, b, step_of, false);
    touch(r, b, p->optimizer, p->gradient, r->count, r->at, true);
}

static void check_weights(ranks *r, int b)
{
    const plan *p = r->p[0];
    touch(r, b, p->optimizer, p->weight, 1, r->at, false); // updated
    apply(r, b, publish_of, false);
    touch(r, b, p->weight, p->weight, 1, r->at, true);
    memcpy(r->own, r->at, sizeof r->own);
    for (int rank = 0; rank < r->count && p->unshard.count; rank++)
        for (int e = 0; e < ELEMENTS; e++) r->at[rank][e] = GARBAGE;
    apply(r, b, gather_of, true);
    touch(r, b, LAYOUT_FULL, LAYOUT_FULL, 1, r->at, true);
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
    ranks *r = calloc(1, sizeof *r);
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

static void test_they_bring_every_element_to_its_place(void **state)
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
        cmocka_unit_test(test_an_axis_of_one_rank_needs_none),
        cmocka_unit_test(test_no_sync_leaves_all_sums_to_the_steps_end),
        cmocka_unit_test(test_a_second_sum_is_left_to_the_steps_end),
        cmocka_unit_test(test_backward_gathers_among_neighbours),
        cmocka_unit_test(test_they_bring_every_element_to_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
