// test_nccl.c -- the communicator nccl on the GPUs of the stand-in, whose NCCL is as late and as strict as the real one
// may be. Ranks are threads or processes with a GPU each.
#include "child.h"

#include "peers.h"

#include "comm/nccl/nccl_private.h"
#include "device/cuda/libraries/cuda_nccl_abi.h"

#include <time.h>

// ---- In a child, whose environment says how many GPUs there are

static void check_ok(int ranks, bool processes, bool any_order, rank_fn fn)
{
    group_state g = {.name = "nccl", .processes = processes, .any_order = any_order};
    run_ranks(&g, ranks, fn);
    for (int r = 0; r < ranks; r++)
        if (g.rank[r].result != OK)
            fprintf(stderr, "rank %d of %d: %s\n", r, ranks, g.rank[r].error.text);
}

// Every rank has to fail with this text.
static void check_fails(group_state g, int ranks, rank_fn fn, status code, const char *text)
{
    g.name = "nccl";
    run_ranks(&g, ranks, fn);
    for (int r = 0; r < ranks; r++)
        if (g.rank[r].result != code || !strstr(g.rank[r].error.text, text))
            fprintf(stderr, "rank %d: status %d: %s\n", r, g.rank[r].result, g.rank[r].error.text);
}

static void few_ranks(void)
{
    for (int ranks = 2; ranks <= 5; ranks++) check_ok(ranks, false, false, collectives);
}

static void many_ranks(void)
{
    for (int ranks = 6; ranks <= 9; ranks++) check_ok(ranks, false, false, collectives);
}

static void sixteen_ranks(void)
{
    check_ok(16, false, false, collectives);
}

static void processes(void)
{
    check_ok(3, true, false, collectives);
    check_ok(5, true, false, splits);
    check_ok(3, true, false, send_and_receive);
    check_ok(2, true, false, record_and_replay);
}

static void threads(void)
{
    check_ok(3, false, false, many_calls);
    check_ok(5, false, false, splits);
    check_ok(3, false, false, send_and_receive);
    check_ok(2, false, false, record_and_replay);
}

static void only_splits(void)
{
    check_ok(5, false, false, splits);
}

// ---- Any order

// The stand-in adds in the order of the ranks, rounded at each step.
static void expect_chain(char *out, int ranks, size_t count, dtype t)
{
    char *next = malloc(ROOM * 8);
    void *to = out;
    fill(out, t, 0, count, 1);
    for (int r = 1; r < ranks; r++) {
        const void *two[2] = {out, next};
        fill(next, t, r, count, 1);
        reduce_arrays(&to, 1, two, 2, count, t, REDUCE_SUM);
    }
    free(next);
}

static status check_any_order(rank_state *s, arrays *a, dtype t, err *e)
{
    status result = OK;
    enum { COUNT = 300 };
    device_stream *on = s->stream[STREAM_COMM];
    const size_t element = dtype_bytes(t), ranks = (size_t)s->comm->size, bytes = COUNT * element;
    fill(a->host, t, s->rank, COUNT, 1);
    expect_chain(a->want, s->comm->size, COUNT, t);
    TRY(device_upload(on, a->device, a->host, bytes, e));
    TRY(comm_all_reduce(s->comm, a->device, COUNT, t, REDUCE_SUM, on, e));
    TRY(compare(s, a, a->device, bytes, "all_reduce in any order", e));
    const size_t shard = COUNT / ranks, first = (size_t)s->rank * shard * element;
    fill(a->host, t, s->rank, COUNT, 1);
    expect_chain(a->want, s->comm->size, COUNT, t);
    memmove(a->want, a->want + first, shard * element);
    TRY(device_upload(on, a->device, a->host, bytes, e));
    TRY(comm_reduce_scatter(s->comm, a->device, a->device + first, shard, t, REDUCE_SUM, on, e));
    TRY(compare(s, a, a->device + first, shard * element, "reduce_scatter in any order", e));
done:
    return result;
}

