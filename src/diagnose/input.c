// input.c -- see input.h. zlib reads files that are not compressed as they are.
#define _GNU_SOURCE // memrchr
#include "diagnose/input.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

// A piece, and what is kept of the one before. Folders are followed to a depth, so that no loop of mounts is endless.
enum { PIECE_BYTES = 1 << 20, KEPT_BYTES = 64 << 10, MOST_DEPTH = 16 };

// The end of what is complete in chars[bytes]: behind the last line break; all of it where there is none.
static size_t complete(const char *chars, size_t bytes)
{
    const char *last = memrchr(chars, '\n', bytes);
    return last ? (size_t)(last - chars) + 1 : bytes;
}

static status read_pieces(gzFile file, const char *path, const input_taker *t, err *e)
{
    status result = OK;
    char *buffer = NULL;
    size_t before = 0,
           bytes = 0; // the kept end of the last piece, and what has been read behind it
    TRY(alloc_array(&buffer, KEPT_BYTES + 2 * PIECE_BYTES, 1, "a log", e));
    for (int count = 1; count > 0;) {
        count = gzread(file, buffer + before + bytes, PIECE_BYTES);
        if (count < 0) {
            int code;
            const char *why = gzerror(file, &code);
            FAIL(E_USAGE, "%s: cannot read it: %s", path, code == Z_ERRNO ? strerror(errno) : why);
        }
        if (count == 0) {
            int code;
            gzerror(file, &code);
            if (code == Z_BUF_ERROR)
                FAIL(E_USAGE,
                     "%s: it is cut off; for what is there: gzip -dc %s | trireme diagnose -", path,
                     path);
        }
        bytes += (size_t)count;
        const size_t end = count ? complete(buffer + before, bytes) : bytes;
        if (count && end == bytes && bytes < PIECE_BYTES && buffer[before + bytes - 1] != '\n')
            continue; // the beginning of a line
        if (end) TRY(t->take(t->arg, &(input_piece){buffer + before, end, before}, e));
        const size_t done = before + end, kept = done < KEPT_BYTES ? done : KEPT_BYTES;
        memmove(buffer, buffer + done - kept, kept + bytes - end);
        before = kept;
        bytes -= end;
    }
done:
    free(buffer);
    return result;
}

static status read_file(const char *path, const input_taker *t, err *e)
{
    status result = OK;
    const bool is_stdin = strcmp(path, "-") == 0;
    gzFile file = NULL;
    int fd = is_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) FAIL(E_USAGE, "%s: cannot read it: %s", path, strerror(errno));
    file = gzdopen(fd, "rb");
    if (!file) FAIL(E_MEMORY, "no memory to read %s", path);
    fd = -1;
    gzbuffer(file, PIECE_BYTES / 4);
    TRY(t->begin(t->arg, is_stdin ? "standard input" : path, e));
    TRY(read_pieces(file, path, t, e));
done:
    if (fd >= 0) close(fd);
    if (file) gzclose(file);
    return result;
}

// ---- Folders

static bool has_end(const char *name, size_t bytes, const char *end)
{
    return bytes >= strlen(end) && strncasecmp(name + bytes - strlen(end), end, strlen(end)) == 0;
}

// "train.log", "slurm-7.out", "stderr", "log.jsonl", "messages.1", "rank3.log.gz", "error.json" of a worker. Not the
// files of a model, whose vocabulary has the words of errors.
static bool is_log_name(const char *name)
{
    static const char *const ENDS[] = {".log", ".out", ".err", ".txt", ".jsonl"};
    static const char *const OTHERS[] = {"vocab.txt", "merges.txt"};
    size_t bytes = strlen(name);
    if (strcmp(name, "error.json") == 0) return true;
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        if (strcmp(name, OTHERS[i]) == 0) return false;
    if (has_end(name, bytes, ".gz")) bytes -= 3;
    while (bytes > 1 && name[bytes - 1] >= '0' && name[bytes - 1] <= '9') bytes--;
    if (bytes > 1 && bytes < strlen(name) && name[bytes - 1] == '.') bytes--;
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++)
        if (has_end(name, bytes, ENDS[i])) return true;
    return !memchr(name, '.', bytes);
}

static status read_folder(const char *path, int depth, const input_taker *t, int *count, err *e)
{
    status result = OK;
    struct dirent **entries = NULL;
    char *inside = NULL;
    const int found = scandir(path, &entries, NULL, alphasort);
    if (found < 0) FAIL(E_USAGE, "%s: cannot read it: %s", path, strerror(errno));
    for (int i = 0; i < found; i++) {
        const char *name = entries[i]->d_name;
        struct stat s;
        if (name[0] == '.') continue;
        free(inside);
        inside = NULL;
        TRY(file_join(path, name, &inside, e));
        if (lstat(inside, &s) != 0) continue;
        if (S_ISDIR(s.st_mode) && depth < MOST_DEPTH) {
            TRY(read_folder(inside, depth + 1, t, count, e));
        } else if (S_ISREG(s.st_mode) && is_log_name(name)) {
            TRY(read_file(inside, t, e));
            ++*count;
        }
    }
done:
    for (int i = 0; i < found; i++) free(entries[i]);
    free(entries);
    free(inside);
    return result;
}

status input_read(const char *path, const input_taker *t, err *e)
{
    status result = OK;
    int count = 0;
    if (strcmp(path, "-") == 0 || !file_is_directory(path)) return read_file(path, t, e);
    TRY(read_folder(path, 0, t, &count, e));
    if (count == 0)
        FAIL(E_USAGE,
             "%s: no log in it; valid: names that end in .log, .out, .err, .txt, .jsonl "
             "or .gz, or have no end",
             path);
done:
    return result;
}
