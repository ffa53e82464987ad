// test_bytes.c -- bytes of a rank's weights, gradients and optimizer state against the formulas of
// ZeRO (Rajbhandari et al. 2020), on the shapes of GPT-2 124M. In the paper a parameter in mixed
// precision has 2 + 2 + 12 bytes. Trireme has fp32 gradients, so it is 2 + 4 + 12, and 4 + 4 + 8 in
// fp32. A shard may be 1 % larger than its share, because starts are aligned.
#include "parallel/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LAYERS = 12, HIDDEN = 768, VOCAB = 50257, POSITIONS = 1024, BLOCKS = LAYERS + 2 };
enum { EACH = 12, PARAMS = 2 + LAYERS * EACH + 2 };

typedef struct bytes_model {
    plan_param param[PARAMS];
    plan_use use[PARAMS + 1];
    double cost[BLOCKS];
    double elements;
} bytes_model;

static void add(bytes_model *m, int *param, int block, int64_t rows, int64_t cols)
{
    m->param[*param] = (plan_param){
        .name = "weight", .rows = rows, .cols = cols > 0 ? cols : 1, .decays = cols > 0};
    m->elements += (double)(rows * (cols > 0 ? cols : 1));
    m->use[*param] = (plan_use){.param = *param, .block = block};
    (*param)++;
}

static bytes_model *make_model(void)
{
    static const int64_t shape[EACH][2] = {
        {HIDDEN, 0},          {HIDDEN, 0},     {3 * HIDDEN, HIDDEN}, {3 * HIDDEN, 0},
        {HIDDEN, HIDDEN},     {HIDDEN, 0},     {HIDDEN, 0},          {HIDDEN, 0},
        {4 * HIDDEN, HIDDEN}, {4 * HIDDEN, 0}, {HIDDEN, 4 * HIDDEN}, {HIDDEN, 0}};
    bytes_model *m = calloc(1, sizeof *m);
    int param = 0;
    assert_non_null(m);
    add(m, &param, 0, VOCAB, HIDDEN);
    m->use[PARAMS] = (plan_use){.block = BLOCKS - 1}; // the output layer shares it
    add(m, &param, 0, POSITIONS, HIDDEN);
    for (int layer = 0; layer < LAYERS; layer++)
        for (int i = 0; i < EACH; i++) add(m, &param, layer + 1, shape[i][0], shape[i][1]);
    for (int i = 0; i < 2; i++) add(m, &param, BLOCKS - 1, HIDDEN, 0);
    for (int b = 0; b < BLOCKS; b++) m->cost[b] = 1;
    assert_int_equal((int64_t)m->elements, 124439808);
    return m;
}

typedef struct bytes_of_state {
    double weights, gradients, optimizer; // optimizer with the fp32 copies of the weights
} bytes_of_state;

// Of the last data-parallel rank, whose shards are the smallest where rows do not divide.
static bytes_of_state plan_of(const bytes_model *m, int replicate, int shard, const char *outer,
                              const char *inner, dtype compute, int micros, bool no_sync)
{
    plan *p = NULL;
    err e = {0};
    const int size[AXES] = {1, replicate, shard, 1, 1};
    const plan_group_options group = {.dp = {*policy_find(outer), *policy_find(inner)},
                                      .over = POLICY_AXES,
                                      .compute = compute,
                                      .has_m = true,
                                      .has_v = true};
    plan_options o = {.rank = replicate * shard - 1,
                      .strategy = {.no_sync = no_sync ? NO_SYNC_TRUE : NO_SYNC_FALSE,
                                   .reshard_after_forward = 1,
                                   .bucket_bytes = 25 << 20,
                                   .reduce_dtype = F32},
                      .group = &group,
                      .groups = 1,
                      .micros = micros,
                      .cost = m->cost,
                      .blocks = BLOCKS,
                      .use = m->use,
                      .uses = PARAMS + 1};
    if (mesh_make(size, replicate * shard, &o.mesh, &e) != OK ||
        plan_make(&o, m->param, PARAMS, &p, &e) != OK)
        fail_msg("%s", e.text);
    bytes_of_state b = {(double)p->bytes[BYTES_WEIGHTS], (double)p->bytes[BYTES_GRADIENTS],
                        (double)(p->bytes[BYTES_OPTIMIZER] + p->bytes[BYTES_MASTER])};
    plan_free(p);
    return b;
}

