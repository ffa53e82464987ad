// The flight recorder: its files, ranks that desync on purpose, and a rank that is stopped.
#include "desync_cases.h"

#include "unpickle.h"

#include "base/file.h"

#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static int run(workers *k)
{
    alarm(200);
    return workers_run(k);
}

// ---- Desync

static status desynchronise(const test_rank *s, err *e)
{
    return desync_run(s, s->arg, e);
}

static void test_desync_names_both_sides(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof DESYNCS / sizeof *DESYNCS; i++)
        for (int as_threads = 0; as_threads < 2; as_threads++) {
            desync d = DESYNCS[i];
            char expected[ERR_TEXT_BYTES];
            workers k = {.ranks = 3,
                         .fn = desynchronise,
                         .arg = &d,
                         .as_threads = as_threads,
                         .late = as_threads,
                         .records = as_threads ? 0 : 8,
                         .compares = true};
            snprintf(expected, sizeof expected,
                     "desync in operation 71 over dp_shard: rank 1 %s (as REDUCE_GRAD bucket 3); "
                     "rank 2 %s (as REDUCE_GRAD bucket 4)",
                     d.low, d.high);
            assert_true(run(&k) >= 2);
            assert_int_equal(k.failure.code, E_INTERNAL);
            assert_string_equal(k.failure.text, expected);
        }
}

// Rank 1 closes the group while the others call.
static status leave(const test_rank *s, err *e)
{
    status result = OK;
    comm *group = NULL;
    TRY(comm_split(s->comm, 0, s->comm->rank, &group, e));
    if (s->comm->rank != 1) TRY(sum(s, group, e));
done:
    comm_close(group);
    return result;
}

static void test_a_rank_that_leaves_is_named(void **state)
{
    (void)state;
    workers k = {.ranks = 2, .fn = leave, .compares = true};
    run(&k);
    assert_string_equal(k.failure.text, "desync in operation 1: rank 0 calls all_reduce of 1 fp32 "
                                        "(sum); rank 1 leaves the group");
}

// Ranks agree: many groups, of which two have the same members, and messages among the collectives.
static status agree(const test_rank *s, err *e)
{
    status result = OK;
    comm *halves[2] = {NULL};
    const int rank = s->comm->rank, size = s->comm->size;
    char x = 0, y = 0;
    for (int i = 0; i < 2; i++) TRY(comm_split(s->comm, rank % 2, rank, &halves[i], e));
    for (int i = 0; i < 100; i++) {
        comm *short_lived = NULL;
        TRY(comm_split(halves[i % 2], 0, -rank, &short_lived, e));
        status done = sum(s, short_lived, e);
        for (int j = 0; j <= i % 3 && done == OK; j++) done = sum(s, halves[j % 2], e);
        comm_close(short_lived);
        TRY(done);
        TRY(comm_send(s->comm, &x, 1, (rank + 1) % size, s->stream, e));
        TRY(comm_recv(s->comm, &y, 1, (rank + size - 1) % size, s->stream, e));
        TRY(comm_barrier(s->comm, e));
    }
done:
    comm_close(halves[0]);
    comm_close(halves[1]);
    return result;
}

static void test_ranks_that_agree_run(void **state)
{
    (void)state;
    workers k = {.ranks = 4, .fn = agree, .records = 30, .compares = true};
    assert_int_equal(run(&k), 0);
    k.as_threads = true;
    assert_int_equal(run(&k), 0);
}

// ---- Files

enum { RECORDS = 16 };

