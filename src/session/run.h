// run.h -- one run of a job: its starting process opens the inputs, starts the ranks and logs a failure; each rank resumes,
// steps, evaluates and saves, and rank 0 reports every event to the sinks. The command train and libtrireme call it. It
// does not know when a rank evaluates or saves: the function of the rank does.
#ifndef TRIREME_SESSION_RUN_H
#define TRIREME_SESSION_RUN_H

#include "base/event.h"
#include "data/tokenizer/tokenizer.h"
#include "monitor/log.h"
#include "session/exporter.h"
#include "session/join.h"
#include "session/mfu.h"
#include "session/observe.h"
#include "session/trace.h"

// ---- The starting process

typedef struct session_checkpoint {
    char *folder; // NULL: none; owned
    uint64_t step;
    bool is_own; // of train.out, whose history continues
} session_checkpoint;

// The folder in train.out with the records of the ranks.
#define SESSION_SPANS "spans"

struct session_rank;
typedef status (*session_rank_main)(struct session_rank *r, void *arg, err *e);

// The starting process decides this before any rank runs. Ranks only read it. Where another launcher has started a
// process for each rank, each has its own, and rank 0's decides.
typedef struct session_run {
    session_join join; // with the processes of another launcher; opened and closed by the caller
    job *job;
    session_inputs inputs;
    const session_own_inputs *own; // a program's own inputs; NULL: none
    const char *config_json;       // of a program's own model; NULL: that of the job's
    double began;                  // clock_seconds when the program or its call started
    session_rank_main main;        // runs on every rank
    void *arg;                     // of main
    bool trains;                   // the last calls of each rank are recorded
    bool own_terminal;             // launch_options
    bool measures_mfu;             // ranks measure the matmul peak now and then
    event_sinks sinks;             // take rank 0's events after log.jsonl; rank 0 closes them
    // Takes the error and the end of a failed run after log.jsonl, in the starting process; its `take` NULL: none.
    event_sink failure_sink;
    int log_copy;              // a descriptor to which each line of log.jsonl goes, too; 0: none
    bool *has_log;             // shared with the ranks: rank 0 has begun log.jsonl
    session_exporter exporter; // of this host, while ranks run

    // The id of the start of rank 0's machine (proc_boot_id); empty: this is that machine.
    char boot[40];

    // Of session_run_claim; zero where rank 0 claims the folder with its first step or checkpoint.
    session_checkpoint resume; // the run resumes from it
    bool is_done;              // it already has all steps of the job
    bool claimed;              // this process may write into the run's folder
    struct {
        bool held;
        int fd;
        bool counts_links; // its file system counts links: a folder with none was removed
    } lock;                // of the run's folder
    text warnings;         // of damaged checkpoints, a line each
    text kept;             // names of an earlier run's files that were moved

    session_verdict
        verdict; // of a run that failed; session_run_end sets it, and its caller clears it
} session_run;

// Claims train.out before ranks start: locks it, refuses another job's run, chooses the checkpoint that --resume asks for,
// moves an earlier run's files, and writes job.yaml. Errors before the last two leave the folder as it was. Where the
// checkpoint has all steps, nothing is claimed.
status session_run_claim(session_run *r, err *e);
// Finds the checkpoint of a folder or of the newest one of a run's; folder NULL: of train.out, if there is one. The job must
// be able to resume from it. `verifies`: all bytes of a named one are read. Private to session/.
status session_run_find_checkpoint(const session_run *r, const char *folder, bool verifies,
                                   text *warnings, session_checkpoint *out, err *e);
// Resumes the history in train.out from `checkpoint`, one of its own, or begins a new one (NULL), and writes the tokenizer
// of the data for checkpoints (t NULL: none). Private to session/.
status session_run_own_folder(const session_run *r, const char *checkpoint, const tokenizer *t,
                              text *kept, err *e);
// Writes job.yaml anew, with the split of the batch that the ranks have measured, so that it repeats the run. Private to
// session/.
status session_run_write_split(const session_run *r, const int *of, err *e);
// E_IO when the claimed folder was removed, because everything written from now on would be lost, and when another run
// has begun to write there.
status session_run_check_folder(const session_run *r, err *e);

// Rank 0's process gives the others the job, as it has resolved it, and the checkpoint; these open the job and its
// inputs. Collective over all starting processes.
status session_run_broadcast(const session_run *r, err *e);
status session_run_receive(session_run *r, err *e);

// Opens a session on every rank and runs r->main there, to the end of the run (launch_ranks). A rank whose main returns
// OK or E_INTERRUPTED logs the end.
status session_run_ranks(session_run *r, err *e);
// Called with the result of the run, also where it failed before its ranks started. Tells the other processes of a failure,
// and logs it. Returns the status of the run's first failure, with its text. Closes everything but the join.
status session_run_end(session_run *r, status result, err *e);

// ---- A rank

typedef struct session_rank {
    const session_run *run;
    world *world;
    int rank;
    session session;
    session_checkpoint found;          // of session_rank_resume
    const session_checkpoint *resumed; // that it resumed from; NULL: none
    bool interrupted;                  // a stop was requested

    // Of rank 0
    event_sinks sinks; // none before the log has begun
    event_sinks files; // those of `sinks` that write into the run's folder; the log is the first
    bool owns_folder;  // the files of an earlier run in train.out were moved away
    bool has_eval;     // eval_loss is an evaluation before the log was begun
    session_observer *observer; // NULL: the log has not begun, or the run does not train
    double eval_loss;
    trainer_best best; // of every rank
    struct {
        int64_t step, begin; // of the latest checkpoint, and when it began
    } saving;
    session_trace *trace; // of observe.trace_steps; NULL: none

    spans *record;   // of what this rank does (run_spans.h); NULL: none
    int spans_steps; // steps since session_spans_begin

    session_mfu mfu;
    bool has_reference; // session_reference_prepare has run
    sampler *order;     // of data.train, for session_preference_step; NULL: it has not run
} session_rank;

// All are collective over all ranks, and report what they have done.

// Begins the log, with its start event. Steps and checkpoints do it, too, so that a run that only evaluates or predicts
// does not change train.out.
status session_rank_begin(session_rank *r, err *e);
// Resumes from a checkpoint or the newest one of a run's folder; NULL: of train.out, if there is one.
status session_rank_resume(session_rank *r, const char *folder, err *e);
status session_rank_step(session_rank *r, trainer_step_result *out, err *e);
// The same step in parts, as trainer_forward and trainer_update; trainer_backward, which reports nothing, stands between.
status session_rank_forward(session_rank *r, double *loss, err *e);
status session_rank_update(session_rank *r, trainer_step_result *out, bool *ended, err *e);
status session_rank_evaluate(session_rank *r, int64_t batches, double *loss, err *e);
status session_rank_save(session_rank *r, err *e);
// Looks after a checkpoint that is written beside the steps, if there is one; `waits`: until it is durable. Private to
// session/, like the next one.
status session_rank_follow_save(session_rank *r, bool waits, err *e);
status session_rank_resume_from(session_rank *r, const session_checkpoint *c, err *e);
// Reports a line for the user. Not collective.
status session_rank_note(session_rank *r, const char *line, err *e);

#endif
