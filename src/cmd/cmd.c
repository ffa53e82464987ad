// cmd.c -- failures and the job's arguments, as every command has them.
#include "cmd/cmd.h"

#include "config/job.h"

#include <stdio.h>
#include <stdlib.h>
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
    return job_open(path, argc - skip, argv + skip, out, e);
}

status cmd_use_model(struct job *j, const char *folder, err *e)
{
    status result = OK;
    model_config c;
    TRY(model_config_read(folder, &c, e));
    if (c.family != j->model.config.family)
        FAIL(E_USAGE, "%s: a %s model, the job's is %s", folder, family_name(c.family),
             family_name(j->model.config.family));
    j->model.config = c;
    free(j->model.path);
    j->model.path = text_copy(folder);
    j->model.has_weights = true;
done:
    return result;
}
