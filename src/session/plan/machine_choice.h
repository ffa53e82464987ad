// machine_choice.h -- opens the machine that a job is planned for: the one that a cluster file describes, or one whose
// rates a machine file has. The commands call it.
#ifndef TRIREME_SESSION_PLAN_MACHINE_CHOICE_H
#define TRIREME_SESSION_PLAN_MACHINE_CHOICE_H

#include "planner/machine.h"
#include "session/session.h"

// Both NULL: the machine file of this user, $XDG_CONFIG_HOME/trireme/machine.json or ~/.config/trireme/machine.json.
typedef struct machine_files {
    const char *cluster, *machine;
} machine_files;

// E_USAGE where both files are given, or none is there. The caller closes *out, also after a failure.
status session_machine_open(const job *j, const machine_files *files, planner_machine *out, err *e);
// Opens the machine of a cluster file before the job is there, and describes it for job_own.planned, which borrows from
// it. files->cluster NULL: *planned has no device name. The caller closes *out, also after a failure.
status session_machine_open_cluster(const machine_files *files, planner_machine *out,
                                    job_planned *planned, err *e);
// The machine file of this user, whether or not it exists; *out is owned by the caller. E_USAGE without a home.
status session_machine_path(char **out, err *e);

#endif
