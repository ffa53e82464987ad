// Processes that attach to one world: they come in any order, share its memory, and every one hears why they cannot meet. All
// are forked here, but each opens the world for itself. tests/cli/attach.sh starts programs.
#include "patience.h"
#include "rendezvous/attach.h"
#include "rendezvous/peers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS = 4, LONG_MS = TEST_PATIENCE_MS, SHORT_MS = 1500 };

typedef struct process {
    comm_rank_location location;
    bool is_absent, is_crowded; // crowded: no slot of its address space is free
    status result;
    err why;
    int sum;
    net_secret secret; // of the world
} process;

// In memory that all processes share.
static process *start(const char *what)
{
    static char identity[64];
    snprintf(identity, sizeof identity, "%s-%d", what, (int)getpid());
    process *all =
        mmap(NULL, RANKS * sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(all != MAP_FAILED);
    for (int r = 0; r < RANKS; r++)
        all[r].location = (comm_rank_location){.rank = r,
                                               .ranks = RANKS,
                                               .identity = identity,
                                               .version = "1",
                                               .deadline_ms = LONG_MS};
    alarm(200);
    return all;
}

static void fill_slots(void)
{
    for (uintptr_t i = 0; i < 16; i++)
        (void)mmap((void *)(i << 43 | (uintptr_t)1 << 30), 4096, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// Every rank adds its number to the sum that rank 0 tells the address of.
static void attach(process *p)
{
    world *w = NULL;
    const void *told;
    void *number = NULL;
    size_t bytes;
    if (p->is_crowded) fill_slots();
    p->result = world_attach(&p->location, &w, &p->why);
    if (p->result != OK) _exit(0);
    p->secret = w->secret;
    if (p->location.rank == 0) {
        if (comm_arena_take(w->arena, sizeof(atomic_int), true, &number, &p->why) != OK) _exit(1);
        if (comm_peers_broadcast(w, &number, sizeof number, &p->why) != OK) _exit(1);
        told = &number;
    } else if (comm_peers_receive(w, &told, &bytes, &p->why) != OK) {
        _exit(1);
    }
    atomic_int *sum = *(atomic_int *const *)told;
    atomic_fetch_add(sum, p->location.rank + 1);
    while ((p->sum = atomic_load(sum)) < RANKS * (RANKS + 1) / 2) usleep(1000);
    comm_peers_leave(w);
    while (p->location.rank == 0 && comm_peers_check(w)) usleep(1000);
    if (comm_failure_known(w->failure)) _exit(2);
    world_close(w);
    _exit(0);
}

// The last rank comes first.
static void run(process *all)
{
    pid_t pids[RANKS] = {0};
    for (int r = RANKS - 1; r >= 0; r--) {
        if (all[r].is_absent) continue;
        pids[r] = fork();
        assert_true(pids[r] >= 0);
        if (pids[r] == 0) attach(&all[r]);
        usleep(10000);
    }
    for (int r = 0; r < RANKS; r++) {
        int how = 0;
        if (!pids[r]) continue;
        assert_int_equal(waitpid(pids[r], &how, 0), pids[r]);
        assert_true(WIFEXITED(how));
        assert_int_equal(WEXITSTATUS(how), 0);
    }
}

static void expect_refused(const process *all, status result, const char *text)
{
    for (int r = 0; r < RANKS; r++) {
        if (all[r].is_absent) continue;
        assert_int_equal(all[r].result, result);
        if (!strstr(all[r].why.text, text)) fail_msg("rank %d says: %s", r, all[r].why.text);
    }
    munmap((void *)all, RANKS * sizeof *all);
}

static void test_processes_share_memory(void **state)
{
    (void)state;
    process *all = start("shares");
    run(all);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(all[r].result, OK);
        assert_int_equal(all[r].sum, RANKS * (RANKS + 1) / 2);
        assert_memory_equal(&all[r].secret, &all[0].secret, sizeof(net_secret));
    }
    munmap(all, RANKS * sizeof *all);
}

static void test_a_missing_rank_is_named_on_every_other(void **state)
{
    (void)state;
    process *all = start("misses");
    for (int r = 0; r < RANKS; r++) all[r].location.deadline_ms = SHORT_MS;
    all[1].is_absent = all[2].is_absent = true;
    // Rank 3 waits for the time of rank 0.
    all[3].location.deadline_ms = LONG_MS;
    run(all);
    expect_refused(all, E_PEER, "local ranks 1, 2 of 4 did not come within 1.5 s (misses-");
}

static void test_another_version_is_refused(void **state)
{
    (void)state;
    process *all = start("versions");
    all[1].location.version = "2";
    all[2].is_absent = all[3].is_absent = true;
    run(all);
    expect_refused(all, E_USAGE, "rank 1 is Trireme 2, rank 0 is 1");
}

static void test_another_number_of_ranks_is_refused(void **state)
{
    (void)state;
    process *all = start("sizes");
    all[1].location.ranks = 8;
    all[2].is_absent = all[3].is_absent = true;
    run(all);
    expect_refused(all, E_USAGE, "started as rank 1 of 8, and rank 0 as one of 4");
}

static void test_processes_without_a_common_address_are_refused(void **state)
{
    (void)state;
    process *all = start("addresses");
    all[2].is_crowded = true;
    run(all);
    expect_refused(all, E_USAGE, "no address of shared memory is free in all processes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes_share_memory),
        cmocka_unit_test(test_a_missing_rank_is_named_on_every_other),
        cmocka_unit_test(test_another_version_is_refused),
        cmocka_unit_test(test_another_number_of_ranks_is_refused),
        cmocka_unit_test(test_processes_without_a_common_address_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
