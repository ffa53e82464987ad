// test_predict.c -- steps of jobs predicted on a machine whose costs are formulas: a kernel takes its FLOPs at 1 GFLOP/s,
// a call its bytes at 100 MB/s. So the right answer is known by hand.
#include "session/plan/predict.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static planner_claim by_flops(const void *given, const kernel_cost *k)
{
    (void)given;
    return (planner_claim){.seconds = k->flops * 1e-9, .share[RESOURCE_COMPUTE] = 1};
}

// *given: the share of the compute units that a call takes.
static planner_claim by_bytes(const void *given, const planner_group *g, const comm_call *c,
                              double bytes)
{
    planner_claim claim = {.seconds = g->ranks > 1 ? bytes * 1e-8 : 0};
    (void)c;
    claim.share[RESOURCE_COMPUTE] = *(const double *)given;
    return claim;
}

static planner_claim no_time(const void *given, const planner_group *g, const comm_call *c,
                             double bytes)
{
    (void)given, (void)g, (void)c, (void)bytes;
    return (planner_claim){.seconds = 0};
}

static planner_claim at_once(const void *given, planner_transfer what, double bytes)
{
    (void)given, (void)what, (void)bytes;
    return (planner_claim){.seconds = 0};
}

static double compute_share; // of calls; set before a prediction

static planner_machine made_machine(bool apart)
{
    planner_machine m = {.costs = {.given = &compute_share,
                                   .kernel = by_flops,
                                   .call = by_bytes,
                                   .transfer = at_once,
                                   .streams_apart = apart,
                                   .factor = 1}};
    m.peak_flops[F32] = 1e9;
    return m;
}

// `keys` are separated by a space.
static job *open_job(const char *keys, session_inputs *in)
{
    enum { FIXED = 12, MOST = 24 };
    const char *args[MOST] = {
        "--model.family=gpt2",   "--model.layers=4",  "--model.hidden=64",
        "--model.heads=4",       "--model.vocab=64",  "--model.max_seq=32",
        "--data.seq_len=32",     "--data.train=mock", "--train.steps=1",
        "--train.micro_batch=1", "--train.out=.",     "--train.global_batch=8"};
    char *copy = strdup(keys), *rest = copy;
    int count = FIXED;
    job *j = NULL;
    err e = {.code = OK};
    assert_non_null(copy);
    while (rest && *rest && count < MOST) args[count++] = strsep(&rest, " ");
    if (job_open(NULL, count, (char *const *)args, &j, &e) != OK ||
        session_inputs_open_to_plan(j, NULL, in, &e) != OK)
        fail_msg("%s: %s", keys, e.text);
    free(copy);
    return j;
}

static prediction predict(const planner_machine *m, const char *keys)
{
    session_inputs in = {0};
    job *j = open_job(keys, &in);
    prediction out = {0};
    err e = {.code = OK};
    if (session_predict(j, &in, j->launch.ranks, m, &out, &e) != OK)
        fail_msg("%s: %s", keys, e.text);
    session_inputs_close(&in);
    job_close(j);
    return out;
}

static void assert_close(double found, double expected, double within)
{
    if (!(fabs(found - expected) <= within * fabs(expected)))
        fail_msg("found %.9g, expected %.9g", found, expected);
}

static void test_one_rank_computes_its_flops(void **state)
{
    (void)state;
    const planner_machine m = made_machine(true);
    const prediction p = predict(&m, "--launch.ranks=1");
    assert_close(p.step_s, p.flops * 1e-9, 1e-6);
    assert_close(p.mfu, 1, 1e-6);
    assert_close(p.compute_s, p.step_s, 1e-9);
    assert_close(p.tokens_per_s, 8 * 32 / p.step_s, 1e-9);
    if (p.bubble > 1e-12 || p.exposed_s > 1e-12)
        fail_msg("bubble %g, exposed %g of %g", p.bubble, p.exposed_s, p.step_s);
}

static void test_ranks_divide_the_batch(void **state)
{
    (void)state;
    const planner_machine m = made_machine(true);
    const prediction one = predict(&m, "--launch.ranks=1"), two = predict(&m, "--launch.ranks=2");
    assert_close(two.flops, one.flops, 1e-9);
    assert_close(two.compute_s, one.compute_s / 2, 1e-9);
    assert_true(two.step_s > two.compute_s);
    assert_close(two.step_s - two.compute_s, two.exposed_s, 1e-6);
}

// What streams hide beside each other costs time where one thread runs them in turn, and where calls take the units that
// compute.
static void test_calls_are_hidden_where_streams_are_apart(void **state)
{
    (void)state;
    const planner_machine apart = made_machine(true), together = made_machine(false);
    compute_share = 0;
    const double hidden = predict(&apart, "--launch.ranks=2 --parallel.dp=zero3").step_s;
    const double serial = predict(&together, "--launch.ranks=2 --parallel.dp=zero3").step_s;
    compute_share = 1;
    const double shared = predict(&apart, "--launch.ranks=2 --parallel.dp=zero3").step_s;
    compute_share = 0;
    if (!(hidden < 0.95 * serial)) fail_msg("%g %g %g", hidden, serial, shared);
    assert_close(shared, serial, 0.02);
}

// Where calls take no time, the step is the one of simulate.c, which walks over the lists in another way.
static void expect_simulated(const char *keys, bool sends_wait)
{
    planner_machine m = made_machine(true);
    session_inputs in = {0};
    job *j = open_job(keys, &in);
    trainer_options o;
    session_stages stages;
    planner_times times;
    simulate_result simulated;
    prediction p;
    err e = {.code = OK};
    m.costs.call = no_time;
    m.costs.sends_wait = sends_wait;
    if (session_options(j, &in, j->launch.ranks, &o, &e) != OK) fail_msg("%s", e.text);
    o.strategy.pipeline.sends_wait = sends_wait;
    if (session_predict_times(j, &in, j->launch.ranks, &m, &stages, &times, &p, &e) != OK)
        fail_msg("%s: %s", keys, e.text);
    if (session_stages_simulate(&stages, &o, false, &simulated, &e) != OK) fail_msg("%s", e.text);
    assert_close(times.seconds, simulated.seconds * 1e-9, 1e-9);
    assert_close(times.bubble, simulated.bubble, 1e-6);
    simulate_result_clear(&simulated);
    session_stages_close(&stages);
    planner_times_clear(&times);
    session_options_clear(&o);
    session_inputs_close(&in);
    job_close(j);
}

static void test_pipelines_have_the_bubble_of_the_simulation(void **state)
{
    (void)state;
    for (int waits = 0; waits < 2; waits++) {
        expect_simulated("--launch.ranks=2 --parallel.pp=2 --parallel.pp_schedule=gpipe", waits);
        expect_simulated("--launch.ranks=4 --parallel.pp=4 --parallel.pp_schedule=1f1b", waits);
        expect_simulated("--launch.ranks=4 --parallel.pp=2 --parallel.pp_schedule=zb", waits);
        expect_simulated("--launch.ranks=2 --parallel.pp=2 --parallel.pp_schedule=interleaved "
                         "--parallel.virtual_stages=2",
                         waits);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank_computes_its_flops),
        cmocka_unit_test(test_ranks_divide_the_batch),
        cmocka_unit_test(test_calls_are_hidden_where_streams_are_apart),
        cmocka_unit_test(test_pipelines_have_the_bubble_of_the_simulation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
