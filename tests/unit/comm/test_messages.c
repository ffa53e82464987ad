// Messages between two ranks: their order, sizes larger than the ring, both directions at once, and
// late streams.
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

enum { MIB = 1 << 20 };

static void fill(unsigned char *p, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++) p[i] = (unsigned char)((i * 131u + seed * 29u) >> 3);
}

static status expect(const unsigned char *p, size_t bytes, unsigned seed, err *e)
{
    for (size_t i = 0; i < bytes; i++)
        if (p[i] != (unsigned char)((i * 131u + seed * 29u) >> 3))
            return err_set(e, E_INTERNAL, "byte %zu of %zu differs", i, bytes);
    return OK;
}

// Odd sizes from 0 to more than a ring, from private and from shared memory, around a circle of
// ranks.
static status circle(const test_rank *s, err *e)
{
    status result = OK;
    const size_t sizes[] = {0, 1, 17, 4096, 65537, MIB, MIB + 1, 5 * MIB + 3};
    const int size = s->comm->size, rank = s->comm->rank;
    const int next = (rank + 1) % size, last = (rank + size - 1) % size;
    const size_t most = 5 * MIB + 3;
    void *shared = NULL;
    unsigned char *in = malloc(most), *out = malloc(most);
    TRY(comm_alloc(s->comm, s->device, most, &shared, e));
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        const size_t bytes = sizes[i / 2];
        unsigned char *from = i % 2 ? shared : out;
        fill(from, bytes, (unsigned)rank + (unsigned)i);
        // Ranks of even number send first, so that the circle closes without a thread.
        for (int turn = 0; turn < 2; turn++) {
            if (turn == rank % 2)
                TRY(comm_send(s->comm, from, bytes, next, s->stream, e));
            else
                TRY(comm_recv(s->comm, in, bytes, last, s->stream, e));
        }
        TRY(comm_send_wait(s->comm, next, i + 1, s->stream, e));
        TRY(s->device->ops->sync(s->stream, e));
        TRY(expect(in, bytes, (unsigned)last + (unsigned)i, e));
    }
done:
    comm_release(s->comm, s->device, shared, most);
    free(in);
    free(out);
    return result;
}

// Every rank may send up to 1 MiB before any rank receives, and many small messages as well.
static status all_send_first(const test_rank *s, err *e)
{
    status result = OK;
    const int peer = 1 - s->comm->rank;
    unsigned char *in = malloc(MIB), *out = malloc(MIB);
    for (int round = 0; round < 5; round++) {
        fill(out, MIB, (unsigned)s->comm->rank);
        TRY(comm_send(s->comm, out, MIB, peer, s->stream, e));
        TRY(comm_recv(s->comm, in, MIB, peer, s->stream, e));
        TRY(expect(in, MIB, (unsigned)peer, e));
        for (unsigned i = 0; i < 1000; i++)
            TRY(comm_send(s->comm, &i, sizeof i, peer, s->stream, e));
        for (unsigned i = 0; i < 1000; i++) {
            unsigned got = 0;
            TRY(comm_recv(s->comm, &got, sizeof got, peer, s->stream, e));
            if (got != i) FAIL(E_INTERNAL, "message %u came as %u", i, got);
        }
        TRY(s->device->ops->sync(s->stream, e));
    }
done:
    free(in);
    free(out);
    return result;
}

