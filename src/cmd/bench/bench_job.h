// bench_job.h -- what the benchmarks of training share. The job that they run is that of the command line, with keys
// that the benchmark gives where the user does not, and keys that it sets itself. Beside it: lists and figures.
#ifndef TRIREME_CMD_BENCH_JOB_H
#define TRIREME_CMD_BENCH_JOB_H

#include "base/text.h"
#include "session/join.h"

// All borrowed. Start with bench_job_arguments.
typedef struct bench_job {
    const char *path; // of the job file; NULL: none
    char **args;      // [count] arguments of the job
    int count;
    const char *const *defaults; // "--key=value", ended by NULL
    job_own own;                 // what another launcher decides; zero: nothing
} bench_job;

// argv as flags_take leaves it: argv[0] is the command.
bench_job bench_job_arguments(int argc, char **argv, const char *const *defaults);
// Returns whether the arguments give the key of "--key" or "--key=value".
bool bench_job_gives(const bench_job *b, const char *key);
// Opens the job: defaults of keys that the arguments do not give, the arguments, then `settings` [count],
// which win. A job file names its model, data and batch, so defaults of model.*, data.* and
// train.global_batch are then left out. The caller closes the job.
status bench_job_open(const bench_job *b, const text *settings, int count, job **out, err *e);

// The same with the job's inputs, for processes that another launcher has started: rank 0's opens the job, and the others
// take it (join_same). Collective over the starting processes. The caller closes both.
status bench_job_join(const bench_job *b, const text *settings, int count, const session_join *c,
                      job **out, session_inputs *in, err *e);

enum { BENCH_LIST = 8 };
// Reads "4,8,16": at most BENCH_LIST numbers from 1 to `most`. E_USAGE names the flag and shows the example.
status bench_read_list(const char *name, const char *list, const char *example, int most,
                       int out[BENCH_LIST], int *count, err *e);
// Sorts figures, the least first.
void bench_sort(double *figures, int64_t count);

#endif
