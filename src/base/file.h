// file.h -- files: whole reads, read-only maps, and durable writes that appear at once or not at
// all.
#ifndef TRIREME_BASE_FILE_H
#define TRIREME_BASE_FILE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

// What a whole read takes at most; a larger file is not what it is said to be.
#define FILE_MOST        (UINT64_C(4) << 30)
#define FILE_MOST_CONFIG (UINT64_C(16) << 20) // job files, config.json and their like
#define FILE_MOST_TABLE  (UINT64_C(1) << 30)  // tokenizers, indexes, manifests

// Opens an input: E_USAGE for what is no regular file, without waiting for anything. The caller
// closes *fd; `bytes` may be NULL.
status file_open_input(const char *path, int *fd, uint64_t *bytes, err *e);

// A file mapped read-only. `at` is NULL when `bytes` is 0. Owner calls file_unmap.
typedef struct file_map {
    const uint8_t *at;
    size_t bytes;
    int fd; // where at is not NULL
} file_map;

status file_map_open(const char *path, file_map *out, err *e); // E_USAGE when it cannot be opened
void file_unmap(file_map *m);
// E_IO, naming `path`, when the file has become shorter since. Called after what was read is in use
// for good: within its last page a file that was cut off reads as zeros, beyond it as SIGBUS.
status file_map_check(const file_map *m, const char *path, err *e);

// The whole file, zero-terminated, owned by the caller (free). *bytes may be NULL.
status file_read(const char *path, char **out, size_t *bytes, err *e);
// The same; E_USAGE for a file of more than `most` bytes.
status file_read_small(const char *path, uint64_t most, char **out, size_t *bytes, err *e);

bool file_exists(const char *path);
bool file_is_directory(const char *path);
status file_make_directories(const char *path, err *e); // like mkdir -p
// Is it a folder, or could file_make_directories make it now: what exists of the path is a folder
// that can be written?
status file_could_be_directory(const char *path, bool *can, err *e);
status file_remove_tree(const char *path, err *e); // like rm -r; fine when absent; follows no links
// "folder/name", owned by the caller.
status file_join(const char *folder, const char *name, char **out, err *e);
// An absolute path as a user would write it: without the working folder where it lies below that.
// Points into `path`.
const char *file_shown(const char *path);

// A file being written with its own buffer (1 MiB). Errors name the path.
typedef struct file_writer file_writer;
status file_create(const char *path, file_writer **out, err *e); // truncates
status file_write(file_writer *w, const void *data, size_t bytes, err *e);
uint64_t file_writer_hash(const file_writer *w); // XXH3-64 of all bytes written so far
uint64_t file_writer_bytes(const file_writer *w);
// Flushes, fsyncs and closes. `w` is gone afterwards whatever the status.
status file_finish(file_writer *w, err *e);
void file_abandon(file_writer *w); // closes without a promise; NULL allowed

// Writes the whole file under a temporary name beside it, makes it durable, then renames it.
status file_replace(const char *path, const void *data, size_t bytes, err *e);
// fsync of a folder, so that renames in it survive a power cut.
status file_sync_directory(const char *path, err *e);
// Renames and makes both parent folders durable.
status file_rename(const char *from, const char *to, err *e);

#endif