// Messages larger than the ring in both directions, each on its own stream. Neither waits for the
// other.
static status both_ways_at_once(const test_rank *s, err *e)
{
    status result = OK;
    const size_t bytes = 6 * MIB;
    const int peer = 1 - s->comm->rank;
    device_stream *other = NULL;
    float sums[2] = {1, 2};
    unsigned char *in = malloc(bytes), *out = malloc(bytes);
    fill(out, bytes, (unsigned)s->comm->rank);
    TRY(s->device->ops->stream_open(s->device, STREAM_COPY, false, &other, e));
    TRY(comm_send(s->comm, out, bytes, peer, s->stream, e));
    TRY(comm_recv(s->comm, in, bytes, peer, other, e));
    TRY(comm_all_reduce(s->comm, &sums[0], 1, F32, REDUCE_SUM, other, e));
    TRY(comm_all_reduce(s->comm, &sums[1], 1, F32, REDUCE_SUM, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    TRY(s->device->ops->sync(other, e));
    TRY(expect(in, bytes, (unsigned)peer, e));
    if (sums[0] != 2 || sums[1] != 4) FAIL(E_INTERNAL, "the streams' all-reduces were mixed");
done:
    if (other) s->device->ops->stream_close(other);
    free(in);
    free(out);
    return result;
}

static void run(int ranks, rank_fn fn, bool late)
{
    alarm(200);
    workers k = {.ranks = ranks, .late = late, .fn = fn};
    assert_int_equal(workers_run(&k), 0);
    k.as_threads = true;
    assert_int_equal(workers_run(&k), 0);
}

static void test_sizes_around_a_circle(void **state)
{
    (void)state;
    run(2, circle, false);
    run(4, circle, true);
}

static void test_a_mebibyte_waits_for_its_receiver(void **state)
{
    (void)state;
    run(2, all_send_first, false);
}

static void test_streams_send_both_ways_at_once(void **state)
{
    (void)state;
    run(2, both_ways_at_once, true);
}

enum { ANNOUNCED = 64 };

// Both send from shared memory, more than the ring would hold, before either receives.
static status announce_first(const test_rank *s, err *e)
{
    status result = OK;
    const size_t each = MIB / 16 + 5;
    const int peer = 1 - s->comm->rank;
    unsigned char *in = malloc(each);
    void *memory = NULL;
    TRY(comm_alloc(s->comm, s->device, ANNOUNCED * each, &memory, e));
    unsigned char *out = memory;
    for (uint64_t round = 0; round < 3; round++) {
        for (unsigned i = 0; i < ANNOUNCED; i++)
            fill(out + i * each, each - i, i + (unsigned)s->comm->rank + (unsigned)round);
        for (unsigned i = 0; i < ANNOUNCED; i++)
            TRY(comm_send(s->comm, out + i * each, each - i, peer, s->stream, e));
        for (unsigned i = 0; i < ANNOUNCED; i++) {
            TRY(comm_recv(s->comm, in, each - i, peer, s->stream, e));
            TRY(s->device->ops->sync(s->stream, e));
            TRY(expect(in, each - i, i + (unsigned)peer + (unsigned)round, e));
        }
        TRY(comm_send_wait(s->comm, peer, (round + 1) * ANNOUNCED, s->stream, e));
        TRY(s->device->ops->sync(s->stream, e));
    }
done:
    comm_release(s->comm, s->device, memory, ANNOUNCED * each);
    free(in);
    return result;
}

static void test_both_sides_announce_before_either_receives(void **state)
{
    (void)state;
    run(2, announce_first, false);
    run(2, announce_first, true);
}

typedef struct progress {
    _Atomic int sent, receives;
} progress;

// Rank 0 sends one announced message more than may be under way, with private ones between them.
// Rank 1 starts to receive when all but the last are sent.
static status one_too_many(const test_rank *s, err *e)
{
    status result = OK;
    void *memory = NULL;
    char mail = 0;
    progress *p = s->arg;
    TRY(comm_alloc(s->comm, s->device, 64, &memory, e));
    for (int i = 0; i <= ANNOUNCED; i++) {
        if (s->comm->rank == 1 && i == 0) {
            while (atomic_load(&p->sent) < ANNOUNCED) usleep(1000);
            usleep(20000);
            atomic_store(&p->receives, 1);
        }
        for (int private = 0; private < 2; private ++)
            TRY(s->comm->rank == 0
                    ? comm_send(s->comm, private ? &mail : (char *)memory, 1, 1, s->stream, e)
                    : comm_recv(s->comm, &mail, 1, 0, s->stream, e));
        TRY(s->device->ops->sync(s->stream, e));
        if (s->comm->rank == 0 && i == ANNOUNCED && !atomic_load(&p->receives))
            FAIL(E_INTERNAL, "send %d did not wait", i);
        if (s->comm->rank == 0) atomic_store(&p->sent, i + 1);
    }
    TRY(comm_barrier(s->comm, e));
done:
    comm_release(s->comm, s->device, memory, 64);
    return result;
}

static void test_the_sixty_fifth_announcement_waits(void **state)
{
    (void)state;
    progress p = {0};
    workers k = {.ranks = 2, .as_threads = true, .fn = one_too_many, .arg = &p};
    assert_int_equal(workers_run(&k), 0);
}

// After send_wait the sender may write the buffer again. Announced and copied messages stay in
// order.
static status reuse(const test_rank *s, err *e)
{
    status result = OK;
    void *memory = NULL;
    TRY(comm_alloc(s->comm, s->device, sizeof(uint64_t), &memory, e));
    uint64_t *shared = memory;
    for (uint64_t i = 0; i < 3000; i += 2) {
        uint64_t a = i + 1, b = 0;
        if (s->comm->rank == 0) {
            *shared = i;
            TRY(comm_send(s->comm, shared, sizeof a, 1, s->stream, e));
            TRY(comm_send(s->comm, &a, sizeof a, 1, s->stream, e));
            TRY(comm_send_wait(s->comm, 1, i + 1, s->stream, e));
        } else {
            TRY(comm_recv(s->comm, &b, sizeof b, 0, s->stream, e));
            TRY(comm_recv(s->comm, &a, sizeof a, 0, s->stream, e));
            TRY(s->device->ops->sync(s->stream, e));
            if (b != i || a != i + 1) FAIL(E_INTERNAL, "message %u is wrong", (unsigned)i);
        }
        TRY(s->device->ops->sync(s->stream, e));
    }
    if (s->comm->rank == 0 && comm_send_wait(s->comm, 1, 3001, s->stream, e) != E_INTERNAL)
        return E_USAGE;
done:
    comm_release(s->comm, s->device, memory, sizeof(uint64_t));
    return result;
}

static void test_a_sent_buffer_is_free_after_send_wait(void **state)
{
    (void)state;
    run(2, reuse, false);
}

// Rank 0 leaves while rank 1 waits for it: in a recv (*arg 0), or in a send (*arg 1).
static status waits_for_a_leaver(const test_rank *s, err *e)
{
    status result = OK;
    void *memory = NULL;
    char x = 0;
    const int way = *(const int *)s->arg;
    TRY(comm_alloc(s->comm, s->device, 64, &memory, e));
    if (s->comm->rank == 1) {
        usleep(10000);
        if (way == 0) TRY(comm_recv(s->comm, &x, 1, 0, s->stream, e));
        if (way > 0) TRY(comm_send(s->comm, memory, 1, 0, s->stream, e));
        if (way > 0) TRY(comm_send_wait(s->comm, 0, 1, s->stream, e));
        TRY(s->device->ops->sync(s->stream, e));
    }
done:
    comm_release(s->comm, s->device, memory, 64);
    return result;
}

static void test_a_message_from_a_rank_that_left_is_an_error(void **state)
{
    (void)state;
    const char *const lines[] = {"rank 0 left the group while rank 1 waits to receive from it",
                                 "rank 0 left the group while rank 1 waits for it to receive"};
    for (int way = 0; way < 2; way++) {
        workers k = {.ranks = 2, .as_threads = true, .fn = waits_for_a_leaver, .arg = &way};
        alarm(200);
        assert_int_equal(workers_run(&k), 1);
        assert_int_equal(k.results[1], E_INTERNAL);
        assert_string_equal(k.errors[1].text, lines[way]);
    }
}

// Rank 0 closes its communicator before it reports its failure. Rank 1 must get the cause.
static status leaves_and_fails(const test_rank *s, err *e)
{
    comm *pair = NULL;
    char x = 0;
    status result = comm_split(s->comm, 0, 0, &pair, e);
    if (result == OK && s->comm->rank == 1) {
        comm_recv(pair, &x, 1, 0, s->stream, e);
        result = s->device->ops->sync(s->stream, e);
    }
    comm_close(pair);
    if (s->comm->rank == 1) return result;
    usleep(60000);
    return err_set(e, E_IO, "disk full");
}

static void test_a_rank_that_waits_for_a_leaver_gets_the_cause(void **state)
{
    (void)state;
    workers k = {.ranks = 2, .as_threads = true, .fn = leaves_and_fails};
    assert_int_equal(workers_run(&k), 2);
    assert_int_equal(k.results[1], E_PEER);
    assert_string_equal(k.errors[1].text, "rank 0: disk full");
}

// A message that was sent before its sender left still arrives.
static status leaves_after_sending(const test_rank *s, err *e)
{
    status result = OK;
    char x = 7;
    if (s->comm->rank == 0) return comm_send(s->comm, &x, 1, 1, s->stream, e);
    usleep(30000);
    x = 0;
    TRY(comm_recv(s->comm, &x, 1, 0, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    if (x != 7) FAIL(E_INTERNAL, "the last message is lost");
done:
    return result;
}

static void test_the_last_message_of_a_leaver_arrives(void **state)
{
    (void)state;
    run(2, leaves_after_sending, false);
}

static status wrong_length(const test_rank *s, err *e)
{
    char text[64] = {0};
    if (s->comm->rank == 0)
        comm_send(s->comm, text, 10, 1, s->stream, e);
    else
        comm_recv(s->comm, text, 12, 0, s->stream, e);
    status result = s->device->ops->sync(s->stream, e);
    return result == OK ? comm_barrier(s->comm, e) : result;
}

static void test_a_wrong_length_is_named(void **state)
{
    (void)state;
    workers k = {.ranks = 2, .as_threads = true, .fn = wrong_length};
    assert_int_equal(workers_run(&k), 2);
    assert_int_equal(k.results[1], E_INTERNAL);
    assert_string_equal(k.errors[1].text, "rank 0 sends 10 bytes while rank 1 receives 12");
    assert_int_equal(k.results[0], E_PEER);
}

static status refused(const test_rank *s, err *e)
{
    char x = 0;
    const int rank = s->comm->rank, size = s->comm->size;
    if (comm_send(s->comm, &x, 1, rank, s->stream, e) != E_INTERNAL) return E_USAGE;
    if (comm_recv(s->comm, &x, 1, size, s->stream, e) != E_INTERNAL) return E_USAGE;
    if (comm_broadcast(s->comm, &x, 1, -1, s->stream, e) != E_INTERNAL) return E_USAGE;
    if (comm_all_reduce(s->comm, &x, 1, U8, REDUCE_SUM, s->stream, e) != E_INTERNAL) return E_USAGE;
    return OK;
}

static void test_impossible_calls_are_refused(void **state)
{
    (void)state;
    workers k = {.ranks = 2, .as_threads = true, .fn = refused};
    assert_int_equal(workers_run(&k), 0);
    k.ranks = 1;
    assert_int_equal(workers_run(&k), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_around_a_circle),
        cmocka_unit_test(test_a_mebibyte_waits_for_its_receiver),
        cmocka_unit_test(test_streams_send_both_ways_at_once),
        cmocka_unit_test(test_both_sides_announce_before_either_receives),
        cmocka_unit_test(test_the_sixty_fifth_announcement_waits),
        cmocka_unit_test(test_a_sent_buffer_is_free_after_send_wait),
        cmocka_unit_test(test_a_message_from_a_rank_that_left_is_an_error),
        cmocka_unit_test(test_a_rank_that_waits_for_a_leaver_gets_the_cause),
        cmocka_unit_test(test_the_last_message_of_a_leaver_arrives),
        cmocka_unit_test(test_a_wrong_length_is_named),
        cmocka_unit_test(test_impossible_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
