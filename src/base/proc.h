// proc.h -- what the kernel says of memory, from the text files of /proc.
#ifndef TRIREME_BASE_PROC_H
#define TRIREME_BASE_PROC_H

#include <stdint.h>

// Bytes of the line "KEY  N kB" of a file such as /proc/meminfo; `key` with its colon. 0 when there
// is none.
uint64_t proc_bytes(const char *path, const char *key);

// Memory that this process has now, pages that it shares divided by how many share them.
uint64_t proc_own_bytes(void);

#endif
