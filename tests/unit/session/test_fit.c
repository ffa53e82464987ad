// test_fit.c -- jobs that do not fit in memory: the error names the first change that fits, or
// memory.fit makes it; each change of the search lowers the estimate. A wrapped function gives the
// bytes of the program itself, and another counts the devices that are opened.
#include "base/proc.h"
#include "planner/calibrated_file.h"
#include "session/plan/fit_search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { ARGS_MAX = 24 };

// Wide, shallow and with a small vocabulary, so that every change of the search lowers the
// estimate.
static const char *const fixed[] = {
    "--model={family: gpt2, layers: 6, hidden: 64, heads: 2, vocab: 64, max_seq: 64}",
    "--data.train=mock", "--data.seq_len=64",
    "--train={steps: 1, global_batch: 16, micro_batch: 4}",
    "--launch={ranks: 2, threads_per_rank: 1}"};

static uint64_t own_bytes;

uint64_t __wrap_proc_own_bytes(void);
uint64_t __wrap_proc_own_bytes(void)
{
    return own_bytes;
}

static int devices_opened;
static device_options asked_for; // by the last call
static bool device_is_refused;

status __wrap_device_open(const char *word, const device_options *o, device **out, err *e);
status __real_device_open(const char *word, const device_options *o, device **out, err *e);
status __wrap_device_open(const char *word, const device_options *o, device **out, err *e)
{
    devices_opened++;
    asked_for = *o;
    if (device_is_refused) return err_set(e, E_FIT, "no device");
    return __real_device_open(word, o, out, e);
}

static int fixed_own_bytes(void **state)
{
    (void)state;
    own_bytes = 10 << 20;
    return setenv("XDG_CONFIG_HOME", "/none", 1);
}

static job *job_of(const char *const *arg)
{
    char *argv[ARGS_MAX];
    int argc = 0;
    job *j = NULL;
    err e = {.code = OK};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) argv[argc++] = (char *)fixed[i];
    for (; arg && *arg; arg++) argv[argc++] = (char *)*arg;
    if (job_open(NULL, argc, argv, &j, &e) != OK) fail_msg("%s", e.text);
    return j;
}

static memory_estimate estimate_of(const job *j, const session_inputs *in)
{
    memory_estimate n;
    memory_estimate_base base;
    err e = {.code = OK};
    if (memory_estimate_read_base(j, in, &base, &e) != OK ||
        memory_estimate_of(j, in, j->launch.ranks, &base, &n, &e) != OK)
        fail_msg("%s", e.text);
    return n;
}

static fit_search search(const job *j, const session_inputs *in, uint64_t budget)
{
    fit_search l;
    memory_estimate_base base;
    err e = {.code = OK};
    if (memory_estimate_read_base(j, in, &base, &e) != OK ||
        fit_search_run(j, in, j->launch.ranks, budget, &base, &l, &e) != OK)
        fail_msg("%s", e.text);
    return l;
}

static session_inputs open_to_plan(job *j)
{
    session_inputs in;
    err e = {.code = OK};
    if (session_inputs_open_to_plan(j, NULL, &in, &e) != OK) fail_msg("%s", e.text);
    return in;
}

// Between the estimates of micro-batches of 4 and of 2.
static uint64_t budget_between(const job *j, const session_inputs *in)
{
    job two = *j;
    two.train.micro_batch = 2;
    const uint64_t more = estimate_of(j, in).total, less = estimate_of(&two, in).total;
    assert_true(more > less);
    return less + (more - less) / 2;
}

// Each budget is a byte too small for the result before.
static void every_change_lowers_the_estimate(void **state)
{
    (void)state;
    static const char *const arg[] = {"--parallel.offload.path=/tmp", "--model.hidden=512", NULL};
    job *j = job_of(arg);
    session_inputs in = open_to_plan(j);
    uint64_t last = estimate_of(j, &in).total;
    text all = {0};
    fit_search l = {.fits = true};
    for (int steps = 0; steps < 100; steps++) {
        l = search(j, &in, last - 1);
        if (!l.fits) break;
        assert_true(l.estimate.total < last);
        assert_true(estimate_of(&l.changed, &in).total == l.estimate.total);
        last = l.estimate.total;
        text_clear(&all);
        fit_search_print(j, &l, &all);
    }
    assert_non_null(strstr(all.chars, "--train.micro_batch 1"));
    assert_non_null(strstr(all.chars, "--parallel.dp zero3"));
    assert_non_null(strstr(all.chars, "--parallel.recompute full"));
    assert_non_null(strstr(all.chars, "--parallel.offload.optimizer file"));
    assert_false(l.fits || l.needs_path);
    text_clear(&all);
    session_inputs_close(&in);
    job_close(j);
}

