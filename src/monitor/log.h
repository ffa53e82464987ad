// log.h -- log.jsonl: the events of a run in their order, one JSON object per line.
//
// A float is written as %.9g and a double as %.17g, so that each reads back to the same bits. JSON
// lacks NaN and Inf; they are written as null, with a second key "<key>_text" of "nan", "inf" or
// "-inf".
#ifndef TRIREME_MONITOR_LOG_H
#define TRIREME_MONITOR_LOG_H

#include "base/event.h"

typedef struct log_file log_file;

// Opens `path` to append. It first removes an unfinished last line, which a killed run may leave, and
// keeps everything else. So the steps after the checkpoint that a run resumes from are in the file
// twice, and the later line counts. With `path` NULL there is no file, only log_copy_to. The owner calls
// log_close. E_IO.
status log_open(const char *path, log_file **out, err *e);

// From now on each line also goes to `fd`, which is borrowed, until a write to it fails. It waits where `fd`
// is a pipe that is full.
void log_copy_to(log_file *l, int fd);

// The functions of the log as a sink. Each event but a note is one line, written by one write call, so that a reader never
// sees a part of it. The end makes the file durable. E_IO names the file.
status log_event(void *log, const event *ev, err *e);
void log_close(void *log); // NULL allowed

#endif
