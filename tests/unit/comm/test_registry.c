// Communicators are opened by name, ranks meet in a store to open and to split, and a world has more
// than a few hundred ranks.
#include "base/clock.h"
#include "ranks.h"
#include "rendezvous/rendezvous.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_names_are_described_before_ranks_start(void **state)
{
    (void)state;
    comm_description d;
    err e;
    assert_int_equal(comm_describe("auto", 1, false, true, &d, &e), OK);
    assert_string_equal(d.name, "solo");
    assert_true(d.can.tree_order && d.can.device_memory);
    assert_int_equal(comm_describe("auto", 600, false, true, &d, &e), OK);
    assert_string_equal(d.name, "local");
    assert_true(d.can.tree_order && d.can.zero_copy && !d.can.device_memory && !d.can.sends_wait);
    assert_int_equal(comm_describe("local", 2, false, true, &d, &e), OK);
    assert_int_equal(comm_describe("gloo", 2, false, true, &d, &e), E_USAGE);
    static const char valid[] =
        "communicator gloo: valid are auto, solo (one rank), local (ranks of "
        "one machine), p2p (ranks of one machine whose devices have memory "
        "of their own), nccl (GPUs of any hosts, one for each rank), hier (ranks of "
        "several hosts: local in each; between them ucx over RDMA devices, else tls), tls (ranks "
        "on any hosts), ucx (ranks on any hosts of a trusted network), and mpi (ranks that mpirun "
        "has started)";
    assert_memory_equal(e.text, valid, sizeof valid - 1); // which are not built in may follow
    assert_int_equal(comm_describe("solo", 2, false, true, &d, &e), E_USAGE);
    assert_string_equal(e.text, "communicator solo: found 2 ranks; valid are 1");
    assert_int_equal(comm_describe("local", 1, false, true, &d, &e), E_USAGE);
    assert_string_equal(e.text, "communicator local: found 1 ranks; valid are 2 and more");
    assert_int_equal(comm_describe("auto", 8, false, false, &d, &e), OK);
    assert_string_equal(d.name, "p2p");
    assert_true(d.can.tree_order && d.can.device_memory && d.can.can_be_recorded);
    assert_int_equal(comm_describe("auto", 1, false, false, &d, &e), OK);
    assert_string_equal(d.name, "solo");
    assert_int_equal(comm_describe("auto", 17, false, false, &d, &e), E_USAGE);
    assert_string_equal(e.text, "communicator p2p: found 17 ranks; valid are 2 to 16; valid for "
                                "them is nccl, with a GPU for each rank");
}

static void test_ranks_on_several_machines(void **state)
{
    (void)state;
    comm_description d;
    err e;
    static const char *const here[] = {"local", "p2p"};
    assert_int_equal(comm_describe("auto", 4, true, true, &d, &e), OK);
    assert_string_equal(d.name, "hier");
    for (size_t i = 0; i < sizeof here / sizeof *here; i++) {
        assert_int_equal(comm_describe(here[i], 4, true, true, &d, &e), E_USAGE);
        assert_non_null(strstr(e.text,
                               "ranks are on several machines; valid are nccl, for GPUs, and "
                               "hier, tls and, where it is built in, ucx"));
    }
    assert_int_equal(comm_describe("auto", 4, true, false, &d, &e), OK);
    assert_string_equal(d.name, "nccl");
    assert_true(d.can.tree_order && d.can.device_memory && d.can.can_be_recorded);
    assert_int_equal(comm_describe("auto", 257, true, false, &d, &e), E_USAGE);
    assert_string_equal(e.text, "communicator nccl: found 257 ranks; valid are 2 to 256");
}

static void test_the_opened_communicator_can_what_its_row_says(void **state)
{
    (void)state;
    device d = {.ops = &test_device_ops};
    world *w = NULL;
    comm *c = NULL;
    err e;
    for (int ranks = 1; ranks <= 2; ranks++) {
        comm_description described;
        assert_int_equal(comm_describe("auto", ranks, false, true, &described, &e), OK);
        assert_int_equal(world_open(ranks, true, &w, &e), OK);
        assert_int_equal(comm_open("none", comm_world_options(w, 0, &d, 0), &c, &e), E_USAGE);
        assert_null(c);
        assert_int_equal(comm_open(described.name, comm_world_options(w, 0, &d, 0), &c, &e), OK);
        assert_string_equal(c->ops->name, described.name);
        assert_memory_equal(&c->can, &described.can, sizeof c->can);
        comm_close(c);
        world_close(w);
    }
}

