// unkind_fault.c -- the handler of unkind_fault.h. Called by the pools. The table of ranges is the
// process's, because signals are.
#include "unkind/unkind_fault.h"

#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { RANGES = 256, FRAMES = 32 };

typedef struct fault_range {
    const char *start;
    size_t bytes;
    const char *line;
} fault_range;

static fault_range ranges[RANGES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before;

static const char *line_of(const char *address)
{
    for (int i = 0; i < RANGES; i++)
        if (ranges[i].start && address >= ranges[i].start &&
            address < ranges[i].start + ranges[i].bytes)
            return ranges[i].line;
    return NULL;
}

static void handle(int signal, siginfo_t *info, void *context)
{
    (void)context;
    char text[256];
    void *frame[FRAMES];
    const char *line = line_of(info->si_addr);
    if (!line) { // the handler before gets the fault when the instruction runs again
        sigaction(signal, &before, NULL);
        return;
    }
    const int bytes = snprintf(text, sizeof text, "unkind device: %s (address %p). Calls:\n", line,
                               info->si_addr);
    if (write(STDERR_FILENO, text, (size_t)bytes) < 0) _exit(2);
    backtrace_symbols_fd(frame, backtrace(frame, FRAMES), STDERR_FILENO);
    _exit(1);
}

// Test frameworks replace handlers, so every call looks again.
static void install(void)
{
    struct sigaction now, own = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, NULL, &now);
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == handle) return;
    before = now;
    sigaction(SIGSEGV, &own, NULL);
}

void unkind_fault_watch(const void *start, size_t bytes, const char *line)
{
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < RANGES && ranges[i].start) i++;
    if (i == RANGES) abort(); // a test opens fewer devices
    ranges[i] = (fault_range){start, bytes, line};
    install();
    pthread_mutex_unlock(&lock);
}

void unkind_fault_forget(const void *start)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; start && i < RANGES; i++)
        if (ranges[i].start == start) ranges[i] = (fault_range){NULL};
    pthread_mutex_unlock(&lock);
}
