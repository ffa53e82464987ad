// sidecar.h -- PREFIX.json beside a token shard: what the .idx cannot say. Written by prepare, read
// for bits per byte and by `trireme data inspect`. Shards without one are fine.
//
//   {"tokens": 1000, "documents": 7, "text_bytes": 4100, "vocab": 4096, "append_eod": true,
//    "eod": 0, "add_special_tokens": false, "tokenizer": "P.tokenizer.json",
//    "tokenizer_hash": "0123456789abcdef"}
//
// The tokenizer is a copy in the sidecar's folder, so that both can be moved together. Sidecars of
// earlier versions have no eod, no hash, and maybe an absolute path.
#ifndef TRIREME_DATA_SIDECAR_H
#define TRIREME_DATA_SIDECAR_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct sidecar {
    uint64_t tokens, documents, text_bytes;
    int32_t vocab;
    bool append_eod;         // every document ends with `eod`
    int32_t eod;             // -1: none, or not known
    bool add_special_tokens; // the tokenizer's post-processor was applied to every document
    uint64_t tokenizer_hash; // of tokenizer.h; 0: not known
    char *tokenizer; // owned; as it can be opened from the current folder once read; NULL allowed
} sidecar;

// Writes PREFIX.json's content to `path` (a temporary name), durably. The tokenizer must lie in the
// same folder; only its name is stored.
status sidecar_write(const char *path, const sidecar *s, err *e);

// *found is false, and nothing else set, when PREFIX.json does not exist; the prefix may end in
// .bin or .idx. E_USAGE when it is broken.
status sidecar_read(const char *prefix, sidecar *out, bool *found, err *e);
void sidecar_clear(sidecar *s);

#endif
