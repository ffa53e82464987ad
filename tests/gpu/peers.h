// peers.h -- the cases of communicators between devices (tests/unit/comm/p2p_cases.h) on the cuda device of the stand-in.
#ifndef TESTS_GPU_PEERS_H
#define TESTS_GPU_PEERS_H

#include "../unit/comm/p2p_cases.h"

static status open_device(int rank, int order, device **out, err *e)
{
    status result = OK;
    device_description d;
    device_options o = {.local_rank = rank, .local_ranks = MOST};
    (void)order; // the environment says it
    TRY(device_describe("cuda", &o, &d, e));
    o.index = rank % d.count;
    TRY(device_open("cuda", &o, out, e));
done:
    return result;
}

// The stand-in ends the process where a rule is broken.
static const char *broken_rule(const device *d)
{
    (void)d;
    return NULL;
}

#endif
