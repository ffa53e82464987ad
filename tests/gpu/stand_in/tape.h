// tape.h -- the call tape: a line for each distinct call of a library, a word for the function and "key=value"
// words. tests/gpu/tape/calls.txt keeps the lines of all tests, and gpu_tape replays them with the real libraries
// on a GPU. Each of these environment variables may name a file:
//   TRIREME_STAND_IN_TAPE         gets the lines of this process
//   TRIREME_STAND_IN_TAPE_KNOWN   has the lines that are valid; another call ends the process with its line
//   TRIREME_STAND_IN_TAPE_RECORD  gets the lines instead of this check
#ifndef TRIREME_STAND_IN_TAPE_H
#define TRIREME_STAND_IN_TAPE_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// Writes and checks the line, unless this process has done so before.
void tape_write(const char *format, ...) __attribute__((format(printf, 1, 2)));

// The lines from now on are left out, or written and checked again: a test makes these calls itself, and
// the cuda device does not. Of the process.
void tape_leave_out(bool out);

#ifdef __cplusplus
}
#endif

#endif