static void test_local_refuses_ranks_of_other_machines(void **state)
{
    (void)state;
    device d = {.ops = &test_device_ops};
    world *w = NULL;
    comm *c = NULL;
    err e;
    assert_int_equal(world_open(2, true, &w, &e), OK);
    comm_options o = comm_world_options(w, 0, &d, 0);
    o.size = 4;
    assert_int_equal(comm_open("local", o, &c, &e), E_USAGE);
    assert_non_null(strstr(e.text, "communicator local: ranks are on several machines"));
    o.local_size = 4;
    assert_int_equal(comm_open("local", o, &c, &e), E_USAGE); // its memory is that of two ranks
    assert_string_equal(e.text,
                        "communicator local: 4 of 4 ranks are on this machine; valid are all");
    world_close(w);
}

static void test_a_device_that_the_host_cannot_address_is_refused(void **state)
{
    (void)state;
    const device_ops far = {.name = "far"};
    device d = {.ops = &far};
    world *w = NULL;
    comm *c = NULL;
    err e;
    assert_int_equal(world_open(2, true, &w, &e), OK);
    assert_int_equal(comm_open("auto", comm_world_options(w, 0, &d, 0), &c, &e), E_USAGE);
    assert_string_equal(e.text,
                        "communicator p2p: device far cannot share its memory; valid is cuda");
    assert_null(c);
    assert_int_equal(comm_open("local", comm_world_options(w, 0, &d, 0), &c, &e), E_USAGE);
    assert_null(c);
    assert_int_equal(comm_open("nccl", comm_world_options(w, 0, &d, 0), &c, &e), E_USAGE);
    assert_string_equal(e.text,
                        "communicator nccl: device far has no collectives of NCCL; valid is cuda");
    assert_null(c);
    world_close(w);
}

// Rank 1 opens, and rank 0 does not come.
static void test_opening_has_a_deadline(void **state)
{
    (void)state;
    device d = {.ops = &test_device_ops};
    world *w = NULL;
    comm *c = NULL;
    err e;
    alarm(200);
    assert_int_equal(world_open(3, true, &w, &e), OK);
    assert_int_equal(comm_open("auto", comm_world_options(w, 1, &d, 200), &c, &e), E_PEER);
    assert_string_equal(e.text, "rank 0 of 3 did not come within 0.2 s");
    assert_null(c);
    // A known failure ends the wait, also one without a deadline.
    err why = {0};
    err_set(&why, E_IO, "no such device");
    comm_failure_set(w->failure, 0, &why);
    assert_int_equal(comm_open("auto", comm_world_options(w, 1, &d, 0), &c, &e), E_PEER);
    assert_string_equal(e.text, "rank 0: no such device");
    world_close(w);
}

// The members of a group without shared memory: the store is all that they share.
typedef struct member {
    comm_store *store;
    int rank, size;
    char error[ERR_TEXT_BYTES];
} member;

static status meet(member *m, err *e)
{
    status result = OK;
    comm_rendezvous all = {.store = m->store, .rank = m->rank, .size = m->size}, row = {0},
                    again = {0};
    comm_members members = {0};
    int64_t value = m->rank == 0 ? 4711 : 0;
    TRY(comm_rendezvous_open(&all, &value, sizeof value, 60000, e));
    if (value != 4711) FAIL(E_INTERNAL, "rank 0 told %lld", (long long)value);
    for (int i = 0; i < 20; i++) {
        const int color = m->rank % 3 - 1;
        free(members.ranks);
        TRY(comm_rendezvous_split(&all, color, -m->rank, 60000, &members, e));
        value = members.rank == 0 ? 100 * i + color : -1;
        TRY(comm_rendezvous_join(&all, &members, &value, sizeof value, 60000, &row, e));
        if (value != 100 * i + color) FAIL(E_INTERNAL, "a group was told %lld", (long long)value);
        if (members.ranks[members.rank] != m->rank || row.rank != members.rank)
            FAIL(E_INTERNAL, "rank %d is not in its group", m->rank);
        for (int j = 0; j < members.size; j++)
            if (members.ranks[j] % 3 - 1 != color ||
                (j > 0 && members.ranks[j] > members.ranks[j - 1]))
                FAIL(E_INTERNAL, "rank %d: member %d is %d", m->rank, j, members.ranks[j]);
    }
    // A split of a split: groups have names of their own.
    free(members.ranks);
    TRY(comm_rendezvous_split(&row, 0, 0, 60000, &members, e));
    if (members.size != row.size) FAIL(E_INTERNAL, "%d of %d members", members.size, row.size);
    TRY(comm_rendezvous_join(&row, &members, &value, sizeof value, 60000, &again, e));
    if (again.group == row.group)
        FAIL(E_INTERNAL, "two groups have number %lld", (long long)row.group);
done:
    free(members.ranks);
    return result;
}

