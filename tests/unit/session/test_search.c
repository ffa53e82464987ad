// test_search.c -- the search of a layout on machines whose costs are formulas, against all layouts predicted one by one,
// and where the right answer is known by hand.
#include "session/plan/search.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// Seconds of a FLOP, and of a byte over each link.
typedef struct made_rates {
    double flop, byte, link, network;
} made_rates;

static planner_claim kernel(const void *given, const kernel_cost *k)
{
    const made_rates *r = given;
    planner_claim c = {.seconds = 1e-6 + fmax(k->flops * r->flop, k->bytes * r->byte)};
    c.share[k->flops > 0 ? RESOURCE_COMPUTE : RESOURCE_MEMORY] = 1;
    return c;
}

static planner_claim call(const void *given, const planner_group *g, const comm_call *c,
                          double bytes)
{
    const made_rates *r = given;
    const double times = c->kind == CALL_ALL_REDUCE ? 2 : 1;
    planner_claim out = {.seconds = 0};
    if (g->ranks == 1) return out;
    out.seconds = 1e-6 + times * bytes * (g->hosts > 1 ? r->network : r->link);
    out.share[g->hosts > 1 ? RESOURCE_NETWORK : RESOURCE_LINK] = 1;
    return out;
}

static planner_claim transfer(const void *given, planner_transfer what, double bytes)
{
    (void)given, (void)what;
    return (planner_claim){.seconds = bytes * 1e-8, .share[RESOURCE_STORAGE] = 1};
}

static planner_machine machine_of(const made_rates *r, int ranks_per_host)
{
    return (planner_machine){.costs = {.given = r,
                                       .kernel = kernel,
                                       .call = call,
                                       .transfer = transfer,
                                       .streams_apart = true,
                                       .factor = 1},
                             .ranks_per_host = ranks_per_host};
}

static job *job_of(const char *const *arg, session_inputs *in)
{
    enum { MOST = 16 };
    static const char *const fixed[] = {
        "--model={family: llama, layers: 4, hidden: 128, heads: 4, ffn: 256, vocab: 512, max_seq: "
        "64}",
        "--data={train: mock, seq_len: 64}", "--train={steps: 1, global_batch: 8, micro_batch: 1}",
        "--launch={ranks: 4, device: cpu}"};
    char *argv[MOST];
    int argc = 0;
    job *j = NULL;
    err e = {.code = OK};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) argv[argc++] = (char *)fixed[i];
    for (; arg && *arg; arg++) argv[argc++] = (char *)*arg;
    if (job_open(NULL, argc, argv, &j, &e) != OK ||
        session_inputs_open_to_plan(j, NULL, in, &e) != OK)
        fail_msg("%s", e.text);
    return j;
}

// What the program itself takes is left out: it would grow from one search to the next.
static memory_estimate_base base_of(const job *j, const session_inputs *in)
{
    memory_estimate_base base;
    assert_int_equal(memory_estimate_read_base(j, in, &base, NULL), OK);
    base.runtime = 0;
    return base;
}

static search_result search(const job *j, const session_inputs *in, const planner_machine *m,
                            uint64_t budget)
{
    const memory_estimate_base base = base_of(j, in);
    const search_options o = {
        .machine = m, .base = &base, .budget = budget, .predict = session_predict};
    search_result r;
    err e = {.code = OK};
    if (search_run(j, in, &o, &r, &e) != OK) fail_msg("%s", e.text);
    size_t ended = 0;
    for (int i = 0; i < SEARCH_ENDS; i++) ended += r.ended[i];
    assert_int_equal(ended, r.tried);
    return r;
}

// The least seconds of all layouts that fit, with their exact memory and prediction.
static double best_of_all(const job *j, const session_inputs *in, const planner_machine *m,
                          uint64_t budget)
{
    const memory_estimate_base base = base_of(j, in);
    const layouts_of x = {.j = j, .in = in, .ranks = 4, .ranks_per_host = m->ranks_per_host};
    layouts all;
    double best = INFINITY;
    assert_int_equal(layouts_make(&x, &all, NULL), OK);
    assert_true(all.count > 100);
    for (size_t i = 0; i < all.count; i++) {
        job changed;
        memory_estimate n;
        prediction p;
        layout_apply(j, &all.item[i], &changed);
        if (memory_estimate_of(&changed, in, 4, &base, &n, NULL) != OK ||
            !memory_estimate_fits(&n, budget, &base) ||
            session_predict(&changed, in, 4, m, &p, NULL) != OK)
            continue;
        best = fmin(best, p.step_s);
    }
    layouts_clear(&all);
    return best;
}

static void bounds_leave_out_no_layout_that_wins(void **state)
{
    (void)state;
    static const made_rates rates[] = {{1e-9, 1e-10, 1e-9, 1e-8},
                                       {1e-10, 1e-10, 1e-8, 1e-8},
                                       {1e-9, 1e-9, 1e-12, 1e-6},
                                       {1e-11, 1e-11, 1e-9, 1e-9}};
    session_inputs in = {0};
    job *j = job_of(NULL, &in);
    const uint64_t all = UINT64_MAX, some = 6 << 20;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        const planner_machine m = machine_of(&rates[i], 2);
        const search_result r = search(j, &in, &m, all), small = search(j, &in, &m, some);
        assert_true(r.has_best && r.has_second && small.has_best);
        assert_true(r.best.prediction.step_s <= r.second.prediction.step_s);
        assert_true(r.ended[SEARCH_PREDICTED] < r.tried / 2);
        assert_float_equal(r.best.prediction.step_s, best_of_all(j, &in, &m, all), 1e-12);
        assert_float_equal(small.best.prediction.step_s, best_of_all(j, &in, &m, some), 1e-12);
        assert_true(small.ended[SEARCH_TOO_LARGE] > 0 && small.best.estimate.total <= some);
    }
    session_inputs_close(&in);
    job_close(j);
}

