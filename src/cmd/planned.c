// planned.c -- see planned.h.
#include "cmd/planned.h"

#include "cmd/cmd.h"

#include "planner/cluster.h"

// The devices of a job are those of the cluster, so the cluster is opened first.
static status open_on_cluster(int argc, char **argv, const char *file, planned_job *out, err *e)
{
    status result = OK;
    const planner_machine *m = &out->machine;
    TRY(cluster_open(file, &out->machine, e));
    out->description = (job_planned){.device = m->device,
                                     .communicator = m->communicator,
                                     .ranks_per_host = m->ranks_per_host,
                                     .hosts = m->hosts,
                                     .host_bytes = m->host_bytes};
    const job_own own = {.only_plans = true, .planned = &out->description};
    TRY(cmd_open_job_own(argc, argv, &own, &out->job, e));
done:
    return result;
}

static status check_files(const machine_files *files, err *e)
{
    if (!files->cluster || !files->machine) return OK;
    return err_set(e, E_USAGE, "--cluster and --machine: found both; valid: one of them");
}

status planned_job_open_on(int argc, char **argv, const machine_files *files, planned_job *out,
                           err *e)
{
    status result = OK;
    *out = (planned_job){.job = NULL};
    TRY(check_files(files, e));
    TRY(files->cluster
            ? open_on_cluster(argc, argv, files->cluster, out, e)
            : cmd_open_job_own(argc, argv, &(job_own){.only_plans = true}, &out->job, e));
done:
    return result;
}

status planned_job_open(int argc, char **argv, const machine_files *files, planned_job *out, err *e)
{
    status result = OK;
    *out = (planned_job){.job = NULL};
    TRY(check_files(files, e));
    if (files->cluster) {
        TRY(open_on_cluster(argc, argv, files->cluster, out, e));
    } else {
        TRY(cmd_open_job(argc, argv, &out->job, e));
        TRY(session_machine_open(out->job, files->machine, &out->machine, e));
    }
done:
    return result;
}

void planned_job_close(planned_job *p)
{
    job_close(p->job);
    planner_machine_close(&p->machine);
}
