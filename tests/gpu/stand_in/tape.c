// tape.c -- writes the call tape (tape.h). Several threads and processes may write one file: a line is one
// write to a file that is open for appending, and readers sort and drop what is there twice.
#include "tape.h"

#include "runtime.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 512 };

typedef struct hashes {
    uint64_t *item;
    size_t count, room;
} hashes;

// The lines that this process has written or found on the tape, and the lines of the tape.
static struct {
    pthread_mutex_t mutex;
    hashes seen, known;
    bool left_out;
} tape = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static uint64_t hash_of(const char *line, size_t bytes)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)line[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static bool has(const hashes *h, uint64_t hash)
{
    for (size_t i = 0; i < h->count; i++)
        if (h->item[i] == hash) return true;
    return false;
}

static void add(hashes *h, uint64_t hash)
{
    if (h->count == h->room) {
        h->room = h->room ? 2 * h->room : 256;
        h->item = realloc(h->item, h->room * sizeof *h->item);
        if (!h->item) stand_in_die("tape: no memory");
    }
    h->item[h->count++] = hash;
}

static void read_known(const char *path)
{
    char line[LINE_BYTES];
    FILE *f = fopen(path, "re");
    if (!f) stand_in_die("tape: cannot read %s", path);
    while (fgets(line, sizeof line, f)) add(&tape.known, hash_of(line, strcspn(line, "\n")));
    fclose(f);
    if (tape.known.count == 0) stand_in_die("tape: %s has no line", path);
}

static void append(const char *path, const char *line, size_t bytes)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0 || write(file, line, bytes) != (ssize_t)bytes)
        stand_in_die("tape: cannot write %s", path);
    close(file);
}

// Checks a call against the tape, or records it. `line` ends with a newline.
static void check(const char *line, size_t bytes, uint64_t hash)
{
    const char *path = getenv("TRIREME_STAND_IN_TAPE_KNOWN");
    const char *record = getenv("TRIREME_STAND_IN_TAPE_RECORD");
    if (record && *record) {
        append(record, line, bytes);
        return;
    }
    if (!path || !*path) return;
    if (tape.known.count == 0) read_known(path);
    if (!has(&tape.known, hash))
        stand_in_die("tape: %s lacks this call; valid: tests/gpu/tape/record.sh, then gpu_tape on "
                     "a GPU: %.*s",
                     path, (int)bytes - 1, line);
}

void tape_write(const char *format, ...)
{
    const char *path = getenv("TRIREME_STAND_IN_TAPE");
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (length < 0 || length >= LINE_BYTES - 1) stand_in_die("tape: a line is too long");
    const uint64_t hash = hash_of(line, (size_t)length);
    line[length] = '\n';
    pthread_mutex_lock(&tape.mutex);
    if (!tape.left_out && !has(&tape.seen, hash)) {
        if (path && *path) append(path, line, (size_t)length + 1);
        check(line, (size_t)length + 1, hash);
        add(&tape.seen, hash);
    }
    pthread_mutex_unlock(&tape.mutex);
}

void tape_leave_out(bool out)
{
    pthread_mutex_lock(&tape.mutex);
    tape.left_out = out;
    pthread_mutex_unlock(&tape.mutex);
}