static void tensor_parallel_ranks_share_a_host_where_networks_are_slow(void **state)
{
    (void)state;
    // One sequence leaves only tp, pp and cp.
    static const char *const arg[] = {"--train.global_batch=1", "--parallel.tp=4", NULL};
    static const made_rates slow = {1e-9, 1e-11, 1e-12, 1}, fast = {1e-9, 1e-11, 1e-12, 1e-12};
    session_inputs in = {0};
    job *j = job_of(arg, &in);
    const planner_machine one = machine_of(&slow, 2), other = machine_of(&fast, 2);
    assert_true(search(j, &in, &one, UINT64_MAX).best.layout.size[AXIS_TP] <= 2);
    assert_int_equal(search(j, &in, &other, UINT64_MAX).best.layout.size[AXIS_TP], 4);
    session_inputs_close(&in);
    job_close(j);
}

// Without times of calls and memory, only what is computed again and a pipeline's bubble cost anything.
static void nothing_is_recomputed_where_memory_allows(void **state)
{
    (void)state;
    static const made_rates rates = {1e-9, 0, 0, 0};
    session_inputs in = {0};
    job *j = job_of(NULL, &in);
    const planner_machine m = machine_of(&rates, 4);
    const search_result r = search(j, &in, &m, UINT64_MAX);
    assert_int_equal(r.best.layout.recompute, RECOMPUTE_NONE);
    assert_int_equal(r.best.layout.size[AXIS_PP], 1);
    session_inputs_close(&in);
    job_close(j);
}

static void tiers_are_used_only_where_nothing_else_fits(void **state)
{
    (void)state;
    static const made_rates rates = {1e-9, 1e-11, 1e-11, 1e-10};
    session_inputs in = {0};
    job *j = job_of(NULL, &in);
    const planner_machine m = machine_of(&rates, 4);
    uint64_t budget = 64 << 20;
    bool in_files = false;
    while (!in_files) {
        const search_result r = search(j, &in, &m, budget);
        if (!r.has_best) break;
        assert_true(r.best.estimate.total <= budget);
        in_files = layout_has_files(&r.best.layout);
        budget = budget * 9 / 10;
    }
    assert_true(in_files);
    assert_false(search(j, &in, &m, 1).has_best);
    session_inputs_close(&in);
    job_close(j);
}

// The factor is the one at which both are equally fast: a machine that is a little faster proves it.
static void the_change_for_the_runner_up_is_true(void **state)
{
    (void)state;
    static const made_rates rates = {1e-10, 1e-12, 1e-9, 1e-8};
    session_inputs in = {0};
    job *j = job_of(NULL, &in);
    const planner_machine m = machine_of(&rates, 2);
    const memory_estimate_base base = base_of(j, &in);
    const search_options o = {
        .machine = &m, .base = &base, .budget = UINT64_MAX, .predict = session_predict};
    search_result r = search(j, &in, &m, UINT64_MAX);
    search_change c;
    // Two layouts of which one sends much and the other computes more.
    r.second.layout = r.best.layout;
    r.second.layout.recompute = RECOMPUTE_FULL;
    assert_int_equal(search_find_change(j, &in, &o, &r, &c, NULL), OK);
    assert_null(c.what); // it sends as much and computes more: nothing helps it
    r.best.layout = r.second.layout = (layout){.dp = policy_find("zero1"),
                                               .size = {1, 1, 4, 1, 1},
                                               .virtual_stages = 1,
                                               .schedule = PIPE_1F1B,
                                               .micro_batch = 1};
    r.second.layout.size[AXIS_DP_SHARD] = 2;
    r.second.layout.size[AXIS_TP] = 2;
    assert_int_equal(search_find_change(j, &in, &o, &r, &c, NULL), OK);
    assert_non_null(c.what);
    job first, second;
    layout_apply(j, &r.second.layout, &second);
    layout_apply(j, &r.best.layout, &first);
    made_rates changed = rates;
    if (strstr(c.what, "network"))
        changed.network /= c.times;
    else if (strstr(c.what, "links"))
        changed.link /= c.times;
    else if (strstr(c.what, "products"))
        changed.flop /= c.times;
    else
        changed.byte /= c.times;
    const planner_machine at = machine_of(&changed, 2);
    prediction a, b;
    assert_int_equal(session_predict(&first, &in, 4, &at, &a, NULL), OK);
    assert_int_equal(session_predict(&second, &in, 4, &at, &b, NULL), OK);
    assert_true(b.step_s <= a.step_s * 1.02);
    session_inputs_close(&in);
    job_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_leave_out_no_layout_that_wins),
        cmocka_unit_test(tensor_parallel_ranks_share_a_host_where_networks_are_slow),
        cmocka_unit_test(nothing_is_recomputed_where_memory_allows),
        cmocka_unit_test(tiers_are_used_only_where_nothing_else_fits),
        cmocka_unit_test(the_change_for_the_runner_up_is_true),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
