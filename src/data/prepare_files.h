// prepare_files.h -- lists the files of the inputs, and reads their bytes, gzipped or not.
#ifndef TRIREME_DATA_PREPARE_FILES_H
#define TRIREME_DATA_PREPARE_FILES_H

#include "data/prepare.h"

typedef struct prepare_file_list {
    char **path;    // [count] owned
    uint64_t *size; // [count] bytes
    size_t count, path_room, size_room;
    uint64_t bytes; // sum of `size`
} prepare_file_list;

// Appends the file `path`, or the regular files below the folder `path` that pass the filter, in the
// byte order of their names.
status prepare_file_list_add(prepare_file_list *l, const char *path, const prepare_filter *filter,
                             err *e);
void prepare_file_list_clear(prepare_file_list *l);

// One file, read from its first byte to its last. *.gz is decompressed; E_USAGE when it is not gzip
// data.
typedef struct prepare_input prepare_input;
status prepare_input_open(const char *path, prepare_input **out, err *e);
// Reads `bytes` bytes; *got is smaller only at the end of the file.
status prepare_input_read(prepare_input *f, void *out, size_t bytes, size_t *got, err *e);
uint64_t prepare_input_position(const prepare_input *f); // offset in the file on disk
void prepare_input_close(prepare_input *f);              // NULL allowed

#endif
