// maps.c -- reads /proc/self/maps in a signal handler. The SIGBUS handlers of the program and of
// forked ranks call it, so it uses only system calls and its own stack. It does not know which code
// mapped a file.
#include "base/maps.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 4096 };

typedef struct reader {
    int fd;
    size_t next, end;
    char piece[PIECE_BYTES];
} reader;

// Returns the next byte, or -1 at the end.
static int next_byte(reader *r)
{
    if (r->next == r->end) {
        const ssize_t got = read(r->fd, r->piece, sizeof r->piece);
        if (got <= 0) return -1;
        r->next = 0;
        r->end = (size_t)got;
    }
    return (unsigned char)r->piece[r->next++];
}

// Reads a hexadecimal number. *stop is the byte after it.
static uintptr_t next_number(reader *r, int *stop)
{
    uintptr_t n = 0;
    for (;;) {
        const int c = next_byte(r);
        if (c >= '0' && c <= '9')
            n = n << 4 | (uintptr_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            n = n << 4 | (uintptr_t)(c - 'a' + 10);
        else {
            *stop = c;
            return n;
        }
    }
}

// Reads the rest of a line "rwxp offset device inode   path" and keeps the path. The path begins at
// the first '/', because no other field has one. The kernel escapes line breaks in it.
static void next_path(reader *r, char *out, size_t room)
{
    size_t n = 0;
    for (int c = next_byte(r); c >= 0 && c != '\n'; c = next_byte(r))
        if ((n || c == '/') && n + 1 < room) out[n++] = (char)c;
    out[n] = 0;
}

static bool find_path(const void *address, char *out, size_t room)
{
    bool found = false;
    reader r = {.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
    int stop = 0;
    if (r.fd < 0) return false;
    while (!found) {
        const uintptr_t from = next_number(&r, &stop);
        if (stop != '-') break; // the end of the list
        const uintptr_t to = next_number(&r, &stop);
        next_path(&r, out, room);
        found = (uintptr_t)address >= from && (uintptr_t)address < to;
    }
    close(r.fd);
    return found && out[0];
}

static bool starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool maps_describe_lost(const void *address, char *out, size_t room)
{
    static const char CUT_OFF[] = ": the file was cut off while it was in use";
    if (!find_path(address, out, room - sizeof CUT_OFF)) return false;
    if (starts_with(out, "/dev/zero") || starts_with(out, "/memfd:"))
        strcpy(out, "shared memory has run out");
    else
        strcat(out, CUT_OFF);
    return true;
}
