// console.h -- the program's standard descriptors: opened before anything else, written so that a
// terminal cannot be harmed, and checked when the command is done.
#ifndef TRIREME_CMD_CONSOLE_H
#define TRIREME_CMD_CONSOLE_H

#include "base/err.h"

#include <stddef.h>

// Called first of all. Descriptors 0 to 2 that are closed are opened on /dev/null, so that no file
// of a run gets their numbers. Writing to a reader that has gone and beyond `ulimit -f` fails from
// now on instead of killing the process, also in ranks that are forked.
void console_open(void);
// Called last, with the command's exit code: flushes and closes stdout, and returns the exit code
// of the process. Where stdout could not be written and the command was content, says so and
// returns
// 1. A reader that has gone ends the process by SIGPIPE instead, as shells expect (`| head`).
int console_close(int code);
// Flushes stdout. E_IO when anything that was printed so far is lost. For what prints line by line,
// and for ranks, whose buffer main does not see.
status console_flush(err *e);

// Prints "trireme: " and one line to stderr; control characters and line breaks in it are escaped.
void console_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Prints one line to stdout, with its end; made safe in the same way.
void console_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Prints lines to stdout; control characters but newlines and tabs are escaped.
void console_print(const char *lines, size_t bytes);

#endif
