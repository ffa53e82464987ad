// fuzz.c -- the scratch folder of a target, the checks of errors, and libFuzzer's entry points.
#include "fuzz.h"

#include "base/file.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];

void fuzz_begin(void)
{
    // A folder in memory where the system has one, because a target writes a thousand files a second.
    snprintf(folder, sizeof folder, "%s/trireme-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(folder)) {
        perror(folder);
        exit(2);
    }
    if (fuzz_this.open) fuzz_this.open();
}

void fuzz_end(void)
{
    if (*folder) file_remove_tree(folder, NULL);
}

const char *fuzz_path(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof *paths, "%s/%s", folder, name);
    return path;
}

void fuzz_put(const char *name, const void *bytes, size_t count)
{
    const char *path = fuzz_path(name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes, count) != (ssize_t)count || close(fd) != 0) {
        perror(path);
        exit(2);
    }
}

void fuzz_broken(const char *claim, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "false claim: %s: ", claim);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    abort();
}

void fuzz_refused(status s, const err *e)
{
    FUZZ_CLAIM(s == E_USAGE || s == E_FIT || s == E_IO, "status %d: %s", (int)s, e->text);
    FUZZ_CLAIM(e->code == s, "status %d, the error's %d", (int)s, (int)e->code);
    FUZZ_CLAIM(*e->text, "status %d without a text", (int)s);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    fuzz_begin();
    atexit(fuzz_end);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes)
{
    fuzz_this.run(input, bytes);
    return 0;
}
