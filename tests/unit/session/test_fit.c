// Jobs that do not fit: refused with the change that would, or changed; every step of the ladder is
// what its plan says. What the program itself takes is given here, not measured.
#include "base/proc.h"
#include "session/fit_search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ARGS_MAX = 24 };

// Wide and shallow beside its vocabulary, so that every step of the ladder helps.
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

static int fixed_own_bytes(void **state)
{
    (void)state;
    own_bytes = 10 << 20;
    return 0;
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

static memory_estimate need_now(const job *j, const session_inputs *in)
{
    memory_estimate n;
    memory_estimate_base base;
    err e = {.code = OK};
    if (memory_estimate_base_open(j, &base, &e) != OK ||
        memory_estimate_of(j, in, j->launch.ranks, &base, &n, &e) != OK)
        fail_msg("%s", e.text);
    memory_estimate_base_close(&base);
    return n;
}

static fit_search climb(const job *j, const session_inputs *in, uint64_t budget)
{
    fit_search l;
    memory_estimate_base base;
    err e = {.code = OK};
    if (memory_estimate_base_open(j, &base, &e) != OK ||
        fit_search_run(j, in, j->launch.ranks, budget, &base, &l, &e) != OK)
        fail_msg("%s", e.text);
    memory_estimate_base_close(&base);
    return l;
}

static session_inputs open_to_plan(job *j)
{
    session_inputs in;
    err e = {.code = OK};
    if (session_inputs_open_to_plan(j, &in, &e) != OK) fail_msg("%s", e.text);
    return in;
}

// Between what micro-batches of 4 and of 2 need.
static uint64_t budget_between(const job *j, const session_inputs *in)
{
    job two = *j;
    two.train.micro_batch = 2;
    const uint64_t more = need_now(j, in).total, less = need_now(&two, in).total;
    assert_true(more > less);
    return less + (more - less) / 2;
}

// From budget to budget, each a byte too small for the step before.
static void every_step_saves_bytes_down_to_the_last(void **state)
{
    (void)state;
    static const char *const arg[] = {"--parallel.offload.path=/tmp", "--model.hidden=512", NULL};
    job *j = job_of(arg);
    session_inputs in = open_to_plan(j);
    uint64_t last = need_now(j, &in).total;
    text all = {0};
    fit_search l = {.fits = true};
    for (int steps = 0; steps < 20; steps++) {
        l = climb(j, &in, last - 1);
        if (!l.fits) break;
        assert_true(l.need.total < last);
        assert_true(need_now(&l.changed, &in).total == l.need.total);
        last = l.need.total;
        text_clear(&all);
        fit_search_print(j, &l, &all);
    }
    assert_non_null(strstr(all.chars, "--train.micro_batch 1"));
    assert_non_null(strstr(all.chars, "--parallel.dp zero3"));
    assert_non_null(strstr(all.chars, "--parallel.recompute full"));
    assert_non_null(strstr(all.chars, "--parallel.offload.optimizer file"));
    assert_false(l.fits || l.wants_path);
    text_clear(&all);
    session_inputs_close(&in);
    job_close(j);
}

static void the_first_step_is_the_largest_batch_that_fits(void **state)
{
    (void)state;
    job *j = job_of(NULL);
    session_inputs in = open_to_plan(j);
    fit_search l = climb(j, &in, budget_between(j, &in));
    text said = {0};
    job_describe_changes(j, &l.changed, &said);
    assert_string_equal(said.chars, "--train.micro_batch 2");
    text_clear(&said);
    session_inputs_close(&in);
    job_close(j);
}

// Gradients are only cut while several micro-batches are summed if each is reduced.
static void a_policy_that_cuts_gradients_reduces_every_micro_batch(void **state)
{
    (void)state;
    static const char *const arg[] = {"--train.micro_batch=1", "--train.precision=bf16",
                                      "--parallel.recompute=full", NULL};
    job *j = job_of(arg);
    session_inputs in = open_to_plan(j);
    fit_search l = climb(j, &in, need_now(j, &in).total - 1);
    assert_true(l.fits);
    assert_string_equal(l.changed.strategy.dp.inner.name, "zero2");
    assert_int_equal(l.changed.strategy.no_sync, NO_SYNC_AUTO);
    session_inputs_close(&in);
    job_close(j);
}

static void without_a_folder_a_step_to_files_says_so(void **state)
{
    (void)state;
    static const char *const arg[] = {"--launch.ranks=1", NULL};
    job *j = job_of(arg);
    session_inputs in = open_to_plan(j);
    fit_search l = climb(j, &in, 1);
    text said = {0};
    assert_false(l.fits);
    assert_true(l.wants_path);
    fit_search_print(j, &l, &said);
    assert_non_null(strstr(said.chars, "--parallel.offload.path FOLDER"));
    text_clear(&said);
    session_inputs_close(&in);
    job_close(j);
}

// Stages differ: embedding and head have a table each, and earlier ones keep more micro-batches.
static void the_largest_rank_decides_and_is_named(void **state)
{
    (void)state;
    static const char *const arg[] = {"--parallel.pp=2", "--parallel.tp=2", "--launch.ranks=4",
                                      "--model.vocab=513", NULL};
    job *j = job_of(arg);
    session_inputs in = open_to_plan(j);
    const memory_estimate n = need_now(j, &in);
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
        o.rank = r;
        if (trainer_plan(&o, &p, &s, &params, &flops, &refused) != OK) fail_msg("%s", refused.text);
        const uint64_t own = plan_bytes(p) - p->bytes[BYTES_RUNTIME];
        if (own > most) most = own;
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

// The program itself counts once on each rank, whatever it is, beside the scratch memory of the
// device.
static void what_the_program_takes_is_part_of_the_need(void **state)
{
    (void)state;
    job *j = job_of(NULL);
    session_inputs in = open_to_plan(j);
    const memory_estimate small = need_now(j, &in);
    assert_true(small.bytes[BYTES_RUNTIME] >= own_bytes);
    own_bytes += 12345;
    const memory_estimate large = need_now(j, &in);
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

static void memory_fit_takes_the_change_over_with_its_origin(void **state)
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

static void more_ranks_are_named_where_they_would_help(void **state)
{
    (void)state;
    static const char *const arg[] = {"--parallel.dp=zero3", "--train.micro_batch=1",
                                      "--parallel.recompute=full", NULL};
    job *j = job_of(arg);
    session_inputs in = open_to_plan(j);
    const memory_estimate now = need_now(j, &in);
    memory_estimate_base base;
    err e = {.code = OK};
    int more = 0;
    assert_int_equal(memory_estimate_base_open(j, &base, &e), OK);
    assert_int_equal(fit_search_ranks(j, &in, 2, now.total - 1, &base, &more, &e), OK);
    assert_int_equal(more, 4);
    assert_int_equal(fit_search_ranks(j, &in, 2, 1, &base, &more, &e), OK);
    assert_int_equal(more, 0);
    memory_estimate_base_close(&base);
    session_inputs_close(&in);
    job_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_saves_bytes_down_to_the_last),
        cmocka_unit_test(the_first_step_is_the_largest_batch_that_fits),
        cmocka_unit_test(a_policy_that_cuts_gradients_reduces_every_micro_batch),
        cmocka_unit_test(without_a_folder_a_step_to_files_says_so),
        cmocka_unit_test(the_largest_rank_decides_and_is_named),
        cmocka_unit_test(what_the_program_takes_is_part_of_the_need),
        cmocka_unit_test(a_job_too_large_is_refused_with_its_bytes_and_a_change),
        cmocka_unit_test(memory_fit_takes_the_change_over_with_its_origin),
        cmocka_unit_test(more_ranks_are_named_where_they_would_help),
    };
    return cmocka_run_group_tests(tests, fixed_own_bytes, NULL);
}
