// test_packed.c -- calls over segments on a communicator that packs shards: the bits of an all_reduce,
// for segments of every shape. What was not prepared is refused, and ranks that do not come are named.
// The toy communicator is checked here, too.
#include "segments.h"

#include "base/alloc.h"
#include "comm/packed.h"
#include "late/late_device.h"
#include "toy/toy_comm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MOST = 8, AS_PREPARED = 0, WRONG_OFFSET, SMALL_WORKSPACE, STALE_LIST, TRACED, GROUPED };

typedef struct rig {
    int ranks;
    bool late;
    int64_t limit_ms; // of the watchdog; 0: TEST_PATIENCE_MS
    rank_fn fn;
    int way;
    world *world;
    status results[MOST];
    err errors[MOST];
    pthread_barrier_t ended;
} rig;

typedef struct rig_rank {
    rig *rig;
    int rank;
} rig_rank;

static status open_rank(const rig *g, int rank, test_rank *s, err *e)
{
    status result = OK;
    if (g->late)
        TRY(late_device_open(LATE_OTHERS_FIRST, &(device_options){.threads = 1}, &s->device, e));
    else
        TRY(device_open("cpu", &(device_options){.threads = 1}, &s->device, e));
    TRY(s->device->ops->stream_open(s->device, STREAM_COMM, false, &s->stream, e));
    const comm_options o = test_world_options(g->world, rank, s->device);
    TRY(toy_open(&o, &TOY_HOST_DEVICE, &s->comm, e));
    if (g->way == TRACED) TRY(comm_count_calls(s->comm, e));
done:
    return result;
}

static void *rank_main(void *arg)
{
    const rig_rank *r = arg;
    rig *g = r->rig;
    test_rank s = {.world = g->world, .arg = &g->way};
    err *e = &g->errors[r->rank];
    status result = open_rank(g, r->rank, &s, e);
    if (result == OK) result = g->fn(&s, e);
    if (result != OK && s.comm) comm_abort(s.comm, e);
    if (s.stream) s.device->ops->stream_close(s.stream);
    comm_close(s.comm);
    if (result == OK && s.device->bytes_now != s.device->bytes_scratch)
        result = err_set(e, E_INTERNAL, "%zu bytes are still counted", s.device->bytes_now);
    device_close(s.device);
    g->results[r->rank] = result;
    return NULL;
}

// Returns the number of ranks that did not return OK.
static int rig_run(rig *g)
{
    pthread_t threads[MOST];
    rig_rank ranks[MOST];
    int bad = 0;
    err e;
    if (test_world_open(g->ranks, true, &g->world, &e) != OK) fail_msg("%s", e.text);
    if (g->limit_ms > 0) comm_watchdog_set(g->world->watchdog, g->limit_ms);
    for (int r = 0; r < g->ranks; r++) {
        ranks[r] = (rig_rank){g, r};
        pthread_create(&threads[r], NULL, rank_main, &ranks[r]);
    }
    for (int r = 0; r < g->ranks; r++) pthread_join(threads[r], NULL);
    for (int r = 0; r < g->ranks; r++) {
        bad += g->results[r] != OK;
        if (g->results[r] == E_INTERNAL) print_error("rank %d: %s\n", r, g->errors[r].text);
    }
    world_close(g->world);
    return bad;
}

// ---- The bits

// The tables and the workspace of one rank.
typedef struct prepared {
    comm_packing *packing;
    kernel_segment *table;
    void *workspace;
    size_t table_bytes, workspace_bytes;
} prepared;

static status add_calls(const test_rank *s, const test_layout *l, int segments, dtype t,
                        comm_packing *to, err *e)
{
    status result = OK;
    for (int i = 0; i < 4; i++)
        TRY(comm_packing_add(
            to,
            &(comm_packed_call){{i & 1 ? CALL_ALL_GATHER : CALL_REDUCE_SCATTER, .type = t,
                                 .segment = l->segments, .segments = segments, .in_place = i & 2},
                                s->comm->rank,
                                s->comm->size,
                                s->stream->kind},
            e));
done:
    return result;
}

