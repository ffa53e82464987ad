// worker_output.h -- where one stream of a worker goes: the console, a file, lines that match to another file, and
// the last lines of it into the record of its failure.
//
// Called by agent.c. A stream that only goes to the console of the agent, or only to a file, is the worker's own
// descriptor. Otherwise the agent reads a pipe. It does not know what the lines mean.
#ifndef TRIREME_LAUNCH_WORKER_OUTPUT_H
#define TRIREME_LAUNCH_WORKER_OUTPUT_H

#include "base/text.h"

enum { TAIL_BYTES = 2048, PREFIX_BYTES = 96 };

typedef struct worker_output_plan {
    int console;               // the agent's own descriptor, 1 or 2; -1: the stream is not shown
    bool keep_tail;            // for the record of a failure
    char prefix[PREFIX_BYTES]; // before each line on the console; "": none
    const char *file;          // NULL: none
    const char *const
        *words;  // lines with one of them go to `matches`, too; ends with NULL; NULL: none
    int matches; // descriptor; -1: none
} worker_output_plan;

typedef struct worker_output {
    worker_output_plan plan;
    int from; // the agent's end of the pipe; -1: there is none, or it has ended
    int file;
    text line; // as far as it has come
    char tail[TAIL_BYTES];
    size_t tail_bytes;
    int lost; // the error of the first write to stdout or to a file that failed; 0: none did
    bool lost_of_file;
} worker_output;

// Opens the stream. *child receives the descriptor that the worker writes to, which the caller closes after the
// worker has started; -1: that of the agent. E_USAGE where the file cannot be written.
status worker_output_open(const worker_output_plan *plan, worker_output *out, int *child, err *e);
// Passes on what has come. Returns false at the end of the stream.
bool worker_output_forward(worker_output *o);
// Passes on what is left without waiting, and closes everything.
void worker_output_close(worker_output *o);

#endif
