// kernel_log.c -- see kernel_log.h. /dev/kmsg gives one message with each read, as "6,1234,5678901,-;text": priority, number,
// microseconds. Below it, lines that begin with a space describe the device. It refuses to block here.
#define _GNU_SOURCE // SEEK_DATA
#include "doctor/kernel_log/kernel_log.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOG_MOST = 8 << 20, FILE_MOST = 1 << 20, RECORD_MOST = 1 << 14 };

// Adds the messages of a device or file. Of a long file, it reads the end. *problem is an errno, or 0.
static status read_file(const doctor_context *c, const char *path, bool is_device, text *out,
                        int *problem, err *e)
{
    status result = OK;
    char *full = NULL, *record = NULL;
    int fd = -1;
    *problem = 0;
    TRY(doctor_path(c, path, &full, e));
    TRY(alloc_array(&record, RECORD_MOST, 1, "a message of the kernel", e));
    fd = open(full, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) *problem = errno;
    if (fd < 0) goto done;
    if (is_device)
        (void)lseek(fd, 0, SEEK_DATA); // past what dmesg --clear has cleared
    else
        (void)lseek(fd, -FILE_MOST, SEEK_END);
    while (out->bytes < LOG_MOST) {
        const ssize_t n = read(fd, record, RECORD_MOST);
        if (n < 0 && (errno == EINTR || errno == EPIPE))
            continue; // EPIPE: messages were overwritten
        if (n < 0 && errno != EAGAIN) *problem = errno;
        if (n <= 0) break;
        text_add_bytes(out, record, (size_t)n);
        TRY(text_check(out, e));
    }
done:
    if (fd >= 0) close(fd);
    free(record);
    free(full);
    return result;
}

// The beginnings of lines of /dev/kmsg, and the lines that describe devices, are taken away.
static void strip_records(text *t)
{
    char *to = t->chars;
    for (const char *line = t->chars; *line;) {
        const size_t bytes = strcspn(line, "\n");
        const char *message = memchr(line, ';', bytes);
        if (*line != ' ' && message) {
            const size_t left = bytes - (size_t)(message + 1 - line);
            memmove(to, message + 1, left);
            to += left;
            *to++ = '\n';
        }
        line += bytes + (line[bytes] == '\n');
    }
    *to = '\0';
    t->bytes = (size_t)(to - t->chars);
}

// Files keep the messages of earlier starts: those before the last first message of a kernel are taken away.
static void keep_last_start(text *t)
{
    char *last = NULL, *found = t->chars;
    while ((found = strstr(found, "Linux version "))) last = found++;
    if (!last) return;
    t->bytes = strlen(last);
    memmove(t->chars, last, t->bytes + 1);
}

status kernel_log_read(const doctor_context *c, doctor_findings *out, kernel_log *l, bool *known,
                       err *e)
{
    static const char *const paths[] = {"/dev/kmsg", "/var/log/kern.log", "/var/log/messages",
                                        "/var/log/dmesg"};
    status result = OK;
    bool denied = false;
    *l = (kernel_log){0};
    *known = false;
    for (size_t i = 0; i < sizeof paths / sizeof *paths && !*known; i++) {
        int problem;
        TRY(read_file(c, paths[i], i == 0, &l->lines, &problem, e));
        *known = problem == 0;
        denied = denied || problem == EACCES || problem == EPERM;
        if (!l->lines.bytes) continue;
        if (i == 0)
            strip_records(&l->lines);
        else
            keep_last_start(&l->lines);
    }
    if (!*known)
        doctor_blind(out, denied
                              ? "only root may read the kernel log (/dev/kmsg, /var/log/kern.log)"
                              : "there is no kernel log (/dev/kmsg, /var/log/kern.log)");
done:
    return result;
}

void kernel_log_clear(kernel_log *l)
{
    text_clear(&l->lines);
}

bool kernel_log_next(const char **from, char *out, size_t bytes)
{
    if (!*from || !**from) return false;
    const size_t length = strcspn(*from, "\n");
    const size_t kept = length < bytes ? length : bytes - 1;
    memcpy(out, *from, kept);
    out[kept] = '\0';
    *from += length + ((*from)[length] == '\n');
    return true;
}
