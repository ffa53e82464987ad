// paths.c -- questions about paths. The readers and writers of token shards and `data prepare` call
// them. It does not know what is in the files.
#include "data/paths.h"

#include <string.h>
#include <sys/stat.h>

bool data_path_has_suffix(const char *path, const char *suffix)
{
    const size_t bytes = strlen(path), suffix_bytes = strlen(suffix);
    return bytes >= suffix_bytes && strcmp(path + bytes - suffix_bytes, suffix) == 0;
}

size_t data_path_prefix_bytes(const char *path)
{
    const size_t bytes = strlen(path);
    const bool is_file = data_path_has_suffix(path, ".bin") || data_path_has_suffix(path, ".idx");
    return bytes > 4 && is_file ? bytes - 4 : bytes;
}

bool data_path_is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_ino == y.st_ino && x.st_dev == y.st_dev;
}
