// ref_peers.c -- reference of K_REDUCE: the tree of base/reduce.h, which the communicator of one machine
// uses, too.
#include "device/cpu/ref/ref.h"

void ref_reduce(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_reduce_args *p = args;
    if (p->count > 0)
        reduce_arrays(p->out, p->outs, p->in, p->ranks, (size_t)p->count, p->type, p->op);
}