// Numbers that no rounding changes have the same sum in every order.
static status check_whole_numbers(rank_state *s, arrays *a, err *e)
{
    status result = OK;
    enum { COUNT = 500 };
    for (int i = 0; i < COUNT; i++) {
        ((float *)a->host)[i] = (float)(i * (s->rank + 1) % 997);
        ((float *)a->want)[i] = 0;
        for (int r = 0; r < s->comm->size; r++) ((float *)a->want)[i] += (float)(i * (r + 1) % 997);
    }
    TRY(device_upload(s->stream[STREAM_COMM], a->device, a->host, COUNT * 4, e));
    TRY(comm_all_reduce(s->comm, a->device, COUNT, F32, REDUCE_SUM, s->stream[STREAM_COMM], e));
    TRY(compare(s, a, a->device, COUNT * 4, "whole numbers", e));
done:
    return result;
}

static status in_any_order(rank_state *s, err *e)
{
    status result = OK;
    arrays a = {NULL};
    TRY(arrays_open(s, true, &a, e));
    TRY(comm_share(s->comm, e));
    if (s->comm->can.tree_order) FAIL(E_INTERNAL, "the order is the library's");
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++)
        TRY(check_any_order(s, &a, TYPES[t], e));
    TRY(check_whole_numbers(s, &a, e));
done:
    arrays_close(s, true, &a);
    return result;
}

static void any_order(void)
{
    check_ok(2, true, true, in_any_order);
    check_ok(5, false, true, in_any_order);
}

// ---- The tree over more ranks than a kernel takes

enum { TREE_COUNT = 70, TREE_ROOM = 1 << 20 };

static void check_tree(device *d, device_stream *on, dtype t, int ranks, int own)
{
    err e = {.code = OK};
    void *work, *array, *out, *want = malloc(TREE_COUNT * 8);
    char *host = malloc((size_t)ranks * TREE_COUNT * 8), got[TREE_COUNT * 8];
    const size_t bytes = TREE_COUNT * dtype_bytes(t);
    const void *in[NCCL_RANKS], *from[NCCL_RANKS];
    CHECK(device_alloc(d, MEMORY_DEVICE, TREE_ROOM, &work, &e) == OK);
    CHECK(device_alloc(d, MEMORY_DEVICE, bytes, &array, &e) == OK);
    CHECK(device_alloc(d, MEMORY_DEVICE, bytes, &out, &e) == OK);
    CHECK(nccl_tree_room(TREE_ROOM, ranks, t) >= TREE_COUNT);
    for (int r = 0; r < ranks; r++) {
        in[r] = r == own ? array : nccl_tree_place(work, TREE_ROOM, ranks, t, r);
        from[r] = host + (size_t)r * bytes;
        fill(host + (size_t)r * bytes, t, r, TREE_COUNT, 7);
        CHECK(device_upload(on, (void *)(uintptr_t)in[r], from[r], bytes, &e) == OK);
    }
    nccl_tree_reduce(on, in, ranks, own, out, work, TREE_ROOM, TREE_COUNT, t, REDUCE_SUM);
    CHECK(device_download(on, got, out, bytes, &e) == OK);
    reduce_arrays(&want, 1, from, ranks, TREE_COUNT, t, REDUCE_SUM);
    if (memcmp(got, want, bytes) != 0)
        fprintf(stderr, "%d ranks of %s: the bits differ\n", ranks, dtype_name(t));
    CHECK(device_download(on, got, array, bytes, &e) == OK);
    if (memcmp(got, from[own], bytes) != 0) fprintf(stderr, "the array of the rank has changed\n");
    device_release(d, MEMORY_DEVICE, work, TREE_ROOM);
    device_release(d, MEMORY_DEVICE, array, bytes);
    device_release(d, MEMORY_DEVICE, out, bytes);
    free(host), free(want);
}

