// cmd.c -- failures and help, as every command has them.
#include "cmd/cmd.h"

#include "base/text.h"
#include "config/job.h"

#include <stdio.h>
#include <string.h>

int cmd_fail(const err *e)
{
    fflush(stdout);
    fprintf(stderr, "trireme: %s\n", e->text);
    return status_exit_code(e->code);
}

int cmd_job_help(const char *usage)
{
    text t = {0};
    job_help(&t);
    printf("%s%s", usage, t.at ? t.at : "");
    text_clear(&t);
    return 0;
}
