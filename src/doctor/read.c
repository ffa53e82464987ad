// read.c -- files and folders of the machine that is checked, below the context's root. See check.h. A read never blocks
// and changes nothing.
#include "doctor/doctor.h"

#include "base/alloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_MOST = 1 << 20 };

status doctor_path(const doctor_context *c, const char *path, char **out, err *e)
{
    text t = {0};
    text_add(&t, c->root);
    text_add(&t, path);
    return text_take(&t, out, e);
}

// Reads until the end, or until the kernel refuses. *problem is its errno then, 0 at the end.
static status read_all(int fd, text *out, int *problem, err *e)
{
    status result = OK;
    char *block = NULL;
    enum { BLOCK = 1 << 16 };
    *problem = 0;
    TRY(alloc_array(&block, BLOCK, 1, "a file of this machine", e));
    while (out->bytes < READ_MOST) {
        const size_t left = READ_MOST - out->bytes;
        const ssize_t n = read(fd, block, left < BLOCK ? left : BLOCK);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) *problem = errno;
        if (n <= 0) break;
        text_add_bytes(out, block, (size_t)n);
        TRY(text_check(out, e));
    }
done:
    free(block);
    return result;
}

status doctor_read(const doctor_context *c, const char *path, char **out, bool *denied, err *e)
{
    status result = OK;
    char *full = NULL;
    text content = {0};
    int fd = -1, problem = 0;
    *out = NULL;
    *denied = false;
    TRY(doctor_path(c, path, &full, e));
    fd = open(full, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        problem = errno;
    else
        TRY(read_all(fd, &content, &problem, e));
    if (problem == EACCES || problem == EPERM) *denied = true;
    if (problem == 0 || problem == EAGAIN) TRY(text_take(&content, out, e));
done:
    if (fd >= 0) close(fd);
    text_clear(&content);
    free(full);
    return result;
}

bool doctor_read_line(const doctor_context *c, const char *path, char *out, size_t bytes)
{
    char *content = NULL;
    bool denied, fits = false;
    if (doctor_read(c, path, &content, &denied, NULL) == OK && content) {
        const size_t length = strcspn(content, "\n");
        fits = length < bytes;
        if (fits) {
            memcpy(out, content, length);
            out[length] = 0;
        }
    }
    free(content);
    return fits;
}

bool doctor_read_number(const doctor_context *c, const char *path, int64_t *out)
{
    char line[64], *end;
    if (!doctor_read_line(c, path, line, sizeof line)) return false;
    errno = 0;
    const int64_t n = strtoimax(line, &end, 10);
    if (end == line || errno != 0 || end[strspn(end, " \t\r")] != 0) return false;
    *out = n;
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void doctor_names_free(char **names, int count)
{
    for (int i = 0; i < count; i++) free(names[i]);
    free(names);
}

status doctor_names(const doctor_context *c, const char *folder, char ***out, int *count, err *e)
{
    status result = OK;
    char *full = NULL, **names = NULL;
    size_t room = 0, n = 0;
    DIR *d = NULL;
    *out = NULL;
    *count = 0;
    TRY(doctor_path(c, folder, &full, e));
    d = opendir(full);
    for (const struct dirent *entry = d ? readdir(d) : NULL; entry; entry = readdir(d)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        TRY(alloc_grow(&names, &room, n + 1, sizeof *names, "the names of a folder", e));
        TRY(text_copy(entry->d_name, &names[n], e));
        n++;
    }
    if (n) qsort(names, n, sizeof *names, by_name);
    *out = names;
    *count = (int)n;
    names = NULL;
done:
    if (names) doctor_names_free(names, (int)n);
    if (d) closedir(d);
    free(full);
    return result;
}

const char *doctor_variable(const doctor_context *c, const char *name)
{
    const size_t length = strlen(name);
    for (char *const *v = c->environment; v && *v; v++)
        if (strncmp(*v, name, length) == 0 && (*v)[length] == '=') return *v + length + 1;
    return NULL;
}

double doctor_threshold(const doctor_context *c, const char *key, double otherwise)
{
    double own;
    return c->machine && doctor_machine_threshold(c->machine, key, &own) ? own : otherwise;
}
