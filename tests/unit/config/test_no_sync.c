// parallel.no_sync auto: who sums the gradients of micro-batches before they are reduced, and that
// every place which shows a job says what is in effect.
#include "job_fixture.h"

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
    // With copies of the shards, too; on one axis of copies that shard nothing, not.
    assert_false(sums("--launch.ranks|4|--parallel.dp|zero3|--parallel.dp_replicate|2"));
    assert_true(sums("--launch.ranks|4|--parallel.dp|zero1|--parallel.dp_replicate|2"));
    assert_true(sums("--launch.ranks|1|--parallel.dp|zero3"));
}

static void what_is_given_wins(void **state)
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

static void explain_and_job_yaml_have_the_value_in_effect(void **state)
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

static void another_word_is_refused(void **state)
{
    (void)state;
    assert_refused(SMALL, "--parallel.no_sync|sometimes",
                   "--parallel.no_sync: found sometimes; valid: false, true, auto");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_reduces_sharded_gradients_after_every_micro_batch),
        cmocka_unit_test(what_is_given_wins),
        cmocka_unit_test(gradients_in_a_file_are_reduced_once),
        cmocka_unit_test(explain_and_job_yaml_have_the_value_in_effect),
        cmocka_unit_test(another_word_is_refused),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
