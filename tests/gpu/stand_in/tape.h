// tape.h -- the call tape: a line for each distinct call of a library, written to the file that the
// environment variable TRIREME_STAND_IN_TAPE names. tests/gpu/tape/ keeps the recorded lines, and gpu_tape
// replays them with the real libraries on a GPU. A line is a word for the function and "key=value" words.
#ifndef TRIREME_STAND_IN_TAPE_H
#define TRIREME_STAND_IN_TAPE_H

#ifdef __cplusplus
extern "C" {
#endif

// Appends the line, unless this process has written it before. Without the variable it does nothing.
void tape_write(const char *format, ...) __attribute__((format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif

#endif