static status record(const test_rank *s, err *e)
{
    status result = OK;
    const int rank = s->comm->rank;
    comm *pair = NULL;
    char x[4] = {0};
    float two[2] = {0}, four[4] = {0};
    TRY(comm_split(s->comm, 0, -rank, &pair, e));
    comm_set_label(pair, "dp \"quoted\"");
    for (int i = 0; i < 2 * RECORDS - 2; i++) TRY(sum(s, pair, e));
    TRY(comm_all_gather(pair, two, four, 2, F32, s->stream, e));
    TRY(comm_reduce_scatter(pair, four, two, 2, F32, REDUCE_SUM, s->stream, e));
    show_activity(s, 5);
    if (rank == 0)
        TRY(comm_send(s->comm, x, 4, 1, s->stream, e));
    else
        TRY(comm_recv(s->comm, x, 4, 0, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    TRY(comm_barrier(s->comm, e));
    if (rank == 1) raise(SIGKILL);
    TRY(comm_all_reduce(pair, x, 1, F32, REDUCE_SUM, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
done:
    comm_close(pair);
    return result;
}

// Both files of a rank hold the same.
static json_t *load(const char *prefix, int rank)
{
    char path[128], *data = NULL;
    size_t bytes = 0;
    json_error_t why;
    err e;
    snprintf(path, sizeof path, "%sjson/%d.json", prefix, rank);
    json_t *root = json_load_file(path, 0, &why);
    if (!root) print_message("%s:%d: %s\n", path, why.line, why.text);
    assert_non_null(root);
    assert_int_equal(remove(path), 0);
    snprintf(path, sizeof path, "%s%d", prefix, rank);
    assert_int_equal(file_read(path, &data, &bytes, &e), OK);
    json_t *pickle = unpickle(data, bytes);
    free(data);
    assert_int_equal(remove(path), 0);
    const json_t *one = json_object_get(root, "entries"), *two = json_object_get(pickle, "entries");
    assert_int_equal(json_array_size(one), json_array_size(two));
    for (size_t i = 0; i < json_array_size(one); i++) { // JSON has nine digits of this one
        json_object_del(json_array_get(one, i), "duration_ms");
        assert_true(json_object_get(json_array_get(two, i), "duration_ms"));
        json_object_del(json_array_get(two, i), "duration_ms");
    }
    assert_true(json_equal(root, pickle));
    json_decref(pickle);
    return root;
}

static void check_keys(const json_t *object, const char *const *keys)
{
    for (; *keys; keys++)
        if (!json_object_get(object, *keys)) fail_msg("%s is missing", *keys);
}

static const char *word(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    assert_non_null(value);
    return value;
}

static int64_t number(const json_t *object, const char *key)
{
    assert_true(json_is_integer(json_object_get(object, key)));
    return json_integer_value(json_object_get(object, key));
}

static void check_entries(const json_t *entries, int64_t last)
{
    static const char *const KEYS[] = {"record_id",
                                       "pg_id",
                                       "process_group",
                                       "collective_seq_id",
                                       "p2p_seq_id",
                                       "op_id",
                                       "profiling_name",
                                       "communicator",
                                       "time_created_ns",
                                       "input_sizes",
                                       "input_dtypes",
                                       "output_sizes",
                                       "output_dtypes",
                                       "state",
                                       "time_discovered_started_ns",
                                       "time_discovered_completed_ns",
                                       "retired",
                                       "timeout_ms",
                                       "is_p2p",
                                       "thread_id",
                                       "thread_name",
                                       "frames",
                                       NULL};
    assert_int_equal(json_array_size(entries), RECORDS);
    for (size_t i = 0; i < RECORDS; i++) {
        const json_t *x = json_array_get(entries, i);
        check_keys(x, KEYS);
        assert_int_equal(number(x, "record_id"), last - RECORDS + 1 + (int64_t)i);
        assert_string_equal(word(json_array_get(json_object_get(x, "frames"), 0), "filename"), "");
    }
}

static int64_t elements(const json_t *x, const char *key)
{
    return json_integer_value(json_array_get(json_array_get(json_object_get(x, key), 0), 0));
}

static void check_message(const json_t *x, const char *name)
{
    assert_string_equal(word(x, "profiling_name"), name);
    assert_string_equal(word(x, "communicator"), "local");
    assert_string_equal(json_string_value(json_array_get(json_object_get(x, "process_group"), 0)),
                        "0:0->1");
    assert_true(json_is_true(json_object_get(x, "is_p2p")));
    assert_int_equal(number(x, "p2p_seq_id"), 1);
    assert_string_equal(word(x, "state"), "completed");
    assert_int_equal(elements(x, "input_sizes"), 4);
    assert_string_equal(word(json_array_get(json_object_get(x, "frames"), 0), "name"),
                        "REDUCE_GRAD bucket 5");
}

// Of two ranks, in both of which the first of these calls stands at `first`.
static void check_sizes(const json_t *entries, size_t first)
{
    static const struct {
        const char *name;
        int64_t input, output;
    } calls[] = {
        {"nccl:all_reduce", 1, 1}, {"nccl:all_gather", 2, 4}, {"nccl:reduce_scatter", 4, 2}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const json_t *x = json_array_get(entries, first + i);
        assert_string_equal(word(x, "profiling_name"), calls[i].name);
        assert_int_equal(elements(x, "input_sizes"), calls[i].input);
        assert_int_equal(elements(x, "output_sizes"), calls[i].output);
    }
}

static const json_t *group_named(const json_t *groups, const char *desc)
{
    for (void *i = json_object_iter((json_t *)(uintptr_t)groups); i;
         i = json_object_iter_next((json_t *)(uintptr_t)groups, i))
        if (strcmp(word(json_object_iter_value(i), "desc"), desc) == 0)
            return json_object_iter_value(i);
    fail_msg("no group is %s", desc);
    return NULL;
}

// Rank 0 waits in its last sum, to which rank 1, which was killed, did not come.
static void test_files_have_every_field(void **state)
{
    (void)state;
    static const char *const KEYS[] = {"version", "nccl_version",     "pg_config", "pg_status",
                                       "entries", "comm_lib_version", "host_name", NULL};
    char folder[] = "/tmp/trireme-recorder-XXXXXX", prefix[80], below[40], json[100];
    assert_non_null(mkdtemp(folder));
    snprintf(below, sizeof below, "%s/made", folder);
    snprintf(prefix, sizeof prefix, "%s/rank_", below);
    snprintf(json, sizeof json, "%sjson", prefix);
    workers k = {.ranks = 2, .fn = record, .records = RECORDS, .prefix = prefix};
    assert_int_equal(run(&k), 2);
    for (int rank = 0; rank < 2; rank++) {
        json_t *root = load(prefix, rank);
        const json_t *entries = json_object_get(root, "entries");
        const json_t *groups = json_object_get(root, "pg_config");
        const json_t *all = json_object_get(groups, "0");
        const json_t *group = group_named(groups, "dp \"quoted\"");
        const json_t *pair = json_object_get(groups, "0:0->1");
        const json_t *progress = json_object_get(json_object_get(root, "pg_status"), "1");
        const json_t *newest = json_array_get(entries, RECORDS - 1);
        check_keys(root, KEYS);
        check_entries(entries, 2 * RECORDS + 2 + (rank == 0));
        // Those that there are, with two for messages between the ranks, and no others.
        assert_int_equal(json_object_size(groups), 4);
        assert_int_equal(json_object_size(json_object_get(root, "pg_status")), 2);
        assert_string_equal(word(all, "ranks"), "[0, 1]");
        assert_string_equal(word(group, "ranks"), "[1, 0]");
        assert_string_equal(word(pair, "ranks"), "[0, 1]");
        assert_int_equal(number(progress, "last_enqueued_collective"), 2 * RECORDS + (rank == 0));
        assert_int_equal(number(progress, "last_started_collective"), 2 * RECORDS + (rank == 0));
        assert_int_equal(number(progress, "last_completed_collective"), 2 * RECORDS);
        check_sizes(entries, RECORDS - 5 - (rank == 0));
        check_message(json_array_get(entries, RECORDS - 2 - (rank == 0)),
                      rank ? "nccl:recv 1<-0" : "nccl:send 0->1");
        assert_string_equal(word(newest, "state"), rank ? "completed" : "started");
        assert_string_equal(word(newest, "profiling_name"),
                            rank ? "nccl:barrier" : "nccl:all_reduce");
        json_decref(root);
    }
    assert_int_equal(remove(json), 0);
    assert_int_equal(remove(below), 0);
    assert_int_equal(remove(folder), 0);
}

// Element types as PyTorch names them.
static const struct {
    dtype type;
    const char *name;
} NAMES[] = {{F32, "Float"}, {BF16, "BFloat16"}, {F16, "Half"}, {F64, "Double"}, {I64, "Long"}};
enum { TYPES = sizeof NAMES / sizeof *NAMES };

// Rank 0 writes its own file, though rank 1 has recorded calls, too.
static status write_own(const test_rank *s, err *e)
{
    status result = OK;
    double x[2] = {0};
    for (int i = 0; i < TYPES; i++)
        TRY(comm_all_reduce(s->comm, x, 2, NAMES[i].type, REDUCE_MAX, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    TRY(comm_barrier(s->comm, e));
    if (s->comm->rank == 0) TRY(comm_recorder_dump(s->world->last_calls.recorder, 0, 1, s->arg, e));
done:
    return result;
}

static void test_a_process_writes_the_files_of_its_ranks_only(void **state)
{
    (void)state;
    char folder[] = "/tmp/trireme-recorder-XXXXXX", prefix[80];
    assert_non_null(mkdtemp(folder));
    snprintf(prefix, sizeof prefix, "%s/rank_", folder);
    workers k = {.ranks = 2, .fn = write_own, .records = RECORDS, .arg = prefix};
    assert_int_equal(run(&k), 0);
    json_t *root = load(prefix, 0);
    for (size_t i = 0; i < TYPES; i++) {
        const json_t *x = json_array_get(json_object_get(root, "entries"), i);
        const json_t *in = json_object_get(x, "input_dtypes"),
                     *out = json_object_get(x, "output_dtypes");
        assert_string_equal(json_string_value(json_array_get(in, 0)), NAMES[i].name);
        assert_string_equal(json_string_value(json_array_get(out, 0)), NAMES[i].name);
    }
    json_decref(root);
    snprintf(prefix, sizeof prefix, "%s/rank_json", folder);
    assert_int_equal(remove(prefix), 0);
    assert_int_equal(remove(folder), 0); // so it is empty
}

// A call that a device has recorded and replays twice more; the host has waited for the first two of three.
static status replay(const test_rank *s, err *e)
{
    status result = OK;
    comm_recorder_begin_capture(s->comm);
    TRY(sum(s, s->comm, e));
    comm_recorder_end_capture(s->comm);
    comm_recorder_replay(s->comm);
    comm_recorder_settle(s->comm);
    comm_recorder_replay(s->comm);
    TRY(sum(s, s->comm, e));
    if (s->comm->rank == 0) TRY(comm_recorder_dump(s->world->last_calls.recorder, 0, 1, s->arg, e));
done:
    return result;
}

static void test_replayed_calls_are_recorded(void **state)
{
    (void)state;
    static const char *const STATES[] = {"completed", "completed", "scheduled", "completed"};
    char folder[] = "/tmp/trireme-recorder-XXXXXX", prefix[80];
    assert_non_null(mkdtemp(folder));
    snprintf(prefix, sizeof prefix, "%s/rank_", folder);
    workers k = {.ranks = 2, .fn = replay, .records = RECORDS, .arg = prefix};
    assert_int_equal(run(&k), 0);
    json_t *root = load(prefix, 0);
    const json_t *entries = json_object_get(root, "entries");
    assert_int_equal(json_array_size(entries), 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *x = json_array_get(entries, i);
        assert_string_equal(word(x, "profiling_name"), "nccl:all_reduce");
        assert_int_equal(number(x, "collective_seq_id"), i + 1);
        assert_string_equal(word(x, "state"), STATES[i]);
    }
    json_decref(root);
    snprintf(prefix, sizeof prefix, "%s/rank_json", folder);
    assert_int_equal(remove(prefix), 0);
    assert_int_equal(remove(folder), 0);
}

static void test_a_run_without_calls_leaves_no_file(void **state)
{
    (void)state;
    world *w = NULL;
    err e = {0};
    assert_int_equal(world_open(2, false, &w, &e), OK);
    assert_int_equal(comm_recorder_open(w, 4, false, &e), OK);
    assert_int_equal(comm_recorder_dump(w->last_calls.recorder, 0, 1, "/proc/none/rank_", &e), OK);
    world_close(w);
}

// ---- The watchdog

static void expect_words(const char *s, const char *const *words)
{
    for (; *words; words++)
        if (!strstr(s, *words)) fail_msg("'%s' does not say '%s'", s, *words);
}

static status sums_until_stopped(const test_rank *s, err *e)
{
    status result = OK;
    comm_set_label(s->comm, "dp_shard");
    show_activity(s, (uint64_t)s->comm->rank + 7);
    TRY(sum(s, s->comm, e));
    if (s->comm->rank == 1) raise(SIGSTOP);
    comm_watchdog_set(s->world->watchdog, 1000);
    TRY(sum(s, s->comm, e));
done:
    return result;
}

// Rank 1 is a child that stops itself; this process is rank 0.
static void test_a_stopped_rank_is_named(void **state)
{
    (void)state;
    for (int compares = 0; compares < 2; compares++) {
        workers k = {.ranks = 2, .fn = sums_until_stopped};
        worker ranks[2] = {{&k, 0}, {&k, 1}};
        err e = {0}, why = {0};
        int how;
        alarm(200);
        assert_int_equal(world_open(2, false, &k.world, &e), OK);
        assert_int_equal(comm_recorder_open(k.world, 4, compares, &e), OK);
        comm_watchdog_set(k.world->watchdog, TEST_PATIENCE_MS);
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0) {
            worker_main(&ranks[1]);
            _exit(0);
        }
        worker_main(&ranks[0]);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(comm_failure_get(k.world->failure, NULL, &why));
        world_close(k.world);
        assert_int_equal(k.results[0], E_PEER);
        expect_words(why.text, (const char *const[]){
                                   "Watchdog caught collective operation timeout: rank 1 did "
                                   "not come to all_reduce over dp_shard (REDUCE_GRAD bucket "
                                   "7) within 1 s; it is in REDUCE_GRAD bucket 8; its last "
                                   "call is all_reduce 1 over dp_shard, completed ",
                                   " s ago", NULL});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_desync_names_both_sides),
        cmocka_unit_test(test_a_rank_that_leaves_is_named),
        cmocka_unit_test(test_ranks_that_agree_run),
        cmocka_unit_test(test_files_have_every_field),
        cmocka_unit_test(test_a_process_writes_the_files_of_its_ranks_only),
        cmocka_unit_test(test_replayed_calls_are_recorded),
        cmocka_unit_test(test_a_run_without_calls_leaves_no_file),
        cmocka_unit_test(test_a_stopped_rank_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
