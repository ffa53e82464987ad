// test_two_memories.c -- jobs on a device with a memory of its own: the bytes of the device and those of
// the host are estimated, budgeted and printed apart. Wrapped functions describe such a device and say
// how much memory is free, so nothing that is measured decides a test.
#include "base/proc.h"
#include "session/plan/fit_search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ARGS_MAX = 24 };

static bool apart;
static uint64_t device_free, host_free;

uint64_t __wrap_proc_available_bytes(void);
uint64_t __wrap_proc_available_bytes(void)
{
    return host_free;
}

uint64_t __wrap_proc_own_bytes(void);
uint64_t __wrap_proc_own_bytes(void)
{
    return 10 << 20;
}

status __wrap_device_describe(const char *word, const device_options *o, device_description *out,
                              err *e);
status __wrap_device_describe(const char *word, const device_options *o, device_description *out,
                              err *e)
{
    (void)word, (void)o, (void)e;
    *out = (device_description){.name = "cpu",
                                .kind = "generic",
                                .count = 1,
                                .free_bytes = device_free,
                                .own_bytes = 1 << 20,
                                .is_host_memory = !apart};
    return OK;
}

static int two_large_memories(void **state)
{
    (void)state;
    apart = true;
    device_free = host_free = UINT64_C(1) << 36;
    return 0;
}

static job *job_of(const char *const *arg)
{
    static const char *const fixed[] = {
        "--model={family: gpt2, layers: 6, hidden: 64, heads: 2, vocab: 64, max_seq: 64}",
        "--data.train=mock", "--data.seq_len=64",
        "--train={steps: 1, global_batch: 16, micro_batch: 16}",
        "--launch={ranks: 1, threads_per_rank: 1}"};
    char *argv[ARGS_MAX];
    int argc = 0;
    job *j = NULL;
    err e = {.code = OK};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) argv[argc++] = (char *)fixed[i];
    for (; arg && *arg; arg++) argv[argc++] = (char *)*arg;
    if (job_open(NULL, argc, argv, &j, &e) != OK) fail_msg("%s", e.text);
    return j;
}

static memory_estimate estimate_with(const char *const *arg)
{
    job *j = job_of(arg);
    session_inputs in;
    memory_estimate n;
    memory_estimate_base base;
    err e = {.code = OK};
    if (session_inputs_open_to_plan(j, NULL, &in, &e) != OK ||
        memory_estimate_read_base(j, &in, &base, &e) != OK ||
        memory_estimate_of(j, &in, j->launch.ranks, &base, &n, &e) != OK)
        fail_msg("%s", e.text);
    session_inputs_close(&in);
    job_close(j);
    return n;
}

static const char *const ON_HOST[] = {"--parallel.offload.optimizer=host", NULL};

static void bytes_of_the_host_are_apart_from_those_of_the_device(void **state)
{
    (void)state;
    const memory_estimate near = estimate_with(NULL), host = estimate_with(ON_HOST);
    apart = false;
    const memory_estimate one = estimate_with(NULL), one_host = estimate_with(ON_HOST);
    assert_int_equal(one.host_total, 0);
    assert_int_equal(one_host.host_total, 0);
    // The program itself and what is read ahead are the host's also when all state is on the device.
    assert_int_equal(near.total + near.host_total, one.total + DEVICE_STAGING_BYTES);
    assert_true(near.host[BYTES_DATA] > 0 && near.host[BYTES_RUNTIME] > 0);
    assert_int_equal(near.host[BYTES_OPTIMIZER], 0);
    assert_int_equal(near.bytes[BYTES_RUNTIME], 1 << 20);
    assert_int_equal(host.bytes[BYTES_OPTIMIZER], 0);
    assert_true(host.host[BYTES_OPTIMIZER] >= near.bytes[BYTES_OPTIMIZER]);
    assert_true(host.bytes[BYTES_BUFFERS] > 0); // the state slots
    assert_int_equal(one_host.total, one.total);
}

static fit_search search(uint64_t budget, uint64_t host)
{
    job *j = job_of(NULL);
    session_inputs in;
    fit_search l;
    memory_estimate_base base;
    err e = {.code = OK};
    if (session_inputs_open_to_plan(j, NULL, &in, &e) != OK ||
        memory_estimate_read_base(j, &in, &base, &e) != OK)
        fail_msg("%s", e.text);
    base.host_budget = host;
    if (fit_search_run(j, &in, 1, budget, &base, &l, &e) != OK) fail_msg("%s", e.text);
    session_inputs_close(&in);
    job_close(j);
    return l;
}