static void trees(void)
{
    static const int ranks[] = {2, 16, 17, 31, 33, 40, 100};
    err e = {.code = OK};
    device *d;
    device_stream *on;
    CHECK(open_device(0, 0, &d, &e) == OK);
    CHECK(d->ops->stream_open(d, STREAM_COMM, false, &on, &e) == OK);
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++)
        for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
            for (int own = 0; own < ranks[i]; own += 15) check_tree(d, on, TYPES[t], ranks[i], own);
    d->ops->stream_close(on);
    device_close(d);
}

// ---- Failures

static void check_failed(bool as_processes)
{
    group_state g = {.name = "nccl", .processes = as_processes};
    run_ranks(&g, 3, fail_late);
    for (int r = 0; r < 3; r++) {
        const status want = r == 1 ? E_IO : E_PEER;
        if (g.rank[r].result != want ||
            !strstr(g.rank[r].error.text, r == 1 ? "the disk is full" : "rank 1: the disk is full"))
            fprintf(stderr, "rank %d: status %d: %s\n", r, g.rank[r].result, g.rank[r].error.text);
    }
}

static void failures(void)
{
    check_failed(true);
    check_failed(false);
}

static void close_streams(rank_state *s)
{
    for (int k = 0; k < STREAMS; k++) {
        s->device->ops->stream_close(s->stream[k]);
        s->stream[k] = NULL;
    }
}

static void lost_rank(void)
{
    group_state g = {.name = "nccl", .processes = true};
    run_ranks(&g, 2, kill_a_rank);
    if (!strstr(g.rank[0].error.text, "rank 1 (pid 77) was killed by signal 9"))
        fprintf(stderr, "%s\n", g.rank[0].error.text);
}

// Rank 1 of 3 records the call, but does not replay it.
static status one_is_late(rank_state *s, err *e)
{
    status result = OK;
    const struct timespec some = {0, 1000 * 1000};
    arrays a = {NULL};
    const device_ops *ops = s->device->ops;
    device_stream *on = s->stream[STREAM_COMM];
    device_recording *r = NULL;
    TRY(arrays_open(s, true, &a, e));
    TRY(comm_share(s->comm, e));
    comm_set_label(s->comm, "dp");
    TRY(ops->capture_begin(on, e));
    TRY(comm_all_reduce(s->comm, a.device, 900, F32, REDUCE_SUM, on, e));
    TRY(ops->capture_end(on, &r, e));
    while (s->rank == 1 && !comm_failure_known(s->all->world->failure)) nanosleep(&some, NULL);
    TRY(ops->replay(r, on, e));
    TRY(ops->sync(on, e));
done:
    if (r) ops->recording_close(r);
    close_streams(s);
    arrays_close(s, true, &a);
    return result;
}

static void late_rank(void)
{
    check_fails((group_state){.patience_ms = 2000}, 3, one_is_late, E_PEER,
                "Watchdog caught collective operation timeout: rank 1 did not come to all_reduce "
                "over dp within 2 s");
}

// The GPU of rank 1 does not come to the first call of the library.
static status nobody_comes(rank_state *s, err *e)
{
    status result = OK;
    arrays a = {NULL};
    TRY(arrays_open(s, true, &a, e));
    TRY(comm_share(s->comm, e));
    for (int i = 0; i < 4; i++) {
        TRY(comm_all_reduce(s->comm, a.device, 900, F32, REDUCE_SUM, s->stream[STREAM_COMM], e));
        TRY(s->device->ops->sync(s->stream[STREAM_COMM], e));
    }
done:
    close_streams(s);
    arrays_close(s, true, &a);
    return result;
}

static void library_error(void)
{
    check_fails((group_state){.processes = false}, 2, nobody_comes, E_PEER,
                "remote process exited or there was a network error: the stand-in was told so");
}

static status only_open(rank_state *s, err *e)
{
    (void)s, (void)e;
    return OK;
}

