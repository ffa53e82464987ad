// The communicator ucx where one of the ranks of a machine is lost: their memory is shared, and UCX notices no loss.
#include "ranks.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { LIMIT_S = 60 };

static status reduce_zeros(const test_rank *s, size_t count, err *e)
{
    status result = OK;
    float *x = calloc(count, sizeof *x);
    TRY(comm_all_reduce(s->comm, x, count, F32, REDUCE_SUM, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
done:
    free(x);
    return result;
}

// Rank 1 dies in its third call, of many bytes or of few.
static status reduce_until_killed_near(const test_rank *s, err *e)
{
    status result = OK;
    const size_t count = *(const size_t *)s->arg;
    comm_set_label(s->comm, "dp");
    for (int i = 0;; i++) {
        if (i == 2 && s->comm->rank == 1) raise(SIGKILL);
        TRY(reduce_zeros(s, count, e));
    }
done:
    return result;
}

static void test_a_rank_of_this_machine_that_is_killed_ends_all(void **state)
{
    (void)state;
    static size_t counts[] = {4, 3000000};
    for (size_t c = 0; c < 2; c++) {
        workers k = {
            .ranks = 3, .communicator = "ucx", .fn = reduce_until_killed_near, .arg = &counts[c]};
        alarm(LIMIT_S);
        assert_int_equal(workers_run(&k), 3);
        assert_int_equal(k.results[0], E_PEER);
        assert_int_equal(k.results[1], 128 + SIGKILL);
        assert_int_equal(k.results[2], E_PEER);
        if (!strstr(k.failure.text, "was killed by signal 9")) fail_msg("%s", k.failure.text);
    }
}

// Rank 1 leaves in good order while the others call all_reduce.
static status leave_early(const test_rank *s, err *e)
{
    status result = OK;
    comm_set_label(s->comm, "dp");
    TRY(reduce_zeros(s, 3000000, e));
    if (s->comm->rank == 1) return OK;
    TRY(reduce_zeros(s, 3000000, e));
done:
    return result;
}

static void test_a_rank_of_this_machine_that_leaves_is_named(void **state)
{
    (void)state;
    for (int as_threads = 0; as_threads < 2; as_threads++) {
        workers k = {
            .ranks = 2, .as_threads = as_threads != 0, .communicator = "ucx", .fn = leave_early};
        alarm(LIMIT_S);
        assert_int_equal(workers_run(&k), 1);
        assert_int_equal(k.results[0], E_PEER);
        if (!strstr(k.failure.text, "rank 1 was lost before all_reduce over dp was done"))
            fail_msg("%s", k.failure.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rank_of_this_machine_that_is_killed_ends_all),
        cmocka_unit_test(test_a_rank_of_this_machine_that_leaves_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
