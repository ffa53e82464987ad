// comm_compare.h -- for tests: trainers over another communicator compute the bits of the communicator of one machine.
#ifndef TRIREME_TESTS_COMM_COMPARE_H
#define TRIREME_TESTS_COMM_COMPARE_H

#include "equiv/matrix_pool.h"
#include "late/late_queue.h"
#include "sanitized.h"
#include "workers.h"

// Every policy, both levels of sharding, every axis, tiers, precisions and parameter groups.
static const char *const COMM_POINT[] = {
    "replicate=3",
    "shard=3,inner=zero1",
    "shard=3,inner=zero2,precision=bf16",
    "shard=4,inner=zero3",
    "shard=2,inner=zero2,no_sync=false",
    "shard=2,inner=zero3,no_sync=false,reshard=0",
    "replicate=2,shard=2,outer=ddp,inner=zero3",
    "replicate=2,shard=3,outer=zero1,inner=zero3",
    "tp=2",
    "tp=2sp,shard=2,inner=zero2",
    "cp=2",
    "cp=4,precision=bf16",
    "cp=2,shard=2,inner=zero3,recompute=full",
    "model=llama,cp=2,tp=2,shard=2,inner=zero1",
    "shard=2,inner=zero3,file=ogw",
    "shard=2,inner=zero3,precision=fp16,groups=mlp_ddp",
    "pp=2",
    "pp=4,micros=8",
    "pp=2,schedule=gpipe",
    "pp=2,schedule=interleaved",
    "pp=4,schedule=zb",
    "pp=2,shard=2,inner=zero3,schedule=interleaved,groups=frozen",
    "model=llama_tied,pp=2,cp=2,tp=2,inner=zero1,schedule=zb",
};

enum { COMM_POINTS = sizeof COMM_POINT / sizeof *COMM_POINT };

static inline point comm_point(const char *name)
{
    point p;
    if (!matrix_parse(name, &p) || !matrix_legal(&p)) fail_msg("%s is no point", name);
    return p;
}

enum { COMPARE_STEPS = 4 };

// Every point, run as `there` says and over the communicator of one machine. Late streams run in one of their
// two orders, by turns. Under a sanitizer none is compared, and under that of threads a point
// over the toy communicator has late streams or not.
static inline void compare_points(const matrix_run *there, int limit_s)
{
    static outcome want, got;
    const matrix_run here = {.steps = there->steps, .folder = there->folder};
    matrix_run run = *there;
    for (size_t i = 0; i < COMM_POINTS; i++) {
        const point p = comm_point(COMM_POINT[i]);
        if (there->toy && !workers_take(i, there->late)) continue;
        run.late_order = i % 2 ? LATE_OTHERS_LAST : LATE_OTHERS_FIRST;
        pool_run_one(&p, &run, limit_s, &got);
        if (SANITIZED && got.result == OK) continue;
        pool_run_one(&p, &here, limit_s, &want);
        if (want.result != OK || got.result != OK)
            fail_msg("%s: %s%s", COMM_POINT[i], want.error, got.error);
        if (!matrix_compare(&got, &want).same) fail_msg("%s: the bits differ", COMM_POINT[i]);
    }
}

typedef struct compare_losses {
    double of[COMPARE_STEPS];
} compare_losses;

static inline status compare_train(worker_group *all, int rank, golden *g, trainer *t, err *e)
{
    status result = OK;
    compare_losses *x = all->given;
    trainer_step_result r;
    (void)g;
    for (int i = 0; i < COMPARE_STEPS; i++) {
        TRY(trainer_step(t, false, &r, e));
        if (rank == 0) x->of[i] = r.loss;
    }
    TRY(trainer_check_replicas(t, e));
done:
    return result;
}

// The losses of `here` and of `there`, which differ in the communicator.
static inline void compare_scenarios(const char *name, const scenario *here, const scenario *there)
{
    compare_losses want = {{0}}, got = {{0}};
    workers_run(name, there, false, compare_train, &got);
    if (SANITIZED) return;
    workers_run(name, here, false, compare_train, &want);
    if (memcmp(&want, &got, sizeof want) != 0) fail_msg("%s: the bits differ", name);
}

#endif
