// Tests the search for the rank that keeps the others waiting: along a chain of waits, past a wait that its rank no longer
// writes, around a circle, and to a rank of another host.
#include "base/alloc.h"
#include "rendezvous/watchdog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { FIRST = 4, RANKS = 4 }; // ranks 4 to 7

typedef struct host {
    comm_watchdog *watchdog;
    comm_failure failure;
    comm_searcher searcher;
    int awaited[RANKS]; // for whom the rank waits; 0: it does not wait
} host;

static void open_host(host *h)
{
    err e;
    *h = (host){.watchdog = NULL};
    assert_int_equal(
        alloc_zeroed((void **)&h->watchdog, 1, comm_watchdog_bytes(RANKS), "a watchdog", &e), OK);
    comm_watchdog_set(h->watchdog, 250);
    h->searcher = (comm_searcher){.watchdog = h->watchdog,
                                  .failure = &h->failure,
                                  .first = FIRST,
                                  .ranks = RANKS,
                                  .steps = -1};
}

static comm_wait wait_of(int rank, int awaited)
{
    static const char *const calls[] = {"all_reduce", "all_gather", "barrier", "send to rank 7"};
    return (comm_wait){.waiting = rank,
                       .awaited = awaited,
                       .first = FIRST,
                       .ranks = RANKS,
                       .call = calls[rank - FIRST],
                       .label = rank == FIRST ? "dp" : NULL};
}

static void write_waits(host *h)
{
    for (int i = 0; i < RANKS; i++) {
        if (!h->awaited[i]) continue;
        const comm_wait wait = wait_of(FIRST + i, h->awaited[i]);
        comm_watchdog_wait(h->watchdog, &wait);
    }
}

// Searches from the wait of `from` until a rank is named, or the search has left this host.
static comm_search search(host *h, int from, int awaited)
{
    const struct timespec some = {0, 100 * 1000 * 1000};
    const comm_wait wait = wait_of(from, awaited);
    comm_search x;
    comm_search_begin(&h->searcher, &wait, &x);
    while (!comm_failure_known(&h->failure) && x.rank >= FIRST && x.rank < FIRST + RANKS) {
        write_waits(h);
        if (!comm_search_look(&h->searcher, &x)) nanosleep(&some, NULL);
    }
    return x;
}

static void expect_named(host *h, const char *text)
{
    err why;
    assert_true(comm_failure_get(&h->failure, NULL, &why));
    assert_string_equal(why.text, text);
    free(h->watchdog);
}

#define TIMEOUT "Watchdog caught collective operation timeout: "

static void test_the_end_of_a_chain_is_named(void **state)
{
    (void)state;
    host h;
    open_host(&h);
    h.awaited[0] = 5; // 4 waits for 5, which waits for 6, which waits for 7
    h.awaited[1] = 6;
    h.awaited[2] = 7;
    search(&h, 4, 5);
    expect_named(&h, TIMEOUT "rank 7 did not come to barrier within 0.25 s");
}

// It was stopped while it waited.
static void test_a_rank_that_writes_its_wait_no_more_is_named(void **state)
{
    (void)state;
    host h;
    open_host(&h);
    const comm_wait old = wait_of(5, 6);
    comm_watchdog_wait(h.watchdog, &old);
    h.awaited[0] = 5;
    h.awaited[2] = 4;
    snprintf(h.failure.host, sizeof h.failure.host, "alpha");
    search(&h, 4, 5);
    expect_named(&h,
                 TIMEOUT "rank 5 (host alpha) did not come to all_reduce over dp within 0.25 s");
}

static void test_a_circle_has_one_name(void **state)
{
    (void)state;
    for (int from = 4; from <= 7; from++) {
        host h;
        open_host(&h);
        h.awaited[0] = 6; // 4 waits for 6, which waits for 5, which waits for 7, which waits for 6
        h.awaited[2] = 5;
        h.awaited[1] = 7;
        h.awaited[3] = 6;
        search(&h, from, h.awaited[from - FIRST]);
        expect_named(&h, TIMEOUT "rank 7 did not come to all_gather within 0.25 s; it waits for "
                                 "rank 6 in send to rank 7");
    }
}

static void test_a_search_goes_to_another_host(void **state)
{
    (void)state;
    host h;
    open_host(&h);
    h.awaited[0] = 5;
    h.awaited[1] = 2;
    const comm_search x = search(&h, 4, 5);
    assert_false(comm_failure_known(&h.failure));
    assert_int_equal(x.rank, 2);
    assert_string_equal(x.call, "all_gather");
    free(h.watchdog);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_end_of_a_chain_is_named),
        cmocka_unit_test(test_a_rank_that_writes_its_wait_no_more_is_named),
        cmocka_unit_test(test_a_circle_has_one_name),
        cmocka_unit_test(test_a_search_goes_to_another_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
