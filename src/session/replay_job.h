// replay_job.h -- the lists of a recorded run, made once more from its job.yaml, and what its step would be with
// another pipeline schedule. The steps themselves are replayed by monitor/replay/.
#ifndef TRIREME_SESSION_REPLAY_JOB_H
#define TRIREME_SESSION_REPLAY_JOB_H

#include "monitor/replay/replay_record.h"
#include "session/session.h"
#include "session/stages.h"

typedef struct replay_job {
    job *job; // NULL: the lists are not known
    session_inputs in;
    trainer_options options;
    session_stages stages;
    schedule_order *order; // [stages.count]
    replay_lists known;    // order NULL: the lists are not known
    char *why;             // … and why; NULL: they are
} replay_job;

// Makes the lists of the run, or of the run whose trace the folder is. A job that cannot be opened here, as one whose
// data a program brings, is no error: *out then says why. E_USAGE where job.yaml has other instructions than the record:
// names the first. The caller closes *out, also after a failure.
status replay_job_open(const run_view *v, replay_job *out, err *e);
void replay_job_close(replay_job *j);

// How long a step takes whose passes run in the order of another pipeline schedule, divided by how long it takes in the
// run's own. In both a pass takes as long as the median of the same block's passes in the recorded step. E_USAGE where
// the lists are not known, or the schedule does not fit the job.
status replay_job_schedule(const replay_job *j, const replay_record *r, const char *name,
                           double *ratio, err *e);

#endif
