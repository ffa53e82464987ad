// maps.h -- which mapped file a lost page belonged to.
#ifndef TRIREME_BASE_MAPS_H
#define TRIREME_BASE_MAPS_H

#include <stdbool.h>
#include <stddef.h>

enum { MAPS_LINE_BYTES = 1024 };

// For a handler of SIGBUS: one line, without an end, that names the file which is mapped at
// `address` and was cut off while it was in use, or says that shared memory has run out. False when
// nothing of the kind is mapped there. Reads /proc/self/maps, which keeps this list for us.
// Async-signal-safe; `room` is at least 256, longer paths are cut.
bool maps_describe_lost(const void *address, char *out, size_t room);

#endif
