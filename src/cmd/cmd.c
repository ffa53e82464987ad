// cmd.c -- failures and the job's arguments, as every command has them.
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

const char *cmd_job_path(int argc, char **argv)
{
    return argc > 1 && strncmp(argv[1], "--", 2) != 0 ? argv[1] : NULL;
}

status cmd_open_job(int argc, char **argv, struct job **out, err *e)
{
    const char *path = cmd_job_path(argc, argv);
    int skip = path ? 2 : 1;
    if (argc < 2)
        return err_set(e, E_USAGE, "%s: the job file is missing: trireme %s JOB.yaml", argv[0],
                       argv[0]);
    const status result = job_open(path, argc - skip, argv + skip, out, e);
    if (result == OK) cmd_warn((*out)->warnings.at);
    return result;
}

void cmd_warn(const char *lines)
{
    while (lines && *lines) {
        const size_t bytes = strcspn(lines, "\n");
        fprintf(stderr, "trireme: warning: %.*s\n", (int)bytes, lines);
        lines += bytes + (lines[bytes] == '\n');
    }
}

json_t *json_of_text(const char *s)
{
    text kept = {0};
    text_add(&kept, "");
    for (size_t good; *s; s += good + (s[good] != 0)) {
        if (text_is_utf8(s, strlen(s), &good)) good = strlen(s);
        text_add_bytes(&kept, s, good);
    }
    json_t *j = json_string(kept.at);
    text_clear(&kept);
    return j;
}
