// bench_comm_flags.h -- the flags of `trireme bench all_reduce …`. Private to bench_comm*.c.
#ifndef TRIREME_CMD_BENCH_COMM_FLAGS_H
#define TRIREME_CMD_BENCH_COMM_FLAGS_H

#include "cmd/bench/bench_comm.h"
#include "cmd/flags.h"
#include "launch/launcher.h"

enum { BENCH_COMM_FLAG_COUNT = 35 };
extern const flag BENCH_COMM_FLAGS[BENCH_COMM_FLAG_COUNT];

// Changes *q, which has the defaults, as the flags and the environment say. `p` is the place of this process. E_USAGE.
status bench_comm_parse(int argc, char **argv, const launcher_location *p, bench_request *q,
                        err *e);

#endif
