// Splits of process groups, shared memory, and failures that name the rank.
#include "base/clock.h"
#include "ranks.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

static int run(workers *k)
{
    alarm(200);
    return workers_run(k);
}

static status sum(const test_rank *s, comm *c, float mine, float *out, err *e)
{
    *out = mine;
    status result = comm_all_reduce(c, out, 1, F32, REDUCE_SUM, s->stream, e);
    return result == OK ? s->device->ops->sync(s->stream, e) : result;
}

// Splits a mesh of 2 x 3, and a group in reverse order.
static status splits(const test_rank *s, err *e)
{
    status result = OK;
    comm *row = NULL, *column = NULL, *reversed = NULL, *alone = NULL;
    const int rank = s->comm->rank;
    float x = 0;
    TRY(comm_split(s->comm, rank / 3, rank, &row, e));
    TRY(comm_split(s->comm, rank % 3, rank, &column, e));
    TRY(comm_split(row, 7, -rank, &reversed, e));
    TRY(comm_split(s->comm, rank, 0, &alone, e));
    if (row->size != 3 || row->rank != rank % 3 || column->size != 2 || column->rank != rank / 3)
        FAIL(E_INTERNAL, "wrong places in the mesh");
    if (reversed->size != 3 || reversed->rank != 2 - rank % 3 || alone->size != 1)
        FAIL(E_INTERNAL, "wrong order in the reversed group");
    for (int i = 0; i < 200; i++) {
        TRY(sum(s, row, (float)rank, &x, e));
        if (x != (rank < 3 ? 3 : 12)) FAIL(E_INTERNAL, "row: %g", (double)x);
        TRY(sum(s, column, (float)rank, &x, e));
        if (x != (float)(2 * (rank % 3) + 3)) FAIL(E_INTERNAL, "column: %g", (double)x);
        TRY(sum(s, s->comm, (float)rank, &x, e));
        if (x != 15) FAIL(E_INTERNAL, "all: %g", (double)x);
    }
    TRY(sum(s, alone, 5, &x, e));
    if (x != 5) FAIL(E_INTERNAL, "alone: %g", (double)x);
done:
    comm_close(row);
    comm_close(column);
    comm_close(reversed);
    comm_close(alone);
    return result;
}

static void test_splits_form_a_mesh(void **state)
{
    (void)state;
    workers k = {.ranks = 6, .fn = splits};
    assert_int_equal(run(&k), 0);
    k.as_threads = true;
    k.late = true;
    assert_int_equal(run(&k), 0);
}

// Opens and closes hundreds of groups and buffers. Their memory comes back, and it is zeroed.
static status churn(const test_rank *s, err *e)
{
    status result = OK;
    for (int i = 0; i < 300; i++) {
        comm *c = NULL;
        void *a = NULL, *b = NULL;
        const size_t bytes = (size_t)(i % 7 + 1) * 50000;
        result = comm_split(s->comm, 0, 0, &c, e);
        if (result == OK) result = comm_alloc(s->comm, s->device, bytes, &a, e);
        if (result == OK) result = comm_alloc(s->comm, s->device, 64, &b, e);
        if (result == OK && s->device->bytes_now != bytes + 64) result = E_USAGE;
        for (size_t j = 0; result == OK && j < bytes; j++)
            if (((char *)a)[j] != 0) result = err_set(e, E_INTERNAL, "memory is not zero");
        if (a) memset(a, 1, bytes);
        comm_release(s->comm, s->device, a, bytes);
        comm_release(s->comm, s->device, b, 64);
        comm_close(c);
        if (result != OK) break;
    }
    return result;
}