static void shared_gpu(void)
{
    group_state g = {.name = "nccl"};
    run_ranks(&g, 2, only_open);
    for (int r = 0; r < 2; r++) // one of the two is the first to fail
        if (g.rank[r].result == OK || !strstr(g.rank[r].error.text, "Duplicate GPU detected"))
            fprintf(stderr, "rank %d: status %d: %s\n", r, g.rank[r].result, g.rank[r].error.text);
}

static void no_library(void)
{
    check_fails((group_state){.processes = false}, 2, only_open, E_USAGE,
                "communicator nccl: NCCL is not on this machine");
}

static void late_opening(void)
{
    err e = {.code = OK};
    device *d;
    comm *c;
    world *w;
    alarm(LIMIT_S);
    CHECK(world_open(2, true, &w, &e) == OK);
    CHECK(open_device(0, 0, &d, &e) == OK);
    CHECK(comm_open("nccl", comm_world_options(w, 0, d, 300), &c, &e) == E_PEER);
    if (strcmp(e.text, "rank 1 of 2 did not come within 0.3 s") != 0)
        fprintf(stderr, "%s\n", e.text);
    device_close(d);
    world_close(w);
}

static void endless_wait(void)
{
    check_fails((group_state){.patience_ms = 2000}, 2, replay_alone, E_PEER, "did not come");
}

static void sizes_differ(void)
{
    group_state g = {.name = "nccl"};
    run_ranks(&g, 2, send_other_bytes);
}

static status other_counts(rank_state *s, err *e)
{
    status result = OK;
    arrays a = {NULL};
    TRY(arrays_open(s, true, &a, e));
    TRY(comm_share(s->comm, e));
    TRY(comm_broadcast(s->comm, a.device, s->rank ? 900 : 800, 0, s->stream[STREAM_COMM], e));
    TRY(s->device->ops->sync(s->stream[STREAM_COMM], e));
done:
    arrays_close(s, true, &a);
    return result;
}

static void calls_differ(void)
{
    group_state g = {.name = "nccl"};
    run_ranks(&g, 2, other_counts);
}

// Ranks compare their calls by the recorder before anything is issued.
static void compared_calls(void)
{
    group_state g = {.name = "nccl", .compares = true};
    run_ranks(&g, 2, differ);
    if (!strstr(g.rank[0].error.text, "calls all_reduce of 900 fp32 (sum)"))
        fprintf(stderr, "%s\n", g.rank[0].error.text);
}

// ---- The stand-in notices

static ncclComm_t one_rank(void)
{
    ncclConfig_t how = {.size = sizeof how, .magic = NCCL_CONFIG_MAGIC};
    ncclResult_t state = ncclInProgress;
    ncclUniqueId id;
    ncclComm_t clique;
    CHECK(ncclGetUniqueId(&id) == ncclSuccess);
    CHECK(ncclCommInitRankConfig(&clique, 1, id, 0, &how) == ncclInProgress);
    while (state == ncclInProgress) CHECK(ncclCommGetAsyncError(clique, &state) == ncclSuccess);
    CHECK(state == ncclSuccess);
    return clique;
}

static void call_twice(void)
{
    float *x;
    const ncclComm_t clique = one_rank();
    CUDA(cudaMalloc((void **)&x, 400));
    (void)ncclAllReduce(x, x, 100, ncclFloat32, ncclSum, clique, NULL);
    (void)ncclAllReduce(x, x, 100, ncclFloat32, ncclSum, clique, NULL);
}

static void call_after_abort(void)
{
    float *x;
    const ncclComm_t clique = one_rank();
    CUDA(cudaMalloc((void **)&x, 400));
    CHECK(ncclCommAbort(clique) == ncclSuccess);
    (void)ncclAllReduce(x, x, 100, ncclFloat32, ncclSum, clique, NULL);
}

static void overlap(void)
{
    float *x;
    const ncclComm_t clique = one_rank();
    CUDA(cudaMalloc((void **)&x, 800));
    (void)ncclAllReduce(x, x + 1, 100, ncclFloat32, ncclSum, clique, NULL);
}

