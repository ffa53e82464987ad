// file.h -- files: complete reads, read-only maps, and writes that are durable and atomic. Stores,
// data, checkpoints and configuration call it. It does not know any file format.
#ifndef TRIREME_BASE_FILE_H
#define TRIREME_BASE_FILE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

// The most bytes that a complete read accepts. A larger file cannot be of the expected kind.
#define FILE_MOST        (UINT64_C(4) << 30)
#define FILE_MOST_CONFIG (UINT64_C(16) << 20) // job files, config.json and their like
#define FILE_MOST_TABLE  (UINT64_C(1) << 30)  // tokenizers, indexes, manifests

// Opens a file for reading and never blocks. Returns E_USAGE if the path is not a regular file. The
// caller closes *fd. *bytes is the file's size; `bytes` may be NULL.
status file_open_input(const char *path, int *fd, uint64_t *bytes, err *e);

// A file that is mapped read-only. The owner calls file_unmap.
typedef struct file_map {
    const uint8_t *ptr; // [bytes]; NULL if bytes is 0
    size_t bytes;
    int fd; // valid if ptr is not NULL
} file_map;

status file_map_open(const char *path, file_map *out, err *e); // E_USAGE when it cannot be opened
void file_unmap(file_map *m);
// Gives back the memory of `bytes` bytes from `ptr` on, in whole pages. Until then each page that was
// read counts as memory of this process. Reading it again brings it back.
void file_map_release(const file_map *m, const void *ptr, size_t bytes);
// Returns E_IO and names `path` if the file has become shorter since it was mapped. Callers check
// after they have read the bytes: a truncated file reads as zeros up to the end of its last page,
// and a read beyond that page raises SIGBUS.
status file_map_check(const file_map *m, const char *path, err *e);

// Reads the complete file and adds a zero byte. The caller frees *out. `bytes` may be NULL.
status file_read(const char *path, char **out, size_t *bytes, err *e);
// Like file_read. Returns E_USAGE if the file has more than `most` bytes.
status file_read_small(const char *path, uint64_t most, char **out, size_t *bytes, err *e);

bool file_exists(const char *path);
bool file_is_directory(const char *path);
status file_make_directories(const char *path, err *e); // like mkdir -p
// *can says whether the path is a folder, or whether its nearest existing parent is a folder that
// this process may write to. file_make_directories could make the folder then.
status file_could_be_directory(const char *path, bool *can, err *e);
// Like rm -rf. It follows no links and succeeds if the path does not exist.
status file_remove_tree(const char *path, err *e);
// Makes "folder/name". The caller frees *out.
status file_join(const char *folder, const char *name, char **out, err *e);
// Returns an absolute path as a user would write it: relative if it lies below the working folder.
// The result points into `path`.
const char *file_shown(const char *path);

// A file that is being written, with a buffer of 1 MiB. Errors name the path.
typedef struct file_writer file_writer;
status file_create(const char *path, file_writer **out, err *e); // truncates
status file_write(file_writer *w, const void *data, size_t bytes, err *e);
uint64_t file_writer_hash(const file_writer *w); // XXH3-64 of all bytes written so far
uint64_t file_writer_bytes(const file_writer *w);
// Flushes, fsyncs and closes the file. It frees `w` even if it fails.
status file_finish(file_writer *w, err *e);
// Closes the file without flushing it and frees `w`. NULL is allowed.
void file_abandon(file_writer *w);

// For a file that several processes write: writes `bytes` bytes from `offset` on. Errors name `path`.
status file_write_at(int fd, const char *path, const void *data, size_t bytes, uint64_t offset,
                     err *e);
// Makes durable what this process has written, and closes `fd` even if it fails.
status file_close_durable(int fd, const char *path, err *e);
// Creates a file of `bytes` zeros (at least 1) and opens it for writing; the caller closes *fd. It fails
// when there is no room for all of them, where the file system can reserve room.
status file_create_zeros(const char *path, uint64_t bytes, int *fd, err *e);
// Reads the complete file in bounded memory. *hash is its XXH3-64.
status file_hash(const char *path, uint64_t *hash, err *e);

// Writes the complete content to a temporary file in the same folder, makes it durable and renames
// it to `path`.
status file_replace(const char *path, const void *data, size_t bytes, err *e);
// Calls fsync on a folder, so that renames in it survive a power failure.
status file_sync_directory(const char *path, err *e);
// Renames and makes both parent folders durable.
status file_rename(const char *from, const char *to, err *e);

#endif
