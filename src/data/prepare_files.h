// prepare_files.h -- the files behind a list of files and folders, and their bytes, gzipped or not.
#ifndef TRIREME_DATA_PREPARE_FILES_H
#define TRIREME_DATA_PREPARE_FILES_H

#include "data/prepare.h"

typedef struct file_list {
    char **path; // owned
    uint64_t *size;
    size_t count, path_room, size_room;
    uint64_t bytes; // all sizes
} file_list;

// Appends `path`, or the regular files below it that the filter lets through, in byte order of
// names.
status file_list_add(file_list *l, const char *path, const prepare_filter *filter, err *e);
void file_list_clear(file_list *l);

// One file read from front to back; *.gz is uncompressed, and refused when it is not gzip data.
typedef struct input_file input_file;
status input_file_open(const char *path, input_file **out, err *e);
// *got < bytes only at the end of the file.
status input_file_read(input_file *f, void *out, size_t bytes, size_t *got, err *e);
uint64_t input_file_position(const input_file *f); // in the file as it is on disk
void input_file_close(input_file *f);              // NULL allowed

bool path_has_suffix(const char *path, const char *suffix);

#endif
