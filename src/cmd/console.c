// console.c -- stdin, stdout and stderr. See console.h. main calls it around every command;
// everything that prints calls it. Knows no command.
#include "cmd/console.h"

#include "base/maps.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

// open returns the lowest free number, so the order matters. stdout is opened for reading: what is
// written to a closed stdout is lost, and must still fail. Lost progress on stderr does not matter.
static void fill_closed(void)
{
    static const int modes[] = {O_RDONLY, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)!open("/dev/null", modes[fd]);
}

// Whether this thread calls it before all others of the process: one alone can bind a name. Async-signal-safe.
static bool is_first(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0trireme-lost-"};
    char *end = name.sun_path + sizeof "\0trireme-lost-" - 1;
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    for (pid_t pid = getpid(); pid > 0; pid /= 10) *end++ = (char)('0' + pid % 10);
    return bind(fd, (const struct sockaddr *)&name, (socklen_t)(end - (char *)&name)) == 0 ||
           errno != EADDRINUSE;
}

// SIGBUS: a page of a mapped file is gone because the file was truncated. Only async-signal-safe
// calls. Where ranks are threads, several may come here at once: the first one speaks and ends the process.
static void lost_page(int signal_number, siginfo_t *info, void *context)
{
    char line[MAPS_LINE_BYTES + 16] = "trireme: ";
    (void)context;
    if (maps_describe_lost(info->si_addr, line + strlen(line), MAPS_LINE_BYTES)) {
        while (!is_first()) pause();
        strcat(line, "\n");
        (void)!write(STDERR_FILENO, line, strlen(line));
        _exit(status_exit_code(E_IO));
    }
    signal(signal_number, SIG_DFL); // the access repeats and kills the process
}

void console_open(void)
{
    struct sigaction lost = {.sa_sigaction = lost_page, .sa_flags = SA_SIGINFO};
    fill_closed();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    sigemptyset(&lost.sa_mask);
    sigaction(SIGBUS, &lost, NULL);
}

// errno of an earlier flush may be overwritten; poll still reports that a pipe has no reader.
static bool reader_is_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    return errno == EPIPE || (poll(&out, 1, 0) == 1 && out.revents & POLLERR);
}

static status cannot_write(err *e)
{
    if (errno == 0 && reader_is_gone()) errno = EPIPE;
    if (errno == 0) return err_set(e, E_IO, "cannot write to standard output");
    return err_errno(e, "cannot write to standard output");
}

status console_flush(err *e)
{
    errno = 0;
    const bool flushed = fflush(stdout) == 0;
    if (flushed) errno = 0;
    return flushed && !ferror(stdout) ? OK : cannot_write(e);
}

int console_close(int code)
{
    err e = {0};
    status result = console_flush(&e);
    const bool gone = result != OK && reader_is_gone();
    errno = 0;
    if (fclose(stdout) != 0 && result == OK) result = cannot_write(&e);
    if (result == OK || code != 0) return code;
    if (gone) {
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    console_say("%s", e.text);
    return status_exit_code(result);
}

int console_columns(void)
{
    struct winsize size;
    const char *given = getenv("COLUMNS");
    const int columns = given ? atoi(given) : 0;
    if (columns > 0) return columns;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool console_colours(FILE *out)
{
    const char *off = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fileno(out)) && !(off && *off) && !(term && strcmp(term, "dumb") == 0);
}

// One fwrite for the line, so that lines of several processes do not mix.
static void print_line(FILE *out, const char *before, const char *colour, const char *format,
                       va_list args)
{
    text plain = {0}, line = {0};
    const bool coloured = colour && console_colours(out);
    text_addv(&plain, format, args);
    text_addf(&line, "%s%s%s", coloured ? colour : "", before, coloured ? "\033[0m" : "");
    text_add_printable(&line, plain.chars, plain.bytes, "");
    text_add(&line, "\n");
    fwrite(line.chars, 1, line.bytes, out);
    text_clear(&plain);
    text_clear(&line);
}

void console_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line(stderr, "trireme: ", NULL, format, args);
    va_end(args);
}

void console_warn(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line(stderr, "trireme: warning: ", "\033[33m", format, args);
    va_end(args);
}

void console_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line(stderr, "trireme: ", "\033[31m", format, args);
    va_end(args);
}

void console_line(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line(stdout, "", NULL, format, args);
    va_end(args);
}

static void print_lines(FILE *out, const char *lines, size_t bytes)
{
    text safe = {0};
    text_add_printable(&safe, lines, bytes, "\n\t");
    fwrite(safe.chars, 1, safe.bytes, out);
    text_clear(&safe);
}

void console_print(const char *lines, size_t bytes)
{
    print_lines(stdout, lines, bytes);
}

status console_write(const char *chars, size_t bytes, err *e)
{
    if (isatty(STDOUT_FILENO))
        console_print(chars, bytes);
    else
        fwrite(chars, 1, bytes, stdout);
    return console_flush(e);
}

void console_report(const char *lines, size_t bytes)
{
    print_lines(stderr, lines, bytes);
}
