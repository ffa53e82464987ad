// input.h -- reads logs in pieces of complete lines: files, gzip, standard input, all logs of a folder. Memory is bounded,
// however large a log is. diagnose.c takes the pieces.
#ifndef TRIREME_DIAGNOSE_INPUT_H
#define TRIREME_DIAGNOSE_INPUT_H

#include "base/err.h"

#include <stddef.h>

// A piece of a log. It begins behind a line break and ends with one, unless it is the last one, or a line is longer than a
// piece. `before` bytes in front of it are the end of the piece before.
typedef struct input_piece {
    const char *chars;
    size_t bytes, before;
} input_piece;

// What a reader is given. An error ends the reading.
typedef struct input_taker {
    status (*begin)(void *arg, const char *path, err *e);
    status (*take)(void *arg, const input_piece *piece, err *e);
    void *arg;
} input_taker;

// Reads a file, a folder, or standard input ("-"). In a folder, and those below it, it reads the files whose names are
// those of logs (log, out, err, txt, json, jsonl, gz, a number behind one of these, or none), in the order of their
// names. E_USAGE where a path cannot be read, and where a folder has no log.
status input_read(const char *path, const input_taker *t, err *e);

#endif
