// test_no_sync.c -- parallel.no_sync auto: the strategies that reduce gradients once a step, and
// the effective value in explain and job.yaml.
#include "job_fixture.h"

// Does the job sum the gradients of its micro-batches before ranks reduce them?
static bool sums(const char *args)
{
    job *j = good_job(SMALL, args);
    mesh m;
    assert_int_equal(job_solve_mesh(j, j->launch.ranks, &m, NULL), OK);
    const strategy_no_sync found = strategy_resolve(&j->strategy, &m).no_sync;
    job_close(j);
    return found == NO_SYNC_TRUE;
}

static void auto_reduces_sharded_gradients_after_every_micro_batch(void **state)
{
    (void)state;
    assert_true(sums("--launch.ranks|4"));
    assert_true(sums("--launch.ranks|4|--parallel.dp|zero1"));
    assert_true(sums("--launch.ranks|4|--parallel.dp|fsdp_no_sync"));
    assert_false(sums("--launch.ranks|4|--parallel.dp|zero2"));
    assert_false(sums("--launch.ranks|4|--parallel.dp|zero3|--parallel.no_sync|auto"));
    // Hybrid sharding shards gradients; zero1 shards none.
    assert_false(sums("--launch.ranks|4|--parallel.dp|zero3|--parallel.dp_replicate|2"));
    assert_true(sums("--launch.ranks|4|--parallel.dp|zero1|--parallel.dp_replicate|2"));
    assert_true(sums("--launch.ranks|1|--parallel.dp|zero3"));
}

static void given_values_override_auto(void **state)
{
    (void)state;
    assert_true(sums("--launch.ranks|4|--parallel.dp|zero3|--parallel.no_sync"));
    assert_true(sums("--launch.ranks|4|--parallel.dp|zero3|--parallel.no_sync|on"));
    assert_false(sums("--launch.ranks|4|--parallel.no_sync|no"));
}

static void gradients_in_a_file_are_reduced_once(void **state)
{
    (void)state;
    assert_true(sums("--launch.ranks|4|--parallel.dp|zero3|--parallel.offload.gradients|file|"
                     "--parallel.offload.path|."));
}

static void explain_and_job_yaml_have_the_effective_value(void **state)
{
    (void)state;
    job *j = good_job(SMALL, "--launch.ranks|2|--parallel.dp|zero2");
    text lines = {0}, yaml = {0};
    job_explain(j, true, &lines);
    assert_non_null(strstr(lines.chars, "\"parallel.no_sync\": {\n    \"value\": false,\n"
                                        "    \"origin\": \"default (auto)\"\n"));
    job_write_yaml(j, &yaml);
    assert_non_null(strstr(yaml.chars, "  no_sync: false\n"));
    text_clear(&lines);
    text_clear(&yaml);
    job_close(j);
}

static void other_words_are_refused(void **state)
{
    (void)state;
    assert_refused(SMALL, "--parallel.no_sync|sometimes",
                   "--parallel.no_sync: found sometimes; valid: false, true, auto");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_reduces_sharded_gradients_after_every_micro_batch),
        cmocka_unit_test(given_values_override_auto),
        cmocka_unit_test(gradients_in_a_file_are_reduced_once),
        cmocka_unit_test(explain_and_job_yaml_have_the_effective_value),
        cmocka_unit_test(other_words_are_refused),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
