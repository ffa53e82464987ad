// progress.h -- the progress line of a run. A terminal shows one line that is rewritten; any other
// output gets a plain line now and then.
#ifndef TRIREME_MONITOR_PROGRESS_H
#define TRIREME_MONITOR_PROGRESS_H

#include "base/event.h"
#include "base/text.h"

#include <stdio.h>

typedef enum progress_mode {
    PROGRESS_AUTO, // PROGRESS_TERMINAL when the output is a terminal, else PROGRESS_PLAIN
    PROGRESS_TERMINAL,
    PROGRESS_PLAIN,
    PROGRESS_QUIET // prints nothing
} progress_mode;

typedef struct progress {
    FILE *out; // borrowed
    progress_mode mode;
    int columns;                 // width of the terminal; 0: the system is asked
    bool on_line;                // the terminal shows a line without its end
    bool has_pending;            // `last` was not shown yet
    double started_s, printed_s; // clock_seconds of progress_open and of the last line
    double step_seconds;         // running mean over `seen` steps
    int64_t seen;
    event_step last;
} progress;

// Appends the line without its end. Where it exceeds `columns` (0 means no limit), the less important
// fields are omitted:
//   step 120/1000  loss 3.2145  lr 3.00e-04  |g| 0.91  12.3k tok/s  mfu 71 %  1m23s left
// `left_s` is the remaining time in seconds, < 0 when it is not known.
void progress_format(const event_step *s, double left_s, int columns, text *out);

// Starts the clock. `out` is borrowed and must outlive `p`.
void progress_open(progress *p, FILE *out, progress_mode mode);
// Takes one finished step at time `now_s` of clock_seconds. A terminal shows at most ten lines per
// second. Plain output shows the first step, and then a line after each tenth of the time so far, but
// at most one per second. The last step (step == steps) is always shown.
void progress_step(progress *p, const event_step *s, double now_s);
// Prints a separate line ("saved …") above the progress line. The text has no newline at its end.
void progress_note(progress *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The progress line as a sink: takes steps, and prints a line of each evaluation, checkpoint and note.
event_sink progress_sink(progress *p);
// Shows the newest step if that was not done, and ends the line. A second call does nothing.
void progress_close(progress *p);

#endif