static void *member_main(void *arg)
{
    member *m = arg;
    err e = {0};
    if (meet(m, &e) != OK) memcpy(m->error, e.text, sizeof m->error);
    return NULL;
}

static void test_ranks_meet_with_a_store_alone(void **state)
{
    (void)state;
    enum { RANKS = 7, KEYS = 4 * RANKS };
    comm_store *s = NULL;
    pthread_t threads[RANKS];
    static member members[RANKS];
    alarm(200);
    void *page = calloc(1, comm_store_page_bytes(KEYS));
    assert_non_null(page);
    assert_int_equal(comm_store_page_make(page, KEYS, NULL), OK);
    assert_int_equal(comm_store_page_open(page, &s, NULL), OK);
    for (int r = 0; r < RANKS; r++) {
        members[r] = (member){.store = s, .rank = r, .size = RANKS};
        assert_int_equal(pthread_create(&threads[r], NULL, member_main, &members[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) pthread_join(threads[r], NULL);
    for (int r = 0; r < RANKS; r++) assert_string_equal(members[r].error, "");
    // The keys of all splits are gone: as many fit as before, besides the two that stay.
    for (int i = 0; i < KEYS - 2; i++) {
        char key[STORE_KEY_BYTES];
        snprintf(key, sizeof key, "key%d", i);
        assert_int_equal(comm_store_add(s, key, 1, NULL, 0, NULL), OK);
    }
    comm_store_close(s);
    free(page);
}

// ---- many ranks

static status sums_and_splits(const test_rank *s, err *e)
{
    status result = OK;
    comm *half = NULL;
    const int rank = s->comm->rank, size = s->comm->size;
    int64_t x = rank;
    float most[64] = {0};
    TRY(comm_all_reduce(s->comm, &x, 1, I64, REDUCE_SUM, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    if (x != (int64_t)size * (size - 1) / 2) FAIL(E_INTERNAL, "the sum is %lld", (long long)x);
    most[rank % 64] = (float)rank;
    TRY(comm_all_reduce(s->comm, most, 64, F32, REDUCE_MAX, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    if (most[(size - 1) % 64] != (float)(size - 1)) FAIL(E_INTERNAL, "wrong maximum");
    TRY(comm_split(s->comm, rank % 2, rank, &half, e));
    if (half->size != size / 2 || half->rank != rank / 2) FAIL(E_INTERNAL, "wrong half");
    TRY(comm_barrier(half, e));
done:
    comm_close(half);
    return result;
}

static void test_hundreds_of_ranks_sum_and_split(void **state)
{
    (void)state;
    static workers k = {.ranks = 600, .as_threads = true, .fn = sums_and_splits};
    alarm(230);
    assert_int_equal(workers_run(&k), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_described_before_ranks_start),
        cmocka_unit_test(test_ranks_on_several_machines),
        cmocka_unit_test(test_the_opened_communicator_can_what_its_row_says),
        cmocka_unit_test(test_local_refuses_ranks_of_other_machines),
        cmocka_unit_test(test_a_device_that_the_host_cannot_address_is_refused),
        cmocka_unit_test(test_opening_has_a_deadline),
        cmocka_unit_test(test_ranks_meet_with_a_store_alone),
        cmocka_unit_test(test_hundreds_of_ranks_sum_and_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
