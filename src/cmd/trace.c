// trace.c -- `trireme trace`: what can be done with the recorded steps of a run.
#include "cmd/command.h"

#include <stddef.h>

static const command *const TRACES[] = {&command_trace_report, NULL};

const command command_trace = {
    .name = "trace",
    .help = "Reads the recorded steps of a run.",
    .subcommands = TRACES,
};
