// bench.c -- `trireme bench`: measurements, one sub-command each.
#include "cmd/cmd.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

typedef struct bench {
    const char *name;
    int (*run)(int argc, char **argv);
} bench;

int cmd_bench(int argc, char **argv)
{
    static const bench benches[] = {
        {"train", cmd_bench_train},         {"all_reduce", cmd_bench_comm},
        {"reduce_scatter", cmd_bench_comm}, {"all_gather", cmd_bench_comm},
        {"broadcast", cmd_bench_comm},      {"sendrecv", cmd_bench_comm},
        {"tier", cmd_bench_tier},           {"pipeline", cmd_bench_pipeline},
    };
    enum { BENCHES = sizeof benches / sizeof *benches };
    const char *names[BENCHES];
    err e = {0};
    bool help = cmd_wants_help(argc, argv);
    for (int i = 0; i < BENCHES; i++) {
        names[i] = benches[i].name;
        if (help)
            printf("trireme bench %s --help\n", names[i]);
        else if (argc > 1 && strcmp(argv[1], names[i]) == 0)
            return benches[i].run(argc - 1, argv + 1);
    }
    if (help) return 0;
    const char *near = argc > 1 ? text_nearest(argv[1], names, BENCHES) : NULL;
    err_set(&e, E_USAGE,
            "bench: found '%s'; valid: train, all_reduce, reduce_scatter, all_gather, broadcast, "
            "sendrecv, tier, pipeline%s%s%s",
            argc > 1 ? argv[1] : "", near ? "; did you mean " : "", near ? near : "",
            near ? "?" : "");
    return cmd_fail(&e);
}
