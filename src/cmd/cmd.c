// cmd.c -- failures, help and the job's arguments, as every command has them.
#include "cmd/cmd.h"

#include "base/text.h"
#include "cmd/console.h"
#include "config/job.h"

#include <stdio.h>
#include <string.h>

int cmd_fail(const err *e)
{
    fflush(stdout);
    console_say("%s", e->text);
    return status_exit_code(e->code);
}

bool cmd_wants_help(int argc, char **argv)
{
    return argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
}

const char *cmd_job_path(int argc, char **argv)
{
    return argc > 1 && strncmp(argv[1], "--", 2) != 0 ? argv[1] : NULL;
}

const char *cmd_take_value(const char *name, int argc, char **argv, int *i)
{
    const size_t bytes = strlen(name);
    if (strncmp(argv[*i], name, bytes) != 0) return NULL;
    if (argv[*i][bytes] == '=') return argv[*i] + bytes + 1;
    if (argv[*i][bytes]) return NULL;
    return *i + 1 < argc ? argv[++*i] : "";
}

status cmd_open_job(int argc, char **argv, struct job **out, err *e)
{
    const char *path = cmd_job_path(argc, argv);
    int skip = path ? 2 : 1;
    return job_open(path, argc - skip, argv + skip, out, e);
}

int cmd_job_help(const char *usage)
{
    text t = {0};
    job_help(&t);
    printf("%s%s", usage, t.at ? t.at : "");
    text_clear(&t);
    return 0;
}
