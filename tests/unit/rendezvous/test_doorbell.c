// Tests the waits for a number: with the owner on the waiter's core or on another one, and with ranks that have
// cores of their own or not.
#define _GNU_SOURCE // sched_setaffinity
#include "base/proc.h"
#include "rendezvous/doorbell.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { ROUNDS = 2000 };

typedef struct pair {
    doorbell mine, other;
    doorbell_limits limits;
    bool failed;
} pair;

static const _Atomic int64_t NO_LIMIT = 0;

static void *answer(void *arg)
{
    pair *p = arg;
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        p->failed |= !doorbell_wait_for(&p->mine, i, &p->limits);
        doorbell_ring(&p->other, i);
    }
    return NULL;
}

// Two threads ring in turn, with the affinity mask of the caller.
static void run_rounds(bool spin)
{
    pair p = {.limits = {.timeout_ms = &NO_LIMIT, .spin = spin}};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, answer, &p), 0);
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        doorbell_ring(&p.mine, i);
        assert_true(doorbell_wait_for(&p.other, i, &p.limits));
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(p.failed);
}

static void every_round_ends(void **state)
{
    (void)state;
    run_rounds(true);
    run_rounds(false);
}

static void a_doorbell_knows_the_core_of_its_owner(void **state)
{
    (void)state;
    doorbell b = {.core = DOORBELL_NO_CORE};
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    const int core = proc_core();
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_false(doorbell_shares_core(&b));
    doorbell_ring(&b, 1);
    assert_true(doorbell_shares_core(&b));
    atomic_store(&b.core, (uint16_t)(core + 1));
    assert_false(doorbell_shares_core(&b));
    run_rounds(true); // threads take the mask: both share the core
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_round_ends),
        cmocka_unit_test(a_doorbell_knows_the_core_of_its_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