static void the_search_takes_the_host_before_files_and_stays_within_both_budgets(void **state)
{
    (void)state;
    const fit_search least = search(0, MEMORY_ESTIMATE_NO_BUDGET);
    assert_false(least.fits);
    // What files alone save goes to the host instead.
    apart = false;
    const fit_search files = search(0, MEMORY_ESTIMATE_NO_BUDGET);
    assert_int_equal(files.changed.strategy.offload.tier[PLAN_OPTIMIZER_STATE], TIER_FILE);
    apart = true;
    const uint64_t budget = least.estimate.total * 5 / 4;
    const fit_search host = search(budget, MEMORY_ESTIMATE_NO_BUDGET);
    assert_true(host.fits && !host.needs_path);
    for (int k = 0; k < PLAN_STATES; k++)
        assert_int_equal(host.changed.strategy.offload.tier[k], TIER_HOST);
    const fit_search small = search(budget, host.estimate.host_total - 1);
    assert_true(small.estimate.host_total < host.estimate.host_total);
}

static void a_job_too_large_for_the_host_is_refused(void **state)
{
    (void)state;
    const memory_estimate n = estimate_with(ON_HOST);
    job *j = job_of(ON_HOST);
    session_inputs in;
    err e = {.code = OK};
    host_free = n.host_total - 1;
    assert_int_equal(session_inputs_open(j, &in, &e), E_FIT);
    assert_non_null(strstr(e.text, " of the host's memory (optimizer "));
    job_close(j);
    j = job_of(ON_HOST);
    host_free = n.host_total;
    assert_int_equal(session_inputs_open(j, &in, &e), OK);
    session_inputs_close(&in);
    job_close(j);
}

static void plan_and_explain_show_both_memories(void **state)
{
    (void)state;
    job *j = job_of(ON_HOST);
    session_inputs in;
    text out = {0};
    err e = {.code = OK};
    assert_int_equal(session_inputs_open_to_plan(j, NULL, &in, &e), OK);
    assert_int_equal(session_plan(j, &in, &(session_plan_options){.json = false}, &out, &e), OK);
    assert_non_null(strstr(out.chars, "on the host"));
    assert_non_null(strstr(out.chars, "zero3, optimizer on host"));
    text_clear(&out);
    assert_int_equal(session_plan(j, &in, &(session_plan_options){.json = true}, &out, &e), OK);
    assert_non_null(strstr(out.chars, "\"host_bytes\":"));
    text_clear(&out);
    assert_int_equal(session_explain(j, &in, &(explain_options){.rank = 0}, &out, &e), OK);
    assert_non_null(strstr(out.chars, "bytes per rank, of the device's memory:"));
    assert_non_null(strstr(out.chars, "bytes per rank, of the host's memory:"));
    assert_non_null(strstr(out.chars, "optimizer state on the host\n"));
    assert_non_null(strstr(out.chars, "SWAP_OUT optimizer of bucket"));
    text_clear(&out);
    assert_int_equal(session_explain(j, &in, &(explain_options){.json = true}, &out, &e), OK);
    assert_non_null(strstr(out.chars, "\"host_bytes_per_rank\":{"));
    text_clear(&out);
    session_inputs_close(&in);
    job_close(j);
}

static void updates_on_the_host_need_gradients_there(void **state)
{
    (void)state;
    static const char *const some[] = {"--parallel.offload.optimizer=host",
                                       "--parallel.offload.update=host", NULL};
    static const char *const all[] = {
        "--parallel.offload.optimizer=host", "--parallel.offload.gradients=host",
        "--parallel.offload.weights=host", "--parallel.offload.update=host", NULL};
    session_inputs in;
    text out = {0};
    err e = {.code = OK};
    job *j = job_of(some);
    assert_int_equal(session_inputs_open(j, &in, &e), E_USAGE);
    assert_string_equal(e.text, "parallel.offload.gradients: found device; parallel.offload.update "
                                "host needs them on the host; valid: host, or "
                                "parallel.offload.update device");
    job_close(j);
    j = job_of(all);
    assert_int_equal(session_inputs_open(j, &in, &e), OK);
    assert_int_equal(session_explain(j, &in, &(explain_options){.rank = 0}, &out, &e), OK);
    assert_non_null(strstr(out.chars, "optimizer step              on the host"));
    assert_non_null(strstr(out.chars, "OPTIMIZER_STEP bucket 0 on the host\n"));
    assert_null(strstr(out.chars, "SWAP_OUT optimizer"));
    text_clear(&out);
    session_inputs_close(&in);
    apart = false; // no difference where the memories are one
    assert_int_equal(session_inputs_open(j, &in, &e), OK);
    assert_int_equal(session_explain(j, &in, &(explain_options){.rank = 0}, &out, &e), OK);
    assert_null(strstr(out.chars, "OPTIMIZER_STEP bucket 0 on the host"));
    text_clear(&out);
    session_inputs_close(&in);
    job_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(bytes_of_the_host_are_apart_from_those_of_the_device,
                               two_large_memories),
        cmocka_unit_test_setup(the_search_takes_the_host_before_files_and_stays_within_both_budgets,
                               two_large_memories),
        cmocka_unit_test_setup(a_job_too_large_for_the_host_is_refused, two_large_memories),
        cmocka_unit_test_setup(plan_and_explain_show_both_memories, two_large_memories),
        cmocka_unit_test_setup(updates_on_the_host_need_gradients_there, two_large_memories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