static void the_first_change_is_the_largest_batch_that_fits(void **state)
{
    (void)state;
    job *j = job_of(NULL);
    session_inputs in = open_to_plan(j);
    fit_search l = search(j, &in, budget_between(j, &in));
    text changes = {0};
    job_describe_changes(j, &l.changed, &changes);
    assert_string_equal(changes.chars, "--train.micro_batch 2");
    text_clear(&changes);
    session_inputs_close(&in);
    job_close(j);
}

static void expect_changes(const job *j, const fit_search *l, const char *expected)
{
    text changes = {0};
    assert_true(l->fits);
    job_describe_changes(j, &l->changed, &changes);
    assert_string_equal(changes.chars, expected);
    text_clear(&changes);
}

// zero1 sends no more than ddp and computes no more, so it comes before bf16 and recomputation.
static void the_cheapest_change_that_fits_is_taken(void **state)
{
    (void)state;
    static const char *const arg[] = {"--train.micro_batch=1", NULL};
    job *j = job_of(arg);
    session_inputs in = open_to_plan(j);
    fit_search l = search(j, &in, estimate_of(j, &in).total - 1);
    expect_changes(j, &l, "--parallel.dp zero1");
    session_inputs_close(&in);
    job_close(j);
}

// 7 billion parameters on 8 ranks of 80 GiB: ddp needs 127 GiB.
static void seven_billion_parameters_get_zero1(void **state)
{
    (void)state;
    static const char *const arg[] = {
        "--model={family: llama, layers: 32, hidden: 4096, ffn: 11008, heads: 32, kv_heads: 32, "
        "vocab: 32000, max_seq: 4096, tie_embeddings: false}",
        "--data.seq_len=4096",
        "--train={steps: 1, global_batch: 64, micro_batch: 1, precision: bf16}", "--launch.ranks=8",
        NULL};
    job *j = job_of(arg);
    session_inputs in = open_to_plan(j);
    fit_search l = search(j, &in, (uint64_t)80 << 30);
    expect_changes(j, &l, "--parallel.dp zero1");
    session_inputs_close(&in);
    job_close(j);
}

// Gradients of several micro-batches are sharded only where each micro-batch is reduced.
static void a_policy_that_shards_gradients_reduces_every_micro_batch(void **state)
{
    (void)state;
    static const char *const arg[] = {"--train.micro_batch=1", "--train.precision=bf16",
                                      "--parallel.recompute=full", "--parallel.dp=zero1", NULL};
    job *j = job_of(arg);
    session_inputs in = open_to_plan(j);
    fit_search l = search(j, &in, estimate_of(j, &in).total - 1);
    assert_true(l.fits);
    assert_int_equal(l.changed.strategy.dp.inner.gradient, SHARD);
    assert_int_equal(l.changed.strategy.no_sync, NO_SYNC_AUTO);
    session_inputs_close(&in);
    job_close(j);
}

static void a_change_to_files_without_a_folder_asks_for_one(void **state)
{
    (void)state;
    static const char *const arg[] = {"--launch.ranks=1", NULL};
    job *j = job_of(arg);
    session_inputs in = open_to_plan(j);
    fit_search l = search(j, &in, 1);
    text changes = {0};
    assert_false(l.fits);
    assert_true(l.needs_path);
    fit_search_print(j, &l, &changes);
    assert_non_null(strstr(changes.chars, "--parallel.offload.path FOLDER"));
    text_clear(&changes);
    session_inputs_close(&in);
    job_close(j);
}

// Stages differ: the first has the embedding, the last the head, and earlier ones save the
// activations of more micro-batches.
static void the_largest_rank_decides_and_is_named(void **state)
{
    (void)state;
    static const char *const arg[] = {"--parallel.pp=2", "--parallel.tp=2", "--launch.ranks=4",
                                      "--model.vocab=513", NULL};
    job *j = job_of(arg);
    session_inputs in = open_to_plan(j);
    const memory_estimate n = estimate_of(j, &in);
    uint64_t most = 0;
    text who = {0};
    for (int r = 0; r < 4; r++) {
        trainer_options o;
        plan *p = NULL;
        schedule s;
        uint64_t params;
        double flops;
        err refused = {.code = OK};
        if (session_options(j, &in, 4, &o, &refused) != OK) fail_msg("%s", refused.text);
        o.place.rank = r;
        if (trainer_plan(&o, &p, &s, &params, &flops, &refused) != OK) fail_msg("%s", refused.text);
        const uint64_t planned = plan_bytes(p) - p->bytes[BYTES_RUNTIME];
        if (planned > most) most = planned;
        plan_free(p);
        schedule_clear(&s);
    }
    assert_false(n.alike);
    assert_true(n.total - n.bytes[BYTES_RUNTIME] == most);
    memory_estimate_print_ranks(&n, &who);
    assert_non_null(strstr(who.chars, "on rank 0 (pp 0, tp 0), the largest of 4"));
    text_clear(&who);
    session_inputs_close(&in);
    job_close(j);
}

