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

// The hashes of the lines that this process has written.
static struct {
    pthread_mutex_t mutex;
    uint64_t *hashes;
    size_t count, room;
} written = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static bool is_new(uint64_t hash)
{
    for (size_t i = 0; i < written.count; i++)
        if (written.hashes[i] == hash) return false;
    if (written.count == written.room) {
        written.room = written.room ? 2 * written.room : 256;
        written.hashes = realloc(written.hashes, written.room * sizeof *written.hashes);
        if (!written.hashes) stand_in_die("tape: no memory");
    }
    written.hashes[written.count++] = hash;
    return true;
}

static void append(const char *path, const char *line, size_t bytes)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0 || write(file, line, bytes) != (ssize_t)bytes)
        stand_in_die("tape: cannot write %s", path);
    close(file);
}

void tape_write(const char *format, ...)
{
    const char *path = getenv("TRIREME_STAND_IN_TAPE");
    char line[LINE_BYTES];
    va_list args;
    if (!path || !*path) return;
    va_start(args, format);
    const int length = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (length < 0 || length >= LINE_BYTES - 1) stand_in_die("tape: a line is too long");
    line[length] = '\n';
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)line[i]) * UINT64_C(0x100000001b3);
    pthread_mutex_lock(&written.mutex);
    if (is_new(hash)) append(path, line, (size_t)length + 1);
    pthread_mutex_unlock(&written.mutex);
}
