// planned.h -- opens a job together with the machine that it is planned for: the one that a cluster file describes, whose
// devices the job then has, or the one whose rates a machine file has. `plan` and `explain --time` call it.
#ifndef TRIREME_CMD_PLANNED_H
#define TRIREME_CMD_PLANNED_H

#include "session/plan/machine_choice.h"

// The job borrows from the machine, and both from this struct, which does not move while it is open.
typedef struct planned_job {
    planner_machine machine;
    job_planned description;
    job *job;
} planned_job;

// `argc` and `argv` as of cmd_open_job. The caller calls planned_job_close, also after a failure.
status planned_job_open(int argc, char **argv, const machine_files *files, planned_job *out,
                        err *e);
// The same for a command that plans with and without times: the machine is open only where it is a cluster.
status planned_job_open_on(int argc, char **argv, const machine_files *files, planned_job *out,
                           err *e);
void planned_job_close(planned_job *p);

#endif
