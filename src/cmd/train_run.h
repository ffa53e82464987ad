// train_run.h -- one run of `trireme train`: its start in the starting process (start.c), and its
// log, progress, evaluations and checkpoints on each rank (train_run.c).
#ifndef TRIREME_CMD_TRAIN_RUN_H
#define TRIREME_CMD_TRAIN_RUN_H

#include "cmd/join.h"
#include "monitor/log.h"
#include "monitor/progress.h"
#include "session/session.h"

// What the starting process decides before any rank runs. Ranks only read it. Where another launcher has started a
// process for each rank, each has its own, and rank 0's decides.
typedef struct train_start {
    job *job;
    session_inputs inputs;
    char *resume; // checkpoint folder to resume from, or NULL
    uint64_t resume_step;
    bool is_own;  // `resume` is a checkpoint of train.out, whose log continues
    bool is_done; // the checkpoint already has all steps of the job
    char *log_path;
    double began;      // clock_seconds when the program started
    int lock;          // descriptor that holds the lock of the run's folder; -1: none
    bool counts_links; // its file system counts links: a folder with none was removed
    bool opened;       // this process may write into the run's folder
    cmd_join join;     // with the processes of another launcher
} train_start;

// Finds the place of this process and attaches to the others, where another launcher has started it. Then the process
// of rank 0, or the only one, reads the job, checks all inputs, chooses the checkpoint to resume from, and only
// then writes to the run's folder. Errors leave the folder as it was. The other processes follow it. Collective over all
// starting processes.
status train_start_open(train_start *s, int argc, char **argv, err *e);
// Prints that the run has all its steps already.
void train_start_print_done(const train_start *s);
// E_IO when the run's folder was removed, because everything written from now on would be lost, and when another run
// has begun to write there.
status train_start_check_folder(const train_start *s, err *e);
void train_start_log_error(const train_start *s, const err *why); // the error event of log.jsonl
void train_start_close(train_start *s);

// One rank of the run. Rank 0 writes the log and the progress.
typedef struct train_run {
    const train_start *start;
    const job *job;
    world *world;
    int rank, ranks;
    session session;
    log_file *log;
    progress progress;
    double matmul_rate; // FLOP/s of this rank's device, the largest measured; 0: not measured yet
    bool explained_mfu; // on the progress line
    uint64_t saved_step;
    bool has_saved;
} train_run;

status train_run_open(train_run *r, const train_start *s, world *w, int rank, int ranks, err *e);
status train_run_report_step(train_run *r, const trainer_step_result *s, err *e);
// Evaluates and saves at the intervals of the job. Collective over all ranks.
status train_run_after_step(train_run *r, const trainer_step_result *s, err *e);
// Writes the last checkpoint and the end event. Collective over all ranks.
status train_run_finish(train_run *r, bool interrupted, err *e);
void train_run_close(train_run *r);

#endif
