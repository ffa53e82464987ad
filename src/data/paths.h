// paths.h -- what the files of data/ ask about paths: suffixes, prefixes of token shards, and whether
// two paths are one file.
#ifndef TRIREME_DATA_PATHS_H
#define TRIREME_DATA_PATHS_H

#include <stdbool.h>
#include <stddef.h>

bool data_path_has_suffix(const char *path, const char *suffix);
// The length of the prefix of a token shard: "PREFIX", "PREFIX.bin" and "PREFIX.idx" mean PREFIX.
size_t data_path_prefix_bytes(const char *path);
// Returns whether both paths exist and lead to the same file.
bool data_path_is_same_file(const char *a, const char *b);

#endif
