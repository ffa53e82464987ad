// worker_failure.h -- how a worker ended, or why an agent did: the record that agents tell each other, and its text.
//
// Agents fill and publish it; cmd/run/run.c prints it. It knows no processes.
#ifndef TRIREME_LAUNCH_WORKER_FAILURE_H
#define TRIREME_LAUNCH_WORKER_FAILURE_H

#include "base/text.h"
#include "rendezvous/store.h"

#include <stdbool.h>
#include <stdint.h>

enum { HOST_BYTES = 72, WHAT_BYTES = 400, FILE_BYTES = 128 };

typedef struct worker_failure {
    int rank, local_rank, node; // rank -1: no worker, but the agent of `node`
    char host[HOST_BYTES];
    int pid;
    int exit_code;   // as Python counts: -9 where signal 9 ended it
    int reported_by; // 1 + the rank whose process blamed this one; 0: its own end is the failure
    int64_t time_s;  // since 1970
    char what[WHAT_BYTES];       // the worker's own message, a hint, or ""
    char error_file[FILE_BYTES]; // where it wrote that; "" where it wrote none
} worker_failure;

// Writes and reads the form in which agents tell each other.
status worker_failure_pack(const worker_failure *f, char out[STORE_VALUE_BYTES], size_t *bytes,
                           err *e);
status worker_failure_unpack(const char *packed, size_t bytes, worker_failure *out, err *e);

// Reads the file that a worker may write at $TORCHELASTIC_ERROR_FILE, in PyTorch's format
// {"message": {"message": …}} or {"message": "…"}. f stays as it is where there is none. Returns the rank that the file
// blames ("rank", which Trireme's commands write), or -1.
int worker_failure_read_file(const char *path, worker_failure *f);
// Takes the last output of the worker [bytes] as its message, where it has none: whole lines, from the last traceback on
// where there is one, and without those of progress. `is_cut`: it begins anywhere in a line.
void worker_failure_take_output(worker_failure *f, const char *output, size_t bytes, bool is_cut);

// Appends one line: "rank 1 (host n2, local rank 0, pid 12) was killed by signal 9 (Killed): …".
void worker_failure_line(const worker_failure *f, text *out);
// Appends torchrun's report: the first failure is the root cause, and others follow [count]. `program` is what
// the workers ran.
void worker_failure_report(const char *program, const worker_failure *f, int count, text *out);

#endif
