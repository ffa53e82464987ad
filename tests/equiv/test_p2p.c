// test_p2p.c -- trainers over the communicator p2p, whose ranks read each other's device memory, compute
// the same bits on unkind devices as ranks of one machine on cpu devices. Steps are recorded and replayed
// where they can be. What is left out is noticed: the linker wraps the functions that the faults change.
#include "equiv/comm_compare.h"

#include "comm/p2p/p2p_private.h"
#include "unkind/unkind_sharing.h"

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { LIMIT_S = 900 };
#else
enum { LIMIT_S = 300 };
#endif

static matrix_run over_p2p(void)
{
    return (matrix_run){
        .steps = COMPARE_STEPS, .folder = pool_folder(), .unkind = true, .p2p = true};
}

static void test_every_strategy_has_the_same_bits(void **state)
{
    (void)state;
    const matrix_run there = over_p2p();
    compare_points(&there, LIMIT_S);
}

// ---- Compression, and post-forward groups

static void test_compressed_gradients_have_the_same_bits(void **state)
{
    (void)state;
    static const scenario scenarios[] = {
        {.replicate = 3, .hook = HOOK_BF16, .global = 6},
        {.shard = 2, .inner = "zero3", .hook = HOOK_POWERSGD, .sync = true},
        {.shard = 4, .inner = "zero3", .reshard = 2, .sync = true},
    };
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        scenario s = scenarios[i];
        char name[32];
        snprintf(name, sizeof name, "scenario %zu", i);
        s.unkind = s.p2p = true;
        compare_scenarios(name, &scenarios[i], &s);
    }
}

// ---- Faults

typedef enum p2p_fault {
    NO_FAULT,
    LATE_BEGIN, // ranks read before the others have written
    NO_IMPORT,  // memory is not imported
} p2p_fault;

static p2p_fault fault;

status __real_p2p_import(const p2p_comm *c, const device_handle *h, void **out, err *e);
status __wrap_p2p_import(const p2p_comm *c, const device_handle *h, void **out, err *e);
void __real_p2p_meet_streams(const p2p_comm *c, device_stream *on, p2p_phase phase);
void __wrap_p2p_meet_streams(const p2p_comm *c, device_stream *on, p2p_phase phase);

status __wrap_p2p_import(const p2p_comm *c, const device_handle *h, void **out, err *e)
{
    if (fault != NO_IMPORT) return __real_p2p_import(c, h, out, e);
    memcpy(out, h->bytes + sizeof *out, sizeof *out);
    return OK;
}

// A stream says that its array may be read, and learns of the others only after it has read theirs.
void __wrap_p2p_meet_streams(const p2p_comm *c, device_stream *on, p2p_phase phase)
{
    device_flag *mine[P2P_RANKS], *theirs[P2P_RANKS];
    const int rank = c->base.rank;
    int n = 0;
    for (int r = 0; r < c->base.size; r++) {
        if (r == rank) continue;
        mine[n] = &p2p_pair_of(c, rank, r)->meets[on->kind][PHASE_BEGIN];
        theirs[n++] = &p2p_pair_of(c, r, rank)->meets[on->kind][PHASE_BEGIN];
    }
    if (fault == LATE_BEGIN && phase == PHASE_BEGIN) {
        p2p_sharing(c)->set_flags(on, mine, n);
        return;
    }
    if (fault == LATE_BEGIN) p2p_sharing(c)->wait_flags(on, theirs, n);
    __real_p2p_meet_streams(c, on, phase);
}

static void run_with(p2p_fault f, outcome *out)
{
    const point p = comm_point("shard=3,inner=zero3");
    const matrix_run how = over_p2p();
    fault = f;
    pool_run_one(&p, &how, LIMIT_S, out);
    fault = NO_FAULT;
}

static void test_reading_too_early_changes_the_bits(void **state)
{
    (void)state;
    static outcome want, got;
    run_with(NO_FAULT, &want);
    run_with(LATE_BEGIN, &got);
    assert_int_equal(want.result, OK);
    assert_true(got.result != OK || !matrix_compare(&got, &want).same);
}

static void test_memory_that_was_not_imported_is_refused(void **state)
{
    (void)state;
    static outcome got;
    run_with(NO_IMPORT, &got);
    assert_int_not_equal(got.result, OK);
    if (!strstr(got.error, "is neither memory of this device nor its host memory"))
        fail_msg("%s", got.error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_strategy_has_the_same_bits),
        cmocka_unit_test(test_reading_too_early_changes_the_bits),
        cmocka_unit_test(test_memory_that_was_not_imported_is_refused),
        cmocka_unit_test(test_compressed_gradients_have_the_same_bits), // it starts threads
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
