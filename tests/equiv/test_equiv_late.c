// test_equiv_late.c -- sharded, pipelined and offloaded training on devices whose streams run late
// and in the least convenient order. The results must have the same bits. A second test leaves out
// each event wait of each instruction in turn, which must change the results.
#include "equiv/matrix_pool.h"

#include "late/late_device.h"
#include "sanitized.h"
#include "train/trainer_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { LIMIT_S = 900, PATIENCE_MS = 60000, FEW = true, FLOOR = 5 };
#else
enum { LIMIT_S = 600, PATIENCE_MS = 5000, FEW = false, FLOOR = 22 };
#endif

static const char *const SAME[] = {
    "shard=2,inner=zero3",
    "shard=2,inner=zero3,model=llama,no_sync=true,reshard=0",
    "shard=3,inner=zero3,micros=1,precision=bf16",
    "shard=2,inner=zero2,no_sync=true,micros=1",
    "replicate=2,shard=2,outer=ddp,inner=zero3",
    "replicate=2,shard=2,outer=zero3,inner=zero3,micros=1",
    "pp=2",
    "pp=2,model=llama_tied,schedule=zb,micros=8",
    "pp=4,schedule=gpipe,recompute=full",
    "pp=2,schedule=interleaved",
    "pp=2,shard=2,inner=zero3,schedule=zb",
    "tp=2sp,pp=2",
    "tp=2sp,no_sync=false", // passes and gradients use tp at the same time
    "cp=2,inner=zero3,no_sync=false",
    "cp=2,tp=2sp,pp=2,groups=frozen",
    "shard=2,inner=zero1,file=o",
    "shard=2,inner=zero3,file=ogw",
    "file=og,micros=3",
    "pp=2,shard=2,inner=zero3,file=ogw,micros=3",
    "file=ogw_host_apart,micros=3",
    "shard=2,inner=zero3,file=ogw_host_apart,precision=bf16",
    "shard=2,inner=zero3,file=ogw_file_apart,micros=3",
    "shard=2,inner=zero3,file=ogw_host_apart_update,micros=3",
    "shard=2,inner=zero3,file=og_host_apart_update,precision=bf16",
    "file=og_host_apart_update",
};

static void test_late_streams_give_the_same_bits(void **state)
{
    (void)state;
    enum { POINTS = sizeof SAME / sizeof *SAME };
    trial t[2 * POINTS] = {{.passed = false}};
    char name[MATRIX_NAME];
    int count = 0;
    for (int i = 0; i < POINTS; i++)
        for (int order = LATE_OTHERS_FIRST; order <= LATE_OTHERS_LAST; order++) {
            if (SANITIZED && order % 2 == i % 2) continue;
            t[count] = (trial){.late = true, .late_order = order};
            if (!matrix_parse(SAME[i], &t[count].point) || !matrix_legal(&t[count].point))
                fail_msg("%s is no point", SAME[i]);
            count++;
        }
    const pool_options o = {.jobs = 2, .limit_s = LIMIT_S, .folder = pool_folder()};
    const int failed = pool_run(&o, t, count);
    for (int i = 0; i < count; i++) {
        matrix_print(&t[i].point, name);
        if (!t[i].passed) print_error("%s, order %d: %s\n", name, t[i].late_order, t[i].why);
    }
    assert_int_equal(failed, 0);
}

// ---- Leaves out the n-th wait of every instruction of one kind

enum { WAITS = 6 };

typedef struct site {
    int kind, wait;
} site;

typedef struct forgetful {
    device_ops ops;
    const device_ops *real;
} forgetful;

static site forgotten;                              // the wait that is left out; kind -1: none
static bool (*seen)[INSTRS][WAITS];                 // the waits of all processes
static __thread site now = {.kind = -1, .wait = 0}; // this rank's instruction and its next wait

// Counts this wait of the instruction. Returns whether it is the one to leave out.
static bool forgets(void)
{
    const int kind = now.kind, wait = now.wait < WAITS ? now.wait : WAITS - 1;
    now.wait++;
    if (kind >= 0) (*seen)[kind][wait] = true;
    return kind >= 0 && kind == forgotten.kind && wait == forgotten.wait;
}

static void forget_wait(device_stream *s, device_event *v)
{
    if (!forgets()) ((const forgetful *)s->device->ops)->real->wait(s, v);
}

static void forget_event_sync(device_event *v)
{
    if (!forgets()) ((const forgetful *)v->device->ops)->real->event_sync(v);
}

static void opened(device *d, int rank)
{
    (void)rank;
    forgetful *mine = malloc(sizeof *mine);
    if (!mine) abort();
    *mine = (forgetful){.ops = *d->ops, .real = d->ops};
    mine->ops.wait = forget_wait;
    mine->ops.event_sync = forget_event_sync;
    d->ops = &mine->ops;
}

