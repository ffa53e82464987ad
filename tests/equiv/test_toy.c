// test_toy.c -- trainers over the toy communicator, which packs shards and works on streams, compute the
// same bits as over the communicator of one machine, which reads the memory of other ranks; test_equiv_unkind has
// points that cover the whole matrix. What is
// left out or wrong is noticed: the linker wraps the functions that the faults change.
#include "equiv/comm_compare.h"
#include "late/late_device.h"

#include "comm/packed.h"

enum { LIMIT_S = 900 };

static void test_every_strategy_has_the_same_bits(void **state)
{
    (void)state;
    compare_points(&(matrix_run){.steps = COMPARE_STEPS, .folder = pool_folder(), .toy = true},
                   LIMIT_S);
}

static void test_late_streams_have_the_same_bits(void **state)
{
    (void)state;
    compare_points(
        &(matrix_run){.steps = COMPARE_STEPS, .folder = pool_folder(), .toy = true, .late = true},
        LIMIT_S);
}

// ---- Compression, and post-forward groups

static void test_compressed_gradients_have_the_same_bits(void **state)
{
    (void)state;
    static const scenario scenarios[] = {
        {.replicate = 3, .hook = HOOK_BF16, .global = 6},
        {.shard = 3, .inner = "zero2", .reduce = BF16, .sync = true, .global = 6},
        {.shard = 2, .inner = "zero3", .hook = HOOK_POWERSGD, .sync = true},
        {.replicate = 2, .shard = 2, .inner = "zero1", .hook = HOOK_POWERSGD, .feedback = true},
        {.shard = 4, .inner = "zero3", .reshard = 2, .sync = true, .evaluates = true},
    };
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        scenario s = scenarios[i];
        char name[32];
        snprintf(name, sizeof name, "scenario %zu", i);
        s.toy = true;
        compare_scenarios(name, &scenarios[i], &s);
    }
}

// ---- Faults

typedef enum toy_fault {
    NO_FAULT,
    WRONG_OFFSET,    // rank 0 packs one shard an element too far
    STALE_TABLE,     // the table of a list is of another list
    SMALL_WORKSPACE, // half of what is needed
    NOT_SHARED,      // rank 1 does not share its memory
} toy_fault;

static toy_fault fault;

status __real_comm_packing_start(comm_packing *x, kernel_segment *table, kernel_segment *host,
                                 void *const workspace[STREAMS], const size_t bytes[STREAMS],
                                 device_stream *on, err *e);
status __wrap_comm_packing_start(comm_packing *x, kernel_segment *table, kernel_segment *host,
                                 void *const workspace[STREAMS], const size_t bytes[STREAMS],
                                 device_stream *on, err *e);
status __real_comm_packing_add(comm_packing *x, const comm_packed_call *c, err *e);
status __wrap_comm_packing_add(comm_packing *x, const comm_packed_call *c, err *e);
size_t __real_comm_packing_workspace_bytes(const comm_packing *x, device_stream_kind k);
size_t __wrap_comm_packing_workspace_bytes(const comm_packing *x, device_stream_kind k);
status __real_comm_issue(comm *c, const comm_call *call, device_stream *on, err *e);
status __wrap_comm_issue(comm *c, const comm_call *call, device_stream *on, err *e);

status __wrap_comm_packing_start(comm_packing *x, kernel_segment *table, kernel_segment *host,
                                 void *const workspace[STREAMS], const size_t bytes[STREAMS],
                                 device_stream *on, err *e)
{
    const status result = __real_comm_packing_start(x, table, host, workspace, bytes, on, e);
    if (fault == WRONG_OFFSET) table[0].dst++; // the cpu device: the host can address the table
    return result;
}

status __wrap_comm_packing_add(comm_packing *x, const comm_packed_call *c, err *e)
{
    comm_packed_call other = *c;
    if (fault == STALE_TABLE && c->call.segments > 0) other.call.segments--;
    return __real_comm_packing_add(x, &other, e);
}

size_t __wrap_comm_packing_workspace_bytes(const comm_packing *x, device_stream_kind k)
{
    return __real_comm_packing_workspace_bytes(x, k) / (fault == SMALL_WORKSPACE ? 2 : 1);
}

status __wrap_comm_issue(comm *c, const comm_call *call, device_stream *on, err *e)
{
    if (fault == NOT_SHARED && call->kind == CALL_SHARE && c->rank == 1) return OK;
    return __real_comm_issue(c, call, on, e);
}

static void run_with(toy_fault f, outcome *out)
{
    const point p = comm_point("shard=3,inner=zero3");
    const matrix_run how = {.steps = COMPARE_STEPS, .folder = pool_folder(), .toy = true};
    fault = f;
    pool_run_one(&p, &how, LIMIT_S, out);
    fault = NO_FAULT;
}

static void check_refused(toy_fault f, const char *line)
{
    static outcome got;
    run_with(f, &got);
    assert_int_not_equal(got.result, OK);
    if (!strstr(got.error, line)) fail_msg("\"%s\" has no \"%s\"", got.error, line);
}

static void test_a_wrong_offset_changes_the_bits(void **state)
{
    (void)state;
    static outcome want, got;
    run_with(NO_FAULT, &want);
    run_with(WRONG_OFFSET, &got);
    assert_int_equal(want.result, OK);
    assert_true(got.result != OK || !matrix_compare(&got, &want).same);
}

static void test_a_stale_table_is_refused(void **state)
{
    (void)state;
    check_refused(STALE_TABLE, "no segment table was prepared for this list");
}

static void test_a_small_workspace_is_refused(void **state)
{
    (void)state;
    check_refused(SMALL_WORKSPACE, "over dp_shard: the workspace has ");
}

static void test_a_rank_that_does_not_share_is_named(void **state)
{
    (void)state;
    check_refused(NOT_SHARED, "calls share while rank 1 calls ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_strategy_has_the_same_bits),
        cmocka_unit_test(test_late_streams_have_the_same_bits),
        cmocka_unit_test(test_a_wrong_offset_changes_the_bits),
        cmocka_unit_test(test_a_stale_table_is_refused),
        cmocka_unit_test(test_a_small_workspace_is_refused),
        cmocka_unit_test(test_a_rank_that_does_not_share_is_named),
        cmocka_unit_test(test_compressed_gradients_have_the_same_bits), // it starts threads
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
