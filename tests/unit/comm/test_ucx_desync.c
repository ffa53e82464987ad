// checks.desync where ranks are on several hosts: collectives that differ are named before they run, by the
// communicators ucx and hier, and those that agree have their results.
#include "desync_cases.h"

#include "far_ranks.h"

#include "comm/network/network.h"

#include <sched.h>

typedef struct far_desync {
    far_ranks f; // first: what a rank gets is its address
    const desync *how;
} far_desync;

static far_ranks hosts_of(const char *communicator, const int *per_host, rank_fn fn)
{
    far_ranks f = {.communicator = communicator,
                   .killed = -1,
                   .patience_ms = PATIENCE_MS,
                   .compares = true,
                   .fn = fn};
    for (int h = 0; per_host[h]; h++) f.ranks += f.per_host[h] = per_host[h];
    return f;
}

static const char *const COMMUNICATORS[] = {"ucx", "hier"};
static const int HOSTS[][4] = {{2, 1}, {1, 1, 1}};

static status far_desynchronise(const test_rank *s, err *e)
{
    return desync_run(s, ((const far_desync *)s->arg)->how, e);
}

// Ranks 1 and 2 are on two hosts. Both say the same line.
static void expect_both_sides(const char *communicator, const int *per_host, const desync *how)
{
    char expected[ERR_TEXT_BYTES];
    far_desync d = {.f = hosts_of(communicator, per_host, far_desynchronise), .how = how};
    fork_far(&d.f);
    snprintf(expected, sizeof expected,
             "desync in operation 71 over dp_shard: rank 1 %s (as REDUCE_GRAD bucket 3); "
             "rank 2 %s (as REDUCE_GRAD bucket 4)",
             how->low, how->high);
    for (int r = 1; r <= 2; r++) {
        assert_true(d.f.results[r].result != OK);
        assert_string_equal(d.f.results[r].error.text, expected);
    }
    close_far(&d.f);
}

static void test_desync_between_hosts_names_both_sides(void **state)
{
    (void)state;
    for (size_t c = 0; c < 2; c++)
        for (size_t i = 0; i < sizeof DESYNCS / sizeof *DESYNCS; i++)
            expect_both_sides(COMMUNICATORS[c], HOSTS[i % 2], &DESYNCS[i]);
}

// The ranks of each host agree, and the hosts do not.
static status differ_between_hosts(const test_rank *s, err *e)
{
    status result = OK;
    float x[8] = {0};
    TRY(comm_all_reduce(s->comm, x, s->comm->rank < 2 ? 8 : 7, F32, REDUCE_SUM, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
done:
    return result;
}

static void test_all_ranks_name_the_same_pair(void **state)
{
    (void)state;
    for (size_t c = 0; c < 2; c++) {
        far_ranks f = hosts_of(COMMUNICATORS[c], (const int[]){2, 2, 0}, differ_between_hosts);
        fork_far(&f);
        for (int r = 0; r < f.ranks; r++) {
            const char *text = f.results[r].error.text;
            const char *line = "desync in operation 1: rank 0 calls all_reduce of 8 fp32 (sum); "
                               "rank 2 calls all_reduce of 7 fp32 (sum)";
            if (!strstr(text, line)) fail_msg("rank %d: %s", r, text);
        }
        close_far(&f);
    }
}

// Rank 1 does not call. It hears of the failure. The limit does not count the time in which it opens its communicator.
static status one_stays_away(const test_rank *s, err *e)
{
    status result = OK;
    comm_set_label(s->comm, "dp");
    TRY(sum(s, s->comm, e));
    if (s->comm->rank == 0) {
        comm_watchdog_set(s->world->watchdog, 700);
        TRY(sum(s, s->comm, e));
    }
    while (!comm_failure_known(s->world->failure)) {
        network_progress(s->comm);
        sched_yield();
    }
    result = comm_failure_error(s->world->failure, e);
done:
    return result;
}

static void test_a_rank_that_does_not_come_is_named(void **state)
{
    (void)state;
    far_ranks f = hosts_of("ucx", (const int[]){1, 1, 0}, one_stays_away);
    fork_far(&f);
    for (int r = 0; r < f.ranks; r++)
        if (!strstr(f.results[r].error.text,
                    "rank 1 did not come to the comparison of a call over dp within 0.7 s"))
            fail_msg("rank %d: %s", r, f.results[r].error.text);
    close_far(&f);
}

static status split_and_agree(const test_rank *s, err *e)
{
    status result = OK;
    test_rank part = *s;
    part.comm = NULL;
    TRY(far_everything(s, e));
    TRY(comm_split(s->comm, s->comm->rank % 2, s->comm->rank, &part.comm, e));
    TRY(reductions(&part, e));
    TRY(comm_barrier(s->comm, e));
    TRY(reductions(s, e));
done:
    comm_close(part.comm);
    return result;
}

static void test_calls_that_agree_have_their_results(void **state)
{
    (void)state;
    for (size_t c = 0; c < 2; c++) {
        far_ranks f = hosts_of(COMMUNICATORS[c], (const int[]){2, 2, 0}, split_and_agree);
        fork_far(&f);
        expect_ok(&f);
    }
    far_ranks f = hosts_of("hier", (const int[]){3, 1, 0}, split_and_agree);
    f.late = true;
    fork_far(&f);
    expect_ok(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_desync_between_hosts_names_both_sides),
        cmocka_unit_test(test_all_ranks_name_the_same_pair),
        cmocka_unit_test(test_a_rank_that_does_not_come_is_named),
        cmocka_unit_test(test_calls_that_agree_have_their_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
