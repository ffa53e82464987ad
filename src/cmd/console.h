// console.h -- stdin, stdout and stderr of the program. They are opened before anything else,
// control characters in what users wrote are escaped, and stdout is checked when the command is
// done.
#ifndef TRIREME_CMD_CONSOLE_H
#define TRIREME_CMD_CONSOLE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

// main calls it first. Opens descriptors 0 to 2 on /dev/null where they are closed, so that no file
// of a run gets their numbers. From now on writing to a closed pipe or beyond `ulimit -f` fails
// instead of killing the process. Forked ranks inherit this.
void console_open(void);
// main calls it last, with the command's exit code. Flushes and closes stdout, and returns the exit
// code of the process. Where the command succeeded but stdout could not be written, prints the
// error and returns 1. Where the reader of a pipe is gone, the process ends by SIGPIPE, as shells
// expect (`| head`).
int console_close(int code);
// Flushes stdout. E_IO when anything that was printed so far is lost. Called by commands that print
// line by line, and by ranks, whose buffer console_close does not see.
status console_flush(err *e);

// The width of the terminal behind stdout, or what the variable COLUMNS says; 0: there is no terminal.
int console_columns(void);

// Returns whether a stream is a terminal that may show colours: neither NO_COLOR nor TERM=dumb says no.
bool console_colours(FILE *out);

// Prints "trireme: " and one line to stderr; control characters and line breaks in it are escaped.
void console_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
// The same for a warning ("trireme: warning: ") and for the failure of a command, with colours on a terminal.
void console_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void console_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Prints one line and a line break to stdout; escapes in the same way.
void console_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Prints bytes to stdout at once: as they are to a file or a program, with control characters escaped to a terminal. E_IO as
// console_flush.
status console_write(const char *chars, size_t bytes, err *e);
// Prints lines to stdout; control characters except newlines and tabs are escaped.
void console_print(const char *lines, size_t bytes);
// The same to stderr.
void console_report(const char *lines, size_t bytes);

#endif
