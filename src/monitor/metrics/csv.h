// csv.h -- metrics.csv: a line for each optimizer step, for spreadsheets and programs that plot. session/ adds it to the
// sinks of rank 0.
#ifndef TRIREME_MONITOR_METRICS_CSV_H
#define TRIREME_MONITOR_METRICS_CSV_H

#include "base/event.h"

// A sink that writes `path`. The start event of a resumed run removes the lines behind the step that it resumes from, and
// that of a new run every line. A step is written when the next event but its evaluation comes, so that its evaluation
// stands in its line. E_USAGE where the file is none of a run, E_IO.
status csv_open(const char *path, event_sink *out, err *e);

#endif