// Prepares the calls of the first `segments` of the list.
static status prepare_list(const test_rank *s, const test_layout *l, int segments, dtype t,
                           prepared *x, err *e)
{
    status result = OK;
    kernel_segment *host = NULL;
    TRY(comm_packing_open(&x->packing, e));
    TRY(add_calls(s, l, segments, t, x->packing, e));
    TRY(add_calls(s, l, segments, t, x->packing, e)); // the same calls again take no memory
    x->table_bytes = comm_packing_table_bytes(x->packing);
    x->workspace_bytes = comm_packing_workspace_bytes(x->packing, s->stream->kind);
    TRY(alloc_array(&host, x->table_bytes, 1, "a table", e));
    TRY(device_alloc(s->device, MEMORY_DEVICE, x->table_bytes, (void **)&x->table, e));
    TRY(comm_alloc(s->comm, s->device, x->workspace_bytes, &x->workspace, e));
    void *workspace[STREAMS] = {[STREAM_COMM] = x->workspace};
    const int way = *(const int *)s->arg;
    const size_t bytes[STREAMS] = {[STREAM_COMM] = x->workspace_bytes - (way == SMALL_WORKSPACE)};
    TRY(comm_packing_start(x->packing, x->table, host, workspace, bytes, s->stream, e));
    if (way == WRONG_OFFSET) x->table[1].dst++;
    comm_set_packing(s->comm, x->packing);
    TRY(comm_share(s->comm, e));
done:
    free(host);
    return result;
}

static status prepare(const test_rank *s, const test_layout *l, dtype t, prepared *x, err *e)
{
    return prepare_list(s, l, SEGMENTS, t, x, e);
}

static void discard(const test_rank *s, prepared *x)
{
    comm_set_packing(s->comm, NULL);
    comm_packing_close(x->packing);
    if (x->table) device_release(s->device, MEMORY_DEVICE, x->table, x->table_bytes);
    if (x->workspace) comm_release(s->comm, s->device, x->workspace, x->workspace_bytes);
}

static status type_after(const test_rank *s, dtype t, comm_reduce_op op, err *e)
{
    status result = OK;
    const test_layout l = lay(s->comm->size);
    test_layout used = l;
    prepared x = {0};
    TRY(prepare(s, &l, t, &x, e));
    if (*(const int *)s->arg == STALE_LIST) used.segments[2].shard_offset++;
    TRY(one_type(s, &used, t, op, e));
done:
    discard(s, &x);
    return result;
}

