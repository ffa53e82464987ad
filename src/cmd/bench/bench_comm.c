// bench_comm.c -- `trireme bench all_reduce`, and the other collectives of bench_comm_calls.c: starts the ranks, or attaches
// to those that another launcher has started. Flags (bench_comm_flags.c) and
// output are those of nccl-tests, so that scripts written for it work. bench_comm_run.c measures, and
// bench_comm_print.c prints.
#include "cmd/bench/bench_comm_flags.h"

#include "base/file.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "launch/launch.h"
#include "session/join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static int cmd_bench_comm(int argc, char **argv)
{
    status result = OK;
    err failure = {0}, *e = &failure;
    session_join join;
    bool failed = false;
    size_t bytes = 0;
    bench_request q = {.what = BENCH_COLLECTIVES,
                       .least = 32 << 20,
                       .most = 32 << 20,
                       .step = 1 << 20,
                       .loop = {.iterations = 20, .warm_up = 1, .aggregate = 1, .cycles = 1},
                       .output = {.argc = argc, .argv = argv},
                       .check = true,
                       .device = "auto",
                       .comm = "auto",
                       .average = AVERAGE_MEAN};
    while (strcmp(argv[0], q.what->name) != 0) q.what++;
    TRY(join_open(&join, argc, argv, e));
    TRY(bench_comm_parse(argc, argv, &join.location, &q, e));
    // A file that cannot be written is known before anything is measured.
    err why = {0};
    if (join_follows(&join)) q.output.path = NULL;
    if (q.output.path && file_replace(q.output.path, "", 0, &why) != OK)
        FAIL(E_USAGE, "bench: -J: %s", why.text);
    bytes = sizeof *q.board + (size_t)q.ranks * sizeof *q.board->ranks;
    q.board = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (q.board == MAP_FAILED) {
        q.board = NULL;
        result = err_errno(e, "bench: cannot map the ranks' figures");
        goto done;
    }
    TRY(join_attach(&join, e));
    TRY(join_same(&join, NULL, NULL, NULL, e));
    const launch_options o = {.ranks = q.ranks, .as_threads = q.as_threads};
    TRY(join_run(&join, &o, bench_comm_run, &q, e));
    failed = q.board->wrong != 0 || bench_comm_is_slow(&q);
done:
    if (q.board) munmap(q.board, bytes);
    const int code = cmd_end(&join, result, e);
    return code ? code : failed;
}

#define COLLECTIVE(word, sentence)                                                                 \
    const command command_bench_##word = {                                                         \
        .name = #word,                                                                             \
        .run = cmd_bench_comm,                                                                     \
        .usage = "[flags]",                                                                        \
        .help = (sentence),                                                                        \
        .about =                                                                                   \
            "Times the collective between ranks of this machine and checks its result. Where "     \
            "mpirun, srun, torchrun or `trireme run` has started a process for each rank, on any " \
            "hosts, these are the ranks. Flags and output are those of nccl-tests. all_reduce "    \
            "and broadcast work in place, so "                                                     \
            "their out-of-place time includes a copy. The exit code is 1 when a rank failed or "   \
            "a result was wrong, or the mean bandwidth below nine tenths of the GB/s of "          \
            "NCCL_TESTS_MIN_BW.",                                                                  \
        .flags = BENCH_COMM_FLAGS,                                                                 \
        .flag_count = BENCH_COMM_FLAG_COUNT,                                                       \
    }

COLLECTIVE(all_reduce, "Measures sums (or extremes) that every rank receives.");
COLLECTIVE(reduce_scatter, "Measures sums of which every rank receives its shard.");
COLLECTIVE(all_gather, "Measures gathering the shards of all ranks on every rank.");
COLLECTIVE(broadcast, "Measures one rank sending to all others.");
COLLECTIVE(reduce, "Measures sums (or extremes) that one rank receives.");
COLLECTIVE(alltoall, "Measures every rank sending a shard to every other.");
COLLECTIVE(scatter, "Measures one rank sending a shard to every other.");
COLLECTIVE(gather, "Measures one rank receiving the shards of all others.");
COLLECTIVE(hypercube, "Measures gathering in rounds of pairs, on a power of two of ranks.");
COLLECTIVE(sendrecv, "Measures every rank sending to the next.");