static void closing(device *d, int rank)
{
    (void)rank;
    forgetful *mine = (forgetful *)(uintptr_t)d->ops;
    d->ops = mine->real;
    free(mine);
}

#define OBSERVED(name)                                                                             \
    status __real_##name(trainer *t, const schedule_instr *x, err *e);                             \
    status __wrap_##name(trainer *t, const schedule_instr *x, err *e);                             \
    status __wrap_##name(trainer *t, const schedule_instr *x, err *e)                              \
    {                                                                                              \
        now = (site){x->kind, 0};                                                                  \
        const status result = __real_##name(t, x, e);                                              \
        now.kind = -1;                                                                             \
        return result;                                                                             \
    }
OBSERVED(run_load_batch)
OBSERVED(run_load_step)
OBSERVED(run_swap_in)
OBSERVED(run_swap_out)
OBSERVED(run_unshard)
OBSERVED(run_alloc_grad)
OBSERVED(run_recv_act)
OBSERVED(run_forward)
OBSERVED(run_send_act)
OBSERVED(run_recv_grad)
OBSERVED(run_backward)
OBSERVED(run_backward_input)
OBSERVED(run_backward_weight)
OBSERVED(run_send_grad)
OBSERVED(run_reduce_tied_grad)
OBSERVED(run_reduce_grad)
OBSERVED(run_clip_grad_norm)
OBSERVED(run_optimizer_step)

static outcome *run_without(const point *p, int order, site s)
{
    const matrix_run how = {.steps = 3,
                            .late = true,
                            .late_order = order,
                            .folder = pool_folder(),
                            // With all waits in place, a rank may only wait for a processor.
                            .patience_ms = s.kind < 0 ? 0 : PATIENCE_MS,
                            .opened = opened,
                            .closing = closing};
    outcome *out = malloc(sizeof *out);
    assert_non_null(out);
    forgotten = s;
    pool_run_one(p, &how, LIMIT_S, out);
    return out;
}

static bool shows(const point *p, site s, const outcome *want)
{
    bool differs = false;
    for (int order = LATE_OTHERS_FIRST; order <= LATE_OTHERS_LAST && !differs; order++) {
        outcome *out = run_without(p, order, s);
        differs = out->result != OK || !matrix_compare(out, want).same;
        free(out);
    }
    return differs;
}

// Leaves out every wait of this point in turn and records which omissions change the result. A wait
// that another wait covers does not: CLIP_GRAD_NORM follows REDUCE_GRAD, which has waited for the passes.
static void try_point(const char *name, bool noticed[INSTRS][WAITS], bool tried[INSTRS][WAITS])
{
    point p;
    if (!matrix_parse(name, &p) || !matrix_legal(&p)) fail_msg("%s is no point", name);
    memset(seen, 0, sizeof *seen);
    outcome *want = run_without(&p, LATE_OTHERS_FIRST, (site){-1, 0});
    if (want->result != OK) fail_msg("%s: %s", name, want->error);
    bool there[INSTRS][WAITS];
    memcpy(there, *seen, sizeof there);
    for (int k = 0; k < INSTRS; k++)
        for (int w = 0; w < WAITS; w++) {
            if (!there[k][w] || noticed[k][w]) continue;
            tried[k][w] = true;
            noticed[k][w] = shows(&p, (site){k, w}, want);
        }
    free(want);
}

static void test_a_missing_wait_is_noticed(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); // a missing wait is a data race, which the sanitizer reports
#endif
    static const char *const points[] = {
        "shard=2,inner=zero3,file=ogw,micros=3",
        "shard=2,inner=zero3,file=ogw_host_apart,micros=3",
        "shard=2,inner=zero3,file=ogw_file_apart,micros=3",
        "pp=2,schedule=zb",
        "pp=2,shard=2,inner=zero3",
        "shard=2,inner=zero2,micros=1",
        "file=og,micros=3",
        "file=ogw_host_apart,micros=3",
        "file=ogw_host_apart_update",
        "replicate=2,shard=2,outer=ddp,inner=zero3,model=llama",
    };
    bool noticed[INSTRS][WAITS] = {{false}}, tried[INSTRS][WAITS] = {{false}};
    int found = 0, count = 0;
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(seen != MAP_FAILED);
    for (size_t i = 0; i < (FEW ? 1 : sizeof points / sizeof *points); i++)
        try_point(points[i], noticed, tried);
    for (int k = 0; k < INSTRS; k++)
        for (int w = 0; w < WAITS; w++) {
            found += noticed[k][w];
            count += tried[k][w];
            if (tried[k][w] && !noticed[k][w])
                print_message("wait %d of %s can be left out\n", w,
                              instr_name((schedule_instr_kind)k));
        }
    print_message("%d of %d waits are noticed when they are left out\n", found, count);
    munmap(seen, sizeof *seen);
    assert_true(found >= FLOOR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_streams_give_the_same_bits),
        cmocka_unit_test(test_a_missing_wait_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