static void expect(const char *what, int ranks, double found, double expected)
{
    if (found < expected || found > 1.01 * expected)
        fail_msg("%s on %d ranks: %.0f bytes, the formula says %.0f", what, ranks, found, expected);
}

static void expect_shares(const bytes_model *m, const char *name, int n, dtype compute, int weights,
                          int gradients, int optimizer)
{
    const bytes_of_state b = plan_of(m, 1, n, "ddp", name, compute, 1, true);
    const double weight = compute == F32 ? 4 : 2, states = compute == F32 ? 8 : 12;
    expect(name, n, b.weights, weight * m->elements / weights);
    expect(name, n, b.gradients, 4 * m->elements / gradients);
    expect(name, n, b.optimizer, states * m->elements / optimizer);
}

static void shares_are_those_of_zero(void **state)
{
    (void)state;
    bytes_model *m = make_model();
    for (int n = 1; n <= 8; n *= 2)
        for (int t = 0; t < 3; t++) {
            const dtype compute = t == 0 ? F32 : t == 1 ? BF16 : F16;
            expect_shares(m, "ddp", n, compute, 1, 1, 1);
            expect_shares(m, "zero1", n, compute, 1, 1, n);
            expect_shares(m, "zero2", n, compute, 1, n, n);
            expect_shares(m, "zero3", n, compute, n, n, n);
        }
    free(m);
}

// 2 + 4 + 12 bytes per parameter, of which each ZeRO stage shards more over 8 ranks.
static void totals_in_mixed_precision_are_eighteen_bytes_a_parameter(void **state)
{
    (void)state;
    bytes_model *m = make_model();
    static const struct {
        const char *policy;
        double bytes;
    } cases[] = {
        {"ddp", 18}, {"zero1", 6 + 12 / 8.0}, {"zero2", 2 + 16 / 8.0}, {"zero3", 18 / 8.0}};
    for (int i = 0; i < 4; i++) {
        const bytes_of_state b = plan_of(m, 1, 8, "ddp", cases[i].policy, BF16, 1, true);
        expect(cases[i].policy, 8, b.weights + b.gradients + b.optimizer,
               cases[i].bytes * m->elements);
    }
    free(m);
}

static void hybrid_sharding_has_the_shares_of_its_inner_axis(void **state)
{
    (void)state;
    bytes_model *m = make_model();
    const bytes_of_state b = plan_of(m, 2, 4, "ddp", "zero3", BF16, 1, true),
                         both = plan_of(m, 2, 4, "zero3", "zero3", BF16, 1, true);
    expect("hybrid", 4, b.weights, 2 * m->elements / 4);
    expect("hybrid", 4, b.gradients, 4 * m->elements / 4);
    expect("hybrid", 4, b.optimizer, 12 * m->elements / 4);
    expect("zero3 on both", 8, both.weights + both.gradients + both.optimizer,
           18 * m->elements / 8);
    free(m);
}

// Under no_sync the gradients of several micro-batches are unsharded until the step's end.
static void no_sync_keeps_full_gradients_until_the_step(void **state)
{
    (void)state;
    bytes_model *m = make_model();
    const bytes_of_state summed = plan_of(m, 1, 4, "ddp", "zero2", BF16, 2, true),
                         reduced = plan_of(m, 1, 4, "ddp", "zero2", BF16, 2, false);
    // Tied weights then have a second array of gradients.
    expect("no_sync", 4, summed.gradients, 4 * (m->elements + (double)VOCAB * HIDDEN));
    expect("each reduced", 4, reduced.gradients, 4 * (m->elements + (double)VOCAB * HIDDEN) / 4);
    free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_those_of_zero),
        cmocka_unit_test(totals_in_mixed_precision_are_eighteen_bytes_a_parameter),
        cmocka_unit_test(hybrid_sharding_has_the_shares_of_its_inner_axis),
        cmocka_unit_test(no_sync_keeps_full_gradients_until_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
