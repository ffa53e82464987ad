// diagnose.h -- reads the logs of a failed run and names the cause: `trireme diagnose`. Many lines of such logs only follow
// from another one: ranks that waited, launchers that ended them. Rows (cause.h) tell the two apart; of several causes
// the weightiest counts, and of equal ones the earliest.
#ifndef TRIREME_DIAGNOSE_DIAGNOSE_H
#define TRIREME_DIAGNOSE_DIAGNOSE_H

#include "base/err.h"
#include "base/json.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct diagnosis diagnosis;

status diagnose_open(diagnosis **out, err *e);
void diagnose_close(diagnosis *d); // NULL allowed
// Reads a log, all logs of a folder, or standard input ("-"). Call it once for each path. E_USAGE where it cannot be read.
status diagnose_read(diagnosis *d, const char *path, err *e);
// The same for a log in memory.
status diagnose_read_bytes(diagnosis *d, const char *name, const char *chars, size_t bytes, err *e);

// The answer, after everything was read. `code` is NULL where no cause is known; rank and host are then those that a
// launcher names as the first that failed. The texts are of the diagnosis.
typedef struct diagnose_answer {
    const char *code, *sentence;
    int rank, local;  // of the run, of its host; -1: not known
    const char *host; // NULL: not known
    bool has_failure; // false: no line looks like a failure of any kind
} diagnose_answer;

diagnose_answer diagnose_answer_of(const diagnosis *d);
// The answer for a reader: cause, where, why, evidence, what to try.
void diagnose_add_text(text *out, const diagnosis *d);
// The same as an object.
status diagnose_to_json(const diagnosis *d, json_t **out, err *e);

#endif