// A group that has sent messages gives its channels back, too: the first hole of the arena is where it
// was.
static status sends_in_a_group(const test_rank *s, err *e)
{
    status result = OK;
    comm *pair = NULL;
    void *before = NULL, *after = NULL;
    char x = 1;
    if (s->comm->rank == 0)
        TRY(comm_arena_take(s->world->arena, (size_t)64 << 20, false, &before, e));
    comm_arena_give(s->world->arena, before);
    TRY(comm_split(s->comm, 0, 0, &pair, e));
    if (pair->rank == 0)
        TRY(comm_send(pair, &x, 1, 1, s->stream, e));
    else
        TRY(comm_recv(pair, &x, 1, 0, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    comm_close(pair);
    TRY(comm_barrier(s->comm, e));
    if (s->comm->rank == 0)
        TRY(comm_arena_take(s->world->arena, (size_t)64 << 20, false, &after, e));
    if (after != before) FAIL(E_INTERNAL, "the group keeps memory");
done:
    return result;
}

static void test_a_closed_group_gives_its_channels_back(void **state)
{
    (void)state;
    workers k = {.ranks = 2, .fn = sends_in_a_group};
    assert_int_equal(run(&k), 0);
}

static void test_memory_comes_back_as_zeros(void **state)
{
    (void)state;
    workers k = {.ranks = 2, .fn = churn};
    assert_int_equal(run(&k), 0);
}

// Each rank allocates another size, also from a group of one rank, whose memory all ranks see too.
static status different_sizes(const test_rank *s, err *e)
{
    status result = OK;
    const int rank = s->comm->rank;
    const size_t bytes = 100000 * (size_t)(rank + 1);
    void *p = NULL, *q = NULL;
    comm *alone = NULL;
    TRY(comm_split(s->comm, rank, 0, &alone, e));
    if (rank != 1) TRY(comm_alloc(s->comm, s->device, bytes, &p, e));
    if (p) memset(p, rank, bytes);
    TRY(comm_alloc(alone, s->device, bytes, &q, e));
    *(float *)q = 1;
    const comm_segment run = {.count = 3, .shard_count = 1};
    TRY(comm_reduce_scatter_segments(s->comm, &run, 1, q, NULL, F32, REDUCE_SUM, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    if (rank == 0 && *(float *)q != 3) FAIL(E_INTERNAL, "the sum is %g", (double)*(float *)q);
    for (size_t i = 0; p && i < bytes; i++)
        if (((char *)p)[i] != rank) FAIL(E_INTERNAL, "memory of two ranks overlaps");
done:
    comm_release(s->comm, s->device, p, bytes);
    comm_release(alone, s->device, q, bytes);
    comm_close(alone);
    return result;
}

static void test_ranks_allocate_different_sizes(void **state)
{
    (void)state;
    workers k = {.ranks = 3, .fn = different_sizes};
    assert_int_equal(run(&k), 0);
    k.as_threads = true;
    assert_int_equal(run(&k), 0);
}

// A failure of a group of one is a failure of its world.
static status aborts_alone(const test_rank *s, err *e)
{
    comm *alone = NULL;
    err why = {0};
    status result = comm_split(s->comm, s->comm->rank, 0, &alone, e);
    if (result == OK && s->comm->rank == 1) {
        err_set(&why, E_IO, "disk full");
        comm_abort(alone, &why);
    }
    if (result == OK) result = comm_barrier(s->comm, e);
    comm_close(alone);
    return result;
}

static void test_an_abort_of_a_group_of_one_reaches_every_rank(void **state)
{
    (void)state;
    workers k = {.ranks = 2, .as_threads = true, .fn = aborts_alone};
    assert_int_equal(run(&k), 2);
    assert_string_equal(k.errors[0].text, "rank 1: disk full");
}

static status too_much(const test_rank *s, err *e)
{
    void *p = NULL;
    if (comm_alloc(s->comm, s->device, (size_t)1 << 60, &p, e) != E_FIT || p) return E_USAGE;
    return comm_barrier(s->comm, e);
}

static void test_too_much_memory_does_not_fit(void **state)
{
    (void)state;
    workers k = {.ranks = 2, .fn = too_much};
    assert_int_equal(run(&k), 0);
}

static status different_calls(const test_rank *s, err *e)
{
    float x[8] = {0};
    if (s->comm->rank == 0)
        comm_all_reduce(s->comm, x, 8, F32, REDUCE_SUM, s->stream, e);
    else
        comm_all_gather(s->comm, x, x, 1, BF16, s->stream, e);
    return s->device->ops->sync(s->stream, e);
}

static void test_different_calls_are_named(void **state)
{
    (void)state;
    workers k = {.ranks = 2, .as_threads = true, .fn = different_calls};
    assert_int_equal(run(&k), 2);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(k.results[r], E_INTERNAL);
        assert_string_equal(k.errors[r].text, "rank 0 calls all_reduce of 8 fp32 (sum) while "
                                              "rank 1 calls all_gather of 1 bf16");
    }
}

static status different_counts(const test_rank *s, err *e)
{
    float x[8] = {0};
    comm_all_reduce(s->comm, x, s->comm->rank == 2 ? 7 : 8, F32, REDUCE_MAX, s->stream, e);
    return s->device->ops->sync(s->stream, e);
}

static void test_different_counts_are_named(void **state)
{
    (void)state;
    workers k = {.ranks = 3, .as_threads = true, .fn = different_counts};
    assert_int_equal(run(&k), 3);
    assert_string_equal(k.errors[2].text, "rank 0 calls all_reduce of 8 fp32 (max) while rank 2 "
                                          "calls all_reduce of 7 fp32 (max)");
}

static status one_leaves(const test_rank *s, err *e)
{
    return s->comm->rank == 0 ? OK : comm_barrier(s->comm, e);
}

static void test_waiting_for_a_rank_that_left_is_an_error(void **state)
{
    (void)state;
    workers k = {.ranks = 2, .as_threads = true, .fn = one_leaves};
    assert_int_equal(run(&k), 1);
    assert_string_equal(k.errors[1].text, "rank 0 leaves the group while rank 1 calls barrier");
}

// Rank 1 aborts while the other ranks wait, in a collective or in a recv.
static status abort_one(const test_rank *s, err *e)
{
    char x = 0;
    comm *pair = NULL;
    err why = {0};
    status result = comm_split(s->comm, s->comm->rank / 2, 0, &pair, e);
    if (result != OK) return result;
    if (s->comm->rank == 1) {
        usleep(30000);
        err_set(&why, E_IO, "disk full");
        comm_abort(pair, &why);
        err_set(&why, E_IO, "a later failure");
        comm_abort(s->comm, &why);
    } else if (s->comm->rank == 2) {
        comm_recv(pair, &x, 1, 1, s->stream, e);
        result = s->device->ops->sync(s->stream, e);
    }
    if (result == OK) result = comm_barrier(s->comm, e);
    comm_close(pair);
    return result;
}

static void test_an_abort_reaches_every_rank_with_its_text(void **state)
{
    (void)state;
    workers k = {.ranks = 4, .as_threads = true, .fn = abort_one};
    const double start = clock_seconds();
    assert_int_equal(run(&k), 4);
    assert_true(clock_seconds() - start < SOON_S);
    for (int r = 0; r < 4; r++) {
        assert_int_equal(k.results[r], E_PEER);
        assert_string_equal(k.errors[r].text, "rank 1: disk full");
    }
}

static void *kill_soon(void *arg)
{
    (void)arg;
    usleep(50000);
    kill(getpid(), SIGKILL);
    return NULL;
}

static status killed_in_all_reduce(const test_rank *s, err *e)
{
    status result = OK;
    pthread_t killer;
    const size_t count = 100000;
    float *x = calloc(count, sizeof *x);
    if (s->comm->rank == 1) pthread_create(&killer, NULL, kill_soon, NULL);
    while (result == OK) {
        result = comm_all_reduce(s->comm, x, count, F32, REDUCE_MAX, s->stream, e);
        if (result == OK) result = s->device->ops->sync(s->stream, e);
    }
    free(x);
    const bool named = strncmp(e->text, "rank 1 (pid ", 12) == 0 &&
                       strstr(e->text, ") was killed by signal 9 (Killed)");
    return named ? result : E_INTERNAL;
}

static void test_a_killed_rank_is_named_at_once(void **state)
{
    (void)state;
    workers k = {.ranks = 4, .fn = killed_in_all_reduce};
    const double start = clock_seconds();
    assert_int_equal(run(&k), 4);
    assert_true(clock_seconds() - start < SOON_S);
    assert_int_equal(k.results[0], E_PEER);
    assert_int_equal(k.results[1], 128 + SIGKILL);
    assert_int_equal(k.results[2], E_PEER);
    assert_int_equal(k.results[3], E_PEER);
}

static void test_each_run_has_a_secret_of_its_own(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        world *one = NULL, *other = NULL;
        assert_int_equal(world_open(ranks, false, &one, NULL), OK);
        assert_int_equal(world_open(ranks, false, &other, NULL), OK);
        assert_memory_not_equal(one->secret.key, other->secret.key, NET_MAC_BYTES);
        world_close(one);
        world_close(other);
    }
}

static void test_bad_numbers_of_ranks_are_refused(void **state)
{
    (void)state;
    world *w = NULL;
    err e;
    assert_int_equal(world_open(0, false, &w, &e), E_USAGE);
    assert_int_equal(world_open(4097, true, &w, &e), E_USAGE);
    assert_string_equal(e.text, "4097 ranks on one machine: valid are 1 to 4096");
    assert_null(w);
}

static void say_step(uint64_t what, char *out, size_t room)
{
    snprintf(out, room, "step %d", (int)what);
}

static void shows_step(const test_rank *s, uint64_t step)
{
    comm_activity *a = comm_watchdog_activity(s->world->watchdog, s->comm->rank);
    atomic_store(&a->describe, say_step);
    comm_activity_set(a, step);
}

// Waits until all ranks are here, so that no watchdog starts before. Rank 1 then waits for the
// failure.
static void keep_rank_1_away(const test_rank *s)
{
    atomic_int *here = s->arg;
    atomic_fetch_add(here, 1);
    while (atomic_load(here) < s->comm->size) usleep(1000);
    while (s->comm->rank == 1 && !comm_failure_get(s->world->failure, NULL, NULL)) usleep(1000);
}

static status comes_late(const test_rank *s, err *e)
{
    comm_watchdog_set(s->world->watchdog, 1000);
    keep_rank_1_away(s);
    return comm_barrier(s->comm, e);
}

// The other ranks wait in step 7, and rank 1 is still in step 6.
static status comes_late_to_a_group(const test_rank *s, err *e)
{
    comm_set_label(s->comm, "dp_shard");
    comm_watchdog_set(s->world->watchdog, 200);
    shows_step(s, s->comm->rank == 1 ? 6 : 7);
    keep_rank_1_away(s);
    float x[3] = {1, 2, 3};
    status result = comm_all_reduce(s->comm, x, 3, F32, REDUCE_SUM, s->stream, e);
    return result == OK ? s->device->ops->sync(s->stream, e) : result;
}

static status sends_nothing(const test_rank *s, err *e)
{
    comm_set_label(s->comm, "pp");
    comm_watchdog_set(s->world->watchdog, 200);
    shows_step(s, s->comm->rank == 1 ? 6 : 7);
    keep_rank_1_away(s);
    float x = 0;
    if (s->comm->rank != 0) return comm_barrier(s->comm, e);
    status result = comm_recv(s->comm, &x, sizeof x, 1, s->stream, e);
    return result == OK ? s->device->ops->sync(s->stream, e) : result;
}

static void test_a_rank_that_does_not_come_is_named_by_the_watchdog(void **state)
{
    (void)state;
    atomic_int here = 0;
    workers k = {.ranks = 3, .as_threads = true, .fn = comes_late, .arg = &here};
    assert_int_equal(run(&k), 3);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(k.results[r], E_PEER);
        assert_non_null(strstr(
            k.errors[r].text, "Watchdog caught collective operation timeout: rank 1 did not come"));
    }
}

static void test_the_watchdog_says_where_both_ranks_are(void **state)
{
    (void)state;
    atomic_int here = 0, also_here = 0;
    workers k = {.ranks = 2, .as_threads = true, .fn = comes_late_to_a_group, .arg = &here};
    assert_int_equal(run(&k), 2);
    assert_string_equal(k.errors[0].text,
                        "Watchdog caught collective operation timeout: rank 1 did not come to "
                        "all_reduce over dp_shard (step 7) within 0.2 s; it is in step 6");
    workers m = {.ranks = 2, .as_threads = true, .fn = sends_nothing, .arg = &also_here};
    assert_int_equal(run(&m), 2);
    assert_string_equal(m.errors[0].text,
                        "Watchdog caught collective operation timeout: rank 1 did not come to "
                        "send to rank 0 over pp (step 7) within 0.2 s; it is in step 6");
}

// Counts the files in /dev/shm that have a name and that this process has open or mapped.
static int count_named(void)
{
    static const char folder[] = "/dev/shm/", gone[] = " (deleted)";
    char line[1024];
    int n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) n += strstr(line, folder) && !strstr(line, gone);
    fclose(maps);
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    for (struct dirent *entry = readdir(d); entry; entry = readdir(d)) {
        char path[300], to[1024] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, to, sizeof to - 1) > 0)
            n += strncmp(to, folder, strlen(folder)) == 0 && !strstr(to, gone);
    }
    closedir(d);
    return n;
}

