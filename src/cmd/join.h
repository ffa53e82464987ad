// join.h -- the processes of one command that another launcher has started, each with its ranks: they attach to each
// other, the process of rank 0 decides, and the others take what it has decided. Where the command was started once, the
// same calls leave everything to its one process.
#ifndef TRIREME_CMD_JOIN_H
#define TRIREME_CMD_JOIN_H

#include "base/text.h"
#include "config/job.h"
#include "launch/launch.h"
#include "session/session.h"

typedef struct cmd_join {
    launcher_place place;
    text line;      // the arguments of this process, each with its final 0
    world *world;   // NULL: this process starts all ranks
    job_own own;    // what the launcher decides of a job
    bool has_run;   // launch_ranks was called, which tells the others of a failure
    int first_rank; // the rank whose failure ended the command; -1: no single one
} cmd_join;

// Finds the place of this process. `argv` is that of the command. The caller calls join_end also after a failure.
status join_open(cmd_join *c, int argc, char **argv, err *e);
// Attaches to the other processes, where there are any. Collective over all starting processes.
status join_attach(cmd_join *c, err *e);
// Attaches the processes of the ranks below `ranks` for a part of a command whose processes have met before; parts have
// numbers of their own. *takes_part false: this process has none of these ranks. The caller closes *out with join_close,
// also after a failure. Collective over the processes of these ranks.
status join_part(const cmd_join *c, int ranks, int number, cmd_join *out, bool *takes_part, err *e);
// Does this process take what rank 0's has decided?
bool join_follows(const cmd_join *c);

// Rank 0's process tells the others the job (NULL: there is none) and data [bytes]; these open the job as it has resolved
// it, get a copy of the data, and open with them what they need (`opens`, which may be NULL). The first process of a host
// has opened that before the others of its host are told: a file that the host lacks is said by its first rank. With
// `records`, each rank's last calls are recorded (world_record). Without other processes join_tell does nothing. The caller
// closes *j and clears *data.
typedef status join_opens(void *arg, job *j, const text *data, err *e);
status join_tell(const cmd_join *c, const job *j, bool records, const void *data, size_t bytes,
                 err *e);
status join_hear(const cmd_join *c, join_opens *opens, void *arg, job **j, text *data, err *e);
// Both for a command whose processes have one command line: rank 0's has opened *j (NULL: it has no job) and its inputs,
// the others open both (in NULL: there are none). E_USAGE where the command lines differ. Collective over all starting
// processes.
status join_same(const cmd_join *c, job **j, session_inputs *in, err *e);
// Opens the job of "JOB.yaml [--key value ...]" with the model of a folder and its inputs, in which `valid` is then the
// job's validation data, or else its training data. Prints warnings. The caller closes both. Collective as join_same.
status join_open_model(const cmd_join *c, int argc, char **argv, const char *folder, job **j,
                       session_inputs *in, err *e);

// launch_ranks with the ranks of this process.
status join_run(cmd_join *c, const launch_options *o, launch_rank_main fn, void *arg, err *e);
// Tells the other processes of a failure before join_run. Returns the status of the command's first failure, with its
// text, which may be another process's.
status join_fail(cmd_join *c, status result, err *e);
void join_close(cmd_join *c);
// Prints the failure, tells it to the launcher, closes everything, and returns the exit code.
int join_end(cmd_join *c, status result, err *e);

#endif
