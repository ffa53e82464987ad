// progress.h -- the progress line of a run: rewritten in place on a terminal, otherwise a plain
// line now and then.
#ifndef TRIREME_MONITOR_PROGRESS_H
#define TRIREME_MONITOR_PROGRESS_H

#include "base/text.h"
#include "monitor/log.h"

#include <stdio.h>

typedef enum progress_mode {
    PROGRESS_AUTO, // terminal when the stream is one, else plain
    PROGRESS_TERMINAL,
    PROGRESS_PLAIN,
    PROGRESS_QUIET // prints nothing
} progress_mode;

typedef struct progress {
    FILE *out; // borrowed
    progress_mode mode;
    int columns; // 0 = ask the terminal
    bool on_line;
    bool has_pending;
    double started_s, printed_s; // clock_seconds
    double step_seconds;         // running mean over `seen` steps
    int64_t seen;
    monitor_step last;
} progress;

// The line without its end, as many of its fields as fit `columns` (0 = all), the less telling ones
// left out first:
//   step 120/1000  loss 3.2145  lr 3.00e-04  |g| 0.91  12.3k tok/s  mfu 71 %  1m23s left
// left_s < 0: not known.
void progress_format(const monitor_step *s, double left_s, int columns, text *out);

// Starts the clock. `out` is borrowed and outlives the progress.
void progress_open(progress *p, FILE *out, progress_mode mode);
// One finished step, at `now_s` of clock_seconds. Terminal: at most ten times a second. Plain: the
// first step, then after a second, then ever more seldom (a tenth of the time that has gone by, at
// least a second). The last step (step == steps) is always shown.
void progress_step(progress *p, const monitor_step *s, double now_s);
// A line of its own ("saved …"), above the progress line; without a newline at its end.
void progress_note(progress *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Shows the newest step if it was not shown, and ends the line. May be called twice.
void progress_close(progress *p);

#endif
