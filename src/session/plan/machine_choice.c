// machine_choice.c -- see machine_choice.h.
#include "session/plan/machine_choice.h"

#include "base/file.h"
#include "planner/calibrated.h"

#include <stdlib.h>

status session_machine_path(char **out, err *e)
{
    status result = OK;
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    text path = {0};
    if (config && *config)
        text_addf(&path, "%s/trireme/machine.json", config);
    else if (home && *home)
        text_addf(&path, "%s/.config/trireme/machine.json", home);
    else
        FAIL(E_USAGE, "--machine: needed, as neither HOME nor XDG_CONFIG_HOME is set");
    TRY(text_take(&path, out, e));
done:
    text_clear(&path);
    return result;
}

static status open_calibrated(const job *j, const char *path, planner_machine *out, err *e)
{
    status result = OK;
    comm_description d;
    TRY(session_describe_communicator(j, j->launch.ranks, &d, e));
    TRY(calibrated_open(path, j->launch.threads_per_rank, job_local_ranks(j), d.name, out, e));
done:
    return result;
}

status session_machine_open(const job *j, const char *file, planner_machine *out, err *e)
{
    status result = OK;
    char *path = NULL;
    *out = (planner_machine){.name = NULL};
    if (!file) TRY(session_machine_path(&path, e));
    if (path && !file_exists(path))
        FAIL(E_USAGE,
             "%s: no machine file yet: `trireme bench calibrate` writes it; or give --cluster "
             "FILE or --machine FILE",
             path);
    TRY(open_calibrated(j, path ? path : file, out, e));
done:
    free(path);
    return result;
}
