// join.h -- the processes of one program that another launcher has started, each with its ranks: they attach to each
// other, the process of rank 0 decides, and the others receive what it has decided. Where the program was started once,
// the same calls leave everything to its one process.
#ifndef TRIREME_SESSION_JOIN_H
#define TRIREME_SESSION_JOIN_H

#include "base/text.h"
#include "config/job.h"
#include "launch/launch.h"
#include "session/session.h"

typedef struct session_join {
    launcher_location location;
    text line;      // the arguments of this process, each with its final 0
    world *world;   // NULL: this process starts all ranks
    job_own own;    // what the launcher decides of a job
    bool has_run;   // launch_ranks was called, which tells the others of a failure
    int first_rank; // the rank whose failure ended the run; -1: no single one
} session_join;

// Finds the place of this process. `argv` is that of the command, which join_same compares. The caller calls join_end,
// also after a failure.
status join_open(session_join *c, int argc, char **argv, err *e);
// Attaches to the other processes, where there are any. Collective over all starting processes.
status join_attach(session_join *c, err *e);
// Attaches the processes of the ranks below `ranks` for a part of a command whose processes have attached before; parts
// have numbers of their own. *takes_part false: this process has none of these ranks. The caller closes *out with join_close,
// also after a failure. Collective over the processes of these ranks.
status join_part(const session_join *c, int ranks, int number, session_join *out, bool *takes_part,
                 err *e);
// Returns whether this process receives what rank 0's has decided.
bool join_follows(const session_join *c);

// Rank 0's process gives the others the job (NULL: there is none) and data [bytes]; these open the job as it has resolved
// it, get a copy of the data, and open with them what they need (`opens`, which may be NULL). The first process of a host
// has opened that before the others of its host receive it: the first rank of a host names a file that the host lacks.
// With `records`, each rank's last calls are recorded (comm_recorder_open). Without other processes join_broadcast does nothing.
// The caller closes *j and clears *data.
typedef status join_opens(void *arg, job *j, const text *data, err *e);
status join_broadcast(const session_join *c, const job *j, bool records, const void *data,
                      size_t bytes, err *e);
status join_receive(const session_join *c, join_opens *opens, void *arg, job **j, text *data,
                    err *e);
// Both for processes of one command line: rank 0's has opened *j (NULL: it has no job) and its inputs, the others open
// both (in NULL: there are none), with this model (NULL: the job's). E_USAGE where the command lines
// differ. Collective over all starting processes.
status join_same(const session_join *c, const session_model_names *names, job **j,
                 session_inputs *in, err *e);

// launch_ranks with the ranks of this process.
status join_run(session_join *c, const launch_options *o, launch_rank_main fn, void *arg, err *e);
// Tells the other processes of a failure before join_run. Returns the status of the run's first failure, with its text,
// which may be another process's.
status join_fail(session_join *c, status result, err *e);
void join_close(session_join *c);
// Does both, and writes a failure to the file in which the launcher looks for it.
status join_end(session_join *c, status result, err *e);

#endif