static status names_nothing(const test_rank *s, err *e)
{
    void *p = NULL;
    status result = comm_alloc(s->comm, s->device, 1 << 20, &p, e);
    if (result == OK && count_named() > 0) result = err_set(e, E_INTERNAL, "a name appeared");
    comm_release(s->comm, s->device, p, 1 << 20);
    return result;
}

static void test_nothing_has_a_name_in_dev_shm(void **state)
{
    (void)state;
    workers k = {.ranks = 2, .fn = names_nothing};
    assert_int_equal(run(&k), 0);
    // The control: a file that has a name is counted.
    char path[] = "/dev/shm/trireme-test-XXXXXX";
    const int fd = mkstemp(path);
    if (fd < 0) return; // there is no such folder, or it cannot be written
    assert_int_equal(count_named(), 1);
    unlink(path);
    assert_int_equal(count_named(), 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_splits_form_a_mesh),
        cmocka_unit_test(test_memory_comes_back_as_zeros),
        cmocka_unit_test(test_a_closed_group_gives_its_channels_back),
        cmocka_unit_test(test_ranks_allocate_different_sizes),
        cmocka_unit_test(test_an_abort_of_a_group_of_one_reaches_every_rank),
        cmocka_unit_test(test_too_much_memory_does_not_fit),
        cmocka_unit_test(test_different_calls_are_named),
        cmocka_unit_test(test_different_counts_are_named),
        cmocka_unit_test(test_waiting_for_a_rank_that_left_is_an_error),
        cmocka_unit_test(test_an_abort_reaches_every_rank_with_its_text),
        cmocka_unit_test(test_a_killed_rank_is_named_at_once),
        cmocka_unit_test(test_each_run_has_a_secret_of_its_own),
        cmocka_unit_test(test_bad_numbers_of_ranks_are_refused),
        cmocka_unit_test(test_a_rank_that_does_not_come_is_named_by_the_watchdog),
        cmocka_unit_test(test_the_watchdog_says_where_both_ranks_are),
        cmocka_unit_test(test_nothing_has_a_name_in_dev_shm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
