// trace_tar.c -- writes ustar archives (trace_tar.h), as POSIX.1-1988 has them.
#include "monitor/trace/trace_tar.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK = 512 };
static const uint64_t MOST_BYTES = UINT64_C(1) << 33; // eleven octal digits

typedef struct tar_header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type;
    char link[100], magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155];
    char padding[12];
} tar_header;
_Static_assert(sizeof(tar_header) == BLOCK, "the header of a tar file takes one block");

static void set_octal(char *field, size_t room, uint64_t value)
{
    for (size_t i = room - 1; i-- > 0; value >>= 3) field[i] = (char)('0' + (value & 7));
    field[room - 1] = 0;
}

// The sum of the header's bytes, as which those of the sum itself count as spaces.
static void set_checksum(tar_header *h)
{
    const unsigned char *bytes = (const unsigned char *)h;
    unsigned sum = 0;
    memset(h->checksum, ' ', sizeof h->checksum);
    for (size_t i = 0; i < sizeof *h; i++) sum += bytes[i];
    set_octal(h->checksum, 7, sum);
}

status trace_tar_add(file_writer *w, const char *name, const void *data, size_t bytes,
                     int64_t seconds, err *e)
{
    status result = OK;
    static const char zeros[BLOCK] = {0};
    tar_header h = {.type = '0', .magic = "ustar", .version = {'0', '0'}};
    if (strlen(name) >= sizeof h.name || bytes >= MOST_BYTES)
        FAIL(E_USAGE, "%s: too large for a tar archive", name);
    memcpy(h.name, name, strlen(name));
    set_octal(h.mode, sizeof h.mode, 0644);
    set_octal(h.uid, sizeof h.uid, 0);
    set_octal(h.gid, sizeof h.gid, 0);
    set_octal(h.size, sizeof h.size, bytes);
    set_octal(h.mtime, sizeof h.mtime, (uint64_t)seconds);
    set_checksum(&h);
    TRY(file_write(w, &h, sizeof h, e));
    if (bytes) TRY(file_write(w, data, bytes, e));
    if (bytes % BLOCK) TRY(file_write(w, zeros, BLOCK - bytes % BLOCK, e));
done:
    return result;
}

status trace_tar_end(file_writer *w, err *e)
{
    static const char zeros[2 * BLOCK] = {0};
    return file_write(w, zeros, sizeof zeros, e);
}
