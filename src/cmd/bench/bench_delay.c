// bench_delay.c -- see bench_delay.h. /proc/thread-self/schedstat holds the nanoseconds on a core, then those in which the
// thread waited for one.
#include "cmd/bench/bench_delay.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int bench_delay_open(void)
{
    return open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

double bench_delay_seconds(int file)
{
    char line[96];
    char *end = line;
    const ssize_t bytes = file < 0 ? 0 : pread(file, line, sizeof line - 1, 0);
    if (bytes <= 0) return 0;
    line[bytes] = 0;
    (void)strtoull(line, &end, 10);
    return 1e-9 * (double)strtoull(end, NULL, 10);
}

void bench_delay_close(int file)
{
    if (file >= 0) close(file);
}