static void beyond(void)
{
    float *x;
    const ncclComm_t clique = one_rank();
    CUDA(cudaMalloc((void **)&x, 396));
    (void)ncclAllReduce(x, x, 100, ncclFloat32, ncclSum, clique, NULL);
}

// ---- Tests

static void test_few_ranks_have_the_bits_of_the_tree(void **state)
{
    (void)state;
    child_passes("TRIREME_STAND_IN_DEVICES=5 TRIREME_STAND_IN_SEED=1", few_ranks);
}

static void test_many_ranks_have_the_bits_of_the_tree(void **state)
{
    (void)state;
    child_passes("TRIREME_STAND_IN_DEVICES=9 TRIREME_STAND_IN_SEED=2", many_ranks);
    child_passes("TRIREME_STAND_IN_DEVICES=16 TRIREME_STAND_IN_SEED=3", sixteen_ranks);
    child_passes("", trees);
}

static void test_threads_in_every_order_of_work(void **state)
{
    (void)state;
    char environment[96];
    for (int seed = 0; seed < 3; seed++) {
        snprintf(environment, sizeof environment,
                 "TRIREME_STAND_IN_DEVICES=5 TRIREME_STAND_IN_SEED=%d", seed);
        child_passes(environment, threads);
    }
}

static void test_processes(void **state)
{
    (void)state;
    child_passes("TRIREME_STAND_IN_DEVICES=5 TRIREME_STAND_IN_SEED=1", processes);
}

static void test_a_library_without_splits(void **state)
{
    (void)state;
    child_passes("TRIREME_STAND_IN_DEVICES=5 TRIREME_STAND_IN_WITHOUT=ncclCommSplit", only_splits);
}

static void test_any_order_is_the_librarys(void **state)
{
    (void)state;
    child_passes("TRIREME_STAND_IN_DEVICES=5", any_order);
}

static void test_failures_end_all_ranks(void **state)
{
    (void)state;
    child_passes("TRIREME_STAND_IN_DEVICES=3 TRIREME_STAND_IN_SEED=1", failures);
    child_passes("TRIREME_STAND_IN_DEVICES=3", lost_rank);
    child_passes("TRIREME_STAND_IN_DEVICES=2 TRIREME_STAND_IN_NCCL_ERROR=5", library_error);
}

static void test_a_late_rank_is_named(void **state)
{
    (void)state;
    child_passes("TRIREME_STAND_IN_DEVICES=3", late_rank);
    child_passes("", endless_wait);
    child_passes("", late_opening);
}

static void test_what_is_wrong_is_said(void **state)
{
    (void)state;
    child_passes("TRIREME_STAND_IN_DEVICES=1", shared_gpu);
    child_passes("TRIREME_STAND_IN_DEVICES=2", compared_calls);
    child_passes("TRIREME_STAND_IN_DEVICES=2 TRIREME_STAND_IN_WITHOUT=NCCL", no_library);
}

static void test_the_stand_in_is_strict(void **state)
{
    (void)state;
    child_is_ended(calls_differ, "NCCL: rank ");
    child_is_ended(sizes_differ, "NCCL: rank ");
    child_is_ended(call_twice, "ncclAllReduce: an earlier call of the communicator is in progress");
    child_is_ended(call_after_abort, "ncclAllReduce: the communicator was ended before");
    child_is_ended(overlap, "ncclAllReduce: the arrays overlap");
    child_is_ended(beyond, "ncclAllReduce");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_ranks_have_the_bits_of_the_tree),
        cmocka_unit_test(test_many_ranks_have_the_bits_of_the_tree),
        cmocka_unit_test(test_threads_in_every_order_of_work),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_a_library_without_splits),
        cmocka_unit_test(test_any_order_is_the_librarys),
        cmocka_unit_test(test_failures_end_all_ranks),
        cmocka_unit_test(test_a_late_rank_is_named),
        cmocka_unit_test(test_what_is_wrong_is_said),
        cmocka_unit_test(test_the_stand_in_is_strict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