// Each rank counts the bytes of the program once, with the scratch memory of the device.
static void the_estimate_includes_the_program_itself(void **state)
{
    (void)state;
    job *j = job_of(NULL);
    session_inputs in = open_to_plan(j);
    const memory_estimate small = estimate_of(j, &in);
    assert_true(small.bytes[BYTES_RUNTIME] >= own_bytes);
    own_bytes += 12345;
    const memory_estimate large = estimate_of(j, &in);
    assert_true(large.total == small.total + 12345);
    own_bytes -= 12345;
    session_inputs_close(&in);
    job_close(j);
}

static void a_job_too_large_is_refused_with_its_bytes_and_a_change(void **state)
{
    (void)state;
    job *probe = job_of(NULL);
    session_inputs in = open_to_plan(probe);
    char budget[64];
    snprintf(budget, sizeof budget, "--memory.budget=%llu",
             (unsigned long long)budget_between(probe, &in));
    session_inputs_close(&in);
    job_close(probe);
    const char *const arg[] = {budget, NULL};
    job *j = job_of(arg);
    err e = {.code = OK};
    assert_int_equal(session_inputs_open(j, &in, &e), E_FIT);
    assert_non_null(strstr(e.text, "on each of 2 ranks (weights "));
    assert_non_null(strstr(e.text, "the first change that fits: --train.micro_batch 2 needs "));
    job_close(j);
}

