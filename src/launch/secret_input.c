// secret_input.c -- see secret_input.h. Called by the command that starts agents.
#define _GNU_SOURCE // memfd_create
#include "launch/secret_input.h"

#include "net/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

// Byte by byte: what follows the line is not for this function.
static status read_line(char *line, size_t room, size_t *bytes, err *e)
{
    for (*bytes = 0; *bytes < room; ++*bytes) {
        ssize_t got;
        do got = read(STDIN_FILENO, &line[*bytes], 1);
        while (got < 0 && errno == EINTR);
        if (got < 0) return err_errno(e, "--secret-file -: cannot read the standard input");
        if (got == 0 || line[*bytes] == '\n') break;
    }
    if (*bytes >= NET_SECRET_LEAST) return OK;
    return err_set(
        e, E_USAGE,
        "--secret-file -: the standard input has a line of %zu bytes; valid are %d to %d", *bytes,
        NET_SECRET_LEAST, NET_SECRET_MOST);
}

static status keep_line(const char *line, size_t bytes, char path[SECRET_INPUT_PATH], err *e)
{
    const int fd = memfd_create("trireme secret", 0); // programs that are started inherit it
    if (fd < 0) return err_errno(e, "cannot keep the secret");
    if (fchmod(fd, S_IRUSR | S_IWUSR) != 0 || write(fd, line, bytes) != (ssize_t)bytes) {
        const status result = err_errno(e, "cannot keep the secret");
        close(fd);
        return result;
    }
    snprintf(path, SECRET_INPUT_PATH, "/proc/self/fd/%d", fd);
    return OK;
}

// The process that waits for the end of the input. It keeps no output open, so that ssh ends with the run.
static _Noreturn void await_end(pid_t parent)
{
    char rest[256];
    ssize_t got;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    do got = read(STDIN_FILENO, rest, sizeof rest);
    while (got > 0 || (got < 0 && errno == EINTR));
    if (getppid() == parent) kill(parent, SIGHUP);
    _exit(0);
}

static status leave_input(err *e)
{
    const int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (none < 0 || dup2(none, STDIN_FILENO) < 0) return err_errno(e, "cannot open /dev/null");
    close(none);
    return OK;
}

status secret_input_open(char path[SECRET_INPUT_PATH], err *e)
{
    status result = OK;
    char line[NET_SECRET_MOST + 1];
    size_t bytes = 0;
    const pid_t parent = getpid();
    TRY(read_line(line, NET_SECRET_MOST, &bytes, e));
    TRY(keep_line(line, bytes, path, e));
    const pid_t pid = fork();
    if (pid == 0) await_end(parent);
    if (pid < 0) return err_errno(e, "cannot watch the standard input");
    TRY(leave_input(e));
done:
    OPENSSL_cleanse(line, sizeof line);
    return result;
}
