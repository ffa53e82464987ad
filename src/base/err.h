// err.h -- status codes, the error record, and the one macro that passes a failure upwards.
//
// Every function that can fail returns a `status` and takes `err *e` as its last argument (NULL is
// allowed). Only cmd/ and monitor/ print or exit. A function has one label, `done:`, behind which
// it releases what it owns. It returns the variable `result` there.
#ifndef TRIREME_BASE_ERR_H
#define TRIREME_BASE_ERR_H

#include <stddef.h>

typedef enum status {
    OK = 0,
    E_USAGE,   // bad usage, configuration or input data: nothing was started or changed (exit 2)
    E_FIT,     // does not fit in memory (exit 3)
    E_IO,      // the operating system refused: file, disk, network (exit 1)
    E_MEMORY,  // the heap has no memory, see alloc.h (exit 1)
    E_PEER,    // another rank failed or was lost; its own error says why (exit 1)
    E_NUMERIC, // NaN or Inf where none may be (exit 1)
    E_INTERRUPTED, // stopped by a signal, state saved (exit 130)
    E_INTERNAL,    // a library failed in a way that its documentation excludes (exit 1)
} status;

enum { ERR_TEXT_BYTES = 1024, ERR_TRAIL = 8 };

// The error record. `text` tells the user in one line what went wrong. `trail` lists the calls that
// passed the failure upwards. The record is plain data and can be copied into shared memory. The
// strings of `trail` are literals.
typedef struct err {
    status code;
    char text[ERR_TEXT_BYTES];
    int depth;
    struct {
        const char *file;
        const char *call;
        int line;
    } trail[ERR_TRAIL];
} err;

// Fills `e` (NULL allowed) with a formatted line and returns `code`, which must not be OK.
status err_set(err *e, status code, const char *format, ...) __attribute__((format(printf, 3, 4)));

// Like err_set, and appends ": " and the text of errno.
status err_errno(err *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Puts a formatted prefix before the text, e.g. the name of the file or the key.
void err_prefix(err *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Adds one frame to the trail; called by TRY only.
void err_note(err *e, const char *file, int line, const char *call);

// The process exit code that belongs to a status: 0, 1, 2, 3 or 130.
int status_exit_code(status s);

// Makes the call. If it fails, TRY adds the call to the trail and jumps to `done:`.
#define TRY(call)                                                                                  \
    do {                                                                                           \
        result = (call);                                                                           \
        if (result != OK) {                                                                        \
            err_note(e, __FILE__, __LINE__, #call);                                                \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)

// Sets the error and jumps to `done:`.
#define FAIL(code, ...)                                                                            \
    do {                                                                                           \
        result = err_set(e, code, __VA_ARGS__);                                                    \
        goto done;                                                                                 \
    } while (0)

#endif
