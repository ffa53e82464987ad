// comm_points.h -- the points of the matrix that tests of a communicator run: every policy, both levels of
// sharding, every axis, tiers, precisions and parameter groups.
#ifndef TRIREME_TESTS_EQUIV_COMM_POINTS_H
#define TRIREME_TESTS_EQUIV_COMM_POINTS_H

#include "equiv/matrix_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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

#endif
