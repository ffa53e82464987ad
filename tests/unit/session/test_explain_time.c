// test_explain_time.c -- what `explain --time` prints, draws and writes, for a machine whose costs are formulas.
#define _GNU_SOURCE
#include "base/file.h"
#include "monitor/run_view.h"
#include "session/session.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void expect_ok(status result, const err *e)
{
    if (result != OK) fail_msg("%s", e->text);
}

// ---- A machine

static planner_claim kernel(const void *given, const kernel_cost *k)
{
    (void)given;
    return (planner_claim){.seconds = 1e-6 + k->flops / 1e12 + k->bytes / 1e11,
                           .share = {[RESOURCE_COMPUTE] = 1}};
}

static planner_claim call(const void *given, const planner_group *g, const comm_call *c,
                          double bytes)
{
    (void)given, (void)c;
    planner_claim claim = {.seconds = 5e-6 + bytes / 1e10};
    claim.share[g->hosts > 1 ? RESOURCE_NETWORK : RESOURCE_LINK] = 1;
    return claim;
}

static planner_claim transfer(const void *given, planner_transfer what, double bytes)
{
    (void)given, (void)what;
    return (planner_claim){.seconds = 1e-6 + bytes / 1e10, .share = {[RESOURCE_COPY] = 1}};
}

static planner_machine make_machine(bool streams_apart)
{
    planner_machine m = {.costs = {.kernel = kernel,
                                   .call = call,
                                   .transfer = transfer,
                                   .streams_apart = streams_apart,
                                   .step_s = 1e-4,
                                   .factor = 1},
                         .ranks_per_host = 8,
                         .watts = 700,
                         .price_per_hour = 2,
                         .expected_error_percent = 5};
    m.peak_flops[F32] = 1e12;
    m.name = strdup("<formulas>");
    text_add(&m.assumptions, "its kernels take what formulas say\nnobody measured it\n");
    return m;
}

// ---- A job

typedef struct explained {
    text out, svg;
} explained;

static void explain(const char *pp, const planner_machine *m, bool json, const char *folder,
                    explained *x)
{
    const char *args[] = {"--model.family=gpt2",   "--model.layers=4",       "--model.hidden=32",
                          "--model.heads=2",       "--model.vocab=64",       "--model.max_seq=8",
                          "--data.seq_len=8",      "--data.train=mock",      "--train.steps=1",
                          "--train.micro_batch=1", "--train.global_batch=8", "--train.out=.",
                          "--launch.ranks=4",      "--parallel.dp=zero3",    pp};
    job *j = NULL;
    session_inputs in = {0};
    err e = {0};
    *x = (explained){0};
    expect_ok(job_open(NULL, sizeof args / sizeof *args, (char *const *)args, &j, &e), &e);
    expect_ok(session_inputs_open_to_plan(j, NULL, &in, &e), &e);
    const explain_options o = {.json = json, .svg = &x->svg, .machine = m, .trace = folder};
    expect_ok(session_explain(j, &in, &o, &x->out, &e), &e);
    session_inputs_close(&in);
    job_close(j);
}

static void clear(explained *x)
{
    text_clear(&x->out);
    text_clear(&x->svg);
}

static void expect_has(const text *t, const char *part)
{
    if (!strstr(t->chars, part)) fail_msg("no '%s' in:\n%s", part, t->chars);
}

static size_t count_of(const text *t, const char *part)
{
    size_t count = 0;
    for (const char *s = t->chars; (s = strstr(s, part)); s++) count++;
    return count;
}

static void text_has_times_and_why(void **state)
{
    (void)state;
    planner_machine m = make_machine(true);
    explained x;
    explain("--parallel.pp=2", &m, false, NULL, &x);
    expect_has(&x.out, "time runs to the right, as predicted;");
    expect_has(&x.out, "\nms         |0");
    expect_has(&x.out, "time: predicted for <formulas>\n  step ");
    expect_has(&x.out, " exposed communication ");
    expect_has(&x.out, "  expected error 5 %\n  assumes: its kernels take what formulas say\n"
                       "  assumes: nobody measured it\n  stage 0: passes from ");
    expect_has(&x.out, "  stage 1: passes from ");
    expect_has(&x.out, " (other stages ");
    expect_has(&x.out, "    begin ms    takes ms\n");
    expect_has(&x.out, "; waits for RECV_GRAD micro 0 ");
    assert_int_equal(count_of(&x.out, "schedule: "), 1);
    expect_has(&x.svg, "predicted for &lt;formulas></title>");
    expect_has(&x.svg, ">stage 1 communication</text>");
    expect_has(&x.svg, "<title>FORWARD micro 0 block 1: begins at ");
    clear(&x);
    // Without a pipeline, and on a device that runs its streams in turn.
    planner_machine_close(&m);
    m = make_machine(false);
    explain("--parallel.pp=1", &m, false, NULL, &x);
    assert_null(strstr(x.out.chars, "pipeline:"));
    expect_has(&x.out, "  stage 0: passes from ");
    expect_has(&x.out, " (collectives ");
    assert_null(strstr(x.svg.chars, "communication</text>"));
    clear(&x);
    planner_machine_close(&m);
}

