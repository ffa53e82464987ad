// A communicator that counts counts calls and bytes, on one rank and on several, and changes no
// result.
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static status expect(const comm *c, comm_call_kind k, uint64_t calls, double bytes, err *e)
{
    const comm_counts *n = c->counts;
    if (n->kind[k].calls == calls && n->kind[k].bytes == bytes) return OK;
    return err_set(e, E_INTERNAL, "%s: %d calls and %g bytes, not %d and %g",
                   comm_call_row_of(k)->name, (int)n->kind[k].calls, n->kind[k].bytes, (int)calls,
                   bytes);
}

static status collectives(const test_rank *s, comm *c, void *x, err *e)
{
    status result = OK;
    const double n = c->size;
    float *a = x, *b = a + 1024;
    for (int i = 0; i < 512; i++) a[i] = 1;
    TRY(comm_all_reduce(c, a, 512, F32, REDUCE_SUM, s->stream, e));
    TRY(comm_all_reduce(c, b, 64, BF16, REDUCE_SUM, s->stream, e));
    TRY(comm_reduce_scatter(c, a, b, 16, F32, REDUCE_SUM, s->stream, e));
    TRY(comm_all_gather(c, a, b, 16, F64, s->stream, e));
    TRY(comm_broadcast(c, b, 4000, 0, s->stream, e));
    TRY(comm_barrier(c, e));
    TRY(s->device->ops->sync(s->stream, e));
    if (a[511] != (float)n) FAIL(E_INTERNAL, "the sum is %g", (double)a[511]);
    TRY(expect(c, CALL_ALL_REDUCE, 2, 2 * (n - 1) / n * (2048 + 128), e));
    TRY(expect(c, CALL_REDUCE_SCATTER, 1, (n - 1) / n * (16 * n * 4), e));
    TRY(expect(c, CALL_ALL_GATHER, 1, (n - 1) / n * (16 * n * 8), e));
    TRY(expect(c, CALL_BROADCAST, 1, (n - 1) / n * 4000, e));
    TRY(expect(c, CALL_SEND, 0, 0, e));
done:
    return result;
}

// Ten elements on four ranks: 3, 3, 3, 1. And three on four: 1, 1, 1, 0.
static status segments(const test_rank *s, comm *c, void *x, err *e)
{
    status result = OK;
    const int64_t size = c->size;
    const comm_segment runs[] = {
        {.count = 10, .shard_count = (10 + size - 1) / size},
        {.full_offset = 10, .count = 3, .shard_count = (3 + size - 1) / size}};
    double held = 0;
    for (int i = 0; i < 2; i++) {
        int64_t first;
        held += (double)comm_segment_shard(&runs[i], c->rank, &first);
    }
    if (size == 4 && held != (c->rank == 3 ? 1 : 4))
        FAIL(E_INTERNAL, "the shards have %g elements", held);
    *c->counts = (comm_counts){0};
    TRY(comm_reduce_scatter_segments(c, runs, 2, x, NULL, BF16, REDUCE_SUM, s->stream, e));
    TRY(comm_all_gather_segments(c, runs, 2, NULL, x, F32, s->stream, e));
    TRY(comm_all_gather_segments(c, runs, 2, NULL, x, F32, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    TRY(expect(c, CALL_REDUCE_SCATTER, 1, (13 - held) * 2, e));
    TRY(expect(c, CALL_ALL_GATHER, 2, 2 * (13 - held) * 4, e));
    TRY(expect(c, CALL_ALL_REDUCE, 0, 0, e));
done:
    return result;
}

static status messages(const test_rank *s, comm *c, void *x, err *e)
{
    status result = OK;
    const int next = (c->rank + 1) % c->size, last = (c->rank + c->size - 1) % c->size;
    char got[100];
    if (c->size == 1) return OK;
    TRY(comm_send(c, x, 100, next, s->stream, e));
    TRY(comm_recv(c, got, 100, last, s->stream, e));
    TRY(comm_send_wait(c, next, 1, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    TRY(expect(c, CALL_SEND, 1, 100, e));
    TRY(expect(c, CALL_RECV, 1, 0, e));
done:
    return result;
}

static status counted(const test_rank *s, err *e)
{
    status result = OK;
    comm *c = NULL, *split = NULL;
    void *x = NULL;
    TRY(comm_split(s->comm, 0, -s->comm->rank, &c, e));
    if (c->counts) FAIL(E_INTERNAL, "a communicator that does not count has counts");
    TRY(comm_count_calls(c, e));
    if (c->rank != s->comm->size - 1 - s->comm->rank || c->size != s->comm->size)
        FAIL(E_INTERNAL, "rank %d of %d", c->rank, c->size);
    TRY(comm_alloc(c, s->device, 16384, &x, e));
    TRY(collectives(s, c, x, e));
    TRY(segments(s, c, x, e));
    TRY(messages(s, c, x, e));
    // A call that is refused moves nothing.
    if (comm_all_reduce(c, x, 8, U8, REDUCE_SUM, s->stream, NULL) != E_INTERNAL) return E_USAGE;
    TRY(expect(c, CALL_ALL_REDUCE, 0, 0, e));
    // A communicator that was split off has its own counts.
    TRY(comm_split(c, c->rank / 2, 0, &split, e));
    TRY(comm_all_reduce(split, x, 8, F32, REDUCE_SUM, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    TRY(expect(split, CALL_ALL_REDUCE, 1, split->size == 2 ? 32 : 0, e));
    TRY(expect(c, CALL_ALL_REDUCE, 0, 0, e));
done:
    if (c) comm_release(c, s->device, x, 16384);
    comm_close(split);
    comm_close(c);
    return result;
}

static void test_calls_and_bytes_are_counted(void **state)
{
    (void)state;
    const int sizes[] = {1, 2, 4};
    for (int i = 0; i < 3; i++) {
        alarm(200);
        workers k = {.ranks = sizes[i], .fn = counted};
        assert_int_equal(workers_run(&k), 0);
        k.as_threads = true;
        k.late = true;
        assert_int_equal(workers_run(&k), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_and_bytes_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
