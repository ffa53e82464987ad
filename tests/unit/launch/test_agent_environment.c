// test_agent_environment.c -- the words and the variables that one worker gets. cli/run and cli/run_flags read them in programs that
// were started; a word that is lost there may leave a program that nobody ends.
#include "launch/agent_environment.h"
#include "launch/launcher.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const agent_round ROUND = {.number = 4,
                                  .node = 1,
                                  .nodes = 2,
                                  .first_rank = 3,
                                  .ranks = 6,
                                  .restarts = 2,
                                  .left = 1,
                                  .master = "10.0.0.1",
                                  .master_port = 29500};

static void the_words_of_a_program(void **state)
{
    (void)state;
    char *const program[] = {"train", "--rank=${local_rank}", "${local_rank}${local_rank}",
                             "",      "${rank} $x",           NULL};
    static const char *const want[] = {"train", "--rank=2", "22", "", "${rank} $x"};
    const size_t count = sizeof want / sizeof *want;
    char **words = NULL;
    err e = {0};
    assert_int_equal(agent_environment_program(program, 2, &words, &e), OK);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(words[i]);
        assert_string_equal(words[i], want[i]);
    }
    assert_null(words[count]);
    agent_environment_program_free(words);
}

static void the_prefix_of_lines(void **state)
{
    (void)state;
    char prefix[PREFIX_BYTES];
    agent_options o = {.role = "default"};
    agent_environment_prefix(&o, &ROUND, 2, prefix);
    assert_string_equal(prefix, "[default2]:");
    o.logs.prefix = "<${role_name} ${local_rank} ${rank} ${no}> ";
    agent_environment_prefix(&o, &ROUND, 2, prefix);
    assert_string_equal(prefix, "<default 2 5 ${no}> ");
}

// The value of a variable; NULL: it is not set.
static const char *value_of(const worker_env *v, const char *name)
{
    const size_t bytes = strlen(name);
    const char *found = NULL;
    for (size_t i = 0; i < v->count; i++) {
        if (strncmp(v->names[i], name, bytes) != 0 || v->names[i][bytes] != '=') continue;
        if (found) fail_msg("%s is set twice", name);
        found = v->names[i] + bytes + 1;
    }
    return found;
}

static void expect(const worker_env *v, const char *name, const char *want)
{
    const char *found = value_of(v, name);
    if (!found != !want || (want && strcmp(found, want) != 0))
        fail_msg("%s: found %s, expected %s", name, found ? found : "none", want ? want : "none");
}

static agent_workers workers_of(const agent_options *o, launch_guard *g, agent_worker *items)
{
    snprintf(g->mark, sizeof g->mark, "the mark");
    for (int i = 0; i < o->workers; i++) items[i].error_file = "error.json";
    return (agent_workers){
        .options = o, .round = &ROUND, .guard = g, .count = o->workers, .workers = items};
}

static void the_variables_of_a_worker(void **state)
{
    (void)state;
    static const char *const want[][2] = {{"LOCAL_RANK", "2"},
                                          {"RANK", "5"},
                                          {"GROUP_RANK", "1"},
                                          {"ROLE_RANK", "5"},
                                          {"ROLE_NAME", "default"},
                                          {"LOCAL_WORLD_SIZE", "3"},
                                          {"WORLD_SIZE", "6"},
                                          {"GROUP_WORLD_SIZE", "2"},
                                          {"ROLE_WORLD_SIZE", "6"},
                                          {"CROSS_RANK", "1"},
                                          {"CROSS_SIZE", "2"},
                                          {"LOCAL_SIZE", "3"},
                                          {"MASTER_ADDR", "10.0.0.1"},
                                          {"MASTER_PORT", "29500"},
                                          {"TORCHELASTIC_RESTART_COUNT", "2"},
                                          {"TORCHELASTIC_MAX_RESTARTS", "7"},
                                          {"TORCHELASTIC_RUN_ID", "run 9"},
                                          {LAUNCHER_RUN_VARIABLE, "run 9"},
                                          {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                                          {GUARD_VARIABLE, "the mark"},
                                          {"TORCHELASTIC_ERROR_FILE", "error.json"},
                                          {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                                          {"PYTHON_EXEC", "python3"},
                                          {"TRIREME_SECRET_FILE", "secret"},
                                          {"OMP_NUM_THREADS", "5"},
                                          {"CUDA_VISIBLE_DEVICES", NULL}};
    agent_options o = {.workers = 3,
                       .role = "default",
                       .max_restarts = 7,
                       .threads = 5,
                       .python = "python3",
                       .rendezvous = {.id = "run 9", .secret_file = "secret"}};
    launch_guard g = {0};
    agent_worker items[3] = {0};
    const agent_workers w = workers_of(&o, &g, items);
    worker_env v = {0};
    err e = {0};
    assert_int_equal(agent_environment(&w, 2, &v, &e), OK);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) expect(&v, want[i][0], want[i][1]);
    worker_env_close(&v);
    // Values of the user stay.
    assert_int_equal(setenv("OMP_NUM_THREADS", "2", 1), 0);
    assert_int_equal(setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "3", 1), 0);
    assert_int_equal(agent_environment(&w, 2, &v, &e), OK);
    expect(&v, "OMP_NUM_THREADS", "2");
    expect(&v, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "3");
    worker_env_close(&v);
}

static void a_worker_with_one_gpu(void **state)
{
    (void)state;
    agent_options o = {
        .workers = 3, .role = "default", .own_gpu = true, .rendezvous = {.id = "run"}};
    launch_guard g = {0};
    agent_worker items[3] = {0};
    const agent_workers w = workers_of(&o, &g, items);
    worker_env v = {0};
    err e = {0};
    assert_int_equal(agent_environment(&w, 2, &v, &e), OK);
    expect(&v, "LOCAL_RANK", "0");
    expect(&v, "CUDA_VISIBLE_DEVICES", "2");
    worker_env_close(&v);
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "7,GPU-4a", 1), 0);
    static const char *const want[] = {"7", "GPU-4a"};
    for (int local = 0; local < 2; local++) {
        assert_int_equal(agent_environment(&w, local, &v, &e), OK);
        expect(&v, "CUDA_VISIBLE_DEVICES", want[local]);
        worker_env_close(&v);
    }
    assert_int_equal(agent_environment(&w, 2, &v, &e), E_USAGE);
    assert_non_null(strstr(e.text, "CUDA_VISIBLE_DEVICES=7,GPU-4a has no GPU for local rank 2"));
    worker_env_close(&v);
}

int main(void)
{
    static const char *const users[] = {"OMP_NUM_THREADS", "TORCH_NCCL_ASYNC_ERROR_HANDLING",
                                        "CUDA_VISIBLE_DEVICES", "TRIREME_SECRET_FILE",
                                        "PYTHON_EXEC"};
    for (size_t i = 0; i < sizeof users / sizeof *users; i++) unsetenv(users[i]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_words_of_a_program),
        cmocka_unit_test(the_prefix_of_lines),
        cmocka_unit_test(the_variables_of_a_worker),
        cmocka_unit_test(a_worker_with_one_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