static double number(const json_t *o, const char *key)
{
    const json_t *value = json_object_get(o, key);
    if (!json_is_number(value)) fail_msg("no number %s", key);
    return json_number_value(value);
}

static void check_stage(const json_t *g, double step_ms)
{
    const char *key;
    json_t *value;
    double sum = number(g, "busy_ms");
    json_object_foreach(json_object_get(g, "idle_ms"), key, value)
    {
        assert_true(json_number_value(value) >= 0);
        sum += json_number_value(value);
    }
    if (fabs(sum - step_ms) > 1e-6 * step_ms) fail_msg("%g of %g ms are known", sum, step_ms);
    assert_true(number(g, "first_pass_ms") < number(g, "last_pass_ms"));
}

static void json_adds_up(void **state)
{
    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        planner_machine m = make_machine(apart);
        explained x;
        explain("--parallel.pp=2", &m, true, NULL, &x);
        json_t *all = json_loads(x.out.chars, JSON_REJECT_DUPLICATES, NULL), *line;
        size_t i;
        assert_non_null(all);
        const double step = number(all, "step_ms_predicted");
        const json_t *p = json_object_get(all, "prediction"),
                     *times = json_object_get(all, "times");
        assert_int_equal(json_array_size(times), json_array_size(json_object_get(all, "schedule")));
        json_array_foreach(times, i, line)
            assert_true(number(line, "begin_ms") + number(line, "ms") <= step * (1 + 1e-9));
        assert_int_equal(json_array_size(json_object_get(p, "stages")), 2);
        for (i = 0; i < 2; i++) check_stage(json_array_get(json_object_get(p, "stages"), i), step);
        assert_true(fabs(number(p, "joules") - 700 * 4 * step / 1e3) < 1e-6);
        assert_true(number(p, "mfu") > 0 && number(p, "expected_error_percent") == 5);
        json_decref(all);
        clear(&x);
        planner_machine_close(&m);
    }
}

// ---- Traces

static void check_rank(const run_view *v, int rank, const planner_machine *m)
{
    spans_step step;
    int64_t sum = 0;
    const spans_head *h = v->rank[rank]->head;
    assert_string_equal(h->boot, SPANS_SIMULATED);
    assert_string_equal(h->device, m->name);
    assert_true(run_view_step_of(v, rank, 11, &step));
    for (int p = 0; p < SPANS_PHASES; p++) sum += step.phase_ns[p];
    assert_int_equal(sum, step.duration_ns);
    assert_true(step.phase_ns[PHASE_FORWARD] > 0 && step.phase_ns[PHASE_COMM] > 0);
    assert_false(run_view_runs(v, rank));
}

static void a_trace_has_a_rank_of_each_stage(void **state)
{
    (void)state;
    planner_machine m = make_machine(true);
    char folder[] = "/tmp/trireme-test-explain-XXXXXX", path[128], *chars = NULL;
    run_view *v = NULL;
    size_t bytes;
    err e = {0};
    explained x;
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 2; i++) { // an earlier one is replaced
        explain("--parallel.pp=2", &m, false, folder, &x);
        clear(&x);
    }
    expect_ok(run_view_open(folder, &v, &e), &e);
    assert_int_equal(v->ranks, 4);
    assert_int_equal(v->recorded, 2);
    check_rank(v, 0, &m);
    check_rank(v, 2, &m);
    run_view_close(v);
    snprintf(path, sizeof path, "%s/step.tar", folder);
    expect_ok(file_read(path, &chars, &bytes, &e), &e);
    assert_non_null(memmem(chars, bytes, "\"trireme.simulated\": 1", 22));
    assert_non_null(memmem(chars, bytes, "predicted, not run", 18));
    free(chars);
    expect_ok(file_remove_tree(folder, &e), &e);
    planner_machine_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_has_times_and_why),
        cmocka_unit_test(json_adds_up),
        cmocka_unit_test(a_trace_has_a_rank_of_each_stage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
