// test_environment.c -- PyTorch's and NCCL's variables: which key each sets, what overrides it, and which
// are said to be without effect.
#include "job_fixture.h"

#include "config/debug.h"
#include "config/environment.h"

static void expect_origin(const job *j, const char *key, const char *value, const char *origin)
{
    text v = {0}, from = {0};
    assert_true(job_find_value(j, key, &v, &from));
    assert_string_equal(v.chars, value);
    assert_string_equal(from.chars, origin);
    text_clear(&v);
    text_clear(&from);
}

static void variables_set_keys(void **state)
{
    (void)state;
    static const struct {
        const char *variable, *value, *key, *effective;
    } all[] = {
        {"TORCH_DISTRIBUTED_DEBUG", "DETAIL", "checks.desync", "on"},
        {"TORCH_NCCL_DESYNC_DEBUG", "1", "checks.desync", "on"},
        {"NCCL_DESYNC_DEBUG", "true", "checks.desync", "on"},
        {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0", "checks.flight_recorder", "0"},
        {"TORCH_FR_BUFFER_SIZE", "77", "checks.flight_recorder", "77"},
        {"TORCH_NCCL_TRACE_BUFFER_SIZE", "78", "checks.flight_recorder", "78"},
        {"TORCH_FR_DUMP_TEMP_FILE", "/a/b_", "checks.flight_recorder_prefix", "/a/b_"},
        {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "/a/c_", "checks.flight_recorder_prefix", "/a/c_"},
        {"NCCL_TIMEOUT", "1800", "checks.watchdog", "1800s"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        setenv(all[i].variable, all[i].value, 1);
        job *j = good_job(SMALL, "");
        expect_origin(j, all[i].key, all[i].effective, all[i].variable);
        job_close(j);
        unsetenv(all[i].variable);
    }
}

static void other_values_leave_the_defaults(void **state)
{
    (void)state;
    setenv("TORCH_DISTRIBUTED_DEBUG", "INFO", 1);
    setenv("TORCH_NCCL_DESYNC_DEBUG", "0", 1);
    setenv("TORCH_NCCL_DUMP_ON_TIMEOUT", "1", 1);
    setenv("NCCL_TIMEOUT", "", 1);
    job *j = good_job(SMALL, "");
    expect_origin(j, "checks.desync", "off", "default");
    expect_origin(j, "checks.flight_recorder", "2000", "default");
    expect_origin(j, "checks.watchdog", "600s", "default");
    job_close(j);
    unsetenv("TORCH_DISTRIBUTED_DEBUG");
    unsetenv("TORCH_NCCL_DESYNC_DEBUG");
    unsetenv("TORCH_NCCL_DUMP_ON_TIMEOUT");
    unsetenv("NCCL_TIMEOUT");
}

static void the_job_overrides_variables(void **state)
{
    (void)state;
    setenv("NCCL_TIMEOUT", "60", 1);
    setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL", 1);
    setenv("TORCH_FR_BUFFER_SIZE", "5", 1);
    setenv("TORCH_NCCL_TRACE_BUFFER_SIZE", "6", 1);
    job *j = good_job(SMALL "checks: {watchdog: 5s}\n", "--checks.desync|off");
    expect_origin(j, "checks.watchdog", "5s", "job.yaml:3");
    expect_origin(j, "checks.desync", "off", "command line");
    expect_origin(j, "checks.flight_recorder", "5", "TORCH_FR_BUFFER_SIZE");
    job_close(j);
    unsetenv("NCCL_TIMEOUT");
    unsetenv("TORCH_DISTRIBUTED_DEBUG");
    unsetenv("TORCH_FR_BUFFER_SIZE");
    unsetenv("TORCH_NCCL_TRACE_BUFFER_SIZE");
}

static void wrong_values_name_the_variable(void **state)
{
    (void)state;
    static const struct {
        const char *variable, *value, *error;
    } all[] = {
        {"TORCH_DISTRIBUTED_DEBUG", "LOUD",
         "TORCH_DISTRIBUTED_DEBUG: found LOUD; valid: OFF, INFO, DETAIL"},
        {"TORCH_NCCL_DESYNC_DEBUG", "much", "TORCH_NCCL_DESYNC_DEBUG: found much; valid: 0 or 1"},
        {"NCCL_TIMEOUT", "soon", "NCCL_TIMEOUT: found soon; valid: a number of seconds"},
        {"TORCH_FR_BUFFER_SIZE", "-3",
         "TORCH_FR_BUFFER_SIZE: checks.flight_recorder: found -3; valid: a whole number from 0 to "
         "1048576"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        job *j = NULL;
        err e = {0};
        setenv(all[i].variable, all[i].value, 1);
        assert_int_equal(open_job(SMALL, "", &j, &e), E_USAGE);
        assert_string_equal(e.text, all[i].error);
        unsetenv(all[i].variable);
    }
}

#define IGNORED_BLOCKING                                                                           \
    "NCCL_BLOCKING_WAIT=1 has no effect: collectives are issued to streams, and "                  \
    "checks.watchdog bounds each wait\n"
#define IGNORED_ALGO                                                                               \
    "NCCL_ALGO=Ring\\n has no effect but over nccl with train.deterministic false: sums have one " \
    "fixed order\n"
#define IGNORED_NCCL_INTERFACE                                                                     \
    "NCCL_SOCKET_IFNAME=eth has no effect but over nccl, hier, tls and ucx: ranks of one machine " \
    "share "                                                                                       \
    "memory\n"
#define IGNORED_GLOO_INTERFACE                                                                     \
    "GLOO_SOCKET_IFNAME=^lo has no effect but over hier, tls and ucx: ranks of one machine share " \
    "memory\n"

// A variable is named where it has no effect, and not over a communicator that heeds it.
static void variables_without_effect_are_named(void **state)
{
    static const struct {
        const char *communicator;
        bool tree_order;
        const char *lines;
    } cases[] = {
        {"local", true,
         IGNORED_BLOCKING IGNORED_ALGO IGNORED_NCCL_INTERFACE IGNORED_GLOO_INTERFACE},
        {"ucx", true, IGNORED_BLOCKING IGNORED_ALGO},
        {"hier", true, IGNORED_BLOCKING IGNORED_ALGO},
        {"nccl", true, IGNORED_BLOCKING IGNORED_ALGO IGNORED_GLOO_INTERFACE},
        {"nccl", false, IGNORED_BLOCKING IGNORED_GLOO_INTERFACE},
    };
    (void)state;
    setenv("NCCL_ALGO", "Ring\n", 1);
    setenv("NCCL_BLOCKING_WAIT", "1", 1);
    setenv("NCCL_SOCKET_IFNAME", "eth", 1);
    setenv("GLOO_SOCKET_IFNAME", "^lo", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text found = {0};
        environment_add_ignored(cases[i].communicator, cases[i].tree_order, &found);
        assert_string_equal(found.chars, cases[i].lines);
        text_clear(&found);
    }
    unsetenv("NCCL_ALGO");
    unsetenv("NCCL_BLOCKING_WAIT");
    unsetenv("NCCL_SOCKET_IFNAME");
    unsetenv("GLOO_SOCKET_IFNAME");
}

// The variables of NCCL that choose messages, and which of VERSION, INIT, NET and ENV they choose.
static void messages_are_chosen_as_by_nccl(void **state)
{
    static const struct {
        const char *level, *subsystems;
        bool says[4];
    } cases[] = {
        {"", NULL, {0}},
        {"WARN", "ALL", {0}},
        {"VERSION", "ALL", {1, 0, 0, 0}},
        {"info", NULL, {1, 1, 1, 1}},
        {"TRACE", "", {1, 1, 1, 1}},
        {"INFO", "INIT,NET", {1, 1, 1, 0}},
        {"INFO", "coll,env", {1, 0, 0, 1}},
        {"INFO", "ALL", {1, 1, 1, 1}},
        {"INFO", "^ENV,GRAPH", {1, 1, 1, 0}},
        {"INFO", "^ALL", {1, 0, 0, 0}},
        {"INFO", "GRAPH,INITIAL", {1, 0, 0, 0}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("NCCL_DEBUG", cases[i].level, 1);
        if (cases[i].subsystems)
            setenv("NCCL_DEBUG_SUBSYS", cases[i].subsystems, 1);
        else
            unsetenv("NCCL_DEBUG_SUBSYS");
        for (int kind = DEBUG_VERSION; kind <= DEBUG_ENV; kind++)
            if (debug_says((debug_kind)kind) != cases[i].says[kind])
                fail_msg("case %zu, kind %d", i, kind);
    }
    unsetenv("NCCL_DEBUG");
    unsetenv("NCCL_DEBUG_SUBSYS");
    setenv("TORCH_DISTRIBUTED_DEBUG", "INFO", 1);
    assert_true(debug_says(DEBUG_INIT));
    assert_false(debug_says(DEBUG_VERSION));
    unsetenv("TORCH_DISTRIBUTED_DEBUG");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_set_keys),
        cmocka_unit_test(messages_are_chosen_as_by_nccl),
        cmocka_unit_test(other_values_leave_the_defaults),
        cmocka_unit_test(the_job_overrides_variables),
        cmocka_unit_test(wrong_values_name_the_variable),
        cmocka_unit_test(variables_without_effect_are_named),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
