// maps.h -- names the mapped file of an address, after a read of that address raised SIGBUS.
// The SIGBUS handlers call it.
#ifndef TRIREME_BASE_MAPS_H
#define TRIREME_BASE_MAPS_H

#include <stdbool.h>
#include <stddef.h>

enum { MAPS_LINE_BYTES = 1024 };

// Writes one line without a line break to `out`. The line names the file that is mapped at
// `address` and was truncated while in use, or says that shared memory has run out. Returns false
// if no file and no shared memory is mapped there. The function reads /proc/self/maps and is
// async-signal-safe. `room` is at least 256 bytes; the function truncates longer paths.
bool maps_describe_lost(const void *address, char *out, size_t room);

#endif
