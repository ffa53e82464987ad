// bench_attach.h -- a benchmark whose processes another launcher has started: each is one rank, as for `trireme train`.
#ifndef TRIREME_CMD_BENCH_ATTACH_H
#define TRIREME_CMD_BENCH_ATTACH_H

#include "launch/launch.h"

// Attaches to the other processes of p, whose command lines must be equal to this one's. The caller passes *out to
// launch_ranks and closes it. E_USAGE, E_PEER. Collective over the processes of p.
status bench_attach(const launcher_place *p, int argc, char **argv, world **out, err *e);

#endif
