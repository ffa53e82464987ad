// version.c -- `trireme version`. `trireme --version` prints the same line.
#include "cmd/cmd.h"
#include "cmd/command.h"

#include <stdio.h>

typedef struct version_request {
    bool json;
} version_request;

static const flag flags[] = {
    {"--json", FLAG_SWITCH, offsetof(version_request, json), NULL, "Prints one JSON object."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

static int cmd_version(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    version_request r = {.json = false};
    TRY(flags_parse(flags, FLAGS, argc, argv, &r, NULL, e));
    printf(r.json ? "{\"version\":\"%s\"}\n" : "trireme %s\n", TRIREME_VERSION);
done:
    return result == OK ? 0 : cmd_fail(e);
}

const command command_version = {
    .name = "version",
    .run = cmd_version,
    .usage = "[--json]",
    .help = "Prints the version of the program.",
    .flags = flags,
    .flag_count = FLAGS,
};