static void memory_fit_is_the_origin_of_its_changes(void **state)
{
    (void)state;
    job *probe = job_of(NULL);
    session_inputs in = open_to_plan(probe);
    char budget[64];
    snprintf(budget, sizeof budget, "--memory.budget=%llu",
             (unsigned long long)budget_between(probe, &in));
    session_inputs_close(&in);
    job_close(probe);
    const char *const arg[] = {budget, "--memory.fit=true", NULL};
    job *j = job_of(arg);
    err e = {.code = OK};
    text yaml = {0}, told = {0};
    if (session_inputs_open(j, &in, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(j->train.micro_batch, 2);
    assert_non_null(strstr(in.fit, "memory.fit: the job needs "));
    assert_non_null(strstr(in.fit, "--train.micro_batch 2 needs "));
    job_write_yaml(j, &yaml);
    assert_non_null(strstr(yaml.chars, "micro_batch: 2\n"));
    job_explain(j, true, &told);
    const char *key = strstr(told.chars, "\"train.micro_batch\"");
    assert_non_null(key);
    assert_non_null(strstr(key, "\"origin\": \"memory.fit\""));
    text_clear(&yaml);
    text_clear(&told);
    session_inputs_close(&in);
    job_close(j);
}

static void a_sequence_that_does_not_fit_is_split(void **state)
{
    (void)state;
    static const char *const arg[] = {"--parallel.dp=zero3",    "--train.micro_batch=1",
                                      "--train.precision=bf16", "--parallel.recompute=full",
                                      "--launch.ranks=4",       "--data.seq_len=512",
                                      "--model.max_seq=512",    NULL};
    job *j = job_of(arg);
    session_inputs in = open_to_plan(j);
    uint64_t last = estimate_of(j, &in).total;
    for (int cp = 2; cp <= 4; cp *= 2) {
        const fit_search l = search(j, &in, last - 1);
        assert_true(l.fits);
        assert_int_equal(l.changed.parallel.size[AXIS_CP], cp);
        text t = {0};
        fit_search_print(j, &l, &t);
        assert_memory_equal(t.chars, cp == 2 ? "--parallel.cp 2 needs" : "--parallel.cp 4 needs",
                            21);
        text_clear(&t);
        assert_true(estimate_of(&l.changed, &in).total == l.estimate.total);
        last = l.estimate.total;
    }
    // There is no fifth rank, and a given dp_shard gives its ranks.
    assert_int_equal(search(j, &in, 1).changed.parallel.size[AXIS_CP], 4);
    j->parallel.size[AXIS_DP_SHARD] = 4;
    const fit_search l = search(j, &in, estimate_of(j, &in).total - 1);
    assert_true(l.changed.parallel.size[AXIS_CP] == 2 &&
                l.changed.parallel.size[AXIS_DP_SHARD] == 2);
    session_inputs_close(&in);
    job_close(j);
}

static void the_search_finds_the_ranks_that_would_fit(void **state)
{
    (void)state;
    static const char *const arg[] = {"--parallel.dp=zero3", "--train.micro_batch=1",
                                      "--parallel.recompute=full", NULL};
    job *j = job_of(arg);
    session_inputs in = open_to_plan(j);
    const memory_estimate now = estimate_of(j, &in);
    memory_estimate_base base;
    err e = {.code = OK};
    int more = 0;
    assert_int_equal(memory_estimate_read_base(j, &in, &base, &e), OK);
    assert_int_equal(fit_search_ranks(j, &in, 2, now.total - 1, &base, &more, &e), OK);
    assert_int_equal(more, 4);
    assert_int_equal(fit_search_ranks(j, &in, 2, 1, &base, &more, &e), OK);
    assert_int_equal(more, 0);
    session_inputs_close(&in);
    job_close(j);
}

// A machine file by which large products are fast and small ones slow, in the folder that XDG_CONFIG_HOME names.
static void write_machine_file(const char *folder)
{
    kernel_point kernels[] = {
        {.kind = K_MATMUL, .type = F32, .size = {128, 64, 64}, .efficiency = 0.01},
        {.kind = K_MATMUL, .type = F32, .size = {256, 64, 64}, .efficiency = 1}};
    comm_point calls[] = {{.communicator = "local",
                           .kind = CALL_ALL_REDUCE,
                           .group = {2, 2, 1, 1},
                           .bytes = 1 << 20,
                           .seconds = 1e-6}};
    calibrated_file f = {.ranks = 2,
                         .threads = 1,
                         .cores = 2,
                         .kernels = {.memory_bytes_per_s = 1e12, .point = kernels, .points = 2},
                         .calls = {.point = calls, .points = 1},
                         .does = {.factor = 1, .copy_bytes_per_s = 1e9}};
    char path[512];
    err e = {.code = OK};
    f.kernels.product_flops[F32] = 1e9;
    snprintf(path, sizeof path, "%s/trireme", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/trireme/machine.json", folder);
    if (kernel_rates_fit(&f.kernels, &e) != OK || calibrated_file_write(&f, path, &e) != OK)
        fail_msg("%s", e.text);
    f.kernels.point = NULL; // it is the array above
    kernel_rates_clear(&f.kernels);
}

static void remove_machine_file(const char *folder)
{
    char path[512];
    snprintf(path, sizeof path, "%s/trireme/machine.json", folder);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/trireme", folder);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void expect_fit(const char *const *arg, const char *changes)
{
    job *j = job_of(arg);
    session_inputs in;
    err e = {.code = OK};
    if (session_inputs_open(j, &in, &e) != OK) fail_msg("%s", e.text);
    if (!strstr(in.fit, changes)) fail_msg("found %s, expected %s", in.fit, changes);
    session_inputs_close(&in);
    job_close(j);
}

// ddp in smaller micro-batches is the first change that fits. zero1 fits, too, and keeps the products large.
static void where_times_are_known_memory_fit_takes_the_fastest_change(void **state)
{
    (void)state;
    char folder[] = "/tmp/test_fit.XXXXXX", budget[64];
    const char *const arg[] = {budget, "--memory.fit=true", "--launch.device=cpu", NULL};
    job *j = job_of(NULL);
    session_inputs in = open_to_plan(j);
    job two = *j, zero1 = *j;
    two.train.micro_batch = 2;
    zero1.strategy.dp.inner = *policy_find("zero1");
    const uint64_t own = estimate_of(j, &in).total, smaller = estimate_of(&two, &in).total,
                   sharded = estimate_of(&zero1, &in).total;
    const uint64_t least = smaller > sharded ? smaller : sharded;
    assert_true(least < own);
    snprintf(budget, sizeof budget, "--memory.budget=%llu", (unsigned long long)least);
    session_inputs_close(&in);
    job_close(j);
    assert_non_null(mkdtemp(folder));
    setenv("XDG_CONFIG_HOME", folder, 1);
    expect_fit(arg, "; --train.micro_batch 2 needs ");
    write_machine_file(folder);
    expect_fit(arg, "; --parallel.dp zero1 needs ");
    remove_machine_file(folder);
}

// Threads and device contexts do not survive a fork, so the process that starts the ranks opens none.
static void no_device_is_opened_before_ranks_start(void **state)
{
    (void)state;
    job *j = job_of(NULL);
    session_inputs in;
    text out = {0};
    err e = {.code = OK};
    devices_opened = 0;
    if (session_inputs_open(j, &in, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(session_explain(j, &in, &(explain_options){.rank = 1}, &out, &e), OK);
    assert_int_equal(session_plan(j, &in, &(session_plan_options){.json = false}, &out, &e), OK);
    assert_int_equal(devices_opened, 0);
    world *w = NULL;
    session s;
    assert_int_equal(world_open(1, true, &w, &e), OK);
    assert_int_equal(session_open(j, &in, w, 0, &s, &e), OK);
    assert_int_equal(devices_opened, 1); // a rank's own
    session_close(&s);
    world_close(w);
    text_clear(&out);
    session_inputs_close(&in);
    job_close(j);
}

static void a_rank_tells_the_device_its_local_rank(void **state)
{
    (void)state;
    job *j = job_of(NULL);
    session_inputs in = open_to_plan(j);
    world *w = NULL;
    session s;
    err e = {.code = OK};
    assert_int_equal(world_open(2, true, &w, &e), OK);
    device_is_refused = true; // before the first collective
    assert_int_equal(session_open(j, &in, w, 1, &s, &e), E_FIT);
    device_is_refused = false;
    assert_int_equal(asked_for.local_rank, 1);
    assert_int_equal(asked_for.local_ranks, 2);
    assert_int_equal(asked_for.index, 0);
    assert_int_equal(asked_for.threads, 1);
    session_close(&s);
    world_close(w);
    session_inputs_close(&in);
    job_close(j);
}

// The estimate names what an opened device takes.
static void the_estimate_has_the_bytes_of_the_device(void **state)
{
    (void)state;
    job *j = job_of(NULL);
    const session_inputs in = {.family = NULL};
    memory_estimate_base base;
    device *d = NULL;
    assert_int_equal(memory_estimate_read_base(j, &in, &base, NULL), OK);
    assert_int_equal(device_open("auto", &(device_options){.threads = 1}, &d, NULL), OK);
    assert_true(d->bytes_scratch > 0 && base.runtime == own_bytes + d->bytes_scratch);
    device_close(d);
    job_close(j);
}

// Ranks share the samples of the process that they are forked from, whose own bytes hold them, too.
static void samples_in_memory_are_data(void **state)
{
    (void)state;
    job *j = job_of(NULL);
    session_inputs in = open_to_plan(j);
    const memory_estimate without = estimate_of(j, &in);
    in.train->memory = 1 << 20;
    const memory_estimate with = estimate_of(j, &in);
    assert_true(with.bytes[BYTES_DATA] == without.bytes[BYTES_DATA] + (1 << 19));
    assert_true(with.bytes[BYTES_RUNTIME] == without.bytes[BYTES_RUNTIME] - (1 << 20));
    session_inputs_close(&in);
    job_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_change_lowers_the_estimate),
        cmocka_unit_test(samples_in_memory_are_data),
        cmocka_unit_test(the_first_change_is_the_largest_batch_that_fits),
        cmocka_unit_test(the_cheapest_change_that_fits_is_taken),
        cmocka_unit_test(seven_billion_parameters_get_zero1),
        cmocka_unit_test(a_policy_that_shards_gradients_reduces_every_micro_batch),
        cmocka_unit_test(a_change_to_files_without_a_folder_asks_for_one),
        cmocka_unit_test(the_largest_rank_decides_and_is_named),
        cmocka_unit_test(the_estimate_includes_the_program_itself),
        cmocka_unit_test(a_job_too_large_is_refused_with_its_bytes_and_a_change),
        cmocka_unit_test(memory_fit_is_the_origin_of_its_changes),
        cmocka_unit_test(a_sequence_that_does_not_fit_is_split),
        cmocka_unit_test(the_search_finds_the_ranks_that_would_fit),
        cmocka_unit_test(where_times_are_known_memory_fit_takes_the_fastest_change),
        cmocka_unit_test(no_device_is_opened_before_ranks_start),
        cmocka_unit_test(a_rank_tells_the_device_its_local_rank),
        cmocka_unit_test(the_estimate_has_the_bytes_of_the_device),
    };
    return cmocka_run_group_tests(tests, fixed_own_bytes, NULL);
}
