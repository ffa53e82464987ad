// sidecar.h -- PREFIX.json beside a token shard: what the .idx cannot say. Written by prepare, read
// for bits per byte and by `trireme data inspect`. Shards without one are fine.
//
//   {"tokens": 1000, "documents": 7, "text_bytes": 4100, "vocab": 4096, "append_eod": true,
//    "tokenizer": "P.tokenizer.json"}     a tokenizer's path is relative to the sidecar's folder
#ifndef TRIREME_DATA_SIDECAR_H
#define TRIREME_DATA_SIDECAR_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct sidecar {
    uint64_t tokens, documents, text_bytes;
    int32_t vocab;
    bool append_eod;
    char *tokenizer; // owned; as it can be opened from the current folder once read; NULL allowed
} sidecar;

// Writes PREFIX.json's content to `path` (a temporary name), durably. The tokenizer's path is
// stored relative when it lies in the folder of `prefix`, else absolute.
status sidecar_write(const char *path, const char *prefix, const sidecar *s, err *e);

// *found is false, and nothing else set, when PREFIX.json does not exist. E_USAGE when it is
// broken.
status sidecar_read(const char *prefix, sidecar *out, bool *found, err *e);
void sidecar_clear(sidecar *s);

#endif
