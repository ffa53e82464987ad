// train_run.h -- a training run as its directory sees it: where it starts from, what it logs, when it
// evaluates and saves.
#ifndef TRIREME_CMD_RUN_H
#define TRIREME_CMD_RUN_H

#include "monitor/log.h"
#include "monitor/progress.h"
#include "session/session.h"

// What the starting process settles before any rank runs; ranks only read it.
typedef struct start {
    job *job;
    session_inputs inputs;
    char *resume; // checkpoint folder to resume from, or NULL
    uint64_t resume_step;
    bool is_own;  // `resume` is a checkpoint of train.out: its history goes on
    bool is_done; // the checkpoint has all of the job's steps: nothing is left to do
    char *log_path;
    double began;      // clock_seconds when the program started
    int lock;          // descriptor that holds the folder's lock, -1: none
    bool counts_links; // its file system counts names: a folder without any was removed
    bool opened;       // the run's directory is ours to write in
} start;

// Reads the job, checks all inputs, decides what to resume from, and only then writes to the run's
// directory.
status start_open(start *s, int argc, char **argv, err *e);
// What a run that is done says.
void start_print_done(const start *s);
// E_IO when the run's folder is no longer there: what is written now would be lost.
status start_check_folder(const start *s, err *e);
void start_log_error(const start *s, int rank, const err *why); // the error event of log.jsonl
void start_close(start *s);

// One rank of the run. Rank 0 writes log and progress.
typedef struct run {
    const start *start;
    const job *job;
    world *world;
    int rank, ranks;
    session session;
    log_file *log;
    progress progress;
    double matmul_rate; // FLOP/s of this rank's device, measured
    uint64_t saved_step;
    bool has_saved;
} run;

status run_open(run *r, const start *s, world *w, int rank, int ranks, err *e);
status run_report_step(run *r, const trainer_step_result *s, err *e);
// Evaluates and saves when the job's cadence says so. Collective.
status run_after_step(run *r, const trainer_step_result *s, err *e);
// The last save and the end event. Collective.
status run_finish(run *r, bool interrupted, err *e);
void run_close(run *r);

#endif
