// test_failure.c -- the record of a run's first failure: who comes first, who cannot, and the line of a rank that is lost.
// It is the same in one process as in shared memory. unit/comm/test_world has ranks that wait.
#include "rendezvous/failure.h"

#include "base/clock.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { EXITED_7 = 7 << 8 };

static void expect(const comm_failure *f, int rank, status code, const char *line)
{
    err why = {0}, e = {0};
    int found = -9;
    assert_true(comm_failure_known(f));
    assert_true(comm_failure_await(f));
    assert_true(comm_failure_get(f, &found, &why));
    assert_true(comm_failure_get(f, NULL, NULL));
    assert_int_equal(found, rank);
    assert_int_equal(why.code, code);
    assert_string_equal(why.text, line);
    // To all other ranks it is a failure of a peer.
    assert_int_equal(comm_failure_check(f, &e), E_PEER);
    assert_string_equal(e.text, line);
}

static err disk_full(void)
{
    err why = {0};
    err_set(&why, E_IO, "the disk is full");
    return why;
}

static void the_first_failure_stays(void **state)
{
    (void)state;
    const err why = disk_full();
    comm_failure f = {0}, other = {0};
    int rank = 5;
    assert_false(comm_failure_known(&f));
    assert_false(comm_failure_get(&f, &rank, NULL));
    assert_int_equal(rank, 5);
    assert_int_equal(comm_failure_check(&f, NULL), OK);
    assert_false(comm_failure_await(&f));
    assert_true(comm_failure_set(&f, 0, &why));
    expect(&f, 0, E_IO, "rank 0: the disk is full");
    assert_false(comm_failure_set(&f, 1, &why));
    assert_false(comm_failure_set_described(&f, 1, &why));
    assert_false(comm_failure_set_lost(&f, 0, 7, SIGKILL, NULL, ""));
    assert_false(comm_failure_set_exited(&f, 1, 7, ""));
    expect(&f, 0, E_IO, "rank 0: the disk is full");
    assert_true(comm_failure_set(&other, -1, &why));
    expect(&other, -1, E_IO, "the disk is full");
}

static void a_failure_of_another_host_is_its_line(void **state)
{
    (void)state;
    const err why = disk_full();
    comm_failure f = {.host = "n2"}, own = {.host = "n2"};
    assert_true(comm_failure_set_described(&f, 3, &why));
    expect(&f, 3, E_IO, "the disk is full");
    assert_true(comm_failure_set(&own, 3, &why));
    expect(&own, 3, E_IO, "rank 3 (host n2): the disk is full");
}

static void a_lost_rank_is_named_with_its_end(void **state)
{
    (void)state;
    comm_failure killed = {0}, ended = {0}, gone = {.host = "n2"};
    assert_true(comm_failure_set_lost(&killed, 2, 7, SIGKILL, "the limit of memory",
                                      "; it was in FORWARD"));
    expect(
        &killed, 2, E_PEER,
        "rank 2 (pid 7) was killed by signal 9 (Killed): the limit of memory; it was in FORWARD");
    assert_true(comm_failure_set_lost(&ended, 0, 8, EXITED_7, NULL, ""));
    expect(&ended, 0, E_PEER, "rank 0 (pid 8) ended with exit code 7 before its work was done");
    assert_true(comm_failure_set_exited(&gone, 1, 9, ""));
    expect(&gone, 1, E_PEER,
           "rank 1 (host n2, pid 9) was killed or ended before its work was done");
}

// A rank claims the record and dies before it has written it: only its own end completes the record.
static void a_rank_that_dies_in_its_record_is_named(void **state)
{
    (void)state;
    const err why = disk_full();
    comm_failure f = {.claimed = 2 + 1};
    assert_false(comm_failure_known(&f));
    assert_false(comm_failure_set(&f, 0, &why));
    assert_false(comm_failure_set_lost(&f, 0, 7, SIGKILL, NULL, ""));
    assert_true(comm_failure_set_lost(&f, 1, 8, SIGKILL, NULL, ""));
    expect(&f, 1, E_PEER, "rank 1 (pid 8) was killed by signal 9 (Killed)");
    assert_false(comm_failure_set_lost(&f, 1, 8, SIGKILL, NULL, ""));
}

// Several processes may see the end of a rank. While one of them writes the line, another one leaves the record alone.
static void one_process_writes_of_a_lost_rank(void **state)
{
    (void)state;
    comm_failure f = {.claimed = -(2 + 1)};
    assert_false(comm_failure_set_exited(&f, 1, 8, ""));
    assert_false(comm_failure_set_lost(&f, 1, 8, SIGKILL, NULL, ""));
    assert_false(comm_failure_known(&f));
    assert_int_equal(f.why.code, OK);
}

// Completes the record that is claimed.
static void *complete(void *arg)
{
    comm_failure *f = arg;
    usleep(20000);
    f->why = disk_full();
    atomic_store(&f->known, 1);
    return NULL;
}

// A rank whose failure comes second tells others of the first one, so it waits for its line.
static void a_second_failure_waits_for_the_first_ones_line(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const err why = {.code = E_PEER, .text = "a consequence"};
        comm_failure f = {.claimed = 2};
        pthread_t first;
        const int64_t start = clock_ns();
        assert_int_equal(pthread_create(&first, NULL, complete, &f), 0);
        assert_false(i ? comm_failure_set_described(&f, 1, &why) : comm_failure_set(&f, 1, &why));
        const bool is_known = comm_failure_known(&f);
        const int64_t waited = clock_ns() - start;
        pthread_join(first, NULL);
        assert_true(is_known || waited >= 3000 * INT64_C(1000000));
        expect(&f, 0, E_IO, "the disk is full");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_failure_stays),
        cmocka_unit_test(a_failure_of_another_host_is_its_line),
        cmocka_unit_test(a_lost_rank_is_named_with_its_end),
        cmocka_unit_test(a_rank_that_dies_in_its_record_is_named),
        cmocka_unit_test(one_process_writes_of_a_lost_rank),
        cmocka_unit_test(a_second_failure_waits_for_the_first_ones_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