static status every_type(const test_rank *s, err *e)
{
    status result = OK;
    TRY(type_after(s, F32, REDUCE_SUM, e));
    TRY(type_after(s, BF16, REDUCE_SUM, e));
    TRY(type_after(s, F16, REDUCE_MAX, e));
    TRY(comm_all_gather_segments(s->comm, NULL, 0, NULL, NULL, F32, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
done:
    return result;
}

static void test_packed_segments_have_the_bits_of_an_all_reduce(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= MOST; ranks++) {
        rig g = {.ranks = ranks, .fn = every_type};
        assert_int_equal(rig_run(&g), 0);
    }
}

// One segment with one element for each rank.
static status one_element(const test_rank *s, err *e)
{
    status result = OK;
    const int rank = s->comm->rank, size = s->comm->size;
    const test_layout l = {.segments = {{.count = size, .shard_count = 1}}};
    prepared x = {0};
    float full[MOST], sum = 0, expected = 0, gathered[MOST];
    TRY(prepare_list(s, &l, 1, F32, &x, e));
    for (int i = 0; i < size; i++) full[i] = (float)(rank * size + i);
    for (int r = 0; r < size; r++) expected += (float)(r * size + rank);
    TRY(comm_reduce_scatter_segments(s->comm, l.segments, 1, full, &sum, F32, REDUCE_SUM, s->stream,
                                     e));
    TRY(comm_all_gather_segments(s->comm, l.segments, 1, &sum, gathered, F32, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    if (sum != expected) FAIL(E_INTERNAL, "the sum is %g, not %g", (double)sum, (double)expected);
    for (int r = 1; r < size; r++)
        if (gathered[r] != gathered[0] + (float)(r * size))
            FAIL(E_INTERNAL, "rank %d gives %g", r, (double)gathered[r]);
done:
    discard(s, &x);
    return result;
}

static void test_one_element_a_rank(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 3; ranks++) {
        rig g = {.ranks = ranks, .fn = one_element};
        assert_int_equal(rig_run(&g), 0);
    }
}

static void test_on_late_streams(void **state)
{
    (void)state;
    rig g = {.ranks = 3, .fn = every_type, .late = true};
    assert_int_equal(rig_run(&g), 0);
}

static status traced(const test_rank *s, err *e)
{
    status result = OK;
    TRY(type_after(s, F32, REDUCE_SUM, e));
    const comm_counts *n = s->comm->counts;
    // Two of each: a packed call counts as the call that it is, and not also as the collective in it.
    if (n->kind[CALL_ALL_GATHER].calls != 2 || n->kind[CALL_REDUCE_SCATTER].calls != 2)
        result =
            err_set(e, E_INTERNAL, "%d calls of all_gather", (int)n->kind[CALL_ALL_GATHER].calls);
done:
    return result;
}

static void test_a_trace_counts_packed_calls_once(void **state)
{
    (void)state;
    rig g = {.ranks = 4, .fn = traced, .way = TRACED};
    assert_int_equal(rig_run(&g), 0);
}

// ---- What is noticed

static status f32_sum(const test_rank *s, err *e)
{
    return type_after(s, F32, REDUCE_SUM, e);
}

// The check of the first tests fails when a shard is packed one element too far.
static void test_a_wrong_offset_is_noticed(void **state)
{
    (void)state;
    rig g = {.ranks = 3, .fn = f32_sum, .way = WRONG_OFFSET};
    assert_true(rig_run(&g) > 0);
    int differs = 0;
    for (int r = 0; r < g.ranks; r++) differs += strstr(g.errors[r].text, "differs") != NULL;
    assert_true(differs > 0);
}

static void test_a_small_workspace_is_refused(void **state)
{
    (void)state;
    rig g = {.ranks = 2, .fn = f32_sum, .way = SMALL_WORKSPACE};
    assert_int_equal(rig_run(&g), 2);
    assert_int_equal(g.results[0], E_INTERNAL);
    assert_non_null(strstr(g.errors[0].text, "reduce_scatter of 7 segments over a group: the "
                                             "workspace has "));
}

static void test_a_list_that_has_changed_is_refused(void **state)
{
    (void)state;
    rig g = {.ranks = 2, .fn = f32_sum, .way = STALE_LIST};
    assert_int_equal(rig_run(&g), 2);
    assert_int_equal(g.results[0], E_INTERNAL);
    assert_string_equal(g.errors[0].text, "reduce_scatter of 7 segments over a group: no segment "
                                          "table was prepared for this list");
}

static status other_types(const test_rank *s, err *e)
{
    status result = OK;
    const test_layout l = lay(s->comm->size);
    err why;
    prepared x = {0};
    TRY(prepare(s, &l, F32, &x, e));
    if (comm_all_gather_segments(s->comm, l.segments, SEGMENTS, NULL, x.workspace, I64, s->stream,
                                 &why) != E_INTERNAL)
        result = E_USAGE;
    else if (strcmp(why.text, "packed segments of int64: valid are fp32, bf16 and fp16") != 0)
        result = E_IO;
done:
    discard(s, &x);
    return result;
}

static void test_types_that_cannot_be_packed_are_refused(void **state)
{
    (void)state;
    rig g = {.ranks = 2, .fn = other_types};
    assert_int_equal(rig_run(&g), 0);
}

// ---- Ranks that do not come

static status rank_1_does_not_share(const test_rank *s, err *e)
{
    return s->comm->rank == 1 ? comm_barrier(s->comm, e) : comm_share(s->comm, e);
}

static void test_a_rank_that_does_not_share_is_named(void **state)
{
    (void)state;
    rig g = {.ranks = 3, .fn = rank_1_does_not_share};
    assert_int_equal(rig_run(&g), 3);
    for (int r = 0; r < 3; r++)
        assert_string_equal(g.errors[r].text, "rank 0 calls share while rank 1 calls barrier");
}

// Rank 1 leaves at once.
static status others_reduce(const test_rank *s, err *e)
{
    status result = OK;
    float x = 1;
    if (s->comm->rank == 1) return OK;
    comm_set_label(s->comm, "dp");
    TRY(comm_all_reduce(s->comm, &x, 1, F32, REDUCE_SUM, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
done:
    return result;
}

static void test_a_rank_that_leaves_is_named(void **state)
{
    (void)state;
    rig g = {.ranks = 3, .fn = others_reduce};
    assert_int_equal(rig_run(&g), 2);
    assert_int_equal(g.results[0], E_PEER);
    assert_string_equal(g.errors[0].text, "rank 1 left before all_reduce over dp");
    assert_string_equal(g.errors[2].text, g.errors[0].text);
}

// Rank 1 stays, and does not come.
static status others_wait(const test_rank *s, err *e)
{
    rig *g = (rig *)(uintptr_t)((const char *)s->arg - offsetof(rig, way));
    const status result = s->comm->rank == 1 ? OK : others_reduce(s, e);
    pthread_barrier_wait(&g->ended);
    return result;
}

static void test_a_rank_that_is_late_is_named(void **state)
{
    (void)state;
    rig g = {.ranks = 2, .fn = others_wait, .limit_ms = 20};
    pthread_barrier_init(&g.ended, NULL, 2);
    assert_int_equal(rig_run(&g), 1);
    assert_string_equal(g.errors[0].text,
                        "Watchdog caught collective operation timeout: rank 1 did not come to "
                        "all_reduce over dp within 0.02 s");
    pthread_barrier_destroy(&g.ended);
}

// ---- Messages, splits and broadcasts of the toy communicator

static status ring(const test_rank *s, err *e)
{
    status result = OK;
    const int rank = s->comm->rank, size = s->comm->size;
    float x[3] = {(float)rank, 1, 2}, y[3] = {0};
    // Even ranks send first: a send waits for its receive.
    for (int i = 0; i < 2; i++)
        if ((rank + i) % 2 == 0)
            TRY(comm_send(s->comm, x, sizeof x, (rank + 1) % size, s->stream, e));
        else
            TRY(comm_recv(s->comm, y, sizeof y, (rank + size - 1) % size, s->stream, e));
    TRY(comm_send_wait(s->comm, (rank + 1) % size, 1, s->stream, e));
    TRY(comm_broadcast(s->comm, x, sizeof x, 2, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    if (y[0] != (float)((rank + size - 1) % size) || y[2] != 2 || x[0] != 2)
        result = err_set(e, E_INTERNAL, "received %g and %g", (double)y[0], (double)x[0]);
    else if (comm_send_wait(s->comm, (rank + 1) % size, 2, s->stream, e) != E_INTERNAL)
        result = E_USAGE;
done:
    return result;
}

static void test_messages_arrive(void **state)
{
    (void)state;
    rig g = {.ranks = 4, .fn = ring};
    assert_int_equal(rig_run(&g), 0);
    g.late = true;
    assert_int_equal(rig_run(&g), 0);
}

// Rank 1 leaves without receiving.
static status unreceived(const test_rank *s, err *e)
{
    status result = OK;
    void *x = NULL;
    if (s->comm->rank == 1) return OK;
    TRY(comm_alloc(s->comm, s->device, 64, &x, e));
    TRY(comm_send(s->comm, x, 64, 1, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
done:
    if (x) comm_release(s->comm, s->device, x, 64);
    return result;
}

static void test_a_send_waits_for_its_receive(void **state)
{
    (void)state;
    rig g = {.ranks = 2, .fn = unreceived};
    assert_int_equal(rig_run(&g), 1);
    assert_string_equal(g.errors[0].text, "rank 1 left before recv over a group");
}

// All ranks send first. In a group of messages, that is no deadlock.
static status ring_of_senders(const test_rank *s, err *e)
{
    status result = OK;
    const int rank = s->comm->rank, next = (rank + 1) % s->comm->size,
              before = (rank + s->comm->size - 1) % s->comm->size;
    const bool grouped = *(const int *)s->arg == GROUPED;
    int x = rank, y = -1;
    const comm_message m[] = {comm_message_to(s->comm, &x, sizeof x, next),
                              comm_message_from(s->comm, &y, sizeof y, before)};
    TRY(comm_issue_group(m, grouped ? 2 : 1, s->stream, e));
    if (!grouped) TRY(comm_issue_group(m + 1, 1, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    if (y != before) result = err_set(e, E_INTERNAL, "received %d", y);
done:
    return result;
}

static void test_messages_of_a_group_start_together(void **state)
{
    (void)state;
    rig g = {.ranks = 3, .fn = ring_of_senders, .way = GROUPED};
    assert_int_equal(rig_run(&g), 0);
    // Without a group every rank waits for the next one, until the watchdog ends that.
    g.way = AS_PREPARED;
    g.limit_ms = 20;
    assert_int_equal(rig_run(&g), 3);
    if (!strstr(g.errors[0].text, "rank 1 did not come to recv within 0.02 s"))
        fail_msg("%s", g.errors[0].text);
}

// Even and odd ranks, in the reverse order.
static status halves(const test_rank *s, err *e)
{
    status result = OK;
    const int rank = s->comm->rank, size = s->comm->size / 2;
    comm *half = NULL;
    int64_t ranks[MOST] = {0};
    TRY(comm_split(s->comm, rank % 2, -rank, &half, e));
    ranks[half->rank] = rank;
    TRY(comm_all_gather(half, &ranks[half->rank], ranks, 1, I64, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    for (int i = 0; i < size; i++)
        if (half->size != size || ranks[i] != 2 * (size - 1 - i) + rank % 2)
            result = err_set(e, E_INTERNAL, "member %d is rank %d", i, (int)ranks[i]);
done:
    comm_close(half);
    return result;
}

static void test_splits_have_the_order_of_keys(void **state)
{
    (void)state;
    rig g = {.ranks = 6, .fn = halves};
    assert_int_equal(rig_run(&g), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed_segments_have_the_bits_of_an_all_reduce),
        cmocka_unit_test(test_one_element_a_rank),
        cmocka_unit_test(test_on_late_streams),
        cmocka_unit_test(test_a_trace_counts_packed_calls_once),
        cmocka_unit_test(test_a_wrong_offset_is_noticed),
        cmocka_unit_test(test_a_small_workspace_is_refused),
        cmocka_unit_test(test_a_list_that_has_changed_is_refused),
        cmocka_unit_test(test_types_that_cannot_be_packed_are_refused),
        cmocka_unit_test(test_a_rank_that_does_not_share_is_named),
        cmocka_unit_test(test_a_rank_that_leaves_is_named),
        cmocka_unit_test(test_a_rank_that_is_late_is_named),
        cmocka_unit_test(test_messages_arrive),
        cmocka_unit_test(test_a_send_waits_for_its_receive),
        cmocka_unit_test(test_messages_of_a_group_start_together),
        cmocka_unit_test(test_splits_have_the_order_of_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
